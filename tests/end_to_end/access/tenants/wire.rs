//! Calls as bytes, so that one test makes them all.

use super::super::credentials::Token;
use crate::world::World;
use bytes::{Buf, BufMut, Bytes};
use prost::Message;
use std::time::Duration;
use tonic::Status;
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// Messages as they are encoded.
#[derive(Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put_slice(&message);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}

/// What a caller of another namespace is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Elsewhere {
    /// That it is not there.
    NotFound,
    /// An answer in which nothing of it is.
    Hidden,
    /// That its role does not permit the call anywhere.
    Refused,
}

/// Whether whoever reads the namespace of the things may make the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Read,
    Write,
    /// Reads payloads: not for who only reads, and for operators if the policy says so.
    Payloads,
    /// There is nothing to read for anybody, or it is another namespace that the call is about.
    Other,
}

pub(super) struct Call {
    pub(super) path: String,
    pub(super) message: Bytes,
    pub(super) elsewhere: Elsewhere,
    pub(super) kind: Use,
}

pub(super) fn call(
    service: &str,
    method: &str,
    message: &impl Message,
    elsewhere: Elsewhere,
    kind: Use,
) -> Call {
    Call {
        path: format!("/escapement.runs.v1.{service}/{method}"),
        message: message.encode_to_vec().into(),
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
    let mut grpc = Grpc::new(world.orchestrator.channel());
    grpc.ready().await.unwrap();
    let mut request = tonic::Request::new(tokio_stream::once(call.message.clone()));
    request
        .metadata_mut()
        .insert("authorization", format!("Bearer {bearer}").parse().unwrap());
    let answer = async {
        let mut answer = grpc
            .streaming(request, call.path.parse().unwrap(), Raw)
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
