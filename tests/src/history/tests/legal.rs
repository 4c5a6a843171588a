//! Random legal histories: a small orchestrator that does everything in sequence, behind calls that overlap. Judges nothing.

use std::collections::BTreeMap;

use escapement_model::AttemptToken;

use super::told::{execution, plan, step};
use crate::history::{Answer, Ask, CallId, Checker, End, Entry, EntryKind, Life, Report, State, Surface};

/// One line of a history. Calls by their numbers.
#[derive(Clone, Debug)]
pub(super) enum Event {
    Ask(usize, Ask),
    Answer(usize, Answer),
    Piece(usize, Answer),
    Lost(usize),
    Life(Life),
    HandOut(u8, u32, AttemptToken),
    Accepted(AttemptToken),
    Heard(u8, u64),
}

/// What the checker says of a history.
pub(super) fn judge(history: &[Event]) -> Report {
    let mut checker = Checker::new();
    let mut calls: BTreeMap<usize, CallId> = BTreeMap::new();
    for event in history {
        match event {
            Event::Ask(n, ask) => {
                calls.insert(*n, checker.ask(ask.clone()));
            }
            Event::Answer(n, answer) => checker.answer(calls[n], answer.clone()),
            Event::Piece(n, answer) => checker.piece(calls[n], answer.clone()),
            Event::Lost(n) => checker.lost(calls[n]),
            Event::Life(life) => checker.life(*life),
            Event::HandOut(n, attempt, token) => checker.handed_out(execution(*n), step(1), *attempt, *token),
            Event::Accepted(token) => checker.outcome_accepted(*token),
            Event::Heard(n, result) => checker.event(execution(*n), *result),
        }
    }
    // The clock of these histories never jumps.
    checker.starts_must_be_in_order();
    checker.finish(&[])
}

/// Random numbers from a seed.
#[derive(Clone, Debug)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).expect("31 bits") % bound
    }

    pub(super) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// Executions 1 to 5. Execution n is asked for with plan n, and now and then with another request.
const EXECUTIONS: u8 = 5;
const RUNNING_MAX: usize = 2;
const EVENTS: usize = 160;

pub(super) fn priority(n: u8) -> i32 {
    i32::from(n % 3)
}

#[derive(Clone, Debug, Default)]
struct Execution {
    /// The digest, and the place among those accepted.
    accepted: Option<(u64, usize)>,
    started_at: Option<i64>,
    result: Option<u64>,
    record: Vec<Entry>,
    attempt: u32,
    token: Option<AttemptToken>,
}

#[derive(Debug)]
struct Pending {
    number: usize,
    ask: Ask,
    answer: Option<Answer>,
    /// The caller has given up; the request is on its way yet.
    is_lost: bool,
    /// The next entry of a watch.
    next: u64,
}

#[derive(Debug)]
struct World {
    dice: Dice,
    events: Vec<Event>,
    executions: Vec<Execution>,
    pending: Vec<Pending>,
    n_accepted: usize,
    n_tokens: u64,
    clock: i64,
}

/// A legal history.
pub(super) fn history(seed: u64) -> Vec<Event> {
    let mut world = World {
        dice: Dice::new(seed),
        events: vec![Event::Life(Life::Began)],
        executions: vec![Execution::default(); usize::from(EXECUTIONS)],
        pending: Vec::new(),
        n_accepted: 0,
        n_tokens: seed << 16,
        clock: 1000,
    };
    while world.events.len() < EVENTS {
        world.clock += 1;
        match world.dice.below(20) {
            0..5 => world.ask(),
            5..9 => world.process(),
            9..14 => world.deliver(),
            14 => world.lose(),
            15 => world.start(),
            16 => world.hand_out(),
            17 => world.accept_outcome(),
            18 => world.settle_one(),
            _ if world.dice.one_in(6) => world.crash(),
            _ => {}
        }
    }
    world.events
}

impl World {
    fn ask(&mut self) {
        let n = u8::try_from(self.dice.below(usize::from(EXECUTIONS))).expect("few") + 1;
        let execution = execution(n);
        let surfaces = [
            Surface::Get,
            Surface::Wait,
            Surface::Audit,
            Surface::Watch,
            Surface::Store,
        ];
        let ask = match self.dice.below(12) {
            0..4 => Ask::Submit {
                execution,
                plan: plan(n),
                digest: u64::from(n),
                priority: priority(n),
                queue: 0,
                waits: false,
            },
            // The same id with another request.
            4 => Ask::Submit {
                execution,
                plan: plan(n + 100),
                digest: u64::from(n) + 100,
                priority: priority(n),
                queue: 0,
                waits: false,
            },
            5 => Ask::List,
            _ => Ask::Look {
                execution,
                surface: surfaces[self.dice.below(surfaces.len())],
            },
        };
        let number = self.events.len();
        self.events.push(Event::Ask(number, ask.clone()));
        self.pending.push(Pending {
            number,
            ask,
            answer: None,
            is_lost: false,
            next: 1,
        });
    }

    fn of(&mut self, execution: escapement_model::ExecutionId) -> &mut Execution {
        let n = usize::from(execution.as_bytes()[0]) - 1;
        &mut self.executions[n]
    }

    fn state(execution: &Execution) -> Option<State> {
        Some(
            match (execution.accepted, execution.started_at, execution.result) {
                (None, ..) => return None,
                (Some(_), None, None) => State::Queued,
                (Some(_), Some(started_at), None) => State::Running { started_at },
                (Some(_), _, Some(result)) => State::Settled { result },
            },
        )
    }

    /// The orchestrator comes to one of the requests.
    fn process(&mut self) {
        let waiting: Vec<usize> = (0..self.pending.len())
            .filter(|at| self.pending[*at].answer.is_none())
            .collect();
        if waiting.is_empty() {
            return;
        }
        let at = waiting[self.dice.below(waiting.len())];
        let answer = match self.pending[at].ask.clone() {
            Ask::Submit {
                execution, digest, ..
            } => self.submit(execution, digest),
            Ask::List => {
                let all = self.executions.iter().zip(1..);
                let executions = all
                    .filter_map(|(one, n)| Some((execution(n), Self::state(one)?)))
                    .collect();
                Answer::Listed {
                    executions,
                    is_complete: true,
                }
            }
            Ask::Look {
                execution,
                surface: Surface::Watch,
            } => return self.watch(at, execution),
            Ask::Look { execution, surface } => self.look(execution, surface),
            Ask::GoOn { .. } => unreachable!("no caller of this history goes on"),
        };
        self.pending[at].answer = Some(answer);
        if self.pending[at].is_lost {
            self.pending.remove(at);
        }
    }

    fn submit(&mut self, id: escapement_model::ExecutionId, digest: u64) -> Answer {
        if self.dice.one_in(8) {
            return Answer::Refused("QUEUE_FULL".into());
        }
        let (place, hash) = (self.n_accepted, self.hash());
        let one = self.of(id);
        match one.accepted {
            Some((known, _)) if known != digest => Answer::Refused("EXECUTION_ID_IN_USE".into()),
            Some(_) => Answer::State(Self::state(one).expect("it is accepted")),
            None => {
                one.accepted = Some((digest, place));
                push(one, EntryKind::Accepted, hash);
                self.n_accepted += 1;
                Answer::State(State::Queued)
            }
        }
    }

    fn look(&mut self, id: escapement_model::ExecutionId, surface: Surface) -> Answer {
        let page = self.dice.below(6) + 1;
        let from = self.dice.below(4);
        let one = self.of(id);
        let Some(state) = Self::state(one) else {
            return Answer::Absent;
        };
        if surface != Surface::Audit {
            return Answer::State(state);
        }
        let from = from.min(one.record.len() - 1);
        let to = (from + page).min(one.record.len());
        Answer::Entries {
            first: from as u64 + 1,
            entries: one.record[from..to].to_vec(),
            end: if to == one.record.len() {
                End::Now
            } else {
                End::Open
            },
        }
    }

    /// Entries are told as they come; the call ends with the last one.
    fn watch(&mut self, at: usize, id: escapement_model::ExecutionId) {
        let (number, next) = (self.pending[at].number, self.pending[at].next);
        if self.pending[at].is_lost {
            self.pending.remove(at);
            return;
        }
        let one = self.of(id).clone();
        if one.accepted.is_none() {
            self.pending.remove(at);
            return self.events.push(Event::Answer(number, Answer::Absent));
        }
        let skipped = usize::try_from(next).expect("few") - 1;
        let answer = |end| Answer::Entries {
            first: next,
            entries: one.record[skipped..].to_vec(),
            end,
        };
        match one.result {
            Some(result) => {
                self.pending.remove(at);
                self.events
                    .push(Event::Answer(number, answer(End::Result(result))));
            }
            None => {
                self.pending[at].next = one.record.len() as u64 + 1;
                self.events.push(Event::Piece(number, answer(End::Open)));
            }
        }
    }

    fn deliver(&mut self) {
        let answered: Vec<usize> = (0..self.pending.len())
            .filter(|at| self.pending[*at].answer.is_some())
            .collect();
        if answered.is_empty() {
            return;
        }
        let at = answered[self.dice.below(answered.len())];
        let call = self.pending.remove(at);
        self.events
            .push(Event::Answer(call.number, call.answer.expect("it is answered")));
    }

    fn lose(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let at = self.dice.below(self.pending.len());
        if std::mem::replace(&mut self.pending[at].is_lost, true) {
            return;
        }
        self.events.push(Event::Lost(self.pending[at].number));
        if self.pending[at].answer.is_some() {
            self.pending.remove(at);
        }
    }

    /// The first in order, while there is room.
    fn start(&mut self) {
        let n_running = self
            .executions
            .iter()
            .filter(|one| one.started_at.is_some() && one.result.is_none())
            .count();
        let queued = (1..=EXECUTIONS).filter(|n| {
            let one = &self.executions[usize::from(*n) - 1];
            one.accepted.is_some() && one.started_at.is_none() && one.result.is_none()
        });
        let next = queued.min_by_key(|n| {
            let place = self.executions[usize::from(*n) - 1]
                .accepted
                .map(|(_, place)| place);
            (-priority(*n), place)
        });
        let Some(next) = next.filter(|_| n_running < RUNNING_MAX) else {
            return;
        };
        let (clock, hash) = (self.clock, self.hash());
        let one = &mut self.executions[usize::from(next) - 1];
        one.started_at = Some(clock);
        push(one, EntryKind::Started { at: clock }, hash);
    }

    fn running(&mut self) -> Option<u8> {
        let running: Vec<u8> = (1..=EXECUTIONS)
            .filter(|n| {
                let one = &self.executions[usize::from(*n) - 1];
                one.started_at.is_some() && one.result.is_none()
            })
            .collect();
        (!running.is_empty()).then(|| running[self.dice.below(running.len())])
    }

    fn hand_out(&mut self) {
        let Some(n) = self.running() else { return };
        self.n_tokens += 1;
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.n_tokens.to_be_bytes());
        let (token, hash) = (AttemptToken::new(bytes), self.hash());
        let one = &mut self.executions[usize::from(n) - 1];
        // An attempt that is out comes back as one that never ran.
        if one.token.is_none() {
            one.attempt += 1;
        }
        one.token = Some(token);
        push(one, EntryKind::Other, hash);
        self.events.push(Event::HandOut(n, one.attempt, token));
    }

    fn accept_outcome(&mut self) {
        let Some(n) = self.running() else { return };
        let hash = self.hash();
        let one = &mut self.executions[usize::from(n) - 1];
        if let Some(token) = one.token.take() {
            push(one, EntryKind::Other, hash);
            self.events.push(Event::Accepted(token));
        }
    }

    fn settle_one(&mut self) {
        if let Some(n) = self.running() {
            self.settle(n);
        }
    }

    fn settle(&mut self, n: u8) {
        let (result, hash) = (self.hash(), self.hash());
        let is_heard = self.dice.one_in(2);
        let one = &mut self.executions[usize::from(n) - 1];
        one.result = Some(result);
        push(one, EntryKind::Settled, hash);
        if is_heard {
            self.events.push(Event::Heard(n, result));
        }
    }

    /// What ran is ended by the next life; what waits for an answer gets none.
    fn crash(&mut self) {
        let life = [Life::Killed, Life::PowerCut, Life::Drained][self.dice.below(3)];
        self.events.push(Event::Life(life));
        for call in std::mem::take(&mut self.pending) {
            // An answer that was on its way may arrive yet.
            match call.answer {
                Some(answer) if !call.is_lost && self.dice.one_in(2) => {
                    self.events.push(Event::Answer(call.number, answer));
                }
                _ if !call.is_lost => self.events.push(Event::Lost(call.number)),
                _ => {}
            }
        }
        self.events.push(Event::Life(Life::Began));
        for n in 1..=EXECUTIONS {
            let one = &mut self.executions[usize::from(n) - 1];
            one.token = None;
            if one.started_at.is_some() && one.result.is_none() {
                one.record.truncate(2);
                self.settle(n);
            }
        }
    }

    fn hash(&mut self) -> u64 {
        self.dice.below(usize::MAX >> 34) as u64
    }
}

fn push(one: &mut Execution, kind: EntryKind, hash: u64) {
    let sequence = one.record.len() as u64 + 1;
    one.record.push(Entry { sequence, hash, kind });
}
