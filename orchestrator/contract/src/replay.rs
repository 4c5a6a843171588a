//! Feeds what an execution was told to the core again. Compares nothing.

use crate::audit::AuditEntry;
use crate::execution::{Execution, Refused};
use crate::input_log::InputLog;
use crate::request::Request;
use crate::result::Settlement;
use alloc::sync::Arc;
use core::fmt;
use escapement_model::ExecutionId;

/// What the core decides when it is told the same again.
#[derive(Clone, Debug)]
pub struct Replayed {
    execution: Execution,
    /// Inputs that were fed.
    pub n_inputs: usize,
}

/// A recorded input that the core refuses: it is not what this execution was told, or the core has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayRefused {
    /// Which one, 0 for the first.
    pub index: usize,
    /// Reason.
    pub refused: Refused,
}

impl fmt::Display for ReplayRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "input {}: {}", self.index, self.refused)
    }
}

impl core::error::Error for ReplayRefused {}

/// Feeds inputs to a new execution of the same request.
///
/// # Errors
/// [`ReplayRefused`] at the first input that the core refuses.
pub fn replay(
    request: Arc<Request>,
    execution_id: ExecutionId,
    accepted_at_unix_ms: i64,
    deadline_unix_ms: i64,
    inputs: &InputLog,
) -> Result<Replayed, ReplayRefused> {
    //
    let mut execution = match inputs.interruption {
        None => Execution::accept(
            request,
            execution_id,
            accepted_at_unix_ms,
            deadline_unix_ms,
            inputs.origin,
        ),
        Some(interruption) => Execution::recover(
            request,
            execution_id,
            accepted_at_unix_ms,
            deadline_unix_ms,
            interruption,
            inputs.origin,
        ),
    };
    for (index, logged) in inputs.inputs.iter().enumerate() {
        execution
            .handle(logged.at, logged.input.clone())
            .map_err(|refused| ReplayRefused { index, refused })?;
        // What it wants done was done.
        while execution.poll_effect().is_some() {}
    }
    Ok(Replayed {
        execution,
        n_inputs: inputs.inputs.len(),
    })
}

impl Replayed {
    /// How it ends; `None` if the inputs do not lead to an end.
    pub fn settlement(&self) -> Option<&Arc<Settlement>> {
        self.execution.settlement_to_persist()
    }

    /// Returns the record as far as the inputs lead.
    pub fn audit(&self) -> &[AuditEntry] {
        match self.settlement() {
            Some(settlement) => &settlement.audit,
            None => self.execution.audit(),
        }
    }

    /// What the execution decided, chained, as far as the inputs lead.
    pub fn decisions(&self) -> &[u8; 32] {
        match self.settlement() {
            Some(settlement) => &settlement.inputs.decisions,
            None => self.execution.decisions(),
        }
    }

    /// Returns the execution after its last input.
    pub fn execution(&self) -> &Execution {
        &self.execution
    }
}
