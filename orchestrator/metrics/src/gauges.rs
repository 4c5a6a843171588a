//! What stands now: asked for at each scrape, and shown once.

use crate::catalogue::{self, Entry};
use crate::figures::Metrics;
use crate::kinds::{Gauges, signed};
use crate::label::Value;
use escapement_engine::{ActionView, SessionState, WorkerView};
use escapement_otlp::{Export, Signal};
use escapement_process::files;
use escapement_process::unix_ms;
use escapement_sinks::DeliveryFigures;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

/// What the orchestrator has now.
#[derive(Clone, Debug)]
pub struct Look {
    /// Sessions of workers.
    pub workers: Vec<WorkerView>,
    /// Actions that it knows.
    pub actions: Vec<ActionView>,
    /// Messages that wait for the engine, by the name of their lane.
    pub lanes: Vec<(&'static str, usize)>,
    /// What exports traces and the log.
    pub exported: Vec<Export>,
    /// How many milliseconds ago the keys came that are believed, by issuer of tokens; `None` if there are none.
    pub keys_ages_ms: Vec<(String, Option<u64>)>,
    /// What becomes of events.
    pub sinks: DeliveryFigures,
    /// Time at which the certificate of the orchestrator ends, in seconds since 1970; `None` without TLS.
    pub certificate_end_seconds: Option<u64>,
}

/// Where looks come from.
pub trait Source: Debug + Send + Sync + 'static {
    /// Asks for a look. `None` if the engine has ended.
    fn look(&self) -> Pin<Box<dyn Future<Output = Option<Look>> + Send + '_>>;

    /// Asks the engine for anything. False if it has ended.
    fn turns(&self) -> Pin<Box<dyn Future<Output = bool> + Send + '_>>;
}

impl Metrics {
    /// Sets the figures of what stands now.
    pub(crate) fn show(&self, look: &Look) {
        let families = &self.0.families;
        for (lane, depth) in &look.lanes {
            set(
                &families.engine_lane_depth,
                &catalogue::ENGINE_LANE_DEPTH,
                lane,
                *depth,
            );
        }
        let end = look.certificate_end_seconds.unwrap_or_default();
        families.tls_certificate_expiry.set(signed(end));
        for signal in [Signal::Traces, Signal::Logs] {
            let dropped = catalogue::TELEMETRY_DROPPED.with([signal.as_str()]);
            let dropped = families.telemetry_dropped.get_or_create(&dropped);
            let export = look.exported.iter().find(|export| export.signal() == signal);
            // One scrape at a time comes here.
            dropped.inc_by(export.map_or(0, Export::dropped).saturating_sub(dropped.get()));
        }
        self.show_keys(&look.keys_ages_ms);
        self.show_sinks(&look.sinks);
        self.show_workers(&look.workers);
        self.show_actions(&look.actions);
    }

    /// Sets the figures of the files of the stores, which lie in this directory.
    pub(crate) fn show_files(&self, directory: &Path) {
        let families = &self.0.families;
        for (label, file) in FILES {
            let size = std::fs::metadata(directory.join(file)).map_or(0, |metadata| metadata.len());
            set(
                &families.store_file_bytes,
                &catalogue::STORE_FILE_BYTES,
                label,
                size,
            );
        }
        if let Some(free) = files::free_bytes(directory) {
            families.store_free_bytes.set(signed(free));
        }
    }

    fn show_sinks(&self, sinks: &DeliveryFigures) {
        let families = &self.0.families;
        for (queue, bytes) in sinks.queue_bytes() {
            set(
                &families.event_queue_bytes,
                &catalogue::EVENT_QUEUE_BYTES,
                queue,
                bytes,
            );
        }
        families.event_feed_lag.clear();
        families.event_feed_lag_seconds.clear();
        for sink in sinks.look() {
            let name = self.0.sinks.label(&sink.name);
            for (outcome, count) in [
                ("delivered", sink.delivered),
                ("refused", sink.refused),
                ("given_up", sink.given_up),
                ("dropped", sink.dropped),
            ] {
                let labels = [Value::from(Arc::clone(&name)), outcome.into()];
                let counter = families.events.get_or_create(&catalogue::EVENTS.with(labels));
                // One scrape at a time comes here.
                counter.inc_by(count.saturating_sub(counter.get()));
            }
            let labels = catalogue::EVENT_FEED_LAG.with([Arc::clone(&name)]);
            let lag = families.event_feed_lag.get_or_create(&labels);
            lag.set(signed(sink.lag_events));
            let labels = catalogue::EVENT_FEED_LAG_SECONDS.with([name]);
            let lag = families.event_feed_lag_seconds.get_or_create(&labels);
            lag.set(signed(sink.lag_ms / 1_000));
        }
    }

    /// Of issuers that share a label, the one that answered longest ago.
    fn show_keys(&self, ages_ms: &[(String, Option<u64>)]) {
        let families = &self.0.families;
        families.jwks_last_success.clear();
        let mut shown: BTreeMap<Arc<str>, i64> = BTreeMap::new();
        for (issuer, age_ms) in ages_ms {
            let came = age_ms.map_or(0, |age_ms| (unix_ms() - signed(age_ms)) / 1_000);
            // The library writes labels as they are.
            let name = issuer.replace(['"', '\\', '\n'], "_");
            let oldest = shown.entry(self.0.issuers.label(&name)).or_insert(came);
            *oldest = came.min(*oldest);
        }
        for (issuer, came) in shown {
            let labels = catalogue::JWKS_LAST_SUCCESS.with([issuer]);
            families.jwks_last_success.get_or_create(&labels).set(came);
        }
    }

    fn show_workers(&self, workers: &[WorkerView]) {
        let families = &self.0.families;
        for (state, name) in [
            (SessionState::Active, "active"),
            (SessionState::Suspect, "suspect"),
            (SessionState::Draining, "draining"),
        ] {
            let count = workers.iter().filter(|worker| worker.state == state).count();
            set(
                &families.worker_sessions,
                &catalogue::WORKER_SESSIONS,
                name,
                count,
            );
        }
        let stuck = workers.iter().filter(|worker| worker.stopping_age_ms >= STUCK_MS);
        let stuck: u64 = stuck.map(|worker| u64::from(worker.stopping)).sum();
        families.stuck_handlers.set(signed(stuck));
    }

    /// Actions that share a label are added together; what is not there any more is not shown any more.
    fn show_actions(&self, actions: &[ActionView]) {
        let families = &self.0.families;
        let mut shown: BTreeMap<Arc<str>, OfAction> = BTreeMap::new();
        for action in actions {
            let figures = shown.entry(self.0.actions.label(&action.name)).or_default();
            figures.add(action);
        }
        let all: [(&Gauges, &Entry, Figure); 7] = [
            (&families.steps_waiting, &catalogue::STEPS_WAITING, |of| {
                of.waiting
            }),
            (&families.step_oldest_wait, &catalogue::STEP_OLDEST_WAIT, |of| {
                of.oldest_wait_ms / 1_000
            }),
            (
                &families.attempts_in_flight,
                &catalogue::ATTEMPTS_IN_FLIGHT,
                |of| of.in_flight,
            ),
            (&families.action_demand, &catalogue::ACTION_DEMAND, |of| of.demand),
            (&families.action_slots, &catalogue::ACTION_SLOTS, |of| of.slots),
            (&families.action_free_slots, &catalogue::ACTION_FREE_SLOTS, |of| {
                of.free_slots
            }),
            (&families.action_workers, &catalogue::ACTION_WORKERS, |of| {
                of.workers
            }),
        ];
        for (gauges, entry, figure) in all {
            gauges.clear();
            for (action, figures) in &shown {
                let labels = entry.with([Arc::clone(action)]);
                gauges.get_or_create(&labels).set(signed(figure(figures)));
            }
        }
    }
}

fn set(gauges: &Gauges, entry: &Entry, value: &'static str, figure: impl TryInto<i64>) {
    gauges.get_or_create(&entry.with([value])).set(signed(figure));
}

/// Files of the store, by their label.
const FILES: [(&str, &str); 2] = [("database", "store.db"), ("log", "store.db-wal")];

/// The figures of the actions that share a label.
#[derive(Debug, Default)]
struct OfAction {
    waiting: u64,
    oldest_wait_ms: u64,
    in_flight: u64,
    demand: u64,
    slots: u64,
    free_slots: u64,
    workers: u64,
}

impl OfAction {
    fn add(&mut self, action: &ActionView) {
        self.waiting += u64::from(action.waiting);
        self.oldest_wait_ms = self.oldest_wait_ms.max(action.oldest_wait_ms);
        self.in_flight += u64::from(action.in_flight);
        self.demand += action.demand();
        self.slots += u64::from(action.slots);
        self.free_slots += u64::from(action.free_slots);
        self.workers += u64::from(action.workers);
    }
}

/// Exactly one of these.
type Figure = fn(&OfAction) -> u64;

/// An attempt that was told to stop so many milliseconds ago and is still there is stuck.
const STUCK_MS: u64 = 10_000;
