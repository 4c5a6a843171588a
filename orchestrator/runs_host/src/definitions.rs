//! Definitions that change together with runs, and events of these for triggers. Looks into no definition.

use std::collections::BTreeSet;

use bytes::Bytes;
use escapement_model::Namespace;
use escapement_run::ShownState;
use escapement_runs::Work;
use escapement_store::StoreFault;
use escapement_store::runs::{
    Content, Definition, DefinitionChange, DefinitionKind, DefinitionPut, DefinitionWrite, ExpectedVersion,
    RunBatch, RunReader,
};

use crate::changes::Changes;
use crate::limits::PIN_BYTES;

/// Events of runs and goals, which triggers may listen to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventKind {
    /// A run that no other one waits for has completed.
    RunCompleted,
    /// A run that no other one waits for has failed, or its time ran out.
    RunFailed,
    /// A run asks somebody.
    InputRequested,
    /// A goal is reached. Noted with the write of the goal.
    GoalCompleted,
}

impl EventKind {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::RunCompleted,
        Self::RunFailed,
        Self::InputRequested,
        Self::GoalCompleted,
    ];

    /// Returns the type of the event.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RunCompleted => "run_completed",
            Self::RunFailed => "run_failed",
            Self::InputRequested => "input_requested",
            Self::GoalCompleted => "goal_completed",
        }
    }
}

/// Definitions that are on their way to the store, in order.
#[derive(Debug)]
pub(crate) struct Definitions {
    queued: Vec<DefinitionWrite>,
    /// Written, and not known to be durable.
    written: Vec<DefinitionWrite>,
    /// Bytes of the queued ones, about.
    n_bytes: usize,
    /// All of them, and those before.
    changes: Changes,
    /// The latest change of those that are written.
    written_until: u64,
    wanted: BTreeSet<EventKind>,
}

impl Definitions {
    /// Returns true if a trigger listens to events of this kind.
    pub(crate) fn wants(&self, kind: EventKind) -> bool {
        self.wanted.contains(&kind)
    }

    /// Without a trigger nothing is noted.
    pub(crate) fn open(reader: &dyn RunReader) -> Result<Self, StoreFault> {
        let triggers = reader.definitions(DefinitionKind::Trigger, None, None, 1)?;
        let wanted = match triggers.definitions.is_empty() {
            true => BTreeSet::new(),
            false => EventKind::ALL.into_iter().collect(),
        };
        Ok(Self {
            queued: Vec::new(),
            written: Vec::new(),
            n_bytes: 0,
            changes: Changes::default(),
            written_until: 0,
            wanted,
        })
    }

    // RUN-9.5
    /// Takes the mark of an orderly stop; true if the store has it. The store has it for one start.
    pub(crate) fn take_stop_mark(&mut self, reader: &dyn RunReader) -> Result<bool, StoreFault> {
        let is_marked = match reader.definition(DefinitionKind::Mark, STOPPED) {
            // A damaged mark says nothing.
            Err(StoreFault::CorruptDefinition { .. }) => None,
            found => found?,
        };
        if is_marked.is_some() {
            self.define(DefinitionKind::Mark, STOPPED, DefinitionChange::Delete);
        }
        Ok(is_marked.is_some())
    }

    pub(crate) fn want(&mut self, wanted: BTreeSet<EventKind>) {
        self.wanted = wanted;
    }

    pub(crate) fn define(&mut self, kind: DefinitionKind, name: &str, change: DefinitionChange) {
        self.changes.note(kind, name);
        self.n_bytes += bytes_of(&change);
        self.queued.push(DefinitionWrite {
            kind,
            name: name.to_owned(),
            expected: ExpectedVersion::Any,
            change,
        });
    }

    // TRIG-3.2
    /// Adds the events of a run, to be written with it.
    pub(crate) fn note(&mut self, work: &Work) {
        if self.wanted.is_empty() {
            return;
        }
        let index = &work.index;
        let end = match index.state {
            _ if index.due_at.is_some() || index.parent_run_id.is_some() => None,
            ShownState::Completed => Some(EventKind::RunCompleted),
            ShownState::Failed | ShownState::Timeout => Some(EventKind::RunFailed),
            _ => None,
        };
        let run_id = work.run_id.to_string();
        let ends = end.into_iter().map(|kind| (kind, run_id.clone()));
        let opened = work.requests.iter().filter(|row| row.asked.is_some());
        let asked = opened.map(|row| (EventKind::InputRequested, row.request_id.to_string()));
        let noted: Vec<_> = ends
            .chain(asked)
            .filter(|(kind, _)| self.wanted.contains(kind))
            .collect();
        for (kind, id) in noted {
            let name = format!("{} {id}", kind.as_str());
            self.define(
                DefinitionKind::Event,
                &name,
                event(&index.namespace, run_id.as_bytes(), index.updated_at),
            );
        }
    }

    pub(crate) fn write(&mut self, batch: &mut RunBatch) {
        self.written = core::mem::take(&mut self.queued);
        (self.n_bytes, self.written_until) = (0, self.changes.n());
        for write in &self.written {
            batch.define(write.clone());
        }
    }

    pub(crate) fn written(&mut self) {
        self.written.clear();
        self.changes.are_durable(self.written_until);
    }

    /// Returns the bytes of what is queued, about.
    pub(crate) fn n_bytes(&self) -> usize {
        self.n_bytes
    }

    pub(crate) fn changes(&self) -> &Changes {
        &self.changes
    }

    pub(crate) fn find(
        &self,
        reader: &dyn RunReader,
        kind: DefinitionKind,
        name: &str,
    ) -> Result<Option<Definition>, StoreFault> {
        let mut found = reader.definition(kind, name)?;
        let coming = self.written.iter().chain(&self.queued);
        for write in coming.filter(|write| write.kind == kind && write.name == name) {
            found = match &write.change {
                DefinitionChange::Delete => None,
                DefinitionChange::Put(put) => Some(Definition {
                    number: found.as_ref().map_or(0, |before| before.number),
                    kind,
                    name: name.to_owned(),
                    namespace: put.namespace.clone(),
                    owner: put.owner.clone(),
                    priority: put.priority,
                    created_at: found.as_ref().map_or(put.at, |before| before.created_at),
                    updated_at: put.at,
                    version: found.as_ref().map_or(0, |before| before.version) + 1,
                    record: put.record.clone(),
                }),
            };
        }
        Ok(found)
    }
}

fn bytes_of(change: &DefinitionChange) -> usize {
    let DefinitionChange::Put(put) = change else {
        return 0;
    };
    let contents = put.contents.iter().map(Content::bytes).map(Bytes::len);
    put.record.len() + contents.sum::<usize>() + put.pinned.len() * PIN_BYTES
}

/// Returns an event in a namespace; its record says what it is about.
pub fn event(namespace: &Namespace, about: &[u8], at: i64) -> DefinitionChange {
    DefinitionChange::Put(DefinitionPut {
        namespace: namespace.clone(),
        owner: None,
        priority: 0,
        at,
        record: Bytes::copy_from_slice(about),
        contents: Vec::new(),
        pinned: Vec::new(),
    })
}

// RUN-9.5
/// Returns the mark of an orderly stop for the next start. It is written last, once all else is durable.
pub fn stop_mark(now: i64) -> DefinitionWrite {
    DefinitionWrite {
        kind: DefinitionKind::Mark,
        name: STOPPED.to_owned(),
        expected: ExpectedVersion::Any,
        change: event(&Namespace::default(), &[], now),
    }
}

const STOPPED: &str = "stopped";
