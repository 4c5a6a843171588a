//! Carries the bytes of one direction of one connection as it is told. Knows nothing of the other direction.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::{Buf, Bytes};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::{Flow, Orders};
use crate::session_wire::Tap;

/// Where bytes come from and where they go; each end may be closed alone.
pub(super) struct Ends {
    read: Option<OwnedReadHalf>,
    write: Option<OwnedWriteHalf>,
}

impl Ends {
    pub(super) fn new(read: OwnedReadHalf, write: OwnedWriteHalf) -> Self {
        let (read, write) = (Some(read), Some(write));
        Self { read, write }
    }
}

/// How a direction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The sender ended the stream, or the proxy was told to.
    Ended,
    /// A socket failed.
    Broken,
}

/// A direction.
pub(super) struct Pump {
    ends: Ends,
    orders: watch::Receiver<Orders>,
    /// Read and not written, with the time before which it must not arrive.
    queue: VecDeque<(Instant, Bytes)>,
    n_queued: usize,
    /// The sender ended the stream.
    at_end: bool,
    /// The next write must not come before.
    next_write: Instant,
    buffer: Vec<u8>,
    /// Reads along: what the target says as it comes, and what it is told as it leaves.
    tap: Option<Tap>,
}

/// What can happen next.
enum Next {
    Ordered,
    Gone,
    Read(std::io::Result<usize>),
    Written(std::io::Result<usize>),
    Due,
}

impl Pump {
    pub(super) fn new(ends: Ends, orders: watch::Receiver<Orders>, tap: Option<Tap>) -> Self {
        Self {
            ends,
            orders,
            queue: VecDeque::new(),
            n_queued: 0,
            at_end: false,
            next_write: Instant::now(),
            buffer: vec![0; BUFFER_BYTES],
            tap,
        }
    }

    /// Runs until nothing is left to do; `count` is told of the bytes that were forwarded.
    pub(super) async fn run(mut self, count: impl Fn(u64)) -> Ending {
        loop {
            let orders = *self.orders.borrow_and_update();
            if orders.reset {
                self.reset();
                return Ending::Ended;
            }
            if orders.stop_reading {
                // No end of the stream follows: the other side must not notice.
                self.ends.read = None;
            }
            if orders.stop_writing {
                self.ends.write = None;
            }
            if self.ends.write.is_none() || orders.flow == Flow::BlackHole {
                if !self.queue.is_empty() {
                    self.lose();
                }
                self.queue.clear();
                self.n_queued = 0;
            }
            let delivers = !matches!(orders.flow, Flow::BlackHole | Flow::Hold | Flow::Stall);
            if self.at_end && self.queue.is_empty() && delivers {
                // Dropping the write half tells the receiver.
                return Ending::Ended;
            }
            match self.next(orders.flow, delivers).await {
                Next::Ordered | Next::Due => {}
                Next::Gone => return Ending::Ended,
                Next::Read(Ok(0)) => self.at_end = true,
                Next::Read(Ok(n)) => self.keep(n, orders.flow),
                Next::Written(Ok(n)) => {
                    count(n as u64);
                    self.written(n, orders.flow);
                    // So that a piece leaves before the next one comes.
                    tokio::task::yield_now().await;
                }
                Next::Read(Err(_)) | Next::Written(Err(_)) if orders.stop_writing => self.at_end = true,
                Next::Read(Err(_)) | Next::Written(Err(_)) => {
                    self.reset();
                    return Ending::Broken;
                }
            }
        }
    }

    async fn next(&mut self, flow: Flow, delivers: bool) -> Next {
        let room = match flow {
            Flow::Stall => 0,
            Flow::Hold | Flow::Delay(_) => HELD_BYTES_MAX,
            _ => QUEUED_BYTES_MAX,
        };
        let may_read = self.ends.read.is_some() && !self.at_end && self.n_queued < room;
        let due = self.queue.front().map(|(due, _)| (*due).max(self.next_write));
        let now = Instant::now();
        let may_write = delivers && due.is_some_and(|due| due <= now);
        let wakes = due.filter(|due| delivers && *due > now);
        let piece = self
            .queue
            .front()
            .map_or(&[][..], |(_, bytes)| &bytes[..bytes.len().min(portion(flow))]);
        let Ends { read, write } = &mut self.ends;
        let buffer = &mut self.buffer;
        tokio::select! {
            // Orders come first, and writing before reading: what is queued is bounded.
            biased;
            changed = self.orders.changed() => if changed.is_ok() { Next::Ordered } else { Next::Gone },
            written = async { write.as_mut().expect("its condition").write(piece).await }, if may_write && write.is_some() =>
                Next::Written(written),
            n = async { read.as_mut().expect("its condition").read(buffer).await }, if may_read => Next::Read(n),
            _ = timeout_at(wakes.unwrap_or(now), std::future::pending::<()>()), if wakes.is_some() => Next::Due,
        }
    }

    fn keep(&mut self, n: usize, flow: Flow) {
        if let Some(tap) = self.tap.as_mut().filter(|tap| !tap.is_to_target()) {
            tap.take(&self.buffer[..n]);
        }
        if flow == Flow::BlackHole || self.ends.write.is_none() {
            self.lose();
            return;
        }
        let delay = match flow {
            Flow::Delay(delay) => delay,
            _ => Duration::ZERO,
        };
        let bytes = Bytes::copy_from_slice(&self.buffer[..n]);
        self.n_queued += n;
        self.queue.push_back((Instant::now() + delay, bytes));
    }

    fn written(&mut self, n: usize, flow: Flow) {
        self.n_queued -= n;
        if let Some((_, bytes)) = self.queue.front_mut() {
            if let Some(tap) = self.tap.as_mut().filter(|tap| tap.is_to_target()) {
                tap.take(&bytes[..n]);
            }
            bytes.advance(n);
            if bytes.is_empty() {
                self.queue.pop_front();
            }
        }
        if let Flow::Rate(per_second) = flow {
            let pause = Duration::from_secs(n as u64) / per_second.max(1);
            self.next_write = Instant::now() + pause;
        } else {
            self.next_write = Instant::now();
        }
    }

    /// Something is not forwarded: what follows it cannot be read any more, neither by the target nor beside it.
    fn lose(&mut self) {
        if let Some(tap) = self.tap.as_mut().filter(|tap| tap.is_to_target()) {
            tap.gap();
        }
    }

    /// Both sockets end with RST once the other direction is told as well.
    fn reset(&mut self) {
        if let Some(write) = self.ends.write.take() {
            let _ = write.as_ref().set_zero_linger();
            write.forget();
        }
        if let Some(read) = self.ends.read.take() {
            let _ = read.as_ref().set_zero_linger();
        }
    }
}

/// How much is written at a time.
fn portion(flow: Flow) -> usize {
    match flow {
        // Fifty times a second.
        Flow::Rate(per_second) => (per_second as usize / 50).max(1),
        Flow::Pieces(bytes) => bytes.max(1),
        _ => usize::MAX,
    }
}

const BUFFER_BYTES: usize = 16 << 10;
const QUEUED_BYTES_MAX: usize = 64 << 10;
const HELD_BYTES_MAX: usize = 64 << 20;
