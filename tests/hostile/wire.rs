//! A connection of somebody who writes what he likes and reads only if he likes. Keeps no rule of HTTP/2.

use crate::den::LIMIT;
use crate::frames::{PREFACE, SETTINGS, frame};
use escapement_tests::let_pass;
use escapement_tests::raw_session::RawSession;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

pub(crate) struct Wire {
    pub(crate) stream: TcpStream,
}

/// How far a flood came.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Flood {
    /// Everything was written.
    Sent,
    /// The other side closed the connection.
    Closed,
    /// The other side stopped reading.
    Stuck,
}

impl Wire {
    /// A connection on which nothing is said yet.
    pub(crate) async fn silent(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream }
    }

    /// A connection that has begun as it should.
    pub(crate) async fn open(address: SocketAddr) -> Self {
        Self::with_settings(address, &[]).await
    }

    pub(crate) async fn with_settings(address: SocketAddr, settings: &[u8]) -> Self {
        let mut wire = Self::silent(address).await;
        assert_eq!(wire.flood(PREFACE).await, Flood::Sent);
        assert_eq!(wire.flood(&frame(SETTINGS, 0, 0, settings)).await, Flood::Sent);
        wire
    }

    /// Writes as long as the other side takes it, and throws away what it says.
    pub(crate) async fn flood(&mut self, bytes: &[u8]) -> Flood {
        let (mut read, mut write) = self.stream.split();
        let mut said = [0; 16 << 10];
        let mut left = bytes;
        while !left.is_empty() {
            // Biased: what was said is thrown away first, or nobody would get on.
            tokio::select! {
                biased;
                read = read.read(&mut said) => match read {
                    Ok(0) | Err(_) => return Flood::Closed,
                    Ok(_) => {}
                },
                written = write.write(left) => match written {
                    Ok(n) => left = &left[n..],
                    Err(_) => return Flood::Closed,
                },
                () = let_pass(STUCK) => return Flood::Stuck,
            }
        }
        Flood::Sent
    }

    /// Writes as long as the other side takes it, and reads nothing.
    pub(crate) async fn flood_deaf(&mut self, bytes: &[u8]) -> Flood {
        match timeout(STUCK, self.stream.write_all(bytes)).await {
            Ok(Ok(())) => Flood::Sent,
            Ok(Err(_)) => Flood::Closed,
            Err(_) => Flood::Stuck,
        }
    }

    /// Waits until the other side closes the connection, within a limit.
    pub(crate) async fn expect_closed(&mut self, what: &str) {
        let mut said = [0; 16 << 10];
        let closed = async { while matches!(self.stream.read(&mut said).await, Ok(n) if n > 0) {} };
        timeout(LIMIT, closed)
            .await
            .unwrap_or_else(|_| panic!("{what}: the connection is still open"));
    }

    /// Everything that the other side says until it closes or says nothing for a while.
    pub(crate) async fn read_for(&mut self, silence: Duration) -> Vec<u8> {
        let mut all = Vec::new();
        let mut said = [0; 16 << 10];
        while let Ok(Ok(n)) = timeout(silence, self.stream.read(&mut said)).await {
            if n == 0 {
                break;
            }
            all.extend(&said[..n]);
        }
        all
    }
}

/// The gRPC status and its text with which a call is refused that has any headers and any body.
pub(crate) async fn status_of(
    address: SocketAddr,
    path: &str,
    headers: &[(&str, &str)],
    body: Vec<u8>,
) -> (i32, String) {
    let mut call = RawSession::open_with(address, path, headers).await.unwrap();
    // It may be refused before all of it is sent.
    let _refused = call.send_bytes(body.into()).await;
    let _refused = call.half_close();
    timeout(LIMIT, call.status())
        .await
        .expect("an answer within the limit")
        .expect("a refusal")
}

/// A field of a message with its tag, below 16, and its length.
pub(crate) fn nested(tag: u8, bytes: &[u8]) -> Vec<u8> {
    let mut field = vec![tag << 3 | 2];
    prost::encode_length_delimiter(bytes.len(), &mut field).unwrap();
    field.extend(bytes);
    field
}

/// A side that takes nothing for so long has stopped reading.
const STUCK: Duration = Duration::from_secs(1);
