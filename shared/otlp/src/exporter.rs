//! The thread that makes spans and sends them to the collector. Repeats nothing: what the collector does not take is dropped.

use crate::collector::{Collector, answered};
use crate::limits::{BATCH_SPANS_MAX, BATCH_TIME, GATHER_TIME};
use crate::losses::Losses;
use crate::service::Service;
use crate::waiting::Waiting;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use std::io;
use std::sync::mpsc as std_mpsc;
use std::thread::JoinHandle;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout_at};
use tonic::transport::Channel;
use tracing::error;

/// What is sent, and to whom.
#[derive(Debug)]
pub(crate) struct Exporter {
    collector: Collector,
    service: Service,
    losses: Losses,
}

/// What comes to the thread.
struct Incoming {
    queue: mpsc::Receiver<Waiting>,
    /// `None` once it is asked for the end.
    stopped: Option<oneshot::Receiver<()>>,
}

impl Exporter {
    pub(crate) fn new(collector: Collector, service: Service, losses: Losses) -> Self {
        Self {
            collector,
            service,
            losses,
        }
    }

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
            .name("traces".to_owned())
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
                error!(problem, "traces cannot be exported");
                return;
            }
        };
        while let Some(batch) = incoming.batch(&self.losses).await {
            self.export(&channel, batch).await;
        }
    }

    /// Exports whole traces, in order. Those that a message has spans of which is not taken are dropped with all behind.
    async fn export(&self, channel: &Channel, traces: Vec<Vec<Span>>) {
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
            let message: Vec<Span> = spans.by_ref().take(BATCH_SPANS_MAX).collect();
            let n = message.len();
            if let Err(why) = self.send(channel, message).await {
                let n_whole = ends.iter().filter(|end| **end <= n_sent).count();
                self.losses.lost(ends.len() - n_whole, &why);
                return;
            }
            n_sent += n;
        }
    }

    async fn send(&self, channel: &Channel, spans: Vec<Span>) -> Result<(), String> {
        let request = self.collector.request(self.message(spans))?;
        let mut client = TraceServiceClient::new(channel.clone());
        match answered(client.export(request)).await?.partial_success {
            Some(partial) if partial.rejected_spans > 0 => Err(format!(
                "the collector rejected {} spans: {}",
                partial.rejected_spans, partial.error_message
            )),
            Some(_) | None => Ok(()),
        }
    }

    fn message(&self, spans: Vec<Span>) -> ExportTraceServiceRequest {
        ExportTraceServiceRequest {
            resource_spans: vec![ResourceSpans {
                resource: Some(self.service.resource()),
                scope_spans: vec![ScopeSpans {
                    scope: Some(self.service.scope()),
                    spans,
                    ..ScopeSpans::default()
                }],
                ..ResourceSpans::default()
            }],
        }
    }
}

impl Incoming {
    /// The spans of some traces: as many as fill a message, or as come within a second. `None` at the end.
    async fn batch(&mut self, losses: &Losses) -> Option<Vec<Vec<Span>>> {
        let mut n_spans = 0;
        let mut traces = Vec::new();
        let mut take = |waiting: Waiting| {
            let made = (waiting.spans)();
            // What they were made of is free; they are bounded by those who make them.
            drop(waiting.room);
            match made {
                Ok(spans) => {
                    n_spans += spans.len();
                    traces.push(spans);
                }
                Err(why) => losses.lost(1, &why),
            }
            n_spans < BATCH_SPANS_MAX
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
            tokio::select! {
                // What waits is taken before the end is looked at.
                biased;
                waiting = self.queue.recv() => return waiting,
                _ = stopped => {}
            }
            self.stopped = None;
            self.queue.close();
        }
        self.queue.recv().await
    }
}
