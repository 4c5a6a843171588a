//! Which revision an entry or a unit of a run belongs to.

use super::RunState;
use crate::bounds::CARRIED_MAX;
use crate::ids::RunId;
use crate::journal::{ChildRunEnded, Doubt, OutcomeClass, PlanCreated, ReplanTriggered, UnitRef};
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use escapement_model::planted::{self, Bug};
use prost::Message;

/// A revision of a run, and what begins with it.
#[derive(Clone, PartialEq, Message)]
pub struct BegunRevision {
    /// The number of its entry: this one and those behind it are about its plan.
    #[prost(uint64, tag = "1")]
    pub sequence: u64,
    /// SHA-256 of the plan, 32 bytes.
    #[prost(bytes = "bytes", tag = "2")]
    pub digest: Bytes,
    /// The epoch in which its steps begin.
    #[prost(uint32, tag = "3")]
    pub epoch: u32,
}

/// Why another revision took the place of the one before.
#[derive(Clone, PartialEq, Message)]
pub struct Replan {
    /// The number of its entry.
    #[prost(uint64, tag = "1")]
    pub sequence: u64,
    /// The steps that failed, by their keys.
    #[prost(string, repeated, tag = "2")]
    pub step_keys: Vec<String>,
}

impl RunState {
    // RUN-12.10
    /// The digest of the plan that the steps of this epoch are of.
    pub fn revision_of_epoch(&self, epoch: u32) -> &Bytes {
        let mut revisions = self.revisions.iter().rev();
        let begun = revisions.find(|revision| revision.epoch <= epoch);
        begun.map_or(&self.revision, |revision| &revision.digest)
    }

    /// Another revision will take the place of the one at hand.
    pub(super) fn replanned(&mut self, replan: &ReplanTriggered) {
        let substituted = replan.substituted.iter();
        let failed = replan.failed.iter().map(|step| &step.key);
        self.replans.push(Replan {
            sequence: self.sequence,
            step_keys: failed
                .chain(substituted.map(|step| &step.step_key))
                .cloned()
                .collect(),
        });
    }

    // RUN-12.10
    /// The revision at hand begins.
    pub(super) fn revision_begins(&mut self) {
        if !self.has_no_plan() {
            self.revisions.push(BegunRevision {
                sequence: self.sequence,
                digest: self.revision.clone(),
                epoch: self.epoch_floor,
            });
        }
    }

    // RUN-12.6, RUN-12.14
    /// What a revision may take of those before, and what is in doubt of them.
    pub(super) fn takes_over(&mut self, plan: &PlanCreated) {
        self.results.extend(plan.results.iter().cloned());
        let n_forgotten = self.results.len().saturating_sub(CARRIED_MAX);
        self.results.drain(..n_forgotten);
        for doubt in &plan.doubts {
            self.doubts.retain(|known| !is_same(known, doubt));
            self.doubts.push(doubt.clone());
        }
        let n_forgotten = self.doubts.len().saturating_sub(CARRIED_MAX);
        self.doubts.drain(..n_forgotten);
    }

    // RUN-12.14
    /// A child run has ended and says what is in doubt: what was when it began, and is not any more, is settled.
    pub(super) fn child_tells_doubts(&mut self, ended: &ChildRunEnded) {
        if !ended.tells_doubts {
            return;
        }
        let told = &ended.doubts;
        self.doubts
            .retain(|known| told.iter().any(|doubt| is_same(doubt, known)));
        let known = &self.doubts;
        let new = told
            .iter()
            .filter(|doubt| !known.iter().any(|known| is_same(doubt, known)));
        let new = new.filter(|_| !planted::is_on(Bug::RunChildDoubtForgotten));
        let new = new.cloned().collect();
        self.unit_mut(ended.unit).child_doubts = new;
    }

    // RUN-12.14
    /// Child runs of units whose end the run does not know.
    pub fn children(&self) -> impl Iterator<Item = RunId> {
        let units = self.steps.iter().flat_map(|step| &step.units);
        units.filter_map(|unit| RunId::from_bytes(unit.child[..].try_into().ok()?))
    }

    // RUN-12.14
    /// The unit takes the place of an attempt whose effect is in doubt.
    pub(super) fn takes_doubt(&mut self, unit: UnitRef, execution_id: &Bytes) {
        let known = self
            .doubts
            .iter()
            .position(|doubt| doubt.execution_id == *execution_id);
        let Some(known) = known else { return };
        let doubt = self.doubts.remove(known);
        let unit = self.unit_mut(unit);
        unit.result_key = doubt.key;
        unit.memo_of = doubt.execution_id;
        unit.set_class(match doubt.timed_out {
            true => OutcomeClass::TimedOut,
            false => OutcomeClass::Unknown,
        });
    }
}

/// True if both are about the same attempt.
fn is_same(one: &Doubt, other: &Doubt) -> bool {
    one.execution_id == other.execution_id
}
