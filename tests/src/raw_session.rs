//! A worker's session from below, for attacks: any bytes in any order, read or not. Keeps no rule of the protocol.

use std::future::poll_fn;
use std::net::SocketAddr;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use escapement_wire::worker::v1::session_request::Message;
use escapement_wire::worker::v1::session_response::Message as FromOrchestrator;
use escapement_wire::worker::v1::{SessionRequest, SessionResponse};
use h2::client::ResponseFuture;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, Request};
use prost::Message as _;
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tonic::Status;

use crate::Fault;

/// A call of `Session` over a connection of its own. On drop the connection is closed without a word.
///
/// What is not read with [`Self::next`] stays unread: the window of the stream, 64 KiB, is given back by reading alone.
#[derive(Debug)]
pub struct RawSession {
    send: SendStream<Bytes>,
    answer: Answer,
    received: BytesMut,
    last_seq: u64,
    connection: AbortHandle,
}

#[derive(Debug)]
enum Answer {
    Awaited(ResponseFuture),
    Body(RecvStream),
    /// The stream ended with these headers or trailers.
    Ended(HeaderMap),
}

impl RawSession {
    /// Makes the call and sends nothing on it yet.
    ///
    /// # Errors
    /// There is no connection, or it does not speak HTTP/2.
    pub async fn open(address: SocketAddr) -> Result<Self, Fault> {
        Self::open_with(address, PATH, &[]).await
    }

    /// The same to another path and with more headers.
    ///
    /// # Errors
    /// There is no connection, it does not speak HTTP/2, or a header is none.
    pub async fn open_with(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Result<Self, Fault> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (client, connection) = h2::client::handshake(stream).await?;
        let connection = tokio::spawn(async move {
            // How it ends shows at the stream.
            let _ = connection.await;
        })
        .abort_handle();
        let mut request = Request::post(format!("http://{address}{path}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut client = client.ready().await?;
        let (answer, send) = client.send_request(request.body(())?, false)?;
        Ok(Self {
            send,
            answer: Answer::Awaited(answer),
            received: BytesMut::new(),
            last_seq: 0,
            connection,
        })
    }

    /// Creates a session that was welcomed.
    ///
    /// # Errors
    /// There is no connection, or the first answer is no `Welcome`.
    pub async fn greeted(address: SocketAddr, hello: Message) -> Result<Self, Fault> {
        let mut session = Self::open(address).await?;
        session.send(hello).await?;
        let first = session.next().await?.and_then(|first| first.message);
        match first {
            Some(FromOrchestrator::Welcome(_)) => Ok(session),
            other => Err(format!("the first answer is no welcome: {other:?}").into()),
        }
    }

    /// Sends a message under the next number.
    ///
    /// # Errors
    /// The stream is over.
    pub async fn send(&mut self, message: Message) -> Result<(), Fault> {
        self.last_seq += 1;
        self.send_request(&SessionRequest {
            seq: self.last_seq,
            message: Some(message),
        })
        .await
    }

    /// Sends a message under its own number; the next one of [`Self::send`] follows on it.
    ///
    /// # Errors
    /// The stream is over.
    pub async fn send_request(&mut self, request: &SessionRequest) -> Result<(), Fault> {
        self.last_seq = request.seq;
        self.send_bytes(framed(&request.encode_to_vec())).await
    }

    /// Sends the same messages as often as asked, as fast as the other side takes them, under rising numbers.
    /// Gives how many were sent before the stream was over.
    pub async fn flood(&mut self, message: &Message, count: u64) -> u64 {
        let mut n_sent = 0;
        while n_sent < count {
            let n = FLOOD_CHUNK.min(count - n_sent);
            let mut chunk = BytesMut::new();
            for _ in 0..n {
                self.last_seq += 1;
                let request = SessionRequest {
                    seq: self.last_seq,
                    message: Some(message.clone()),
                };
                chunk.extend_from_slice(&framed(&request.encode_to_vec()));
            }
            if self.send_bytes(chunk.freeze()).await.is_err() {
                break;
            }
            n_sent += n;
        }
        n_sent
    }

    /// Sends any bytes as one gRPC message.
    ///
    /// # Errors
    /// The stream is over.
    pub async fn send_message(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        self.send_bytes(framed(bytes)).await
    }

    /// Sends any bytes with no frame around them: half messages, lengths that lie, noise.
    ///
    /// # Errors
    /// The stream is over.
    pub async fn send_bytes(&mut self, mut bytes: Bytes) -> Result<(), Fault> {
        while bytes.has_remaining() {
            self.send.reserve_capacity(bytes.len());
            let granted = poll_fn(|context| self.send.poll_capacity(context)).await;
            let n = granted.ok_or("the stream is over")??.min(bytes.len());
            self.send.send_data(bytes.split_to(n), false)?;
        }
        Ok(())
    }

    /// Ends its own side of the stream and may go on reading.
    ///
    /// # Errors
    /// The stream is over.
    pub fn half_close(&mut self) -> Result<(), Fault> {
        Ok(self.send.send_data(Bytes::new(), true)?)
    }

    /// Ends the stream with RST_STREAM; the connection stays.
    pub fn reset(&mut self) {
        self.send.send_reset(Reason::CANCEL);
    }

    /// Reads one message; `None` at the end of the stream.
    ///
    /// # Errors
    /// The stream or the connection broke, or what came is no message.
    pub async fn next(&mut self) -> Result<Option<SessionResponse>, Fault> {
        loop {
            if let Some(message) = self.take_message()? {
                return Ok(Some(message));
            }
            match &mut self.answer {
                Answer::Awaited(answer) => {
                    let (head, body) = answer.await?.into_parts();
                    let is_over = head.headers.contains_key(STATUS);
                    self.answer = if is_over {
                        Answer::Ended(head.headers)
                    } else {
                        Answer::Body(body)
                    };
                }
                Answer::Body(body) => {
                    if let Some(bytes) = body.data().await {
                        let bytes = bytes?;
                        body.flow_control().release_capacity(bytes.len())?;
                        self.received.extend_from_slice(&bytes);
                    } else {
                        let trailers = body.trailers().await?;
                        self.answer = Answer::Ended(trailers.unwrap_or_default());
                    }
                }
                Answer::Ended(_) => return Ok(None),
            }
        }
    }

    /// Reads to the end of the stream and gives its gRPC status: code and text.
    ///
    /// # Errors
    /// The stream or the connection broke before it.
    pub async fn status(&mut self) -> Result<(i32, String), Fault> {
        let trailers = self.trailers().await?;
        let text = |name| trailers.get(name).and_then(|value| value.to_str().ok());
        let code = text(STATUS).ok_or("the stream ended without a status")?.parse()?;
        Ok((code, text("grpc-message").unwrap_or_default().to_owned()))
    }

    /// Reads to the end of the stream and gives its gRPC status with all details.
    ///
    /// # Errors
    /// As [`Self::status`].
    pub async fn detailed_status(&mut self) -> Result<Status, Fault> {
        let status = Status::from_header_map(self.trailers().await?);
        Ok(status.ok_or("the stream ended without a status")?)
    }

    async fn trailers(&mut self) -> Result<&HeaderMap, Fault> {
        while self.next().await?.is_some() {}
        match &self.answer {
            Answer::Ended(trailers) => Ok(trailers),
            Answer::Awaited(_) | Answer::Body(_) => Err("the stream goes on".into()),
        }
    }

    fn take_message(&mut self) -> Result<Option<SessionResponse>, Fault> {
        if self.received.len() < FRAME_HEAD {
            return Ok(None);
        }
        let length = u32::from_be_bytes([
            self.received[1],
            self.received[2],
            self.received[3],
            self.received[4],
        ]);
        let end = FRAME_HEAD + length as usize;
        if self.received.len() < end {
            return Ok(None);
        }
        let mut frame = self.received.split_to(end);
        frame.advance(FRAME_HEAD);
        Ok(Some(SessionResponse::decode(frame.freeze())?))
    }
}

impl Drop for RawSession {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

/// Returns the bytes as one gRPC message, not compressed.
pub fn framed(bytes: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(FRAME_HEAD + bytes.len());
    frame.put_u8(0);
    frame.put_u32(u32::try_from(bytes.len()).expect("a test sends no 4 GiB at once"));
    frame.put_slice(bytes);
    frame.freeze()
}

const PATH: &str = "/escapement.worker.v1.WorkerService/Session";
const STATUS: &str = "grpc-status";
const FRAME_HEAD: usize = 5;
const FLOOD_CHUNK: u64 = 256;
