//! Breadth first through the states of a run, each state once: all that may happen is tried in each, and both sides are compared
//! after every input.

use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::{Hash, Hasher};

use crate::moves::{Move, moves};
use crate::plans::Case;
use crate::reference::run::{Run, UnitState};
use crate::reference::view::View;
use crate::reference::words::{Command, Input, UnitId};
use crate::subject::Subject;
use crate::transitions::Transitions;

/// What was looked at.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Plans with their limits.
    pub n_cases: u64,
    /// Different states.
    pub n_states: u64,
    /// Inputs that were accepted.
    pub n_accepted: u64,
    /// Inputs that were refused.
    pub n_refused: u64,
    /// Ends.
    pub n_ends: u64,
}

impl Counts {
    /// Adds others.
    pub fn add(&mut self, other: Self) {
        self.n_cases += other.n_cases;
        self.n_states += other.n_states;
        self.n_accepted += other.n_accepted;
        self.n_refused += other.n_refused;
        self.n_ends += other.n_ends;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            n_cases,
            n_states,
            n_accepted,
            n_refused,
            n_ends,
        } = self;
        write!(
            f,
            "{n_cases} cases, {n_states} states, {n_accepted} inputs accepted, {n_refused} refused, {n_ends} ends"
        )
    }
}

/// Where both sides stand, and how they came there.
#[derive(Clone)]
pub struct Pair<S> {
    /// The interpreter.
    pub reference: Run,
    /// What is held against it.
    pub subject: S,
    /// What may still be spent.
    pub budget: u32,
    /// The inputs so far, with their times.
    pub path: Vec<(u64, Input)>,
}

/// Where the two sides differ, with what led there.
pub type Disagreement = String;

impl<S: Subject> Pair<S> {
    /// Both at the beginning.
    #[must_use]
    pub fn new(case: &Case, subject: S) -> Self {
        let reference = Run::new(case.plan.clone(), case.limits.clone(), START_MS);
        Self {
            reference,
            subject,
            budget: case.budget,
            path: Vec::new(),
        }
    }

    /// Gives both an input. Returns whether it was accepted.
    ///
    /// # Errors
    /// What differs then.
    pub fn feed(&mut self, it: &Move) -> Result<bool, Disagreement> {
        let before = self.reference.clone();
        let now = before.now + it.wait_ms;
        self.path.push((now, it.input.clone()));
        let expected = self.reference.feed(now, &it.input);
        let found = self.subject.feed(now, &it.input);
        match (&expected, &found) {
            (Ok(()), Ok(commands)) => {
                let expected = sorted(&self.reference.commands);
                if expected != sorted(commands) {
                    return Err(self.differs("commands", &expected, commands));
                }
            }
            (Err(code), Err(other)) => {
                if !code.is_empty() && code != other {
                    return Err(self.differs("refusals", code, other));
                }
                self.path.pop();
            }
            _ => return Err(self.differs("answers", &expected, &found)),
        }
        self.subject.check();
        let (mine, other) = (self.reference.view(), self.subject.view());
        if mine != other {
            return Err(self.differs("states", &mine, &other));
        }
        self.check(&before, &mine)?;
        self.budget -= it.cost;
        Ok(expected.is_ok())
    }

    /// What holds whatever both agree on.
    fn check(&self, before: &Run, after: &View) -> Result<(), Disagreement> {
        let was = before.view();
        let fault = |text: &str| Err(self.differs(text, &was, after));
        if after.end.is_none() && after.due_at.is_none() {
            return fault("RUN-2.5: a state without a time at which it is left");
        }
        if was.end.is_some() && was != *after {
            return fault("RUN-2.3: a run changed after its end");
        }
        let completed = |id: &UnitId| {
            let (Some(was), Some(is)) = (before.steps.get(id.0), self.reference.steps.get(id.0)) else {
                return false;
            };
            let is_same = was.epoch == is.epoch;
            let unit = was.units.get(id.1);
            is_same && unit.is_some_and(|unit| matches!(unit.state, UnitState::Completed(_)))
        };
        for command in &self.reference.commands {
            if let Command::Dispatch(id, _) | Command::StartChild(id, _) = command
                && completed(id)
            {
                return fault("RUN-4.4: a completed unit was dispatched again");
            }
        }
        Ok(())
    }

    fn differs(&self, what: &str, mine: &dyn fmt::Debug, other: &dyn fmt::Debug) -> Disagreement {
        let path: Vec<String> = self
            .path
            .iter()
            .map(|(at, input)| format!("  {at} {input:?}"))
            .collect();
        format!(
            "{what} differ after\n{}\nexpected {mine:#?}\nfound {other:#?}",
            path.join("\n")
        )
    }
}

fn sorted(commands: &[Command]) -> Vec<Command> {
    let mut sorted = commands.to_vec();
    sorted.sort();
    sorted
}

/// Explores one case.
///
/// # Errors
/// The first disagreement.
pub fn explore<S: Subject>(
    case: &Case,
    subject: S,
    transitions: &mut Transitions,
) -> Result<Counts, Disagreement> {
    let mut counts = Counts {
        n_cases: 1,
        ..Counts::default()
    };
    // By state: the most that could be spent when it was visited.
    let mut seen: HashMap<u64, u32> = HashMap::new();
    let mut queue = VecDeque::from([Pair::new(case, subject)]);
    // The shortest walk to a state first, if walks have a longest one; else the one with the fewest states in memory.
    let next_pair = |queue: &mut VecDeque<_>| match case.is_brief {
        true => queue.pop_back(),
        false => queue.pop_front(),
    };
    while let Some(pair) = next_pair(&mut queue) {
        counts.n_states += 1;
        if !case.is_brief && pair.path.len() >= INPUTS_MAX {
            continue;
        }
        for it in moves(&pair.reference, case) {
            if it.cost > pair.budget {
                continue;
            }
            let mut next = pair.clone();
            let is_accepted = next.feed(&it).map_err(|text| format!("{case:?}\n{text}"))?;
            transitions.note(&pair.reference, &it.input, is_accepted, &next.reference);
            if !is_accepted {
                counts.n_refused += 1;
                continue;
            }
            counts.n_accepted += 1;
            counts.n_ends += u64::from(next.reference.end.is_some() && pair.reference.end.is_none());
            let best = seen.entry(key(&next.reference)).or_default();
            if *best < next.budget + 1 {
                *best = next.budget + 1;
                queue.push_back(next);
            }
        }
    }
    Ok(counts)
}

/// All that the future depends on. No walk here is so long that it comes to the bounds of RUN-8.10.
fn key(run: &Run) -> u64 {
    let mut hasher = DefaultHasher::new();
    let state = (&run.steps, &run.requests, &run.failing, &run.end, &run.checkpoint);
    format!("{state:?}").hash(&mut hasher);
    (
        run.now,
        run.active_ms,
        run.progress_ms,
        run.paused_at,
        run.restarts,
    )
        .hash(&mut hasher);
    (run.is_admitted, run.is_approved, run.wants_pause).hash(&mut hasher);
    run.knows_actions.hash(&mut hasher);
    let revision = (run.first_failure, run.revision_began_ms, run.is_checkpoint_old);
    revision.hash(&mut hasher);
    let planning = (&run.given_up, &run.results, &run.planning, &run.n_revisions);
    format!("{planning:?}").hash(&mut hasher);
    hasher.finish()
}

/// Inputs of a walk on which everything is tried.
const INPUTS_MAX: usize = 4;

/// When runs are made, in milliseconds.
pub const START_MS: u64 = 1_763_700_000_000;
