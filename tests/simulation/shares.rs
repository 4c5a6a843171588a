//! The namespaces of a world and what each may take; and who holds the orchestrator to that, by what it has written.
//! Shares no code with what decides it.

use crate::dice::Dice;
use escapement_codec::namespaces;
use escapement_engine::{Input, NamespaceShare, StoreWrite};
use escapement_model::{ExecutionId, Namespace};
use std::collections::{BTreeMap, BTreeSet};

/// The names that there are; plans belong to one of them.
pub(crate) const NAMES: [&str; 3] = ["default", "red", "blue"];

/// What the policy says now, by the places of [`NAMES`].
#[derive(Clone, Debug)]
pub(crate) struct Shares([Share; NAMES.len()]);

#[derive(Clone, Copy, Debug)]
struct Share {
    weight: u32,
    live_max: Option<u32>,
    running_max: Option<u32>,
}

/// Counts what the store holds, and accuses.
#[derive(Debug, Default)]
pub(crate) struct SharesJudge {
    /// The place of the name of each execution that was handed in.
    namespaces: BTreeMap<ExecutionId, usize>,
    nested: BTreeSet<ExecutionId>,
    live: BTreeSet<ExecutionId>,
    /// Of this process.
    running: BTreeSet<ExecutionId>,
    /// What held where the accept or the start of an execution was decided.
    at_accept: BTreeMap<ExecutionId, Option<u32>>,
    at_start: BTreeMap<ExecutionId, Option<u32>>,
}

/// Returns the namespace of that place.
pub(crate) fn namespace(place: usize) -> Namespace {
    Namespace::parse(NAMES[place]).expect("it is a name")
}

impl Shares {
    /// In most worlds nothing binds.
    pub(crate) fn of(dice: &mut Dice) -> Self {
        let limit = |dice: &mut Dice, choices: &[u32]| dice.percent(25).then(|| *dice.pick(choices));
        Self(NAMES.map(|_| Share {
            weight: *dice.pick(&[1, 1, 3, 10]),
            live_max: limit(dice, &[1, 5, 20]),
            running_max: limit(dice, &[1, 2, 5]),
        }))
    }

    pub(crate) fn weight(&self, place: usize) -> u32 {
        self.0[place].weight
    }

    pub(crate) fn running_max(&self, place: usize) -> Option<u32> {
        self.0[place].running_max
    }

    /// As the engine is told.
    pub(crate) fn input(&self) -> Input {
        let shares = self.0.iter().enumerate().map(|(place, share)| NamespaceShare {
            namespace: namespaces::key(&namespace(place)),
            weight: share.weight,
            max_live_executions: share.live_max,
            max_running_executions: share.running_max,
        });
        Input::ShareOut(shares.collect())
    }
}

impl SharesJudge {
    /// A plan is handed in. Whoever names a parent may pass the queue, and takes no running place then.
    pub(crate) fn handed_in(&mut self, id: ExecutionId, place: usize, names_parent: bool) {
        self.namespaces.entry(id).or_insert(place);
        if names_parent {
            self.nested.insert(id);
        }
    }

    /// The orchestrator wants this written, and these shares hold.
    pub(crate) fn decided(&mut self, write: &StoreWrite, shares: &Shares) {
        let share = |id: &ExecutionId| shares.0[self.namespaces[id]];
        match write {
            StoreWrite::Accept {
                execution_id,
                started_at,
                ..
            } => {
                let share = share(execution_id);
                allow(&mut self.at_accept, *execution_id, share.live_max);
                if started_at.is_some() {
                    allow(&mut self.at_start, *execution_id, share.running_max);
                }
            }
            StoreWrite::Start { execution_id, .. } => {
                let running_max = share(execution_id).running_max;
                allow(&mut self.at_start, *execution_id, running_max);
            }
            StoreWrite::Settle { .. } | StoreWrite::RememberActions { .. } => {}
        }
    }

    /// This was written.
    pub(crate) fn written(&mut self, write: &StoreWrite) {
        match write {
            StoreWrite::Accept {
                execution_id,
                started_at,
                ..
            } => {
                self.live.insert(*execution_id);
                self.hold(*execution_id, &self.live, &self.at_accept, "are live");
                if started_at.is_some() {
                    self.started(*execution_id);
                }
            }
            StoreWrite::Start { execution_id, .. } => self.started(*execution_id),
            StoreWrite::Settle { settlement, .. } => {
                self.live.remove(&settlement.result.execution_id);
                self.running.remove(&settlement.result.execution_id);
            }
            StoreWrite::RememberActions { .. } => {}
        }
    }

    fn started(&mut self, id: ExecutionId) {
        if !self.nested.contains(&id) {
            self.running.insert(id);
            self.hold(id, &self.running, &self.at_start, "run");
        }
    }

    /// Another process begins, with these on its disk: nothing runs, and what was decided and not written never was.
    pub(crate) fn begins(&mut self, unsettled: impl IntoIterator<Item = ExecutionId>) {
        self.live = unsettled.into_iter().collect();
        self.running.clear();
        self.at_start.clear();
        self.at_accept.clear();
    }

    fn hold(
        &self,
        id: ExecutionId,
        counted: &BTreeSet<ExecutionId>,
        limits: &BTreeMap<ExecutionId, Option<u32>>,
        what: &str,
    ) {
        let place = self.namespaces[&id];
        let n = counted
            .iter()
            .filter(|other| self.namespaces[*other] == place)
            .count();
        let Some(limit) = limits[&id] else { return };
        assert!(
            n <= limit as usize,
            "{n} executions of {} {what} with {id}, and {limit} may",
            NAMES[place]
        );
    }
}

/// A write that failed may be wanted again under other limits: the wider one counts.
fn allow(limits: &mut BTreeMap<ExecutionId, Option<u32>>, id: ExecutionId, limit: Option<u32>) {
    let before = limits.get(&id).copied();
    let both = before.map(|before| before.zip(limit).map(|(one, other)| one.max(other)));
    limits.insert(id, both.unwrap_or(limit));
}
