//! What worker sessions said on the wire, told by HTTP/2 frames that passed a proxy, and whether a session journal says the same.
//! Uses the generated messages and nothing else of the product; keeps no payload.
//!
//! Only streams that begin with `Hello` and `Welcome` are sessions; of other calls nothing is kept.
//! Behind a gap in what was forwarded nothing is read any more, since frames cannot be told apart there.

mod compare;
mod frames;
mod words;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use escapement_wire::worker::v1::{SessionRequest, SessionResponse};
use prost::Message;

use crate::session_journal::{FromWorker, ToWorker};
use frames::{Frames, Passed};

pub use compare::{Compared, compare};
pub use words::{from_worker, to_worker};

/// What a proxy saw of all its connections. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct SessionRecording(Arc<Mutex<Vec<Arc<Mutex<Connection>>>>>);

/// A session on the wire.
#[derive(Clone, Debug, Default)]
pub struct SessionOnWire {
    /// What the worker said and was forwarded, with its number.
    pub from_worker: Vec<(u64, FromWorker)>,
    /// What the orchestrator said, with its number, whether or not it was forwarded.
    pub to_worker: Vec<(u64, ToWorker)>,
    /// The orchestrator ended the stream in order, so all that it had to say was seen.
    pub is_ended: bool,
}

impl SessionRecording {
    /// Returns every stream that both sides spoke a session on.
    pub fn sessions(&self) -> Vec<SessionOnWire> {
        let connections = self.0.lock().expect("nobody panics while holding it").clone();
        let streams = connections.iter().flat_map(|connection| {
            let connection = connection.lock().expect("nobody panics while holding it");
            connection.streams.values().cloned().collect::<Vec<_>>()
        });
        let spoken = |stream: &SessionOnWire| {
            matches!(stream.from_worker.first(), Some((_, FromWorker::Hello(_))))
                && matches!(stream.to_worker.first(), Some((_, ToWorker::Welcome { .. })))
        };
        streams.filter(spoken).collect()
    }

    pub(crate) fn connection(&self) -> [Tap; 2] {
        let connection = Arc::new(Mutex::new(Connection::default()));
        let mut all = self.0.lock().expect("nobody panics while holding it");
        all.push(Arc::clone(&connection));
        [Tap::new(&connection, true), Tap::new(&connection, false)]
    }
}

#[derive(Debug, Default)]
struct Connection {
    streams: BTreeMap<u32, SessionOnWire>,
}

/// Where the bytes of one direction of one connection are handed in.
#[derive(Debug)]
pub(crate) struct Tap {
    connection: Arc<Mutex<Connection>>,
    is_to_target: bool,
    frames: Option<Frames>,
}

impl Tap {
    fn new(connection: &Arc<Mutex<Connection>>, is_to_target: bool) -> Self {
        Self {
            connection: Arc::clone(connection),
            is_to_target,
            frames: Some(Frames::new(is_to_target)),
        }
    }

    /// Returns true for the direction from workers.
    pub(crate) fn is_to_target(&self) -> bool {
        self.is_to_target
    }

    /// The next bytes.
    pub(crate) fn take(&mut self, bytes: &[u8]) {
        let Some(frames) = &mut self.frames else { return };
        let passed = frames.take(bytes);
        if passed.is_empty() {
            return;
        }
        let mut connection = self.connection.lock().expect("nobody panics while holding it");
        for passed in passed {
            match passed {
                Passed::Message(stream, bytes) => connection.note(self.is_to_target, stream, &bytes),
                Passed::End(stream) if !self.is_to_target => {
                    if let Some(session) = connection.streams.get_mut(&stream) {
                        session.is_ended = true;
                    }
                }
                Passed::End(_) => {}
            }
        }
    }

    /// Bytes are missing from here on.
    pub(crate) fn gap(&mut self) {
        self.frames = None;
    }
}

impl Connection {
    /// Keeps a message where its stream is, or begins as, a session.
    fn note(&mut self, is_to_target: bool, stream: u32, bytes: &[u8]) {
        if is_to_target {
            let request = SessionRequest::decode(bytes).unwrap_or_default();
            if let Some(said) = from_worker(&request)
                && (self.streams.contains_key(&stream) || matches!(said, FromWorker::Hello(_)))
            {
                let session = self.streams.entry(stream).or_default();
                session.from_worker.push((request.seq, said));
            }
        } else if let Some(session) = self.streams.get_mut(&stream)
            && let Ok(response) = SessionResponse::decode(bytes)
            && let Some(told) = to_worker(&response)
        {
            session.to_worker.push((response.seq, told));
        }
    }
}

#[cfg(test)]
mod tests;
