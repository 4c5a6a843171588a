//! `EventService`: terminal events, from now on or from a place on. Repeats nothing.

use crate::grpc::caller::Caller;
use crate::grpc::{Answers, Edge};
use crate::status::Rejection;
use crate::storage::readers::{ReadClass, Readers};
use escapement_sinks::{Delivery, FeedSource, ReadFrom, Wanted};
use escapement_store::{Reader, StoreFault};
use escapement_transport::{CallClass, Recipient};
use escapement_wire::v1;
use escapement_wire::v1::event_service_server::EventService;
use tonic::{Extensions, Request, Response, Status};

/// The service.
#[derive(Debug)]
pub(crate) struct Events {
    edge: Edge,
}

impl Events {
    pub(crate) fn new(edge: Edge) -> Self {
        Self { edge }
    }

    fn delivery(&self, extensions: &Extensions) -> Delivery {
        Delivery {
            recipient: Recipient::new(&self.edge.answers, CallClass::Subscriptions, extensions),
            closing: self.edge.closing.clone(),
        }
    }
}

#[tonic::async_trait]
impl EventService for Events {
    type SubscribeEventsStream = Answers<v1::SubscribeEventsResponse>;
    type ReadEventsStream = Answers<v1::ReadEventsResponse>;

    async fn subscribe_events(
        &self,
        request: Request<v1::SubscribeEventsRequest>,
    ) -> Result<Response<Self::SubscribeEventsStream>, Status> {
        let (delivery, caller) = (
            self.delivery(request.extensions()),
            Caller::of(request.extensions()),
        );
        let v1::SubscribeEventsRequest { types, namespace } = request.into_inner();
        let wanted = wanted(&caller, types, &namespace)?;
        Ok(Response::new(Box::pin(
            self.edge.events.subscribe(wanted, delivery),
        )))
    }

    async fn read_events(
        &self,
        request: Request<v1::ReadEventsRequest>,
    ) -> Result<Response<Self::ReadEventsStream>, Status> {
        let (delivery, caller) = (
            self.delivery(request.extensions()),
            Caller::of(request.extensions()),
        );
        let request = request.into_inner();
        let from = ReadFrom::of(&request);
        let from = from.map_err(|(field, message)| Rejection::InvalidField { field, message })?;
        let wanted = wanted(&caller, request.types, &request.namespace)?;
        let source = self.edge.readers.clone();
        let events = self.edge.events.read(source, from, wanted, delivery);
        Ok(Response::new(Box::pin(events)))
    }
}

fn wanted(caller: &Caller, types: Vec<String>, namespace: &str) -> Result<Wanted, Rejection> {
    let wanted = Wanted::new(types, caller.listed(namespace)?);
    let wanted = wanted.map_err(|message| Rejection::InvalidField {
        field: "types",
        message,
    })?;
    Ok(match caller.principal().is_held_somewhere() {
        true => wanted.of_what_is_found(&caller.principal().scopes()),
        false => wanted,
    })
}

impl FeedSource for Readers {
    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&dyn Reader) -> Result<T, StoreFault> + Send + 'static,
    ) -> Result<T, Status> {
        Ok(Readers::read(self, ReadClass::Feed, read).await?)
    }
}
