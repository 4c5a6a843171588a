//! State that all sessions of one worker share: its name, its actions and levels, and the tasks that run.

use escapement_model::AttemptToken;
use escapement_model::limits::{NESTING_DEPTH_MAX, SESSION_IN_FLIGHT_MAX, WORKER_PROTOCOL};
use escapement_wire::worker::v1::{ActionSpec, Capacity, Hello, RegisterActions};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// State of a worker, independent of its sessions.
#[derive(Debug)]
pub(crate) struct WorkerState {
    /// The constant part, with every action that has a handler.
    hello: Hello,
    /// Number of `Hello`s made.
    hellos: u64,
    max_in_flight: u32,
    slots: BTreeMap<Arc<str>, Slot>,
    /// Handler tasks that run, or at least have not been seen to end, each with its action.
    tasks: BTreeMap<AttemptToken, Arc<str>>,
    /// Tasks among them that count against the worker's own level.
    ordinary: u32,
    capacity_revision: u64,
    actions_revision: u64,
}

/// An action that has a handler.
#[derive(Debug)]
struct Slot {
    waits: bool,
    /// Level from the builder: 0 stands for no level of its own.
    built: u32,
    /// Level that the program has requested since.
    asked: Option<u32>,
    enabled: bool,
    tasks: u32,
}

/// Answer to whether another attempt of an action can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    Free,
    Full,
    NoHandler,
}

impl WorkerState {
    /// Creates a worker as its first `Hello` describes it.
    pub(crate) fn new(hello: Hello) -> Self {
        let slot = |spec: &ActionSpec| Slot {
            waits: spec.waits,
            built: spec.max_in_flight,
            asked: None,
            enabled: true,
            tasks: 0,
        };
        Self {
            max_in_flight: hello.max_in_flight,
            slots: hello
                .actions
                .iter()
                .map(|spec| (spec.name.as_str().into(), slot(spec)))
                .collect(),
            hello: Hello {
                protocol_min: WORKER_PROTOCOL,
                protocol_max: WORKER_PROTOCOL,
                ..hello
            },
            hellos: 0,
            tasks: BTreeMap::new(),
            ordinary: 0,
            capacity_revision: 0,
            actions_revision: 0,
        }
    }

    /// Returns the next `Hello`, without what belongs to one session.
    pub(super) fn next_hello(&mut self) -> Hello {
        self.hellos += 1;
        Hello {
            hello_number: self.hellos,
            actions: self.enabled_actions(),
            max_in_flight: self.max_in_flight,
            ..self.hello.clone()
        }
    }

    /// Returns the present levels; `None` if they are still as they were built.
    pub(super) fn capacity(&self) -> Option<Capacity> {
        let asked = |(name, slot): (&Arc<str>, &Slot)| Some((name.as_ref().to_owned(), slot.asked?));
        (self.capacity_revision > 0).then(|| Capacity {
            revision: self.capacity_revision,
            max_in_flight: self.max_in_flight,
            per_action: self.slots.iter().filter_map(asked).collect(),
        })
    }

    /// Returns the present actions; `None` if they are still as they were built.
    pub(super) fn actions(&self) -> Option<RegisterActions> {
        (self.actions_revision > 0).then(|| RegisterActions {
            revision: self.actions_revision,
            actions: self.enabled_actions(),
        })
    }

    pub(super) fn capacity_revision(&self) -> u64 {
        self.capacity_revision
    }

    pub(super) fn actions_revision(&self) -> u64 {
        self.actions_revision
    }

    /// Sets the maximum of concurrent attempts, all actions and orchestrators together.
    pub(crate) fn set_max_in_flight(&mut self, max_in_flight: u32) {
        if self.max_in_flight != max_in_flight {
            self.max_in_flight = max_in_flight;
            self.capacity_revision += 1;
        }
    }

    /// Sets the maximum of concurrent attempts of one action; does nothing for an action without a handler.
    pub(crate) fn set_action_capacity(&mut self, name: &str, level: u32) {
        if let Some(slot) = self.slots.get_mut(name)
            && slot.asked != Some(level)
        {
            slot.asked = Some(level);
            self.capacity_revision += 1;
        }
    }

    /// Offers an action or takes it back; nothing for an action without a handler.
    pub(crate) fn set_enabled(&mut self, name: &str, enabled: bool) {
        if let Some(slot) = self.slots.get_mut(name)
            && slot.enabled != enabled
        {
            slot.enabled = enabled;
            self.actions_revision += 1;
            // A registration brings levels of its own, so the requested ones are sent again after it.
            if self.capacity_revision > 0 {
                self.capacity_revision += 1;
            }
        }
    }

    /// Returns whether another attempt fits. Only handler tasks count: a recorded outcome holds the orchestrator's credit, but no slot.
    pub(super) fn room(&self, action: &str, session_max: u32) -> Room {
        let Some(slot) = self.slots.get(action).filter(|slot| slot.enabled) else {
            return Room::NoHandler;
        };
        let within_worker = slot.waits || self.ordinary < self.max_in_flight.min(session_max);
        if within_worker && slot.tasks < slot.level() {
            Room::Free
        } else {
            Room::Full
        }
    }

    pub(crate) fn runs(&self, token: AttemptToken) -> bool {
        self.tasks.contains_key(&token)
    }

    /// Registers the start of a handler task. `room` has permitted it, and `runs` says that it does not run yet.
    pub(super) fn take(&mut self, token: AttemptToken, action: &str) {
        // A range of one, because it gives the key as well: the name is shared, not copied.
        let (name, slot) = self
            .slots
            .range_mut::<str, _>((Bound::Included(action), Bound::Included(action)))
            .next()
            .expect("there was room for it");
        slot.tasks += 1;
        self.ordinary += u32::from(!slot.waits);
        let before = self.tasks.insert(token, name.clone());
        assert!(before.is_none(), "attempt {token:?} is started once");
    }

    /// Registers the end of a handler task. Returns false if none ran.
    pub(crate) fn release(&mut self, token: AttemptToken) -> bool {
        let Some(action) = self.tasks.remove(&token) else {
            return false;
        };
        let slot = self.slots.get_mut(&action).expect("it was started from there");
        slot.tasks -= 1;
        self.ordinary -= u32::from(!slot.waits);
        true
    }

    /// Returns the number of running handler tasks.
    pub(crate) fn tasks(&self) -> usize {
        self.tasks.len()
    }

    fn enabled_actions(&self) -> Vec<ActionSpec> {
        let enabled = |spec: &&ActionSpec| self.slots[spec.name.as_str()].enabled;
        self.hello.actions.iter().filter(enabled).cloned().collect()
    }
}

impl Slot {
    /// Returns the maximum of concurrent handler tasks of this action.
    fn level(&self) -> u32 {
        match (self.waits, self.asked.unwrap_or(self.built)) {
            // The orchestrator counts once per depth of nesting, and the worker does not know the depth.
            // A plan at the top and the levels below it have a pool each.
            (true, own) => own.saturating_mul(NESTING_DEPTH_MAX + 1),
            (false, 0) if self.asked.is_none() => SESSION_IN_FLIGHT_MAX,
            (false, own) => own,
        }
    }
}
