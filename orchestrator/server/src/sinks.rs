//! Where terminal events and failures go beside the caller: best effort, never waited for.
//! A sink that is slow or dead loses events, which are counted, and changes nothing else.

mod error_handler;
mod webhook;

use self::error_handler::ErrorHandler;
use crate::config::Config;
use crate::failure::Failure;
use crate::limits::SUBSCRIBER_QUEUE_MAX;
use escapement_contract::Persisted;
use escapement_model::BootId;
use tokio::sync::{broadcast, mpsc};
use tracing::warn;

/// The engine's way to every sink.
#[derive(Debug)]
pub(crate) struct Sinks {
    subscribers: broadcast::Sender<Persisted>,
    webhook: Option<mpsc::Sender<Persisted>>,
    webhook_dropped: u64,
    error_handler: Option<ErrorHandler>,
    error_handler_dropped: u64,
}

impl Sinks {
    /// Opens what the configuration names and starts its tasks. Call it inside of the edge's runtime.
    ///
    /// # Errors
    /// Where the error handler's file cannot be appended to, or there is no thread for it.
    pub(crate) fn start(config: &Config, boot_id: BootId) -> Result<Self, Failure> {
        let (subscribers, _) = broadcast::channel(SUBSCRIBER_QUEUE_MAX);
        let webhook = config
            .event_webhook
            .clone()
            .map(|url| webhook::spawn(url, boot_id));
        let error_handler = config
            .error_handler_path
            .as_deref()
            .map(ErrorHandler::start)
            .transpose()?;
        Ok(Self {
            subscribers,
            webhook,
            webhook_dropped: 0,
            error_handler,
            error_handler_dropped: 0,
        })
    }

    /// Where subscribers subscribe.
    pub(crate) fn subscribers(&self) -> broadcast::Sender<Persisted> {
        self.subscribers.clone()
    }

    /// Emits the terminal event.
    pub(crate) fn emit(&mut self, settlement: Persisted) {
        if let Some(webhook) = &self.webhook
            && webhook.try_send(settlement.clone()).is_err()
        {
            count_drop("webhook", &mut self.webhook_dropped);
        }
        // Without subscribers nobody loses anything; those who lag behind count for themselves.
        let _no_subscribers = self.subscribers.send(settlement);
    }

    /// Tells the error handler of a failure.
    pub(crate) fn notify_error_handler(&mut self, settlement: Persisted) {
        if let Some(error_handler) = &self.error_handler
            && !error_handler.take(settlement)
        {
            count_drop("error_handler", &mut self.error_handler_dropped);
        }
    }
}

/// Logs the first drop and every doubling, so that a dead sink does not fill the log.
fn count_drop(sink: &'static str, dropped: &mut u64) {
    *dropped += 1;
    if dropped.is_power_of_two() {
        warn!(sink, dropped = *dropped, "event dropped");
    }
}
