//! The gRPC edge: services, and what each call asks of the engine and the store.
//! Knows no connection. Decides nothing about an execution.

pub(crate) mod caller;

mod handing_in;

pub(crate) mod services;

pub(crate) mod session;

pub(crate) mod queries;

#[cfg(test)]
pub(crate) mod testing;

use self::queries::settled::SettledRecords;
use self::queries::simulate::Simulations;
use crate::host::handle::{CallError, EngineHandle, Lane};
use crate::limits::{
    PAYLOAD_CHECKS_MAX, REPLAYS_MAX, SILENT_SESSIONS_MAX, UNDECIDED_BYTES_MAX, UNDECIDED_UNIT_BYTES,
};
use crate::status::Rejection;
use crate::storage::readers::Readers;
use escapement_codec::session_out::WelcomeDefaults;
use escapement_metrics::Metrics;
use escapement_model::ExecutionId;
use escapement_operators::AccessEdge;
use escapement_sinks::Subscribers;
use escapement_transport::response_budget::ResponseBudget;
use escapement_transport::share::{Share, SharePart, Tenant};
use escapement_transport::{CallClass, Refusal, WorkerPlaces, WorkerRoots};
use prost::Message;
use std::pin::Pin;
use tokio::sync::watch::Receiver;
use tonic::Status;

/// What every service shares. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Edge {
    pub(crate) engine: EngineHandle,
    pub(crate) readers: Readers,
    pub(crate) settled: SettledRecords,
    pub(crate) answers: ResponseBudget,
    /// Room for plans that were handed in and of which it is not known yet whether they are accepted.
    pub(crate) pending_submission_bytes: Share,
    /// Slots for executions that are replayed.
    pub(crate) replays: Share,
    /// Slots for plans whose payloads are held against schemas.
    pub(crate) payload_checks: Share,
    /// Room for sessions that have not said anything.
    pub(crate) silent_sessions: Share,
    pub(crate) events: Subscribers,
    pub(crate) greeting: WelcomeDefaults,
    pub(crate) max_concurrent_steps: u32,
    pub(crate) simulations: Simulations,
    /// Who callers are, and the record of what operators do.
    pub(crate) access: AccessEdge,
    /// Whose the instances of workers are, and which have places.
    pub(crate) places: WorkerPlaces,
    /// Directories that workers see.
    pub(crate) roots: WorkerRoots,
    /// `None` if nobody looks at figures.
    pub(crate) metrics: Option<Metrics>,
    /// True once streams that nothing else ends must end.
    pub(crate) closing: Receiver<bool>,
}

impl Edge {
    #[expect(clippy::too_many_arguments, reason = "what comes from all sides meets here")]
    pub(crate) fn new(
        engine: EngineHandle,
        readers: Readers,
        events: Subscribers,
        greeting: WelcomeDefaults,
        max_concurrent_steps: u32,
        queue_allowance_ms: u64,
        access: AccessEdge,
        closing: Receiver<bool>,
    ) -> Self {
        Self {
            engine,
            readers,
            settled: SettledRecords::default(),
            answers: ResponseBudget::default(),
            pending_submission_bytes: Share::new(UNDECIDED_BYTES_MAX),
            replays: Share::new(REPLAYS_MAX),
            payload_checks: Share::new(PAYLOAD_CHECKS_MAX),
            silent_sessions: Share::new(SILENT_SESSIONS_MAX),
            events,
            places: WorkerPlaces::new(greeting.lease_ms),
            roots: WorkerRoots::default(),
            greeting,
            max_concurrent_steps,
            access,
            simulations: Simulations::new(max_concurrent_steps, queue_allowance_ms),
            metrics: None,
            closing,
        }
    }

    /// Room for one plan of the tenant, until it is decided whether it is accepted. Nobody waits for it.
    pub(crate) fn reserve(&self, plan: &impl Message, tenant: &Tenant) -> Result<SharePart, Rejection> {
        let bytes = (plan.encoded_len() / UNDECIDED_UNIT_BYTES + 1) * UNDECIDED_UNIT_BYTES;
        let room = self.pending_submission_bytes.take(tenant, bytes);
        room.map_err(|why| Rejection::Call(Refusal::for_want(why, CallClass::Writes)))
    }
}

/// A stream of answers.
pub(crate) type Answers<T> = Pin<Box<dyn futures_core::Stream<Item = Result<T, Status>> + Send>>;

impl From<CallError> for Status {
    fn from(no_reply: CallError) -> Self {
        let rejection = match no_reply {
            // The engine ends only when the orchestrator does.
            CallError::Gone => Rejection::Call(Refusal::Stopping),
            CallError::Overloaded(Lane::Writes) => Rejection::overloaded(CallClass::Writes),
            CallError::Overloaded(Lane::Reads | Lane::LongReads | Lane::Open) => {
                Rejection::overloaded(CallClass::Reads)
            }
            CallError::Overloaded(Lane::Control) => Rejection::overloaded(CallClass::Controls),
            CallError::Overloaded(Lane::Workers) => Rejection::overloaded(CallClass::Reports),
        };
        rejection.into()
    }
}

/// Reads an execution id from a request.
pub(crate) fn execution_id(text: &str) -> Result<ExecutionId, Rejection> {
    text.parse()
        .map_err(|invalid: escapement_model::InvalidId| Rejection::InvalidField {
            field: "execution_id",
            message: invalid.to_string(),
        })
}

/// Returns an id for an execution whose caller names none.
///
/// It begins with the time, so that ids of the same moment stand side by side in the index of the store: a commit writes
/// one page of it, and not a page for each execution. The 74 bits after the time are random.
pub(crate) fn fresh_execution_id(unix_ms: i64) -> ExecutionId {
    let mut bytes: [u8; 16] = random_bytes();
    bytes[..6].copy_from_slice(&unix_ms.to_be_bytes()[2..]);
    ExecutionId::from_random(bytes)
}

/// Random bytes of the operating system, without which no id is safe.
pub(crate) fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes once it has given the first");
    bytes
}

#[cfg(test)]
mod tests;
