//! The way from a handler to the API of the orchestrator that its attempt came from.
//! Makes connections when they are needed first; decides nothing about answers.

use escapement_credentials::{BearerToken, Credentials};

use escapement_model::{AttemptToken, bearer};
use escapement_wire::v1::plan_execution_service_client::PlanExecutionServiceClient;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;
use tonic::{Request, Status};

/// Client that calls the orchestrator in the name of one attempt. It submits plans as children of the attempt's execution, which they must
/// name as `parent_execution_id`, and reads that execution and these children. Other calls are not permitted, and none after the end of the
/// attempt. Cheap to clone.
///
/// It trusts the authorities that the worker trusts and shows the attempt's own token instead of the worker's. In plaintext to another
/// machine, it shows no token, unless [`Credentials::allow_plaintext`] permits that.
#[derive(Clone, Debug)]
pub struct Caller {
    way: Arc<Way>,
    token: AttemptToken,
    authorization: AttemptAuthorization,
}

/// The connections to one orchestrator, for all handlers.
#[derive(Debug)]
pub(crate) struct Way {
    address: String,
    credentials: Credentials,
    channels: Mutex<Option<Channels>>,
}

#[derive(Debug)]
struct Channels {
    made: Vec<Channel>,
    /// Time at which files were read for them.
    made_at: Instant,
}

/// A client of `PlanExecutionService` that shows the token of an attempt.
pub type PlanClient = PlanExecutionServiceClient<InterceptedService<Channel, AttemptAuthorization>>;

/// Puts the token of an attempt into every call, and its trace if the call names none.
#[derive(Clone, Debug)]
pub struct AttemptAuthorization {
    bearer: Option<BearerToken>,
    trace: Vec<(&'static str, MetadataValue<Ascii>)>,
}

impl Interceptor for AttemptAuthorization {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let metadata = request.metadata_mut();
        if let Some(bearer) = &self.bearer {
            metadata.insert("authorization", bearer.to_metadata());
        }
        if !metadata.contains_key("traceparent") {
            for (name, value) in &self.trace {
                metadata.insert(*name, value.clone());
            }
        }
        Ok(request)
    }
}

impl Caller {
    /// Creates the caller; `trace` are the headers that name a trace, and other headers are left out.
    pub(crate) fn new<'a>(
        way: Arc<Way>,
        token: AttemptToken,
        trace: impl IntoIterator<Item = (&'static str, &'a str)>,
    ) -> Self {
        let is_safe = way.credentials.may_show_secrets_to(&way.address);
        let bearer = is_safe.then(|| BearerToken::new(&bearer::of_attempt(token)));
        let trace = trace.into_iter();
        let authorization = AttemptAuthorization {
            bearer: bearer.flatten(),
            trace: trace
                .filter_map(|(name, value)| Some((name, value.parse().ok()?)))
                .collect(),
        };
        Self {
            way,
            token,
            authorization,
        }
    }

    /// Returns the secret of the attempt, which only its worker and its orchestrator know: no other process can foresee what is derived
    /// from it. Neither log nor send it.
    pub fn secret(&self) -> String {
        self.token.to_hex()
    }

    /// Returns the orchestrator that gave the attempt, such as `http://127.0.0.1:7400`.
    pub fn address(&self) -> &str {
        &self.way.address
    }

    /// Returns a client for calls that are short. Use it inside of a tokio runtime, as handlers are.
    ///
    /// # Errors
    /// If a file of the worker's credentials cannot be used.
    pub fn plans(&self) -> Result<PlanClient, String> {
        self.client_at(0)
    }

    /// Returns a client for calls that wait long. `key` spreads them over connections: a server takes some two hundred concurrent calls
    /// on one connection. A waiting call must not keep a short one from being sent.
    ///
    /// # Errors
    /// As [`Caller::plans`].
    pub fn waiting_plans(&self, key: &str) -> Result<PlanClient, String> {
        let sum = key.bytes().fold(0_usize, |sum, byte| {
            sum.wrapping_mul(31).wrapping_add(usize::from(byte))
        });
        self.client_at(1 + sum % WAITING_CHANNELS)
    }

    fn client_at(&self, index: usize) -> Result<PlanClient, String> {
        let channel = self.way.channel_at(index)?;
        Ok(
            PlanExecutionServiceClient::with_interceptor(channel, self.authorization.clone())
                .max_decoding_message_size(ANSWER_BYTES_MAX),
        )
    }
}

impl Way {
    /// Creates the way to the address; connects nothing yet.
    pub(crate) fn new(address: String, credentials: Credentials) -> Self {
        Self {
            address,
            credentials,
            channels: Mutex::new(None),
        }
    }

    /// Returns a channel, a new one from time to time, since a channel keeps the contents of its files. Calls on the old ones are
    /// completed.
    fn channel_at(&self, index: usize) -> Result<Channel, String> {
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        let is_fresh = |channels: &Channels| {
            !self.address.starts_with("https://") || channels.made_at.elapsed() < CHANNEL_AGE_MAX
        };
        if let Some(channels) = channels.as_ref().filter(|channels| is_fresh(channels)) {
            return Ok(channels.made[index].clone());
        }
        let endpoint = match (self.credentials.endpoint(&self.address), channels.as_ref()) {
            (Ok(endpoint), _) => endpoint,
            // A file that is being replaced is whole again at one of the next calls.
            (Err(_), Some(channels)) => return Ok(channels.made[index].clone()),
            (Err(problem), None) => return Err(problem),
        };
        let endpoint = endpoint
            .connect_timeout(Duration::from_secs(5))
            .tcp_nodelay(true)
            .http2_keep_alive_interval(Duration::from_secs(30))
            .keep_alive_timeout(Duration::from_secs(10));
        let made: Vec<Channel> = (0..=WAITING_CHANNELS).map(|_| endpoint.connect_lazy()).collect();
        let channel = made[index].clone();
        *channels = Some(Channels {
            made,
            made_at: Instant::now(),
        });
        Ok(channel)
    }
}

/// Time after which files are read anew for calls.
const CHANNEL_AGE_MAX: Duration = Duration::from_secs(60);
/// Connections for calls that wait: eight of two hundred calls hold the 1024 executions that a worker waits
/// for.
const WAITING_CHANNELS: usize = 8;
/// Bytes of an answer: a result of 16 MiB and space for the rest.
const ANSWER_BYTES_MAX: usize = 20 << 20;
