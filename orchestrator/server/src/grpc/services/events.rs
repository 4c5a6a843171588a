//! `EventService`: terminal events from now on, for those who subscribe. Repeats nothing.

use crate::grpc::caller::Caller;
use crate::grpc::{Answers, Edge};
use crate::status::Rejection;
use escapement_contract::Status as PlanStatus;
use escapement_model::Namespace;
use escapement_sinks::TerminalEvent;
use escapement_transport::response_budget::{ResponseBudget, TakeDeadline};
use escapement_transport::{CallClass, ConnectionAbort};
use escapement_wire::v1;
use escapement_wire::v1::event_service_server::EventService;
use futures_core::Stream;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;
use tonic::{Request, Response, Status};

/// The service.
#[derive(Debug)]
pub(crate) struct Events {
    edge: Edge,
}

impl Events {
    pub(crate) fn new(edge: Edge) -> Self {
        Self { edge }
    }
}

#[tonic::async_trait]
impl EventService for Events {
    type SubscribeEventsStream = Answers<v1::SubscribeEventsResponse>;

    async fn subscribe_events(
        &self,
        request: Request<v1::SubscribeEventsRequest>,
    ) -> Result<Response<Self::SubscribeEventsStream>, Status> {
        let abort = request.extensions().get::<ConnectionAbort>().cloned();
        let caller = Caller::of(request.extensions());
        let v1::SubscribeEventsRequest { types, namespace } = request.into_inner();
        let namespaces = caller.listed(&namespace)?;
        let known =
            [PlanStatus::Success, PlanStatus::Partial, PlanStatus::Failure].map(PlanStatus::event_type);
        if let Some(unknown) = types.iter().find(|name| !known.contains(&name.as_str())) {
            let unknown: String = unknown.chars().take(100).collect();
            let message = format!("{unknown:?} is none of {}", known.join(", "));
            return Err(Rejection::InvalidField {
                field: "types",
                message,
            }
            .into());
        }
        let subscription = Subscription {
            events: self.edge.events.subscribe(),
            types,
            namespaces,
            dropped: 0,
            answers: self.edge.answers.clone(),
            abort,
            on_its_way: None,
            closing: self.edge.closing.clone(),
        };
        Ok(Response::new(Box::pin(EventStream(Some(Box::pin(
            subscription.next(),
        ))))))
    }
}

struct Subscription {
    events: Receiver<Weak<TerminalEvent>>,
    /// Empty: all.
    types: Vec<String>,
    /// `None`: all.
    namespaces: Option<Vec<Namespace>>,
    dropped: i64,
    answers: ResponseBudget,
    abort: Option<ConnectionAbort>,
    /// The room of the event that is being sent.
    on_its_way: Option<TakeDeadline>,
    closing: watch::Receiver<bool>,
}

/// The events of one subscriber. Takes the next one only when the last one is sent.
struct EventStream(Option<Pin<Box<dyn Future<Output = Option<Next>> + Send>>>);

/// The subscription again, and what it got.
type Next = (Subscription, v1::SubscribeEventsResponse);

impl Stream for EventStream {
    type Item = Result<v1::SubscribeEventsResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(mut next) = self.0.take() else {
            return Poll::Ready(None);
        };
        match next.as_mut().poll(cx) {
            Poll::Pending => {
                self.0 = Some(next);
                Poll::Pending
            }
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Ready(Some((subscription, answer))) => {
                self.0 = Some(Box::pin(subscription.next()));
                Poll::Ready(Some(Ok(answer)))
            }
        }
    }
}

impl Subscription {
    /// Waits for the next event; `None` at the end.
    async fn next(mut self) -> Option<Next> {
        self.on_its_way = None;
        let mut closing = self.closing.clone();
        // Biased: an end comes before another event.
        let event = tokio::select! {
            biased;
            _ = closing.wait_for(|closing| *closing) => None,
            event = self.next_wanted() => event,
        }?;
        // Without room for the result the subscriber gets the event by reference.
        let event = match self.answers.take(CallClass::Subscriptions, event.bytes()) {
            Ok(room) => {
                self.on_its_way = Some(room.until_taken(self.abort.clone()));
                event.to_wire()
            }
            Err(_no_room) => event.to_wire_without_data(),
        };
        let answer = v1::SubscribeEventsResponse {
            event: Some(event),
            dropped: self.dropped,
        };
        Some((self, answer))
    }

    async fn next_wanted(&mut self) -> Option<Arc<TerminalEvent>> {
        loop {
            let missed = match self.events.recv().await {
                Ok(event) => match event.upgrade() {
                    Some(event) if self.wants(&event) => return Some(event),
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

    fn wants(&self, event: &TerminalEvent) -> bool {
        let namespaces = self.namespaces.as_ref();
        namespaces.is_none_or(|visible| visible.contains(event.namespace()))
            && (self.types.is_empty() || self.types.iter().any(|wanted| wanted == event.name()))
    }
}
