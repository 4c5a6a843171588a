//! Gives one message to a sink, within its time.

use super::file::Sink;
use super::message::{Message, Posted};
use super::nats::Publisher;
use super::post::Poster;
use super::way::Way;
use escapement_delivery::Answer;
use tokio::time::timeout;

/// Gives messages to one sink, and keeps its connection.
#[derive(Debug, Default)]
pub(crate) struct Sender {
    poster: Poster,
    publisher: Publisher,
}

impl Sender {
    /// Gives a message to the sink at that time, Unix milliseconds.
    pub(crate) async fn give(&mut self, sink: &Sink, message: &Message, unix_ms: i64) -> Posted {
        let given = async {
            match &sink.way {
                Way::Webhook(target) => self.poster.post(target, message, unix_ms).await,
                Way::Nats(target) => self.publisher.publish(target, message).await,
            }
        };
        // A connection that did not answer in time is dropped with what waits for it.
        let given = timeout(sink.timeout, given).await;
        // Behind that time: what follows the head of an answer decides nothing.
        self.poster.read_rest().await;
        let given =
            given.unwrap_or_else(|_elapsed| Err(format!("no answer within {} ms", sink.timeout.as_millis())));
        given.unwrap_or_else(|problem| (Answer::Failed { retry_after_ms: None }, problem))
    }
}
