//! Events from now on, for those who subscribe. Repeats nothing.

use crate::Queues;
use crate::event::TerminalEvent;
use crate::turns::{Delivery, Turn, Wanted, stream};
use escapement_transport::response_budget::TakeDeadline;
use escapement_wire::v1;
use futures_core::Stream;
use std::sync::{Arc, Weak};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};
use tonic::Status;

/// The way to subscribers. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Subscribers {
    /// What they get is gone once later events have taken its room.
    pub(crate) events: broadcast::Sender<Weak<TerminalEvent>>,
    /// Changes after each settlement.
    pub(crate) settlements: watch::Receiver<u64>,
    /// Where events say that they come from.
    pub(crate) source: Arc<str>,
    /// What waits beside them.
    pub(crate) queues: Queues,
}

impl Subscribers {
    /// Returns the events from now on, for a subscriber.
    pub fn subscribe(
        &self,
        wanted: Wanted,
        delivery: Delivery,
    ) -> impl Stream<Item = Result<v1::SubscribeEventsResponse, Status>> + Send + use<> {
        stream(Subscription {
            events: self.events.subscribe(),
            wanted,
            dropped: 0,
            delivery,
            on_its_way: None,
        })
    }
}

struct Subscription {
    events: broadcast::Receiver<Weak<TerminalEvent>>,
    wanted: Wanted,
    dropped: i64,
    delivery: Delivery,
    /// The room of the event that is being sent.
    on_its_way: Option<TakeDeadline>,
}

impl Turn for Subscription {
    type Answer = v1::SubscribeEventsResponse;

    async fn next(mut self) -> Option<(Self, Result<Self::Answer, Status>)> {
        self.on_its_way = None;
        let mut closing = self.delivery.closing.clone();
        // Biased: an end comes before another event.
        let event = tokio::select! {
            biased;
            _ = closing.wait_for(|closing| *closing) => None,
            event = self.next_wanted() => event,
        }?;
        // Without room for the result the subscriber gets the event by reference.
        let recipient = &self.delivery.recipient;
        let event = match recipient.take(event.bytes()) {
            Ok(room) => {
                self.on_its_way = Some(recipient.until_taken(room));
                event.to_wire()
            }
            Err(_no_room) => event.to_wire_without_data(),
        };
        let answer = v1::SubscribeEventsResponse {
            event: Some(event),
            dropped: self.dropped,
        };
        Some((self, Ok(answer)))
    }
}

impl Subscription {
    async fn next_wanted(&mut self) -> Option<Arc<TerminalEvent>> {
        loop {
            let missed = match self.events.recv().await {
                Ok(event) => match event.upgrade() {
                    Some(event) if event.is_wanted(&self.wanted) => return Some(event),
                    Some(_) => 0,
                    // Later ones have taken its room.
                    None => 1,
                },
                Err(RecvError::Lagged(missed)) => missed,
                Err(RecvError::Closed) => return None,
            };
            self.dropped = self.dropped.saturating_add_unsigned(missed);
        }
    }
}
