//! Connections to the orchestrator's API for callers.
//! Makes them when they are needed first; decides nothing about answers.

use escapement_wire::v1::plan_execution_service_client::PlanExecutionServiceClient;
use std::sync::OnceLock;
use std::time::Duration;
use tonic::transport::{Channel, Endpoint};

/// The orchestrator at one address.
#[derive(Debug)]
pub struct Orchestrator {
    address: String,
    channels: OnceLock<Vec<Channel>>,
}

/// The client of the plan service.
pub type PlanClient = PlanExecutionServiceClient<Channel>;

impl Orchestrator {
    /// Names the address; connects nothing yet.
    pub fn new(address: String) -> Self {
        Self {
            address,
            channels: OnceLock::new(),
        }
    }

    /// The address.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// A client for calls that are short.
    ///
    /// # Errors
    /// The address is no URL.
    pub fn client(&self) -> Result<PlanClient, tonic::transport::Error> {
        self.client_at(0)
    }

    /// A client for calls that wait long. `key` spreads them: a server takes some two hundred calls at a time
    /// on one connection, and a waiting call must not keep a short one from being sent.
    ///
    /// # Errors
    /// The address is no URL.
    pub fn waiting_client(&self, key: &str) -> Result<PlanClient, tonic::transport::Error> {
        let sum = key.bytes().fold(0_usize, |sum, byte| {
            sum.wrapping_mul(31).wrapping_add(usize::from(byte))
        });
        self.client_at(1 + sum % WAITING_CHANNELS)
    }

    fn client_at(&self, index: usize) -> Result<PlanClient, tonic::transport::Error> {
        let channels = match self.channels.get() {
            Some(channels) => channels,
            None => {
                let endpoint = Endpoint::from_shared(self.address.clone())?
                    .connect_timeout(Duration::from_secs(5))
                    .tcp_nodelay(true)
                    .http2_keep_alive_interval(Duration::from_secs(30))
                    .keep_alive_timeout(Duration::from_secs(10));
                let made = (0..=WAITING_CHANNELS).map(|_| endpoint.connect_lazy()).collect();
                self.channels.get_or_init(|| made)
            }
        };
        Ok(PlanClient::new(channels[index].clone()).max_decoding_message_size(ANSWER_BYTES_MAX))
    }
}

/// Connections for calls that wait: eight of two hundred calls hold the 1024 executions that a worker waits
/// for.
const WAITING_CHANNELS: usize = 8;
/// Bytes of an answer: a result of 16 MiB and room for the rest.
const ANSWER_BYTES_MAX: usize = 20 << 20;
