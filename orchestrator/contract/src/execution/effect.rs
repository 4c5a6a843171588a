//! What must be done for an execution, as values. Nothing here does anything.

use crate::plan::StepIndex;
use crate::result::Settlement;
use alloc::sync::Arc;
use core::ops::Deref;

/// What must be done now, in the order in which `poll_effect` gives it.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Write that the execution started; answer with `Input::StartPersisted`.
    PersistStart {
        /// Unix milliseconds.
        started_at_unix_ms: i64,
    },
    /// The step's turn has come: hand the attempt to a worker.
    Dispatch {
        /// The step.
        step: StepIndex,
        /// 1 for the first.
        attempt: u32,
    },
    /// A dispatched or assigned attempt is over: no worker may start it, and the worker that has it must stop.
    Withdraw {
        /// The step.
        step: StepIndex,
        /// The attempt.
        attempt: u32,
        /// Reason.
        reason: WithdrawReason,
    },
    /// Write this, atomically; answer with `Input::SettlePersisted`. The commit point: tell nobody before.
    PersistResult(Arc<Settlement>),
    /// Tell the world. Comes only after `Input::SettlePersisted`.
    Deliver(Delivery),
}

/// Reason why an attempt is withdrawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WithdrawReason {
    /// The step's limit ran out.
    StepTimeout,
    /// The execution ended.
    ExecutionEnded,
}

/// What follows the commit point, in the order of section 5.
///
/// Each carries a [`Persisted`], which nobody outside this crate can make: what is not durable cannot leave.
#[derive(Clone, Debug, PartialEq)]
pub enum Delivery {
    /// Emit the terminal event, best effort.
    EmitEvent(Persisted),
    /// Mark the plan as ended in the registry.
    UpdatePlanRegistry(Persisted),
    /// Free what the execution holds.
    ReleaseResources(Persisted),
    /// Tell the error handler, if one is configured. Failures only.
    NotifyErrorHandler(Persisted),
    /// Answer the callers that wait for the result.
    ReturnResult(Persisted),
}

/// A settlement that is durable.
///
/// ```compile_fail,E0423
/// # fn send(settlement: std::sync::Arc<escapement_contract::Settlement>) {
/// // R-9.1: a settlement that is still being written cannot be delivered.
/// let delivery = escapement_contract::Delivery::ReturnResult(escapement_contract::Persisted(settlement));
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Persisted(Arc<Settlement>);

impl Persisted {
    /// Only `Input::SettlePersisted` leads here.
    pub(super) fn new(settlement: Arc<Settlement>) -> Self {
        Self(settlement)
    }

    /// Returns the settlement, shared.
    pub fn into_settlement(self) -> Arc<Settlement> {
        self.0
    }
}

impl Deref for Persisted {
    type Target = Arc<Settlement>;

    fn deref(&self) -> &Arc<Settlement> {
        &self.0
    }
}
