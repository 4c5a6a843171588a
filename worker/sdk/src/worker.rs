//! The builder of a worker and the calls that run it. Speaks no protocol.

use crate::action::Action;
use crate::capacity::WorkerHandle;
use crate::context::StepContext;
use crate::error::{StepError, WorkerError};
use crate::event::{AttemptEvent, SessionEvent};
use crate::handler::{Handler, HandlerFn};
use bytes::Bytes;
use escapement_credentials::{ClientTls, Credentials};
use escapement_model::limits::{
    LABEL_CHARS_MAX, SESSION_ACTIONS_MAX, SESSION_IN_FLIGHT_MAX, SESSION_MESSAGE_BYTES_MAX, WORKER_LABELS_MAX,
};
use escapement_wire::worker::v1::Hello;
use prost::Message;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A process that runs the handlers of some actions for one orchestrator.
#[derive(Debug)]
pub struct Worker {
    pub(crate) address: String,
    pub(crate) handlers: BTreeMap<String, Handler>,
    pub(crate) hello: Hello,
    pub(crate) drain_grace: Duration,
    pub(crate) on_session: SessionCallback,
    pub(crate) on_attempt: AttemptCallback,
    pub(crate) credentials: Credentials,
    pub(crate) handle: WorkerHandle,
}

impl Worker {
    /// Starts to describe a worker of the orchestrator at `address`, such as `http://127.0.0.1:7400`.
    ///
    /// The scheme decides: connections to `https://` addresses are encrypted, see [`WorkerBuilder::tls`].
    /// Peers that the orchestrator names are dialled with the same scheme and the same credentials, and others are left out.
    pub fn builder(address: impl Into<String>) -> WorkerBuilder {
        WorkerBuilder {
            address: address.into(),
            worker_id: None,
            max_in_flight: 16,
            labels: BTreeMap::new(),
            build_info: concat!("escapement-sdk/", env!("CARGO_PKG_VERSION")).to_owned(),
            drain_grace: Duration::from_secs(25),
            handlers: Vec::new(),
            on_session: SessionCallback::default(),
            on_attempt: AttemptCallback::default(),
            credentials: Credentials::new(),
        }
    }

    /// Changes how much work the worker takes, before it runs and while it does.
    pub fn handle(&self) -> WorkerHandle {
        self.handle.clone()
    }
}

/// Describes a worker. Nothing happens before it is run.
#[derive(Debug)]
pub struct WorkerBuilder {
    address: String,
    worker_id: Option<String>,
    max_in_flight: u32,
    labels: BTreeMap<String, String>,
    build_info: String,
    drain_grace: Duration,
    handlers: Vec<Handler>,
    on_session: SessionCallback,
    on_attempt: AttemptCallback,
    credentials: Credentials,
}

impl WorkerBuilder {
    /// Sets a label for people, 1 to 255 code points; several workers may share one. Default: [`host_name`].
    #[must_use]
    pub fn worker_id(mut self, worker_id: impl Into<String>) -> Self {
        self.worker_id = Some(worker_id.into());
        self
    }

    /// Sets the maximum of concurrent handlers, 0 to 4096. Default: 16. Actions that wait do not count.
    #[must_use]
    pub fn max_in_flight(mut self, max_in_flight: u32) -> Self {
        self.max_in_flight = max_in_flight;
        self
    }

    /// Sets a label for people and dashboards; at most 64.
    #[must_use]
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(name.into(), value.into());
        self
    }

    /// Sets name and version of the worker's software, such as `billing/1.2`.
    #[must_use]
    pub fn build_info(mut self, build_info: impl Into<String>) -> Self {
        self.build_info = build_info.into();
        self
    }

    /// Sets the time for running handlers after the worker was asked to stop. Default: 25 s.
    #[must_use]
    pub fn drain_grace(mut self, drain_grace: Duration) -> Self {
        self.drain_grace = drain_grace;
        self
    }

    /// Sets all credentials of the worker for its orchestrators; replaces those that were set before.
    #[must_use]
    pub fn credentials(mut self, credentials: Credentials) -> Self {
        self.credentials = credentials;
        self
    }

    /// Sets the authorities that the worker trusts, and its certificate. Their files are read at every connect.
    /// Default: the authorities of the machine, and no certificate.
    #[must_use]
    pub fn tls(mut self, tls: ClientTls) -> Self {
        self.credentials = self.credentials.tls(tls);
        self
    }

    /// Sets the token that the worker shows to every orchestrator, as `authorization: Bearer TOKEN`.
    /// Visible ASCII characters only. A token is never sent unencrypted to another machine, see [`Credentials::allow_plaintext`].
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.credentials = self.credentials.token(token);
        self
    }

    /// Sets the file that holds the token, read at every connect.
    #[must_use]
    pub fn token_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.credentials = self.credentials.token_file(file);
        self
    }

    /// Gives the token, at every connect. It may block for a moment.
    #[must_use]
    pub fn token_with(mut self, token: impl Fn() -> Result<String, String> + Send + Sync + 'static) -> Self {
        self.credentials = self.credentials.token_with(token);
        self
    }

    /// Calls `callback` with the events of the sessions, on the thread of the sessions: it must not block.
    #[must_use]
    pub fn on_session(mut self, callback: impl Fn(&SessionEvent) + Send + Sync + 'static) -> Self {
        self.on_session = SessionCallback(Some(Arc::new(callback)));
        self
    }

    /// Calls `callback` when handlers begin and end, for metrics. It is called on the thread of the sessions: it must not block.
    #[must_use]
    pub fn on_attempt(mut self, callback: impl Fn(AttemptEvent<'_>) + Send + Sync + 'static) -> Self {
        self.on_attempt = AttemptCallback(Some(Arc::new(callback)));
        self
    }

    /// Adds an action by name. See [`handler_with`](Self::handler_with).
    #[must_use]
    pub fn handler<I, O, F, R>(self, name: impl Into<String>, handler: F) -> Self
    where
        I: DeserializeOwned,
        O: Serialize,
        F: Fn(I, StepContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<O, StepError>> + Send + 'static,
    {
        self.handler_with(Action::new(name), handler)
    }

    /// Adds an action with an async handler.
    ///
    /// The input is the step's payload, decoded into any `Deserialize` type; one that does not decode fails
    /// the step
    /// with `INVALID_PAYLOAD`. The output must encode to a JSON object of at most 1 MiB.
    /// A panic fails the step with `UNKNOWN_ERROR`.
    #[must_use]
    pub fn handler_with<I, O, F, R>(mut self, action: Action, handler: F) -> Self
    where
        I: DeserializeOwned,
        O: Serialize,
        F: Fn(I, StepContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<O, StepError>> + Send + 'static,
    {
        self.handlers.push(Handler {
            action,
            function: HandlerFn::from_async(handler),
        });
        self
    }

    /// Adds an action by name whose handler blocks its thread. See
    /// [`blocking_handler_with`](Self::blocking_handler_with).
    #[must_use]
    pub fn blocking_handler<I, O, F>(self, name: impl Into<String>, handler: F) -> Self
    where
        I: DeserializeOwned,
        O: Serialize,
        F: Fn(I, StepContext) -> Result<O, StepError> + Send + Sync + 'static,
    {
        self.blocking_handler_with(Action::new(name), handler)
    }

    /// Adds an action whose handler blocks its thread; it runs on a thread that the worker keeps for such handlers,
    /// within the runtime of the caller.
    ///
    /// A blocking handler cannot be aborted: one that runs long must check [`StepContext::is_cancelled`], or it keeps its
    /// slot and is reported as [`SessionEvent::Stuck`].
    #[must_use]
    pub fn blocking_handler_with<I, O, F>(mut self, action: Action, handler: F) -> Self
    where
        I: DeserializeOwned,
        O: Serialize,
        F: Fn(I, StepContext) -> Result<O, StepError> + Send + Sync + 'static,
    {
        self.handlers.push(Handler {
            action,
            function: HandlerFn::from_blocking(handler),
        });
        self
    }

    /// Checks everything.
    ///
    /// # Errors
    /// [`WorkerError::InvalidConfiguration`] says what cannot work; [`WorkerError::NoRandomness`].
    pub fn build(self) -> Result<Worker, WorkerError> {
        self.problem()
            .map_or(Ok(()), |problem| Err(WorkerError::InvalidConfiguration(problem)))?;
        let mut instance_id = [0; 16];
        getrandom::fill(&mut instance_id).map_err(WorkerError::NoRandomness)?;
        let worker_id = self.worker_id.unwrap_or_else(host_name);
        let hello = Hello {
            worker_id,
            instance_id: Bytes::copy_from_slice(&instance_id),
            actions: self
                .handlers
                .iter()
                .map(|handler| handler.action.to_spec())
                .collect(),
            max_in_flight: self.max_in_flight,
            labels: self.labels,
            build: self.build_info,
            ..Hello::default()
        };
        if hello.encoded_len() > HELLO_BYTES_MAX {
            let detail =
                format!("its actions and labels need more than {HELLO_BYTES_MAX} bytes in one message");
            return Err(WorkerError::InvalidConfiguration(detail));
        }
        let handlers: BTreeMap<String, Handler> = self
            .handlers
            .into_iter()
            .map(|handler| (handler.action.name().to_owned(), handler))
            .collect();
        Ok(Worker {
            handle: WorkerHandle::new(handlers.keys()),
            credentials: self.credentials,
            address: self.address,
            handlers,
            hello,
            drain_grace: self.drain_grace,
            on_session: self.on_session,
            on_attempt: self.on_attempt,
        })
    }

    /// Builds and runs until SIGTERM, SIGINT or SIGHUP.
    ///
    /// # Errors
    /// As [`build`](Self::build) and [`Worker::run_until`].
    pub async fn run(self) -> Result<(), WorkerError> {
        self.build()?.run().await
    }

    /// Builds and runs until `shutdown` resolves.
    ///
    /// # Errors
    /// As [`build`](Self::build) and [`Worker::run_until`].
    pub async fn run_until(self, shutdown: impl Future<Output = ()>) -> Result<(), WorkerError> {
        self.build()?.run_until(shutdown).await
    }

    fn problem(&self) -> Option<String> {
        let characters = |text: &str| text.chars().count();
        if let Some(problem) = self.credentials.problem(&self.address) {
            return Some(problem);
        }
        if self
            .worker_id
            .as_deref()
            .is_some_and(|id| id.is_empty() || characters(id) > LABEL_CHARS_MAX)
        {
            return Some(format!("a worker id has 1 to {LABEL_CHARS_MAX} characters"));
        }
        if self.max_in_flight > SESSION_IN_FLIGHT_MAX {
            return Some(format!("max_in_flight is at most {SESSION_IN_FLIGHT_MAX}"));
        }
        if self.labels.len() > WORKER_LABELS_MAX {
            return Some(format!("there are at most {WORKER_LABELS_MAX} labels"));
        }
        if self.handlers.is_empty() || self.handlers.len() > SESSION_ACTIONS_MAX {
            return Some(format!("a worker has 1 to {SESSION_ACTIONS_MAX} handlers"));
        }
        let mut names = std::collections::BTreeSet::new();
        self.handlers.iter().find_map(|handler| {
            let name = handler.action.name();
            let repeated = || (!names.insert(name)).then(|| format!("action {name:?} has two handlers"));
            handler.action.problem().or_else(repeated)
        })
    }
}

/// Returns the name of this host, at most 255 code points of it, or else `worker`. The default label of a worker.
pub fn host_name() -> String {
    let name = rustix::system::uname();
    let name: String = name
        .nodename()
        .to_string_lossy()
        .trim()
        .chars()
        .take(LABEL_CHARS_MAX)
        .collect();
    if name.is_empty() {
        "worker".to_owned()
    } else {
        name
    }
}

/// The callback of [`WorkerBuilder::on_session`], if any.
#[derive(Clone, Default)]
pub(crate) struct SessionCallback(Option<Arc<Callback>>);

type Callback = dyn Fn(&SessionEvent) + Send + Sync;

/// The callback of [`WorkerBuilder::on_attempt`], if any.
#[derive(Clone, Default)]
pub(crate) struct AttemptCallback(Option<Arc<OfAttempts>>);

type OfAttempts = dyn Fn(AttemptEvent<'_>) + Send + Sync;

impl AttemptCallback {
    pub(crate) fn call(&self, event: AttemptEvent<'_>) {
        if let Some(callback) = &self.0 {
            callback(event);
        }
    }
}

impl fmt::Debug for AttemptCallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() {
            "AttemptCallback"
        } else {
            "none"
        })
    }
}

impl SessionCallback {
    pub(crate) fn call(&self, event: &SessionEvent) {
        if let Some(callback) = &self.0 {
            callback(event);
        }
    }
}

impl fmt::Debug for SessionCallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() {
            "SessionCallback"
        } else {
            "none"
        })
    }
}

/// Bytes of `Hello` without its attempts: space for a full list of them stays.
const HELLO_BYTES_MAX: usize = SESSION_MESSAGE_BYTES_MAX - (1 << 20);
