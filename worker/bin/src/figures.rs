//! What the worker counts of itself, for Prometheus, and whether it is ready. Tells of its actions by name, and of nothing that
//! came with a plan.

use escapement_figures::{Answers, Endpoint, Process, Push, open_metrics};
use escapement_otlp::{Export, Signal};
use escapement_sdk::{AttemptEnd, AttemptEvent, SessionEvent, WorkerHandle};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// The figures of a worker. Cheap to clone: the clones count together.
#[derive(Clone)]
pub struct Figures(Arc<Inner>);

struct Inner {
    registry: Registry,
    families: Families,
    /// What exports the spans of handlers and the log.
    exported: Vec<Export>,
    /// Orchestrators that have taken the worker, and whether they drain it.
    connected: Mutex<BTreeSet<(String, bool)>>,
    /// Once the worker is built.
    worker: OnceLock<WorkerHandle>,
}

struct Families {
    slots: Gauge,
    in_flight: Family<OfAction, Gauge>,
    attempts: Family<OfEnd, Counter>,
    handler: Family<OfAction, Histogram, Buckets>,
    sessions: Gauge,
    disconnects: Counter,
    dropped: Family<OfSignal, Counter>,
    unacknowledged: Gauge,
    build: Family<OfAction, Gauge>,
}

impl Default for Families {
    fn default() -> Self {
        Self {
            slots: Gauge::default(),
            in_flight: Family::default(),
            attempts: Family::default(),
            handler: Family::new_with_constructor(Buckets),
            sessions: Gauge::default(),
            disconnects: Counter::default(),
            dropped: Family::default(),
            unacknowledged: Gauge::default(),
            build: Family::default(),
        }
    }
}

impl Families {
    /// The library adds `_total` to counters and a full stop to the help.
    fn register(&self, registry: &mut Registry) {
        registry.register(
            "slots",
            "Handlers that may run at a time, those of actions that wait not counted",
            self.slots.clone(),
        );
        registry.register("attempts_in_flight", "Handlers that run", self.in_flight.clone());
        registry.register(
            "attempts",
            "Handlers that ended: success, failure, or cancelled, after which nobody wants what they ended with",
            self.attempts.clone(),
        );
        registry.register(
            "handler_seconds",
            "From the beginning of a handler to its end",
            self.handler.clone(),
        );
        registry.register(
            "sessions",
            "Orchestrators that have taken the worker",
            self.sessions.clone(),
        );
        registry.register(
            "disconnects",
            "Sessions that were lost, and tries to have one that failed",
            self.disconnects.clone(),
        );
        registry.register(
            "telemetry_dropped",
            "What was to be exported and was not: spans of handlers, counted by handler, and lines of the log",
            self.dropped.clone(),
        );
        registry.register(
            "unacknowledged_outcomes",
            "Outcomes of handlers that wait for the word of an orchestrator that it has them",
            self.unacknowledged.clone(),
        );
        registry.register(
            "build_info",
            "1, with the version of the program",
            self.build.clone(),
        );
    }
}

type OfAction = [(&'static str, String); 1];
type OfSignal = [(&'static str, &'static str); 1];
type OfEnd = [(&'static str, String); 2];

#[derive(Clone)]
struct Buckets;

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(BUCKETS.iter().copied())
    }
}

impl fmt::Debug for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Figures").finish_non_exhaustive()
    }
}

impl Figures {
    /// Figures at 0 of a worker that offers these actions and does so many attempts at a time.
    pub fn new<'a>(
        actions: impl IntoIterator<Item = &'a str>,
        max_in_flight: u32,
        exported: Vec<Export>,
    ) -> Self {
        let (mut registry, families) = (Registry::default(), Families::default());
        families.register(registry.sub_registry_with_prefix("escapement_worker"));
        registry.register_collector(Box::new(Process));
        families.slots.set(max_in_flight.into());
        for signal in [Signal::Traces, Signal::Logs] {
            drop(families.dropped.get_or_create(&of_signal(signal)));
        }
        let build = [("version", env!("CARGO_PKG_VERSION").to_owned())];
        families.build.get_or_create(&build).set(1);
        for action in actions {
            drop(families.in_flight.get_or_create(&of_action(action)));
            drop(families.handler.get_or_create(&of_action(action)));
            for end in [AttemptEnd::Success, AttemptEnd::Failure, AttemptEnd::Cancelled] {
                drop(families.attempts.get_or_create(&of_end(action, end)));
            }
        }
        Self(Arc::new(Inner {
            registry,
            families,
            exported,
            connected: Mutex::default(),
            worker: OnceLock::new(),
        }))
    }

    /// Serves and pushes them, as is wanted, on a thread of their own until the process ends.
    ///
    /// # Errors
    /// The address cannot be had, or the operating system gives no thread.
    pub fn serve(&self, address: Option<SocketAddr>, push: Option<Push>) -> std::io::Result<()> {
        let endpoint = address.map(Endpoint::take).transpose()?;
        escapement_figures::serve(endpoint, push, self.clone())
    }

    /// The worker that they are of. The first one counts.
    pub fn watch(&self, worker: WorkerHandle) {
        let _there_is_one = self.0.worker.set(worker);
    }

    /// Counts what becomes of an attempt.
    pub fn attempt(&self, event: AttemptEvent<'_>) {
        match event {
            AttemptEvent::Started { action, .. } => {
                self.0.families.in_flight.get_or_create(&of_action(action)).inc();
            }
            AttemptEvent::Ended {
                action, end, took, ..
            } => {
                self.0.families.in_flight.get_or_create(&of_action(action)).dec();
                self.0.families.attempts.get_or_create(&of_end(action, end)).inc();
                let handler = self.0.families.handler.get_or_create(&of_action(action));
                handler.observe(took.as_secs_f64());
            }
            _ => {}
        }
    }

    /// Counts what happens to a session.
    pub fn session(&self, event: &SessionEvent) {
        let mut connected = self.connected();
        match event {
            SessionEvent::Connected { orchestrator, .. } => {
                connected.retain(|(other, _)| other != orchestrator);
                connected.insert((orchestrator.clone(), false));
            }
            SessionEvent::Disconnected {
                orchestrator, left, ..
            } => {
                connected.retain(|(other, _)| other != orchestrator);
                self.0.families.disconnects.inc_by(u64::from(!left));
            }
            SessionEvent::Drained { orchestrator, .. } => {
                connected.retain(|(other, _)| other != orchestrator);
                connected.insert((orchestrator.clone(), true));
            }
            _ => {}
        }
        self.0
            .families
            .sessions
            .set(i64::try_from(connected.len()).unwrap_or(i64::MAX));
    }

    fn connected(&self) -> MutexGuard<'_, BTreeSet<(String, bool)>> {
        self.0.connected.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Answers for Figures {
    async fn figures(&self) -> String {
        for export in &self.0.exported {
            let dropped = self
                .0
                .families
                .dropped
                .get_or_create_owned(&of_signal(export.signal()));
            dropped.inc_by(export.dropped().saturating_sub(dropped.get()));
        }
        let unacknowledged = self
            .0
            .worker
            .get()
            .map_or(0, WorkerHandle::unacknowledged_outcomes);
        let unacknowledged = i64::try_from(unacknowledged).unwrap_or(i64::MAX);
        self.0.families.unacknowledged.set(unacknowledged);
        open_metrics(&self.0.registry)
    }

    /// What answers lives: the sessions have a thread of their own, and their orchestrators see whether it does.
    async fn unlive(&self) -> Option<&'static str> {
        None
    }

    async fn unready(&self) -> Option<&'static str> {
        let connected = self.connected();
        match connected.iter().any(|(_, is_drained)| !is_drained) {
            true => None,
            false if connected.is_empty() => Some("no session\n"),
            false => Some("drained\n"),
        }
    }
}

fn of_action(action: &str) -> OfAction {
    [("action", action.to_owned())]
}

fn of_signal(signal: Signal) -> OfSignal {
    [("signal", signal.as_str())]
}

fn of_end(action: &str, end: AttemptEnd) -> OfEnd {
    let outcome = match end {
        AttemptEnd::Success => "success",
        AttemptEnd::Cancelled => "cancelled",
        _ => "failure",
    };
    [("action", action.to_owned()), ("outcome", outcome.to_owned())]
}

/// Limits in seconds, those of the durations of attempts in the orchestrator.
const BUCKETS: [f64; 17] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0,
];
