//! The proof that an accept is durable. Without it no caller learns of an execution, and no worker gets a step of it.

use crate::stored::{Recovered, WriteOutcome};
use escapement_model::planted::{self, Bug};

//
/// The accept of an execution is durable: by the store's answer to its write, or because the store held it at a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DurableAccept(());

impl DurableAccept {
    /// Returns the proof that the answer to the write of an accept gives, `None` if the accept is not durable.
    pub fn of(outcome: WriteOutcome) -> Option<Self> {
        matches!(outcome, WriteOutcome::Durable).then_some(Self(()))
    }

    /// What the store holds is durable.
    pub(crate) fn of_recovered(_: &Recovered) -> Self {
        Self(())
    }

    /// Returns a proof of nothing, for the planted fault alone.
    pub(crate) fn planted() -> Option<Self> {
        planted::is_on(Bug::AckBeforePersist).then_some(Self(()))
    }
}
