//! Calls as bytes, so that one test makes them all.

use super::super::credentials::Token;
use crate::world::World;
use bytes::Bytes;
use escapement_tests::RawCodec;
use prost::Message;
use std::time::Duration;
use tonic::Status;
use tonic::client::Grpc;
use tonic::transport::Channel;

/// What a caller of another namespace is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Elsewhere {
    /// That it is not there.
    NotFound,
    /// That it has no business in the namespace, which the request names.
    NotHere,
    /// An answer in which nothing of it is, whereas it is in that of everybody who reads there.
    Hidden,
    /// What everybody is told: it is about no namespace.
    Same,
}

/// What the call does, and with that who may make it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Read,
    Write,
    /// Reads payloads: not for who only reads, and for operators if the policy says so.
    Payloads,
    /// There is nothing to read for anybody.
    Other,
}

#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) path: String,
    /// As somebody makes it who has no business there.
    pub(crate) message: Bytes,
    /// The same by those who have: it names the namespace, and is wrong in itself if it would change anything.
    pub(crate) permitted: Bytes,
    pub(crate) elsewhere: Elsewhere,
    pub(crate) kind: Use,
}

impl Call {
    /// With another message of those who may make it.
    pub(crate) fn permitted(self, message: &impl Message) -> Self {
        Self {
            permitted: message.encode_to_vec().into(),
            ..self
        }
    }

    /// As those make it who may.
    pub(crate) fn by_permitted(&self) -> Self {
        Self {
            message: self.permitted.clone(),
            ..self.clone()
        }
    }
}

/// A call about runs.
pub(crate) fn call(
    service: &str,
    method: &str,
    message: &impl Message,
    elsewhere: Elsewhere,
    kind: Use,
) -> Call {
    let service = format!("escapement.runs.v1.{service}");
    call_to(&service, method, message, elsewhere, kind)
}

/// Returns a call to the service of that full name.
pub(crate) fn call_to(
    service: &str,
    method: &str,
    message: &impl Message,
    elsewhere: Elsewhere,
    kind: Use,
) -> Call {
    let message: Bytes = message.encode_to_vec().into();
    Call {
        path: format!("/{service}/{method}"),
        permitted: message.clone(),
        message,
        elsewhere,
        kind,
    }
}

/// What the call came to: what was answered first, or why not.
pub(super) async fn made(world: &World, call: &Call, token: &Token) -> Result<Bytes, Status> {
    shown(world, call, &token.secret).await
}

/// The same by who shows this bearer.
pub(super) async fn shown(world: &World, call: &Call, bearer: &str) -> Result<Bytes, Status> {
    asked(world.orchestrator.channel(), call, Some(bearer)).await
}

/// The same over this connection.
pub(crate) async fn asked(channel: Channel, call: &Call, bearer: Option<&str>) -> Result<Bytes, Status> {
    let mut grpc = Grpc::new(channel);
    grpc.ready().await.unwrap();
    let mut request = tonic::Request::new(tokio_stream::once(call.message.clone()));
    if let Some(bearer) = bearer {
        let header = format!("Bearer {bearer}").parse().unwrap();
        request.metadata_mut().insert("authorization", header);
    }
    let answer = async {
        let mut answer = grpc
            .streaming(request, call.path.parse().unwrap(), RawCodec)
            .await?
            .into_inner();
        answer.message().await.map(Option::unwrap_or_default)
    };
    // A stream that was let in may stay silent.
    tokio::time::timeout(SILENCE, answer)
        .await
        .unwrap_or(Ok(Bytes::new()))
}

/// Asks as a client of the service does.
pub(super) async fn ask<Q: Message, A: Message + Default>(
    world: &World,
    token: &Token,
    service: &str,
    method: &str,
    message: Q,
) -> Result<A, Status> {
    let call = call(service, method, &message, Elsewhere::NotFound, Use::Write);
    Ok(A::decode(made(world, &call, token).await?).unwrap())
}

/// In which an answer comes; a stream that was let in is not waited for.
const SILENCE: Duration = Duration::from_secs(2);
