//! Calls of `escapement.runs.v1` in its JSON form, by the descriptors that the programs were built with.
//! Knows no message and judges nothing.

use bytes::{Buf, BufMut};
use escapement_tests::documents;
use http::uri::PathAndQuery;
use prost::Message;
use prost_reflect::{DynamicMessage, MessageDescriptor, MethodDescriptor, SerializeOptions};
use serde::de::IntoDeserializer;
use serde_json::Value;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::Channel;
use tonic::{Code, Request, Status, Streaming};
use tonic_types::StatusExt;

/// A call that was refused, as callers read it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Refusal {
    pub(crate) code: Code,
    pub(crate) message: String,
    /// `ErrorInfo.reason`; empty if there is none.
    pub(crate) reason: String,
    /// `ErrorInfo.metadata`.
    pub(crate) metadata: Vec<(String, String)>,
    /// Path, code and sentence of each violation.
    pub(crate) violations: Vec<(String, String, String)>,
}

impl Refusal {
    fn of(status: &Status) -> Self {
        let details = status.get_error_details();
        let info = details.error_info();
        let mut metadata: Vec<_> =
            info.map_or_else(Vec::new, |info| info.metadata.clone().into_iter().collect());
        metadata.sort();
        let violations = details.bad_request().map(|request| &request.field_violations);
        Self {
            code: status.code(),
            message: status.message().to_owned(),
            reason: info.map_or_else(String::new, |info| info.reason.clone()),
            metadata,
            violations: violations
                .into_iter()
                .flatten()
                .map(|one| (one.field.clone(), one.reason.clone(), one.description.clone()))
                .collect(),
        }
    }

    /// The code and the reason.
    pub(crate) fn is(&self) -> (Code, &str) {
        (self.code, &self.reason)
    }

    /// The path and the code of each violation.
    pub(crate) fn paths(&self) -> Vec<(&str, &str)> {
        let violations = self.violations.iter();
        violations
            .map(|(path, code, _)| (path.as_str(), code.as_str()))
            .collect()
    }

    /// Everything that it says, in one text.
    pub(crate) fn text(&self) -> String {
        format!("{self:?}")
    }
}

/// Calls a method, for example `RunService/GetRun`.
pub(crate) async fn call(channel: Channel, method: &str, request: &Value) -> Result<Value, Refusal> {
    let method = method_of(method);
    let mut grpc = tonic::client::Grpc::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX);
    ready(&mut grpc).await?;
    let request = Request::new(message(&method.input(), request));
    let answer = grpc
        .unary(request, path(&method), AnyCodec(method.output()))
        .await;
    Ok(json(&answer.map_err(|status| Refusal::of(&status))?.into_inner()))
}

/// Calls a method that answers with a stream.
pub(crate) async fn stream(channel: Channel, method: &str, request: &Value) -> Result<Answers, Refusal> {
    let method = method_of(method);
    let mut grpc = tonic::client::Grpc::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX);
    ready(&mut grpc).await?;
    let request = Request::new(message(&method.input(), request));
    let answers = grpc
        .server_streaming(request, path(&method), AnyCodec(method.output()))
        .await;
    Ok(Answers(
        answers.map_err(|status| Refusal::of(&status))?.into_inner(),
    ))
}

/// Sends a message to a method and looks at nothing but whether it is refused; of a stream at its first answer.
pub(crate) async fn send(
    channel: Channel,
    method: &MethodDescriptor,
    request: DynamicMessage,
) -> Result<(), Refusal> {
    send_bytes(channel, method, &request.encode_to_vec()).await
}

/// The same with any bytes.
pub(crate) async fn send_bytes(
    channel: Channel,
    method: &MethodDescriptor,
    request: &[u8],
) -> Result<(), Refusal> {
    let mut grpc = tonic::client::Grpc::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX);
    ready(&mut grpc).await?;
    let request = Request::new(request.to_vec());
    let codec = BytesCodec(AnyCodec(method.output()));
    let refused = |status: Status| Refusal::of(&status);
    if !method.is_server_streaming() {
        return grpc
            .unary(request, path(method), codec)
            .await
            .map(drop)
            .map_err(refused);
    }
    let answers = grpc
        .server_streaming(request, path(method), codec)
        .await
        .map_err(refused)?;
    let mut answers = answers.into_inner();
    match tokio::time::timeout(FIRST_ANSWER, answers.message()).await {
        Ok(answer) => answer.map(drop).map_err(refused),
        // A stream with nothing to tell.
        Err(_) => Ok(()),
    }
}

/// The answers of a stream.
pub(crate) struct Answers(Streaming<DynamicMessage>);

impl Answers {
    /// The next answer; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Value>, Refusal> {
        let answer = self.0.message().await.map_err(|status| Refusal::of(&status))?;
        Ok(answer.map(|answer| json(&answer)))
    }
}

async fn ready(grpc: &mut tonic::client::Grpc<Channel>) -> Result<(), Refusal> {
    let broken = |fault: tonic::transport::Error| Refusal::of(&Status::unavailable(fault.to_string()));
    grpc.ready().await.map_err(broken)
}

fn method_of(name: &str) -> MethodDescriptor {
    let (service, method) = name.split_once('/').expect("a service and a method");
    let service = documents::descriptors()
        .get_service_by_name(&format!("escapement.runs.v1.{service}"))
        .unwrap_or_else(|| panic!("there is no service {service}"));
    let found = service.methods().find(|one| one.name() == method);
    found.unwrap_or_else(|| panic!("there is no method {name}"))
}

fn path(method: &MethodDescriptor) -> PathAndQuery {
    let path = format!("/{}/{}", method.parent_service().full_name(), method.name());
    path.parse().expect("names make a path")
}

fn message(descriptor: &MessageDescriptor, request: &Value) -> DynamicMessage {
    DynamicMessage::deserialize(descriptor.clone(), request.clone().into_deserializer())
        .unwrap_or_else(|fault| panic!("{fault} in {}: {request}", descriptor.full_name()))
}

fn json(answer: &DynamicMessage) -> Value {
    let options = SerializeOptions::new()
        .use_proto_field_name(true)
        .skip_default_fields(false)
        .stringify_64_bit_integers(false);
    answer
        .serialize_with_options(serde_json::value::Serializer, &options)
        .expect("every message of the APIs has a JSON form")
}

/// Messages of one type in both directions.
#[derive(Clone, Debug)]
struct AnyCodec(MessageDescriptor);

impl Codec for AnyCodec {
    type Encode = DynamicMessage;
    type Decode = DynamicMessage;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        self.clone()
    }

    fn decoder(&mut self) -> Self {
        self.clone()
    }
}

impl Encoder for AnyCodec {
    type Item = DynamicMessage;
    type Error = Status;

    fn encode(&mut self, item: DynamicMessage, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(item.encode_to_vec().as_slice());
        Ok(())
    }
}

impl Decoder for AnyCodec {
    type Item = DynamicMessage;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<DynamicMessage>, Status> {
        let bytes = buffer.copy_to_bytes(buffer.remaining());
        let decoded = DynamicMessage::decode(self.0.clone(), bytes);
        decoded
            .map(Some)
            .map_err(|fault| Status::internal(fault.to_string()))
    }
}

/// Requests that are bytes already.
#[derive(Clone, Debug)]
struct BytesCodec(AnyCodec);

impl Codec for BytesCodec {
    type Encode = Vec<u8>;
    type Decode = DynamicMessage;
    type Encoder = Self;
    type Decoder = AnyCodec;

    fn encoder(&mut self) -> Self {
        self.clone()
    }

    fn decoder(&mut self) -> AnyCodec {
        self.0.clone()
    }
}

impl Encoder for BytesCodec {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(item.as_slice());
        Ok(())
    }
}

/// How long a stream may take to its first answer.
const FIRST_ANSWER: std::time::Duration = std::time::Duration::from_millis(200);
/// Larger than any answer.
const ANSWER_BYTES_MAX: usize = 64 << 20;
