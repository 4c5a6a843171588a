//! Gives the machine streams, a clock and handler tasks, on a thread of its own.
//!
//! The thread has its own current-thread runtime, so heartbeats do not depend on the runtime of the handlers
//! being free.
//! Async handlers run on the runtime of the caller of `Worker::run`, blocking ones on threads of their own.

mod connection;
mod tasks;
mod threads;

use crate::caller::Way;
use crate::capacity::WorkerHandle;
use crate::clock;
use crate::error::WorkerError;
use crate::event::SessionEvent;
use crate::machine::{Machine, OrchestratorId};
use crate::session::Command;
use crate::worker::{SessionCallback, Worker};
use connection::{Connection, Event, Next};
use escapement_credentials::Credentials;
use std::collections::BTreeMap;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tasks::HandlerTasks;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tracing::{debug, info, warn};

impl Worker {
    /// Runs until SIGTERM, SIGINT or SIGHUP, then drains and returns. See [`run_until`](Self::run_until).
    ///
    /// # Errors
    /// As [`run_until`](Self::run_until).
    pub async fn run(self) -> Result<(), WorkerError> {
        self.run_until(escapement_process::stop_signal()).await
    }

    /// Runs until `shutdown` resolves, then drains: takes no new work; finishes running handlers within the drain grace;
    /// abandons the rest; waits until every outcome is acknowledged; returns.
    ///
    /// Async handlers run on the runtime of the caller, blocking ones on threads of their own. The sessions run
    /// on one more thread, so that busy handlers do not delay heartbeats.
    /// While the orchestrator is away the worker keeps reconnecting without a limit.
    /// If the orchestrator names peers, the worker keeps a session with each of them as well; all sessions
    /// share one capacity.
    /// A blocking handler that ignores its cancellation outlives this call, and ends with the process.
    ///
    /// # Errors
    /// [`WorkerError::Superseded`] and [`WorkerError::Refused`] if the orchestrator ends the worker for
    /// good;
    /// [`WorkerError::DrainIncomplete`] if the last outcomes could not be delivered;
    /// [`WorkerError::SessionThread`] if the thread does not start.
    pub async fn run_until(self, shutdown: impl Future<Output = ()>) -> Result<(), WorkerError> {
        run(self, shutdown).await
    }
}

/// Runs a worker to its end. Dropping the future ends it without a drain.
async fn run(worker: Worker, shutdown: impl Future<Output = ()>) -> Result<(), WorkerError> {
    let handlers_runtime = Handle::current();
    let (stop_tx, stop_rx) = oneshot::channel();
    let (end_tx, mut end_rx) = oneshot::channel();
    std::thread::Builder::new()
        .name("escapement-session".to_owned())
        .spawn(move || {
            let end = run_on_this_thread(worker, handlers_runtime, stop_rx);
            // The receiver is gone if the caller has dropped the future.
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
    #[cfg(feature = "log")]
    escapement_process::flush();
    end
}

struct Shell {
    /// On the clock of leases and limits.
    started_at: Duration,
    credentials: Credentials,
    machine: Machine,
    tasks: HandlerTasks,
    connections: BTreeMap<OrchestratorId, Connection>,
    /// For handlers that call the orchestrators which gave their attempts.
    ways: BTreeMap<OrchestratorId, Arc<Way>>,
    /// Index of the connection that is polled first.
    turn: usize,
    on_session: SessionCallback,
    handle: WorkerHandle,
}

impl Shell {
    fn new(worker: Worker, handlers_runtime: Handle) -> Self {
        Self {
            started_at: clock::now(),
            machine: Machine::of(0, &worker),
            credentials: worker.credentials,
            tasks: HandlerTasks::new(handlers_runtime, worker.handlers, worker.on_attempt),
            connections: BTreeMap::new(),
            ways: BTreeMap::new(),
            turn: 0,
            on_session: worker.on_session,
            handle: worker.handle,
        }
    }

    async fn run(mut self, mut stop: oneshot::Receiver<()>) -> Result<(), WorkerError> {
        let mut stopping = false;
        let mut alarm = pin!(tokio::time::sleep(Duration::ZERO));
        // What the alarm is set for, and whether handler tasks ran then.
        let mut alarm_for = None;
        let mut overrides = self.handle.subscribe();
        // The first `Hello` already has the requests that the program made before it ran.
        let asked_before = overrides.borrow_and_update().clone();
        self.machine.handle_overrides(&asked_before);
        loop {
            self.machine.handle_timeout(self.now_ms());
            self.carry_out();
            self.handle
                .show_unacknowledged(self.machine.unacknowledged_outcomes());
            if let Some(end) = self.machine.poll_finished() {
                self.tasks.end().await;
                debug!(ignored_messages = self.machine.ignored_messages(), "worker ended");
                return end;
            }
            let wake_at_ms = self.machine.poll_timeout().unwrap_or(u64::MAX);
            let has_tasks = !self.tasks.is_empty();
            if alarm_for != Some((wake_at_ms, has_tasks)) {
                // The wish changes rarely, and a timer costs.
                // A timer does not run while the machine sleeps, so handler tasks need a check of the clock soon after it wakes up.
                let longest_ms = if has_tasks { LOOK_MS } else { SLEEP_MS_MAX };
                let sleep_ms = wake_at_ms.saturating_sub(self.now_ms()).min(longest_ms);
                alarm
                    .as_mut()
                    .reset(tokio::time::Instant::now() + Duration::from_millis(sleep_ms));
                alarm_for = Some((wake_at_ms, has_tasks));
            }
            let (machine, connections) = (&self.machine, &mut self.connections);
            self.turn = self.turn.wrapping_add(1);
            let next = next_of(connections, self.turn, |id| machine.wants_to_transmit(id));
            // Biased: rare and bounded events go first, so that a stream that always has a message
            // starves nothing.
            // The time is checked in every round, after any branch.
            tokio::select! {
                biased;
                asked = &mut stop, if !stopping => match asked {
                    Ok(()) => {
                        info!("worker stops");
                        stopping = true;
                        self.machine.handle_stop(self.now_ms());
                    }
                    Err(_) => {
                        debug!("the caller has dropped the worker");
                        self.tasks.end().await;
                        return Ok(());
                    }
                },
                // The handle lives as long as the shell, so there is always a sender.
                Ok(()) = overrides.changed() => {
                    let overrides = overrides.borrow_and_update().clone();
                    self.machine.handle_overrides(&overrides);
                }
                ended = self.tasks.next(), if has_tasks => {
                    let now_ms = self.now_ms();
                    let more = std::iter::from_fn(|| self.tasks.try_next()).take(ENDS_PER_ROUND_MAX);
                    for (token, end) in std::iter::once(ended).chain(more) {
                        self.machine.handle_ended(now_ms, token, end);
                    }
                }
                (id, next) = next => match next {
                    Next::Writable => {}
                    Next::Read(event) => self.read(id, event),
                },
                () = alarm.as_mut() => alarm_for = None,
            }
        }
    }

    fn read(&mut self, from: OrchestratorId, event: Event) {
        match event {
            Event::Opened => debug!(address = self.machine.address(from), "stream opened"),
            Event::Message(message) => self.machine.handle_message(self.now_ms(), from, *message),
            Event::Ended(reason) => self.disconnect(from, reason),
        }
    }

    /// Sends and does all that the machine wants. `started` is queued before the handler task starts, not after it.
    fn carry_out(&mut self) {
        loop {
            let now_ms = self.now_ms();
            for (id, connection) in &mut self.connections {
                let machine = &mut self.machine;
                while machine.wants_to_transmit(*id) && connection.send(|| machine.poll_transmit(now_ms, *id))
                {
                }
            }
            let Some((id, command)) = self.machine.poll_command() else {
                return;
            };
            match command {
                Command::Connect => {
                    self.ways.retain(|id, _| self.machine.address(*id).is_some());
                    // A session that ended at once no longer has an address.
                    if let Some(address) = self.machine.address(id) {
                        let way = || Arc::new(Way::new(address.to_owned(), self.credentials.clone()));
                        self.ways.entry(id).or_insert_with(way);
                        let connection = Connection::open(address, self.credentials.clone());
                        self.connections.insert(id, connection);
                    }
                }
                Command::EndRequests => {
                    if let Some(connection) = self.connections.get_mut(&id) {
                        connection.end_requests();
                    }
                }
                Command::Close { reason } => self.disconnect(id, reason),
                Command::Start(job) => {
                    let deadline = self.started_at + Duration::from_millis(job.deadline_at_ms);
                    let way = Arc::clone(self.ways.get(&id).expect("it has been connected"));
                    self.tasks.start(*job, deadline, way);
                }
                Command::Cancel(token) => self.tasks.cancel(token),
                Command::Abort(token) => self.tasks.abort(token),
                Command::Tell(event) => self.tell(&event),
            }
        }
    }

    fn disconnect(&mut self, from: OrchestratorId, reason: String) {
        self.connections.remove(&from);
        let random = getrandom::u64().unwrap_or_else(|_| u64::from(clock::now().subsec_nanos()));
        let now_ms = self.now_ms();
        self.machine.handle_disconnected(now_ms, from, random, reason);
    }

    fn tell(&self, event: &SessionEvent) {
        match event {
            SessionEvent::Connected {
                orchestrator,
                session_id,
                boot_id,
                refused_actions,
            } => {
                info!(%session_id, %boot_id, orchestrator, "session established");
                for (action, reason) in refused_actions {
                    warn!(action, reason, "action refused");
                }
            }
            SessionEvent::Disconnected {
                orchestrator,
                reason,
                left,
            } => {
                if *left {
                    info!(orchestrator, reason, "session ended");
                } else {
                    warn!(orchestrator, reason, "no session; the worker tries again");
                }
            }
            SessionEvent::Drained { orchestrator } => {
                warn!(
                    orchestrator,
                    "an operator drains this worker; it gets no new work"
                );
            }
            SessionEvent::Stuck {
                action,
                execution_id,
                step_id,
                aborted_for,
            } => {
                let aborted_for_ms = u64::try_from(aborted_for.as_millis()).unwrap_or(u64::MAX);
                warn!(
                    action,
                    execution_id,
                    step_id,
                    aborted_for_ms,
                    "a handler ignores its abortion and keeps its slot"
                );
            }
        }
        self.on_session.call(event);
    }

    /// Returns the milliseconds since the start, rounded down: an end of a lease that is counted from a sending never
    /// comes late.
    fn now_ms(&self) -> u64 {
        let elapsed = clock::now().saturating_sub(self.started_at);
        u64::try_from(elapsed.as_millis()).expect("a process does not run for ages")
    }
}

/// Returns the first connection that is ready for something, beginning with the one whose turn it is.
async fn next_of(
    connections: &mut BTreeMap<OrchestratorId, Connection>,
    turn: usize,
    wants_to_transmit: impl Fn(OrchestratorId) -> bool,
) -> (OrchestratorId, Next) {
    std::future::poll_fn(|cx| {
        let n_before = turn % connections.len().max(1);
        // Twice around: those before the turn come last, and only then.
        for skipped in [n_before, 0] {
            for (id, connection) in connections.iter_mut().skip(skipped) {
                if let Poll::Ready(next) = connection.poll_next(cx, wants_to_transmit(*id)) {
                    return Poll::Ready((*id, next));
                }
            }
            if n_before == 0 {
                break;
            }
        }
        Poll::Pending
    })
    .await
}

/// The longest sleep while handler tasks run.
const LOOK_MS: u64 = 100;
/// The longest sleep; the session may have nothing to wait for.
const SLEEP_MS_MAX: u64 = 60_000;
/// Ended handler tasks that are reported in one message, at most.
const ENDS_PER_ROUND_MAX: usize = 1024;
