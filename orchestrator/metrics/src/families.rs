//! The counters behind the catalogue.

use crate::catalogue;
use crate::kinds::{
    Buckets, Counters, Gauges, Histograms, SHORT, TracedHistograms, long, long_traced, registered,
};
use crate::of_runs::OfRuns;
use escapement_figures::Process;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::MetricConstructor;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// All of them, each registered under its name.
#[derive(Debug)]
pub(crate) struct Families {
    pub(crate) registry: Registry,
    pub(crate) executions_accepted: Counters,
    pub(crate) executions_settled: Counters,
    pub(crate) execution_errors: Counters,
    pub(crate) submissions_refused: Counters,
    pub(crate) executions_queued: Gauge,
    pub(crate) executions_running: Gauge,
    pub(crate) executions_max: Gauge,
    pub(crate) executions_parked: Gauge,
    pub(crate) execution_queue_wait: Histograms,
    pub(crate) execution_duration: TracedHistograms,
    pub(crate) steps_waiting: Gauges,
    pub(crate) step_oldest_wait: Gauges,
    pub(crate) step_wait: Histograms,
    pub(crate) attempts_in_flight: Gauges,
    pub(crate) action_demand: Gauges,
    pub(crate) action_slots: Gauges,
    pub(crate) action_free_slots: Gauges,
    pub(crate) action_workers: Gauges,
    pub(crate) attempts: Counters,
    pub(crate) attempt_duration: TracedHistograms,
    pub(crate) attempt_errors: Counters,
    pub(crate) worker_sessions: Gauges,
    pub(crate) workers_lost: Counter,
    pub(crate) session_errors: Counters,
    pub(crate) stuck_handlers: Gauge,
    pub(crate) store_commit: Histogram,
    pub(crate) store_commits: Counter,
    pub(crate) store_writes: Counter,
    pub(crate) store_file_bytes: Gauges,
    pub(crate) late_outcomes: Counters,
    pub(crate) engine_turn: Histogram,
    pub(crate) engine_lane_depth: Gauges,
    pub(crate) store_free_bytes: Gauge,
    pub(crate) store_full: Gauge,
    pub(crate) store_damaged: Gauge,
    pub(crate) store_last_scrub: Gauge,
    pub(crate) rpc_requests: Counters,
    pub(crate) rpc_duration: Histograms,
    pub(crate) rpc_open: Gauges,
    pub(crate) connections: Gauges,
    pub(crate) connections_refused: Counters,
    pub(crate) handshake: Histogram,
    pub(crate) handshake_failures: Counters,
    pub(crate) auth_failures: Counters,
    pub(crate) reloads: Counters,
    pub(crate) tls_certificate_expiry: Gauge,
    pub(crate) jwks_last_success: Gauges,
    pub(crate) events: Counters,
    pub(crate) event_feed_lag: Gauges,
    pub(crate) event_feed_lag_seconds: Gauges,
    pub(crate) event_queue_bytes: Gauges,
    pub(crate) telemetry_dropped: Counters,
    pub(crate) of_runs: OfRuns,
    pub(crate) ready: Gauge,
    pub(crate) build_info: Gauges,
}

impl Families {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::default();
        let executions = registered(&mut registry, &catalogue::EXECUTIONS, Gauges::default());
        registry.register_collector(Box::new(Process));
        Self {
            executions_accepted: registered(
                &mut registry,
                &catalogue::EXECUTIONS_ACCEPTED,
                Counters::default(),
            ),
            executions_settled: registered(
                &mut registry,
                &catalogue::EXECUTIONS_SETTLED,
                Counters::default(),
            ),
            execution_errors: registered(&mut registry, &catalogue::EXECUTION_ERRORS, Counters::default()),
            submissions_refused: registered(
                &mut registry,
                &catalogue::SUBMISSIONS_REFUSED,
                Counters::default(),
            ),
            executions_queued: executions.get_or_create_owned(&catalogue::EXECUTIONS.with(["queued"])),
            executions_running: executions.get_or_create_owned(&catalogue::EXECUTIONS.with(["running"])),
            executions_max: registered(&mut registry, &catalogue::EXECUTIONS_MAX, Gauge::default()),
            executions_parked: registered(&mut registry, &catalogue::EXECUTIONS_PARKED, Gauge::default()),
            execution_queue_wait: registered(&mut registry, &catalogue::EXECUTION_QUEUE_WAIT, long()),
            execution_duration: registered(&mut registry, &catalogue::EXECUTION_DURATION, long_traced()),
            steps_waiting: registered(&mut registry, &catalogue::STEPS_WAITING, Gauges::default()),
            step_oldest_wait: registered(&mut registry, &catalogue::STEP_OLDEST_WAIT, Gauges::default()),
            step_wait: registered(&mut registry, &catalogue::STEP_WAIT, long()),
            attempts_in_flight: registered(&mut registry, &catalogue::ATTEMPTS_IN_FLIGHT, Gauges::default()),
            action_demand: registered(&mut registry, &catalogue::ACTION_DEMAND, Gauges::default()),
            action_slots: registered(&mut registry, &catalogue::ACTION_SLOTS, Gauges::default()),
            action_free_slots: registered(&mut registry, &catalogue::ACTION_FREE_SLOTS, Gauges::default()),
            action_workers: registered(&mut registry, &catalogue::ACTION_WORKERS, Gauges::default()),
            attempts: registered(&mut registry, &catalogue::ATTEMPTS, Counters::default()),
            attempt_duration: registered(&mut registry, &catalogue::ATTEMPT_DURATION, long_traced()),
            attempt_errors: registered(&mut registry, &catalogue::ATTEMPT_ERRORS, Counters::default()),
            worker_sessions: registered(&mut registry, &catalogue::WORKER_SESSIONS, Gauges::default()),
            workers_lost: registered(&mut registry, &catalogue::WORKERS_LOST, Counter::default()),
            session_errors: registered(&mut registry, &catalogue::SESSION_ERRORS, Counters::default()),
            stuck_handlers: registered(&mut registry, &catalogue::STUCK_HANDLERS, Gauge::default()),
            store_commit: registered(
                &mut registry,
                &catalogue::STORE_COMMIT,
                Buckets(SHORT).new_metric(),
            ),
            store_commits: registered(&mut registry, &catalogue::STORE_COMMITS, Counter::default()),
            store_writes: registered(&mut registry, &catalogue::STORE_WRITES, Counter::default()),
            store_file_bytes: registered(&mut registry, &catalogue::STORE_FILE_BYTES, Gauges::default()),
            late_outcomes: registered(&mut registry, &catalogue::LATE_OUTCOMES, Counters::default()),
            engine_turn: registered(
                &mut registry,
                &catalogue::ENGINE_TURN,
                Buckets(SHORT).new_metric(),
            ),
            engine_lane_depth: registered(&mut registry, &catalogue::ENGINE_LANE_DEPTH, Gauges::default()),
            store_free_bytes: registered(&mut registry, &catalogue::STORE_FREE_BYTES, Gauge::default()),
            store_full: registered(&mut registry, &catalogue::STORE_FULL, Gauge::default()),
            store_damaged: registered(&mut registry, &catalogue::STORE_DAMAGED, Gauge::default()),
            store_last_scrub: registered(&mut registry, &catalogue::STORE_LAST_SCRUB, Gauge::default()),
            rpc_requests: registered(&mut registry, &catalogue::RPC_REQUESTS, Counters::default()),
            rpc_duration: registered(
                &mut registry,
                &catalogue::RPC_DURATION,
                Histograms::new_with_constructor(Buckets(SHORT)),
            ),
            rpc_open: registered(&mut registry, &catalogue::RPC_OPEN, Gauges::default()),
            connections: registered(&mut registry, &catalogue::CONNECTIONS, Gauges::default()),
            connections_refused: registered(
                &mut registry,
                &catalogue::CONNECTIONS_REFUSED,
                Counters::default(),
            ),
            handshake: registered(&mut registry, &catalogue::HANDSHAKE, Buckets(SHORT).new_metric()),
            handshake_failures: registered(
                &mut registry,
                &catalogue::HANDSHAKE_FAILURES,
                Counters::default(),
            ),
            auth_failures: registered(&mut registry, &catalogue::AUTH_FAILURES, Counters::default()),
            reloads: registered(&mut registry, &catalogue::RELOADS, Counters::default()),
            tls_certificate_expiry: registered(
                &mut registry,
                &catalogue::TLS_CERTIFICATE_EXPIRY,
                Gauge::default(),
            ),
            jwks_last_success: registered(&mut registry, &catalogue::JWKS_LAST_SUCCESS, Gauges::default()),
            events: registered(&mut registry, &catalogue::EVENTS, Counters::default()),
            event_feed_lag: registered(&mut registry, &catalogue::EVENT_FEED_LAG, Gauges::default()),
            event_feed_lag_seconds: registered(
                &mut registry,
                &catalogue::EVENT_FEED_LAG_SECONDS,
                Gauges::default(),
            ),
            event_queue_bytes: registered(&mut registry, &catalogue::EVENT_QUEUE_BYTES, Gauges::default()),
            telemetry_dropped: registered(&mut registry, &catalogue::TELEMETRY_DROPPED, Counters::default()),
            of_runs: OfRuns::new(&mut registry),
            ready: registered(&mut registry, &catalogue::READY, Gauge::default()),
            build_info: registered(&mut registry, &catalogue::BUILD_INFO, Gauges::default()),
            registry,
        }
    }
}
