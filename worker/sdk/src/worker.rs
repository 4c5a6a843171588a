//! The builder of a worker and the calls that run it. Speaks no protocol.

use crate::action::Action;
use crate::capacity::WorkerHandle;
use crate::context::StepContext;
use crate::error::{StepError, WorkerError};
use crate::event::SessionEvent;
use crate::handler::{Handler, HandlerFn};
use crate::token::BearerToken;
use bytes::Bytes;
use escapement_model::limits::{
    LABEL_CHARS_MAX, SESSION_ACTIONS_MAX, SESSION_IN_FLIGHT_MAX, SESSION_MESSAGE_BYTES_MAX, WORKER_LABELS_MAX,
};
use escapement_wire::worker::v1::Hello;
use prost::Message;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fmt;
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
    pub(crate) token: Option<BearerToken>,
    pub(crate) handle: WorkerHandle,
}

impl Worker {
    /// Starts to describe a worker of the orchestrator at `address`, such as `http://127.0.0.1:7400`.
    ///
    /// Only `http://` addresses are supported so far, which means no encryption: keep to trusted networks.
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
            token: None,
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
    token: Option<Secret>,
}

impl WorkerBuilder {
    /// A label for people, 1 to 255 code points; several workers may share one. Default: [`host_name`].
    #[must_use]
    pub fn worker_id(mut self, worker_id: impl Into<String>) -> Self {
        self.worker_id = Some(worker_id.into());
        self
    }

    /// How many handlers run at a time, 0 to 4096. Default: 16. Actions that wait do not count.
    #[must_use]
    pub fn max_in_flight(mut self, max_in_flight: u32) -> Self {
        self.max_in_flight = max_in_flight;
        self
    }

    /// A label for people and dashboards; at most 64.
    #[must_use]
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(name.into(), value.into());
        self
    }

    /// Name and version of the worker's software, such as `billing/1.2`.
    #[must_use]
    pub fn build_info(mut self, build_info: impl Into<String>) -> Self {
        self.build_info = build_info.into();
        self
    }

    /// How long running handlers may go on after the worker was asked to stop. Default: 25 s.
    #[must_use]
    pub fn drain_grace(mut self, drain_grace: Duration) -> Self {
        self.drain_grace = drain_grace;
        self
    }

    /// The token that the worker shows to every orchestrator, as `authorization: Bearer TOKEN`.
    /// Visible ASCII characters only. The orchestrator does not check it yet; a proxy before it may.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(Secret(token.into()));
        self
    }

    /// Tells `callback` what happens to the sessions, on the thread of the sessions: it must not block.
    #[must_use]
    pub fn on_session(mut self, callback: impl Fn(&SessionEvent) + Send + Sync + 'static) -> Self {
        self.on_session = SessionCallback(Some(Arc::new(callback)));
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
    /// It cannot be aborted: one that runs long must look at [`StepContext::is_cancelled`], or it keeps its
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
            token: self
                .token
                .as_ref()
                .and_then(|Secret(token)| BearerToken::new(token)),
            address: self.address,
            handlers,
            hello,
            drain_grace: self.drain_grace,
            on_session: self.on_session,
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
        if self.address.starts_with("https://") {
            return Some(format!(
                "TLS is not supported yet, so {} must begin with http://",
                self.address
            ));
        }
        if !self.address.starts_with("http://") {
            return Some(format!("the address {:?} must begin with http://", self.address));
        }
        if let Err(error) = tonic::transport::Endpoint::from_shared(self.address.clone()) {
            return Some(format!("the address {:?} is not a URI: {error}", self.address));
        }
        if self
            .worker_id
            .as_deref()
            .is_some_and(|id| id.is_empty() || characters(id) > LABEL_CHARS_MAX)
        {
            return Some(format!("a worker id has 1 to {LABEL_CHARS_MAX} characters"));
        }
        if let Some(Secret(token)) = &self.token
            && BearerToken::new(token).is_none()
        {
            return Some("a token consists of visible ASCII characters".to_owned());
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

/// The name of this host, at most 255 code points of it, or else `worker`. The default label of a worker.
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

/// A token that was not checked yet. Its text stands in no log.
struct Secret(String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// The callback of [`WorkerBuilder::on_session`], if any.
#[derive(Clone, Default)]
pub(crate) struct SessionCallback(Option<Arc<Callback>>);

type Callback = dyn Fn(&SessionEvent) + Send + Sync;

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

/// Bytes of `Hello` without its attempts: room for a full list of them stays.
const HELLO_BYTES_MAX: usize = SESSION_MESSAGE_BYTES_MAX - (1 << 20);
