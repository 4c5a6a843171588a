//! The thread that makes spans, or takes records of the log, and sends them to the collector.
//! Repeats nothing: what the collector does not take is dropped.

use crate::collector::{Collector, answered};
use crate::limits::{BATCH_MAX, BATCH_TIME, GATHER_TIME, MESSAGE_BYTES_MAX};
use crate::losses::Losses;
use crate::message::{self, ExportRequest};
use crate::service::Service;
use crate::signal::Signal;
use crate::waiting::{Encoded, Waiting};
use std::io;
use std::iter::Peekable;
use std::sync::mpsc as std_mpsc;
use std::thread::JoinHandle;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout_at};
use tonic::transport::Channel;
use tracing::error;

/// What is sent, and to whom.
#[derive(Debug)]
pub(crate) struct Exporter {
    pub(crate) signal: Signal,
    pub(crate) collector: Collector,
    pub(crate) service: Service,
    pub(crate) losses: Losses,
}

/// What comes to the thread.
struct Incoming {
    queue: mpsc::Receiver<Waiting>,
    /// `None` once it is asked for the end.
    stopped: Option<oneshot::Receiver<()>>,
}

impl Exporter {
    /// Starts the thread. It ends when `stopped` asks for that and the queue is empty.
    pub(crate) fn spawn(
        self,
        queue: mpsc::Receiver<Waiting>,
        stopped: oneshot::Receiver<()>,
        flushed: std_mpsc::Sender<()>,
    ) -> io::Result<JoinHandle<()>> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let incoming = Incoming {
            queue,
            stopped: Some(stopped),
        };
        std::thread::Builder::new()
            .name(self.signal.as_str().to_owned())
            .spawn(move || {
                runtime.block_on(self.run(incoming));
                // Nobody waits if the process goes on without an end.
                let _nobody_waits = flushed.send(());
            })
    }

    async fn run(self, mut incoming: Incoming) {
        let channel = match self.collector.channel() {
            Ok(channel) => channel,
            Err(problem) => {
                // The files were there a moment ago.
                error!(problem, "{} cannot be exported", self.signal.as_str());
                return;
            }
        };
        while let Some(batch) = incoming.batch(&self.losses).await {
            self.export(&channel, batch).await;
        }
    }

    /// Exports whole traces, in order. Those that a message has spans of which is not taken are dropped with all behind.
    /// Records of the log stand for themselves: those alone are lost that are rejected.
    async fn export(&self, channel: &Channel, traces: Vec<Vec<Encoded>>) {
        // Where each of them ends among all spans.
        let ends: Vec<usize> = traces
            .iter()
            .scan(0, |end, spans| {
                *end += spans.len();
                Some(*end)
            })
            .collect();
        let mut spans = traces.into_iter().flatten().peekable();
        let mut n_sent = 0;
        while spans.peek().is_some() {
            let message = next_message(&mut spans);
            let n = message.len();
            match self.send(channel, message).await {
                Ok(None) => {}
                Ok(Some((n_rejected, why))) if self.signal == Signal::Logs => {
                    self.losses.lost(n_rejected.min(n), &why);
                }
                Ok(Some((_, why))) | Err(why) => {
                    let n_whole = ends.iter().filter(|end| **end <= n_sent).count();
                    self.losses.lost(ends.len() - n_whole, &why);
                    return;
                }
            }
            n_sent += n;
        }
    }

    /// Returns how many the collector rejected of a message that it took, and why; `None` if it rejected none.
    async fn send(
        &self,
        channel: &Channel,
        encoded: Vec<Encoded>,
    ) -> Result<Option<(usize, String)>, String> {
        let request = self
            .collector
            .request(ExportRequest::new(&self.service, encoded))?;
        let answer = answered(message::export(channel, self.signal, request)).await?;
        let rejected = answer.partial_success.and_then(|partial| {
            let n = usize::try_from(partial.rejected_spans).ok().filter(|n| *n > 0)?;
            Some((
                n,
                format!("the collector rejected {n}: {}", partial.error_message),
            ))
        });
        Ok(rejected)
    }
}

/// As many as fit into a message, and one at least.
fn next_message(all: &mut Peekable<impl Iterator<Item = Encoded>>) -> Vec<Encoded> {
    let (mut message, mut bytes) = (Vec::new(), 0);
    while let Some(encoded) = all.next_if(|next| {
        let fits = message.len() < BATCH_MAX && bytes + next.len() <= MESSAGE_BYTES_MAX;
        fits || message.is_empty()
    }) {
        bytes += encoded.len();
        message.push(encoded);
    }
    message
}

impl Incoming {
    /// Returns the spans of some traces: as many as fill a message, or as come within a second. `None` at the end.
    async fn batch(&mut self, losses: &Losses) -> Option<Vec<Vec<Encoded>>> {
        let mut n_spans = 0;
        let mut traces = Vec::new();
        let mut take = |waiting: Waiting| {
            let made = (waiting.make)();
            // What they were made of is free; they are bounded by those who make them.
            drop(waiting.room);
            match made {
                Ok(spans) => {
                    n_spans += spans.len();
                    traces.push(spans);
                }
                Err(why) => losses.lost(1, &why),
            }
            n_spans < BATCH_MAX
        };
        let mut has_room = take(self.next().await?);
        let full_at = Instant::now() + BATCH_TIME;
        while has_room {
            if self.queue.is_empty() {
                self.gather().await;
            }
            let Ok(Some(waiting)) = timeout_at(full_at, self.next()).await else {
                break;
            };
            has_room = take(waiting);
        }
        Some(traces)
    }

    /// Lets some traces come, unless the end is asked for: to wake this thread for each costs those who hand them in.
    async fn gather(&self) {
        if self.stopped.is_some() {
            sleep(GATHER_TIME).await;
        }
    }

    async fn next(&mut self) -> Option<Waiting> {
        if let Some(stopped) = &mut self.stopped {
            let ended = tokio::select! {
                // What waits is taken before the end is looked at.
                biased;
                waiting = self.queue.recv() => return waiting,
                ended = stopped => ended,
            };
            self.stopped = None;
            if ended.is_ok() {
                self.queue.close();
            }
        }
        self.queue.recv().await
    }
}

#[cfg(test)]
mod tests {
    use super::{BATCH_MAX, MESSAGE_BYTES_MAX, next_message};

    #[test]
    fn a_message_is_bounded_in_number_and_in_bytes_and_nothing_is_left_out() {
        let large = MESSAGE_BYTES_MAX + 1;
        let half = MESSAGE_BYTES_MAX / 2;
        let lengths = [1, large, half, half, 1].into_iter().chain([0; BATCH_MAX + 1]);
        let mut all = lengths.map(|length| vec![0; length]).peekable();
        let mut messages = Vec::new();
        while all.peek().is_some() {
            let lengths: Vec<usize> = next_message(&mut all).iter().map(Vec::len).collect();
            messages.push((lengths.len(), lengths.iter().sum::<usize>()));
        }
        let expected = [(1, 1), (1, large), (2, 2 * half), (BATCH_MAX, 1), (2, 0)];
        assert_eq!(messages, expected);
    }
}
