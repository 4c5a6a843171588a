//! Connections to the orchestrator's API for callers.
//! Makes them when they are needed first; decides nothing about answers.

use escapement_sdk::Credentials;
use escapement_wire::v1::plan_execution_service_client::PlanExecutionServiceClient;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;
use tonic::{Request, Status};

/// The orchestrator at one address.
#[derive(Debug)]
pub struct Orchestrator {
    address: String,
    credentials: Credentials,
    channels: Mutex<Option<Channels>>,
}

#[derive(Debug)]
struct Channels {
    made: Vec<Channel>,
    /// When files were read for them.
    made_at: Instant,
}

/// The client of the plan service.
pub type PlanClient = PlanExecutionServiceClient<InterceptedService<Channel, Authorization>>;

/// Puts the token of the worker into every call.
#[derive(Clone, Debug)]
pub struct Authorization(Credentials);

impl Interceptor for Authorization {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        // A token file that is being replaced is there again soon.
        self.0
            .authorize(request.metadata_mut())
            .map_err(Status::unavailable)?;
        Ok(request)
    }
}

impl Orchestrator {
    /// Names the address; connects nothing yet.
    pub fn new(address: String, credentials: Credentials) -> Self {
        Self {
            address,
            credentials,
            channels: Mutex::new(None),
        }
    }

    /// The address.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// With what the worker comes to it.
    pub fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// A client for calls that are short.
    ///
    /// # Errors
    /// Why there is no connection: the address is no URL, or a file cannot be used.
    pub fn client(&self) -> Result<PlanClient, String> {
        self.client_at(0)
    }

    /// A client for calls that wait long. `key` spreads them: a server takes some two hundred calls at a time
    /// on one connection, and a waiting call must not keep a short one from being sent.
    ///
    /// # Errors
    /// As [`Orchestrator::client`].
    pub fn waiting_client(&self, key: &str) -> Result<PlanClient, String> {
        let sum = key.bytes().fold(0_usize, |sum, byte| {
            sum.wrapping_mul(31).wrapping_add(usize::from(byte))
        });
        self.client_at(1 + sum % WAITING_CHANNELS)
    }

    fn client_at(&self, index: usize) -> Result<PlanClient, String> {
        let channel = self.channel_at(index)?;
        let authorization = Authorization(self.credentials.clone());
        Ok(
            PlanExecutionServiceClient::with_interceptor(channel, authorization)
                .max_decoding_message_size(ANSWER_BYTES_MAX),
        )
    }

    /// A channel keeps what its files held, so new ones are made from time to time. Calls on the old ones end in peace.
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
/// Bytes of an answer: a result of 16 MiB and room for the rest.
const ANSWER_BYTES_MAX: usize = 20 << 20;
