//! Random legal histories are accepted; with one thing wrong in them they are accused of it.

use std::collections::BTreeMap;

use super::legal::{Dice, Event, history, judge, priority};
use super::told::execution;
use crate::history::{Answer, Ask, Entry, EntryKind, Life, Rule, State, Surface};

const HISTORIES: u64 = 3_000;

#[test]
fn random_legal_histories_are_accepted() {
    let mut counts = BTreeMap::new();
    for seed in 1..=HISTORIES {
        let history = history(seed);
        let report = judge(&history);
        assert!(report.is_clean(), "seed {seed}: {report}\n{history:#?}");
        for (what, n) in report.counts() {
            *counts.entry(what.to_owned()).or_insert(0) += n;
        }
    }
    for what in [
        "submissions",
        "looks",
        "answers",
        "pieces",
        "lost answers",
        "refusals",
        "kills",
        "power cuts",
        "drains",
    ]
    .into_iter()
    .chain(["hand-outs", "accepted outcomes", "events", "entries"])
    {
        let n = counts.get(what).copied().unwrap_or(0);
        assert!(
            n > HISTORIES / 2,
            "{n} {what} in {HISTORIES} histories: {counts:?}"
        );
    }
}

/// What somebody who reads the history up to a point must know, by plain scans.
#[derive(Default)]
struct Known {
    /// By execution: 1 accepted, 2 running, 3 settled.
    rank: BTreeMap<u8, u8>,
    result: BTreeMap<u8, u64>,
    /// Entries that were seen in this life.
    entries: BTreeMap<(u8, u64), Entry>,
    outcomes: Vec<escapement_model::AttemptToken>,
    /// By execution: the event at which it was first known to be accepted.
    accepted_at: BTreeMap<u8, usize>,
    first_asked: BTreeMap<u8, usize>,
}

impl Known {
    fn at(history: &[Event]) -> Self {
        let mut known = Known::default();
        let mut calls: BTreeMap<usize, (Ask, usize)> = BTreeMap::new();
        let mut life = 0;
        for (at, event) in history.iter().enumerate() {
            match event {
                Event::Ask(number, ask) => {
                    if let Ask::Submit { execution, .. } = ask {
                        known.first_asked.entry(number_of(execution)).or_insert(at);
                    }
                    calls.insert(*number, (ask.clone(), life));
                }
                Event::Answer(number, answer) | Event::Piece(number, answer) => {
                    let (ask, asked_in) = calls[number].clone();
                    known.hear(at, &ask, answer, asked_in == life);
                }
                Event::Life(Life::Began) => {
                    life += 1;
                    known.entries.clear();
                }
                Event::HandOut(n, ..) => known.raise(at, *n, 2),
                Event::Accepted(token) => known.outcomes.push(*token),
                Event::Heard(n, result) => {
                    known.raise(at, *n, 3);
                    known.result.insert(*n, *result);
                }
                Event::Lost(_) | Event::Life(_) => {}
            }
        }
        known
    }

    fn hear(&mut self, at: usize, ask: &Ask, answer: &Answer, is_of_this_life: bool) {
        match (ask, answer) {
            (Ask::Submit { execution, .. } | Ask::Look { execution, .. }, Answer::State(state)) => {
                self.see(at, number_of(execution), *state);
            }
            (_, Answer::Listed { executions, .. }) => {
                for (execution, state) in executions {
                    self.see(at, number_of(execution), *state);
                }
            }
            (Ask::Look { execution, .. }, Answer::Entries { entries, .. }) => {
                let n = number_of(execution);
                for entry in entries {
                    let rank = match entry.kind {
                        EntryKind::Started { .. } => 2,
                        EntryKind::Settled => 3,
                        EntryKind::Accepted | EntryKind::Other => 1,
                    };
                    self.raise(at, n, rank);
                    if is_of_this_life {
                        self.entries.insert((n, entry.sequence), *entry);
                    }
                }
            }
            _ => {}
        }
    }

    fn see(&mut self, at: usize, n: u8, state: State) {
        match state {
            State::Queued => self.raise(at, n, 1),
            State::Running { .. } => self.raise(at, n, 2),
            State::Settled { result } => {
                self.raise(at, n, 3);
                self.result.insert(n, result);
            }
            State::Ended | State::Removed => unreachable!("not in these histories"),
        }
    }

    fn raise(&mut self, at: usize, n: u8, rank: u8) {
        let known = self.rank.entry(n).or_insert(rank);
        *known = (*known).max(rank);
        self.accepted_at.entry(n).or_insert(at);
    }

    fn pick(&self, dice: &mut Dice, least: u8) -> Option<u8> {
        let fit: Vec<u8> = self
            .rank
            .iter()
            .filter(|(_, rank)| **rank >= least)
            .map(|(n, _)| *n)
            .collect();
        (!fit.is_empty()).then(|| fit[dice.below(fit.len())])
    }
}

fn number_of(execution: &escapement_model::ExecutionId) -> u8 {
    execution.as_bytes()[0]
}

/// A question and its answer, with nothing between.
fn look(history: &[Event], n: u8, surface: Surface, answer: Answer) -> [Event; 2] {
    // Numbers of calls are places in the history: those behind its end are free.
    let number = history.len() + usize::from(surface == Surface::Store);
    let execution = execution(n);
    [
        Event::Ask(number, Ask::Look { execution, surface }),
        Event::Answer(number, answer),
    ]
}

/// Puts something wrong into a history, where the history up to there allows it.
type Mutation = fn(&[Event], &Known, &mut Dice) -> Option<Vec<Event>>;

fn regress(history: &[Event], known: &Known, dice: &mut Dice) -> Option<Vec<Event>> {
    let n = known.pick(dice, 2)?;
    Some(look(history, n, Surface::Get, Answer::State(State::Queued)).into())
}

fn lost(history: &[Event], known: &Known, dice: &mut Dice) -> Option<Vec<Event>> {
    let n = known.pick(dice, 1)?;
    Some(look(history, n, Surface::Get, Answer::Absent).into())
}

fn other_result(history: &[Event], known: &Known, dice: &mut Dice) -> Option<Vec<Event>> {
    let n = known.pick(dice, 3)?;
    let result = known.result.get(&n)? + 1;
    Some(
        look(
            history,
            n,
            Surface::Wait,
            Answer::State(State::Settled { result }),
        )
        .into(),
    )
}

fn second_outcome(_: &[Event], known: &Known, dice: &mut Dice) -> Option<Vec<Event>> {
    let n_outcomes = known.outcomes.len();
    (n_outcomes > 0).then(|| vec![Event::Accepted(known.outcomes[dice.below(n_outcomes)])])
}

fn changed_entry(history: &[Event], known: &Known, dice: &mut Dice) -> Option<Vec<Event>> {
    let seen: Vec<_> = known.entries.iter().collect();
    if seen.is_empty() {
        return None;
    }
    let ((n, sequence), entry) = seen[dice.below(seen.len())];
    let changed = Entry {
        hash: entry.hash + 1,
        ..*entry
    };
    let answer = Answer::Entries {
        first: *sequence,
        entries: vec![changed],
        end: crate::history::End::Open,
    };
    Some(look(history, *n, Surface::Audit, answer).into())
}

fn entry_after_the_last(history: &[Event], known: &Known, _: &mut Dice) -> Option<Vec<Event>> {
    let ((n, last), _) = known
        .entries
        .iter()
        .find(|(_, entry)| entry.kind == EntryKind::Settled)?;
    let more = Entry {
        sequence: last + 1,
        hash: 1,
        kind: EntryKind::Other,
    };
    let answer = Answer::Entries {
        first: last + 1,
        entries: vec![more],
        end: crate::history::End::Open,
    };
    Some(look(history, *n, Surface::Audit, answer).into())
}

fn handed_out_after_the_end(_: &[Event], known: &Known, dice: &mut Dice) -> Option<Vec<Event>> {
    let n = known.pick(dice, 3)?;
    Some(vec![Event::HandOut(
        n,
        1,
        escapement_model::AttemptToken::new([0xff; 16]),
    )])
}

/// One that is queued starts before another one that comes before it and is queued as well.
fn wrong_order(history: &[Event], known: &Known, _: &mut Dice) -> Option<Vec<Event>> {
    let queued: Vec<u8> = known
        .rank
        .iter()
        .filter(|(_, rank)| **rank == 1)
        .map(|(n, _)| *n)
        .collect();
    for first in &queued {
        for second in &queued {
            let is_equal_and_later =
                priority(*first) == priority(*second) && known.first_asked[second] > known.accepted_at[first];
            if priority(*first) > priority(*second) || is_equal_and_later {
                let mut events =
                    Vec::from(look(history, *second, Surface::Get, Answer::State(State::Queued)));
                events.push(Event::HandOut(
                    *second,
                    1,
                    escapement_model::AttemptToken::new([0xff; 16]),
                ));
                events.extend(look(
                    history,
                    *first,
                    Surface::Store,
                    Answer::State(State::Queued),
                ));
                return Some(events);
            }
        }
    }
    None
}

#[test]
fn one_thing_wrong_in_a_legal_history_is_found() {
    let mutations: [(Mutation, Rule); 8] = [
        (regress, Rule::Regress),
        (lost, Rule::Lost),
        (other_result, Rule::OneResult),
        (second_outcome, Rule::Outcome),
        (changed_entry, Rule::Entry),
        (entry_after_the_last, Rule::Record),
        (handed_out_after_the_end, Rule::HandOut),
        (wrong_order, Rule::Order),
    ];
    let mut n_accused = BTreeMap::new();
    for seed in 1..=HISTORIES {
        let legal = history(seed);
        let mut dice = Dice::new(seed + 77);
        let (mutate, rule) = mutations[dice.below(mutations.len())];
        // Anywhere in the history; what follows is as it was.
        let at = dice.below(legal.len() - 1) + 1;
        let known = Known::at(&legal[..at]);
        let Some(wrong) = mutate(&legal, &known, &mut dice) else {
            continue;
        };
        let mut history = legal[..at].to_vec();
        history.extend(wrong.clone());
        // The states in the rest of the history may contradict an order that was made up; they are left out there.
        if rule != Rule::Order {
            history.extend_from_slice(&legal[at..]);
        }
        let report = judge(&history);
        let is_accused = report.violations.iter().any(|violation| violation.rule == rule);
        assert!(
            is_accused,
            "seed {seed}: {wrong:?} at {at} is not {rule:?}: {report}\n{history:#?}"
        );
        *n_accused.entry(rule).or_insert(0) += 1;
    }
    for (_, rule) in mutations {
        let n = n_accused.get(&rule).copied().unwrap_or(0);
        assert!(n >= 25, "{n} histories with {rule:?}: {n_accused:?}");
    }
}
