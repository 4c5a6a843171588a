//! Definitions that callers change through the host. Looks into no definition.

use std::collections::BTreeSet;

use escapement_store::StoreFault;
use escapement_store::runs::{Definition, DefinitionChange, DefinitionKind};

use super::RunsHost;
use crate::definitions::NoticeKind;

impl RunsHost {
    /// Changes a definition together with what else is written next.
    ///
    /// # Panics
    /// As [`escapement_store::runs::RunBatch::define`].
    pub fn define(&mut self, kind: DefinitionKind, name: &str, change: DefinitionChange) {
        self.definitions.define(kind, name, change);
    }

    /// Notes something for triggers together with what else is written next, if one of them listens to its kind.
    pub fn note(&mut self, kind: NoticeKind, name: &str, notice: DefinitionChange) {
        if self.definitions.wants(kind) {
            self.define(DefinitionKind::Notice, name, notice);
        }
    }

    /// A definition as it is, durable or not.
    ///
    /// # Errors
    /// As the store's reader fails.
    pub fn definition(&self, kind: DefinitionKind, name: &str) -> Result<Option<Definition>, StoreFault> {
        self.definitions.find(self.reader(), kind, name)
    }

    /// Which notices of runs are kept for triggers; all of them, until somebody says.
    pub fn want_notices(&mut self, wanted: BTreeSet<NoticeKind>) {
        self.definitions.want(wanted);
    }
}
