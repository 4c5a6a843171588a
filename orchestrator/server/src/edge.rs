//! The gRPC edge: connections, services, and what each call asks of the engine and the store.
//! The only part that knows gRPC. Decides nothing about an execution.

pub(crate) mod connection;
pub(crate) mod events;
pub(crate) mod fleet;
pub(crate) mod listen;
pub(crate) mod lookup;
pub(crate) mod plans;
pub(crate) mod reports;
pub(crate) mod request_body;
pub(crate) mod routes;
pub(crate) mod session;
pub(crate) mod session_stream;
pub(crate) mod watch;

use crate::convert::session_out::Greeting;
use crate::engine_link::{EngineGone, EngineLink};
use crate::readers::Readers;
use crate::status::Rejection;
use escapement_contract::Persisted;
use escapement_engine::Refusal;
use escapement_model::ExecutionId;
use std::pin::Pin;
use tokio::sync::broadcast;
use tokio::sync::watch::Receiver;
use tonic::Status;

/// What every service shares. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Edge {
    pub(crate) engine: EngineLink,
    pub(crate) readers: Readers,
    pub(crate) events: broadcast::Sender<Persisted>,
    pub(crate) greeting: Greeting,
    pub(crate) max_concurrent_steps: u32,
    /// True once streams that nothing else ends must end.
    pub(crate) closing: Receiver<bool>,
}

/// A stream of answers.
pub(crate) type Answers<T> = Pin<Box<dyn futures_core::Stream<Item = Result<T, Status>> + Send>>;

/// The engine ends only when the orchestrator does.
impl From<EngineGone> for Status {
    fn from(_: EngineGone) -> Self {
        Rejection::Refused(Refusal::Draining).into()
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

/// Random bytes of the operating system, without which no id is safe.
pub(crate) fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes once it has given the first");
    bytes
}
