//! Definitions that callers change through the host. Looks into no definition.

use std::collections::BTreeSet;

use escapement_store::StoreFault;
use escapement_store::runs::{Definition, DefinitionChange, DefinitionKind};

use super::RunsHost;
use crate::changes::{Basis, DurableChanges};
use crate::definitions::EventKind;

impl RunsHost {
    /// Changes a definition together with what else is written next.
    ///
    /// # Panics
    /// As [`escapement_store::runs::RunBatch::define`].
    pub fn define(&mut self, kind: DefinitionKind, name: &str, change: DefinitionChange) {
        self.definitions.define(kind, name, change);
    }

    /// Adds an event to what is written next, if a trigger listens to its kind.
    pub fn note(&mut self, kind: EventKind, name: &str, event: DefinitionChange) {
        if self.definitions.wants(kind) {
            self.define(DefinitionKind::Event, name, event);
        }
    }

    /// Returns a definition as it is, durable or not.
    ///
    /// # Errors
    /// As the store's reader fails.
    pub fn definition(&self, kind: DefinitionKind, name: &str) -> Result<Option<Definition>, StoreFault> {
        self.definitions.find(self.reader(), kind, name)
    }

    /// Returns the number of changes of definitions that are durable, for decisions on a reader.
    pub fn durable_changes(&self) -> DurableChanges {
        self.definitions.changes().durable().clone()
    }

    // RUN-9.15
    /// Returns true if nothing that a decision rests on has changed since, durably or not. Reads nothing.
    pub fn holds(&self, basis: &Basis) -> bool {
        self.definitions.changes().hold(basis)
    }

    /// Sets which events are kept for triggers; until then all are.
    pub fn want_events(&mut self, wanted: BTreeSet<EventKind>) {
        self.definitions.want(wanted);
    }
}
