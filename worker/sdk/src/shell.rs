//! Gives the session a stream, a clock and bodies, on a thread of its own. Decides nothing about the
//! protocol.
//!
//! The thread has its own current-thread runtime, so heartbeats do not depend on the runtime of the handlers
//! being free.
//! The handlers run on the runtime of whoever called `Worker::run`.

mod bodies;
mod connection;

use crate::error::WorkerError;
use crate::session::{Command, Session};
use crate::worker::{SessionCallback, SessionEvent, Worker};
use bodies::Bodies;
use connection::{Connection, Event};
use std::io;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tracing::{debug, info, warn};

/// Runs a worker to its end. Dropping the future ends it without a drain.
pub(crate) async fn run(worker: Worker, shutdown: impl Future<Output = ()>) -> Result<(), WorkerError> {
    let handlers_runtime = Handle::current();
    let (stop_tx, stop_rx) = oneshot::channel();
    let (end_tx, mut end_rx) = oneshot::channel();
    std::thread::Builder::new()
        .name("escapement-session".to_owned())
        .spawn(move || {
            let end = run_on_this_thread(worker, handlers_runtime, stop_rx);
            // Nobody listens where the caller has dropped the future.
            let _ = end_tx.send(end);
        })
        .map_err(WorkerError::SessionThread)?;
    // Biased: an end that is there already needs no stop.
    let end = tokio::select! {
        biased;
        end = &mut end_rx => end,
        () = shutdown => {
            let _ = stop_tx.send(());
            end_rx.await
        }
    };
    end.unwrap_or_else(|_| Err(WorkerError::SessionThread(io::Error::other("it panicked"))))
}

fn run_on_this_thread(
    worker: Worker,
    handlers_runtime: Handle,
    stop: oneshot::Receiver<()>,
) -> Result<(), WorkerError> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(WorkerError::SessionThread)?;
    let end = runtime.block_on(Shell::new(worker, handlers_runtime).run(stop));
    // A name that is still being resolved must not hold up the end.
    runtime.shutdown_background();
    end
}

struct Shell {
    started_at: Instant,
    address: String,
    session: Session,
    bodies: Bodies,
    connection: Connection,
    on_session: SessionCallback,
}

impl Shell {
    fn new(worker: Worker, handlers_runtime: Handle) -> Self {
        let capacities = worker
            .handlers
            .iter()
            .map(|(name, handler)| (name.clone(), handler.action.capacity()))
            .collect();
        let drain_grace_ms = u64::try_from(worker.drain_grace.as_millis()).unwrap_or(u64::MAX);
        Self {
            started_at: Instant::now(),
            address: worker.address,
            session: Session::new(0, worker.hello, capacities, drain_grace_ms),
            bodies: Bodies::new(handlers_runtime, worker.handlers),
            connection: Connection::default(),
            on_session: worker.on_session,
        }
    }

    async fn run(mut self, mut stop: oneshot::Receiver<()>) -> Result<(), WorkerError> {
        let mut stopping = false;
        loop {
            self.session.handle_timeout(self.now_ms());
            self.carry_out();
            if let Some(end) = self.session.poll_finished() {
                self.bodies.end().await;
                debug!(ignored_messages = self.session.ignored_messages(), "worker ended");
                return end;
            }
            let sleep_ms = self.session.poll_timeout().map_or(SLEEP_MS_MAX, |wake_at_ms| {
                wake_at_ms.saturating_sub(self.now_ms()).min(SLEEP_MS_MAX)
            });
            let (writable, readable) = self.connection.halves();
            let wants_to_transmit = self.session.wants_to_transmit();
            // Biased: what is rare and bounded goes first, so that a stream that always has a message
            // starves nothing.
            // The time is looked at in every round, whichever branch was taken.
            tokio::select! {
                biased;
                asked = &mut stop, if !stopping => match asked {
                    Ok(()) => {
                        info!("worker stops");
                        stopping = true;
                        self.session.handle_stop(self.now_ms());
                    }
                    Err(_) => {
                        debug!("the caller has dropped the worker");
                        self.bodies.end().await;
                        return Ok(());
                    }
                },
                ended = self.bodies.next(), if !self.bodies.is_empty() => {
                    let now_ms = self.now_ms();
                    let more = std::iter::from_fn(|| self.bodies.try_next()).take(ENDS_PER_ROUND_MAX);
                    for (token, end) in ended.into_iter().chain(more) {
                        self.session.handle_ended(now_ms, token, end);
                    }
                }
                () = writable.ready(), if wants_to_transmit => {}
                event = readable.next() => self.handle(event),
                () = tokio::time::sleep(Duration::from_millis(sleep_ms)) => {}
            }
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Opened => debug!(address = %self.address, "stream opened"),
            Event::Message(message) => self.session.handle_message(self.now_ms(), *message),
            Event::Ended(reason) => self.disconnect(reason),
        }
    }

    /// Sends and does all that the session wants. `started` is queued before the body starts, not after it.
    fn carry_out(&mut self) {
        loop {
            let now_ms = self.now_ms();
            let (writable, _) = self.connection.halves();
            while self.session.wants_to_transmit() && writable.send(|| self.session.poll_transmit(now_ms)) {}
            let Some(command) = self.session.poll_command() else {
                return;
            };
            match command {
                Command::Connect => self.connection.open(&self.address),
                Command::EndRequests => self.connection.end_requests(),
                Command::Close { reason } => self.disconnect(reason),
                Command::Start(job) => {
                    let deadline = self.started_at + Duration::from_millis(job.deadline_at_ms);
                    self.bodies.start(*job, deadline);
                }
                Command::Cancel(token) => self.bodies.cancel(token),
                Command::Abort(token) => self.bodies.abort(token),
                Command::Tell(event) => self.tell(&event),
            }
        }
    }

    fn disconnect(&mut self, reason: String) {
        self.connection.close();
        let random = getrandom::u64().unwrap_or_else(|_| u64::from(self.started_at.elapsed().subsec_nanos()));
        self.session.handle_disconnected(self.now_ms(), random, reason);
    }

    fn tell(&self, event: &SessionEvent) {
        match event {
            SessionEvent::Connected {
                session_id,
                boot_id,
                refused_actions,
            } => {
                info!(%session_id, %boot_id, address = %self.address, "session established");
                for (action, reason) in refused_actions {
                    warn!(action, reason, "action refused");
                }
            }
            SessionEvent::Disconnected { reason } => warn!(reason, "no session"),
        }
        self.on_session.call(event);
    }

    /// Milliseconds since the start, rounded down: an end of a lease that is counted from a sending never
    /// comes late.
    fn now_ms(&self) -> u64 {
        u64::try_from(self.started_at.elapsed().as_millis()).expect("a process does not run for ages")
    }
}

/// The longest sleep; the session may have nothing to wait for.
const SLEEP_MS_MAX: u64 = 60_000;
/// Ended bodies that are reported in one message, at most.
const ENDS_PER_ROUND_MAX: usize = 1024;
