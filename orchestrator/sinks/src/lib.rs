//! Where terminal events and failures go beside the caller: best effort, or at least once from the store; never waited for.
//! A sink that is slow or dead changes nothing else. Best effort, it loses events, which are counted.
//!
//! What waits for a sink is what it is sent, bounded in number and in bytes. It keeps nothing else of an execution in memory.

mod append_file;
mod deliveries;
mod error_handler;
mod event;
mod feed;
mod flags;
mod journal_file;
mod limits;
mod losses;
mod session_journal;
mod subscription;
mod turns;
mod webhook;

use self::error_handler::ErrorHandler;
use self::losses::Losses;
use self::webhook::Webhook;
use crate::limits::{SUBSCRIBER_QUEUE_BYTES_MAX, SUBSCRIBER_QUEUE_MAX};
use escapement_codec::event_json::SOURCE;
use escapement_codec::provenance::Provenance;
use escapement_contract::{Persisted, PlanResult};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast, watch};

pub use self::append_file::AppendFile;
pub use self::deliveries::{Deliveries, DeliveryFigures, SinkFigures, SinksFile};
pub use self::error_handler::CannotStart;
pub use self::event::TerminalEvent;
pub use self::feed::{FeedSource, ReadFrom};
pub use self::flags::EventFlags;
pub use self::session_journal::SessionJournal;
pub use self::subscription::Subscribers;
pub use self::turns::{Delivery, Wanted};

/// The engine's way to every sink.
#[derive(Debug)]
pub struct Sinks {
    subscribers: Subscribers,
    /// Counts settlements, for those who read them from the store.
    settlements: watch::Sender<u64>,
    recent: Recent,
    webhook: Option<Webhook>,
    webhook_losses: Losses,
    error_handler: Option<ErrorHandler>,
    error_handler_losses: Losses,
}

/// The last events, for those who subscribe. The oldest give way.
#[derive(Debug, Default)]
struct Recent {
    events: VecDeque<Arc<TerminalEvent>>,
    bytes: usize,
}

impl Sinks {
    /// Opens the sinks that get what they get best effort, and starts their tasks: the URL that events are POSTed to, and the file that
    /// failures are appended to. Call it inside of a runtime.
    ///
    /// # Errors
    /// [`CannotStart`] if the error handler's file cannot be appended to, or there is no thread for it.
    pub fn start(flags: &EventFlags, error_handler_path: Option<&Path>) -> Result<Self, CannotStart> {
        let error_handler = error_handler_path.map(ErrorHandler::start).transpose()?;
        let mut sinks = Self {
            webhook: flags.event_webhook.clone().map(Webhook::start),
            error_handler,
            ..Self::without_sinks()
        };
        sinks.subscribers.source = flags.event_source.as_str().into();
        let webhook = sinks.webhook.iter().map(Webhook::queue);
        let error_handler = sinks.error_handler.iter().map(ErrorHandler::queue);
        sinks.subscribers.queues = Queues(webhook.chain(error_handler).collect());
        Ok(sinks)
    }

    /// Returns the way to subscribers alone.
    pub fn without_sinks() -> Self {
        let (events, _) = broadcast::channel(SUBSCRIBER_QUEUE_MAX);
        let settlements = watch::Sender::new(0);
        let subscribers = Subscribers {
            events,
            settlements: settlements.subscribe(),
            source: SOURCE.into(),
            queues: Queues::default(),
        };
        Self {
            subscribers,
            settlements,
            recent: Recent::default(),
            webhook: None,
            webhook_losses: Losses::new("webhook"),
            error_handler: None,
            error_handler_losses: Losses::new("error_handler"),
        }
    }

    /// Where subscribers subscribe.
    pub fn subscribers(&self) -> Subscribers {
        self.subscribers.clone()
    }

    /// Emits the terminal event.
    pub fn emit(&mut self, settlement: &Persisted) {
        let provenance = || Provenance::known(&settlement.provenance);
        self.emit_result(&settlement.result, provenance);
    }

    fn emit_result(&mut self, result: &PlanResult, provenance: impl FnOnce() -> Provenance) {
        self.settlements.send_modify(|count| *count += 1);
        let is_subscribed = self.subscribers.events.receiver_count() > 0;
        if !is_subscribed {
            self.recent = Recent::default();
        }
        // An event that nobody takes is not made: a sink that is dead would cost as much as one that takes all.
        let webhook = self.webhook.as_ref().filter(|webhook| webhook.has_place());
        if self.webhook.is_some() && webhook.is_none() {
            note(&mut self.webhook_losses, false);
        }
        if !is_subscribed && webhook.is_none() {
            return;
        }
        let event = Arc::new(TerminalEvent::of(result, provenance(), &self.subscribers.source));
        if let Some(webhook) = webhook {
            note(&mut self.webhook_losses, webhook.take(&event));
        }
        if is_subscribed {
            // Those who lag behind count for themselves. The last one may have left by now.
            let _no_subscribers = self.subscribers.events.send(Arc::downgrade(&event));
            self.recent.push(event);
        }
    }

    /// Tells the error handler of a failure.
    pub fn notify_error_handler(&mut self, settlement: &Persisted) {
        if let Some(error_handler) = &self.error_handler {
            note(
                &mut self.error_handler_losses,
                error_handler.take(&settlement.result),
            );
        }
    }
}

impl Recent {
    fn push(&mut self, event: Arc<TerminalEvent>) {
        self.bytes += event.bytes();
        self.events.push_back(event);
        while self.bytes > SUBSCRIBER_QUEUE_BYTES_MAX || self.events.len() > SUBSCRIBER_QUEUE_MAX {
            let oldest = self.events.pop_front().expect("what has bytes has events");
            self.bytes -= oldest.bytes();
        }
    }
}

fn note(losses: &mut Losses, is_taken: bool) {
    let now = Instant::now();
    if is_taken {
        losses.taken(now);
    } else {
        losses.lost(now);
    }
}

/// Something that waits for a sink, and the room that it takes until it is sent.
#[derive(Debug)]
struct Waiting<T> {
    value: T,
    _room: OwnedSemaphorePermit,
}

/// What waits for sinks that get what they get best effort.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queues(Vec<Queue>);

/// Exactly one of these.
#[derive(Clone, Debug)]
struct Queue {
    name: &'static str,
    bytes_max: usize,
    room: Arc<Semaphore>,
}

impl Queues {
    /// By name, the bytes that wait.
    pub(crate) fn bytes(&self) -> Vec<(&'static str, usize)> {
        let bytes = |queue: &Queue| {
            let free = queue.room.available_permits();
            (queue.name, queue.bytes_max.saturating_sub(free))
        };
        self.0.iter().map(bytes).collect()
    }
}

/// Room for so many bytes of what waits.
fn room_for(bytes_max: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(bytes_max))
}

/// Room for one more, if there is any.
fn take_room<T>(room: &Arc<Semaphore>, bytes: usize, value: T) -> Option<Waiting<T>> {
    let n_units = u32::try_from(bytes).ok()?;
    let room = Arc::clone(room).try_acquire_many_owned(n_units).ok()?;
    Some(Waiting { value, _room: room })
}

#[cfg(test)]
mod tests;
