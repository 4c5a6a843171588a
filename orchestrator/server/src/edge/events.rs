//! `EventService`: terminal events from now on, for whoever listens. Repeats nothing.

use super::{Answers, Edge};
use crate::convert::{answer, json};
use crate::status::Rejection;
use escapement_contract::{Persisted, Settlement, Status as PlanStatus};
use escapement_model::BootId;
use escapement_wire::v1;
use escapement_wire::v1::event_service_server::EventService;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
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
        let types = request.into_inner().types;
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
        // The queue is the broadcast's; one place more is only the hand-over.
        let (answers, answers_rx) = mpsc::channel(1);
        let subscription = Subscription {
            events: self.edge.events.subscribe(),
            types,
            boot_id: self.edge.greeting.boot_id,
            dropped: 0,
            closing: self.edge.closing.clone(),
        };
        tokio::spawn(subscription.run(answers));
        Ok(Response::new(Box::pin(ReceiverStream::new(answers_rx))))
    }
}

struct Subscription {
    events: Receiver<Persisted>,
    /// Empty: all.
    types: Vec<String>,
    boot_id: BootId,
    dropped: i64,
    closing: watch::Receiver<bool>,
}

impl Subscription {
    async fn run(mut self, answers: mpsc::Sender<Result<v1::SubscribeEventsResponse, Status>>) {
        let mut closing = self.closing.clone();
        // Biased: an end comes before another event.
        tokio::select! {
            biased;
            () = answers.closed() => {}
            _ = closing.wait_for(|closing| *closing) => {}
            () = self.forward(&answers) => {}
        }
    }

    async fn forward(&mut self, answers: &mpsc::Sender<Result<v1::SubscribeEventsResponse, Status>>) {
        loop {
            match self.events.recv().await {
                Ok(settlement) => {
                    if self.wants(&settlement) && answers.send(Ok(self.answer(&settlement))).await.is_err() {
                        return;
                    }
                }
                Err(RecvError::Lagged(missed)) => {
                    self.dropped = self.dropped.saturating_add_unsigned(missed);
                }
                Err(RecvError::Closed) => return,
            }
        }
    }

    fn wants(&self, settlement: &Settlement) -> bool {
        let name = settlement.result.status.event_type();
        self.types.is_empty() || self.types.iter().any(|wanted| wanted == name)
    }

    fn answer(&self, settlement: &Settlement) -> v1::SubscribeEventsResponse {
        let mut event = json::event_attributes(&settlement.result, self.boot_id);
        event.data = Some(answer::result(&settlement.result));
        v1::SubscribeEventsResponse {
            event: Some(event),
            dropped: self.dropped,
        }
    }
}
