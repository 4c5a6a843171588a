//! The record of an execution. Numbered from 1 without gaps, chained by hash, only ever appended to.

use crate::chain::ChainHash;
use crate::error::ExecutionError;
use crate::execution::Evidence;
use crate::result::Status;
use crate::settlement_actions::{RuleSet, SettlementAction};
use crate::spelled::spelled;
use alloc::sync::Arc;
use alloc::vec::Vec;
use escapement_model::StepId;

/// Entries after which single attempts are recorded no more; what steps and executions come to always is.
pub const AUDIT_ENTRIES_MAX: usize = 16_384;

/// An entry of the record.
#[derive(Clone, Debug, PartialEq)]
pub struct AuditEntry {
    /// 1, 2, 3, ...
    pub sequence: u64,
    /// Unix milliseconds.
    pub at_unix_ms: i64,
    /// What happened.
    pub kind: AuditKind,
    /// Over the hash before it and this entry; see `chain`.
    pub hash: ChainHash,
}

/// What happened; one to one with `escapement.v1.AuditEntry.event`.
#[derive(Clone, Debug, PartialEq)]
pub enum AuditKind {
    /// The execution was accepted durably.
    Accepted {
        /// Unix milliseconds.
        deadline_ms: i64,
        /// Over where the request came from; `None` if nothing is recorded of that. See [`Request::provenance`].
        ///
        /// [`Request::provenance`]: crate::Request::provenance
        provenance_digest: Option<ChainHash>,
    },
    /// The execution left the admission queue.
    Started {
        /// Unix milliseconds.
        started_at: i64,
    },
    /// The step's turn has come; it waits for a worker.
    StepWaiting {
        /// The step.
        step_id: StepId,
        /// 1 for the first.
        attempt: u32,
    },
    /// The attempt was handed to a worker.
    AttemptAssigned {
        /// The step.
        step_id: StepId,
        /// 1 for the first.
        attempt: u32,
        /// The worker's label.
        worker: Arc<str>,
    },
    /// The worker said that the handler runs.
    AttemptStarted {
        /// The step.
        step_id: StepId,
        /// 1 for the first.
        attempt: u32,
    },
    /// The attempt provably never ran and is handed out again, uncounted.
    AttemptReturned {
        /// The step.
        step_id: StepId,
        /// 1 for the first.
        attempt: u32,
        /// How it is known.
        evidence: Evidence,
    },
    /// The attempt ended without completing the step.
    AttemptFailed {
        /// The step.
        step_id: StepId,
        /// 1 for the first.
        attempt: u32,
        /// As classified.
        error: Arc<ExecutionError>,
    },
    /// The step sleeps before it is attempted again.
    RetryScheduled {
        /// The step.
        step_id: StepId,
        /// The number of the attempt to come.
        next_attempt: u32,
        /// Milliseconds.
        delay_ms: u64,
    },
    /// The step completed.
    StepCompleted {
        /// The step.
        step_id: StepId,
        /// Number of attempts that it took.
        attempts: u32,
        /// What the handler warned of.
        warnings: Vec<ExecutionError>,
    },
    /// The step ended without completing.
    StepNotCompleted {
        /// The step.
        step_id: StepId,
        /// Number of attempts that were made; 0 if none was.
        attempts: u32,
        /// Reason.
        reason: NotCompleted,
        /// As classified.
        error: Arc<ExecutionError>,
    },
    /// A mandatory action of section 5, in its order.
    MandatoryAction {
        /// The list.
        rule_set: RuleSet,
        /// 1 for the first of the list; 0 for an action that a ruling adds.
        number: u32,
        /// The action.
        action: SettlementAction,
    },
    /// Which steps did not complete, in canonical order.
    StepsIncomplete {
        /// The steps.
        step_ids: Vec<StepId>,
    },
    /// The execution ended. Always last.
    Settled {
        /// How.
        status: Status,
    },
}

impl AuditKind {
    /// Returns the same as `escapement.v1.AuditEntry.event` spells it.
    pub fn name(&self) -> &'static str {
        match self {
            AuditKind::Accepted { .. } => "accepted",
            AuditKind::Started { .. } => "started",
            AuditKind::StepWaiting { .. } => "step_waiting",
            AuditKind::AttemptAssigned { .. } => "attempt_assigned",
            AuditKind::AttemptStarted { .. } => "attempt_started",
            AuditKind::AttemptReturned { .. } => "attempt_returned",
            AuditKind::AttemptFailed { .. } => "attempt_failed",
            AuditKind::RetryScheduled { .. } => "retry_scheduled",
            AuditKind::StepCompleted { .. } => "step_completed",
            AuditKind::StepNotCompleted { .. } => "step_not_completed",
            AuditKind::MandatoryAction { .. } => "mandatory_action",
            AuditKind::StepsIncomplete { .. } => "steps_incomplete",
            AuditKind::Settled { .. } => "settled",
        }
    }

    /// Returns true for what a single attempt goes through; such entries are bounded by [`AUDIT_ENTRIES_MAX`].
    pub(crate) fn is_of_attempt(&self) -> bool {
        match self {
            AuditKind::StepWaiting { .. }
            | AuditKind::AttemptAssigned { .. }
            | AuditKind::AttemptStarted { .. }
            | AuditKind::AttemptReturned { .. }
            | AuditKind::AttemptFailed { .. }
            | AuditKind::RetryScheduled { .. } => true,
            AuditKind::Accepted { .. }
            | AuditKind::Started { .. }
            | AuditKind::StepCompleted { .. }
            | AuditKind::StepNotCompleted { .. }
            | AuditKind::MandatoryAction { .. }
            | AuditKind::StepsIncomplete { .. }
            | AuditKind::Settled { .. } => false,
        }
    }
}

spelled! {
    /// Reason why a step ended without completing.
    pub enum NotCompleted {
        /// It stops the plan.
        Failed = "failed",
        /// Its `on_failure` is `skip`.
        Skipped = "skipped",
        /// No attempt is left.
        RetriesExhausted = "retries_exhausted",
        /// The code is not eligible.
        NotRetryable = "not_retryable",
        /// The handler warned and gave no output.
        WarnedWithoutOutput = "warned_without_output",
        /// A dependency did not complete, and the step may not be skipped.
        DependencyUnresolved = "dependency_unresolved",
    }
}

/// The growing record.
#[derive(Clone, Debug)]
pub(crate) struct Audit {
    entries: Vec<AuditEntry>,
    /// The hash of the last entry, or of the chain's beginning.
    head: ChainHash,
}

impl Audit {
    pub(crate) fn new(seed: ChainHash, n_entries: usize) -> Self {
        Self {
            entries: Vec::with_capacity(n_entries),
            head: seed,
        }
    }

    pub(crate) fn reserve(&mut self, n_entries: usize) {
        self.entries.reserve_exact(n_entries);
    }

    pub(crate) fn record(&mut self, at_unix_ms: i64, kind: AuditKind) {
        // attempts are as many as a plan asks for, the record is not.
        if self.entries.len() >= AUDIT_ENTRIES_MAX && kind.is_of_attempt() {
            return;
        }
        //
        let sequence = self.entries.len() as u64 + 1;
        let mut entry = AuditEntry {
            sequence,
            at_unix_ms,
            kind,
            hash: self.head,
        };
        //
        self.head = entry.link(&self.head);
        entry.hash = self.head;
        self.entries.push(entry);
    }

    pub(crate) fn entries(&self) -> &[AuditEntry] {
        &self.entries
    }

    /// Returns the record, which is not appended to any more.
    pub(crate) fn take_entries(&mut self) -> Vec<AuditEntry> {
        core::mem::take(&mut self.entries)
    }
}
