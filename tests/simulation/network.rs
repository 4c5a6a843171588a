//! Streams between workers and the orchestrator: ordered bytes in each direction, late, lost or cut.
//! Knows no message.

use crate::dice::Dice;
use escapement_engine::SessionKey;
use std::collections::{BTreeMap, VecDeque};

/// Numbers streams in the order of their opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StreamId(pub(crate) u64);

/// A stream of one process of one worker.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) seat: usize,
    pub(crate) process: u64,
    pub(crate) up: Pipe,
    pub(crate) down: Pipe,
    /// The worker has not seen its end.
    pub(crate) client_open: bool,
    pub(crate) server: Server,
}

/// Where the orchestrator stands with a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Server {
    /// Nothing has arrived.
    Unseen,
    /// The engine was told of it.
    Open(SessionKey),
    /// Whatever still comes is dropped.
    Over,
}

/// A direction.
#[derive(Debug, Default)]
pub(crate) struct Pipe {
    frames: VecDeque<(u64, Frame)>,
    last_at_ms: u64,
    stalled_until_ms: u64,
    /// Nothing passes any more.
    is_cut: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Frame {
    Bytes(Vec<u8>),
    /// The other side sends nothing more.
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Up,
    Down,
}

impl Pipe {
    pub(crate) fn send(&mut self, at_ms: u64, frame: Frame) {
        if !self.is_cut {
            self.last_at_ms = self.last_at_ms.max(at_ms);
            self.frames.push_back((self.last_at_ms, frame));
        }
    }

    pub(crate) fn next_at_ms(&self) -> Option<u64> {
        self.frames
            .front()
            .map(|(at_ms, _)| (*at_ms).max(self.stalled_until_ms))
    }

    pub(crate) fn receive(&mut self, now_ms: u64) -> Option<Frame> {
        self.next_at_ms().filter(|at_ms| *at_ms <= now_ms)?;
        self.frames.pop_front().map(|(_, frame)| frame)
    }

    /// What is in it and what will be comes no earlier.
    pub(crate) fn stall(&mut self, until_ms: u64) {
        self.stalled_until_ms = self.stalled_until_ms.max(until_ms);
    }

    pub(crate) fn flow_again(&mut self) {
        self.stalled_until_ms = 0;
    }

    /// Nothing new gets in; what is in transit is lost, or still arrives.
    pub(crate) fn cut(&mut self, lose: bool) {
        if lose {
            self.frames.clear();
        }
        self.is_cut = true;
    }

    /// The end of a stream that was cut becomes known to the reader after all that still arrives.
    pub(crate) fn end_after_cut(&mut self, at_ms: u64) {
        self.last_at_ms = self.last_at_ms.max(at_ms);
        self.frames.push_back((self.last_at_ms, Frame::End));
    }

    fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }
}

/// All streams that somebody still waits for.
#[derive(Debug, Default)]
pub(crate) struct Network {
    pub(crate) streams: BTreeMap<StreamId, Stream>,
    n_ever: u64,
}

impl Network {
    pub(crate) fn open(&mut self, seat: usize, process: u64) -> StreamId {
        self.n_ever += 1;
        let id = StreamId(self.n_ever);
        let stream = Stream {
            seat,
            process,
            up: Pipe::default(),
            down: Pipe::default(),
            client_open: true,
            server: Server::Unseen,
        };
        self.streams.insert(id, stream);
        id
    }

    pub(crate) fn of_session(&self, session: SessionKey) -> Option<StreamId> {
        let open = |(_, stream): &(&StreamId, &Stream)| stream.server == Server::Open(session);
        self.streams.iter().find(open).map(|(id, _)| *id)
    }

    /// Streams that a worker still believes in.
    pub(crate) fn live(&self) -> Vec<StreamId> {
        let open = self.streams.iter().filter(|(_, stream)| stream.client_open);
        open.map(|(id, _)| *id).collect()
    }

    /// A break: what is in transit is lost in the directions named, and each side learns of it, or does not.
    pub(crate) fn break_stream(&mut self, id: StreamId, now_ms: u64, dice: &mut Dice) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        let (lose_up, lose_down) = *dice.pick(&[
            (true, true),
            (true, true),
            (true, false),
            (false, true),
            (false, false),
        ]);
        let (client_learns, server_learns) = (dice.percent(85), dice.percent(80));
        stream.up.cut(lose_up);
        stream.down.cut(lose_down);
        if server_learns {
            let at_ms = now_ms + dice.roll(60);
            stream.up.end_after_cut(at_ms);
        }
        if client_learns {
            let at_ms = now_ms + dice.roll(60);
            stream.down.end_after_cut(at_ms);
        }
    }

    /// Drops what nobody waits for.
    pub(crate) fn tidy_up(&mut self) {
        self.streams.retain(|_, stream| {
            let client_done = !stream.client_open;
            let server_done = match stream.server {
                Server::Unseen => stream.up.is_empty(),
                Server::Open(_) => false,
                Server::Over => true,
            };
            !(client_done && server_done)
        });
    }
}
