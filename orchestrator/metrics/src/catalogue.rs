//! Every figure that an orchestrator shows: the one list that registration, the page and the tests are held against.

use crate::label::{Label, Labels, Value};

/// What a figure is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// Only grows, from 0 at the start of the process.
    Counter,
    /// Is what it is at the scrape.
    Gauge,
    /// Counts values by size.
    Histogram,
}

/// A figure.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// As Prometheus spells it in queries. The name of a counter ends with `_total`.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// Labels.
    pub labels: &'static [Label],
    /// A sentence for people.
    pub help: &'static str,
}

impl Entry {
    /// Returns the name as the library takes it: it adds `_total` to counters itself.
    pub(crate) fn stem(&self) -> &'static str {
        self.name.strip_suffix("_total").unwrap_or(self.name)
    }

    /// Returns the labels with these values, in the order of the entry.
    pub(crate) fn with<V: Into<Value>, const N: usize>(&self, values: [V; N]) -> Labels {
        debug_assert_eq!(N, self.labels.len(), "{}", self.name);
        Labels::new(self.labels, values)
    }
}

macro_rules! catalogue {
    ($($constant:ident = $name:literal, $kind:ident, [$($label:ident),*], $help:literal;)*) => {
        $(pub(crate) const $constant: Entry = Entry {
            name: $name,
            kind: Kind::$kind,
            labels: &[$($label),*],
            help: $help,
        };)*

        /// All figures, in the order in which the page shows them.
        pub const CATALOGUE: &[Entry] = &[$($constant),*];
    };
}

const NAMESPACE: Label = Label {
    name: "namespace",
    values_max: 64,
};
const STATUS: Label = Label {
    name: "status",
    values_max: 3,
};
const CODE: Label = Label {
    name: "code",
    values_max: 14,
};
const ACTION: Label = Label {
    name: "action",
    values_max: 256,
};
const OUTCOME: Label = Label {
    name: "outcome",
    values_max: 6,
};
const STATE: Label = Label {
    name: "state",
    values_max: 3,
};
const FILE: Label = Label {
    name: "file",
    values_max: 2,
};
const METHOD: Label = Label {
    name: "method",
    values_max: 128,
};
const RPC_CODE: Label = Label {
    name: "code",
    values_max: 17,
};
const KIND: Label = Label {
    name: "kind",
    values_max: 12,
};
const TRANSPORT: Label = Label {
    name: "transport",
    values_max: 3,
};
const REASON: Label = Label {
    name: "reason",
    values_max: 8,
};
const WHAT: Label = Label {
    name: "what",
    values_max: 4,
};
const LANE: Label = Label {
    name: "lane",
    values_max: 6,
};
const ANSWER: Label = Label {
    name: "answer",
    values_max: 5,
};
const SIGNAL: Label = Label {
    name: "signal",
    values_max: 3,
};
const SINK: Label = Label {
    name: "sink",
    values_max: 8,
};
const ISSUER: Label = Label {
    name: "issuer",
    values_max: 8,
};
const SESSION_END: Label = Label {
    name: "error",
    values_max: 7,
};
const QUEUE: Label = Label {
    name: "queue",
    values_max: 2,
};
const REFUSAL: Label = Label {
    name: "refusal",
    values_max: 9,
};
const VERSION: Label = Label {
    name: "version",
    values_max: 1,
};
const RUN_STATE: Label = Label {
    name: "state",
    values_max: 7,
};
const ENDING: Label = Label {
    name: "outcome",
    values_max: 5,
};
const CLASS: Label = Label {
    name: "class",
    values_max: 7,
};
const LIMIT: Label = Label {
    name: "limit",
    values_max: 5,
};
const VERDICT: Label = Label {
    name: "verdict",
    values_max: 5,
};
const CAUSE: Label = Label {
    name: "cause",
    values_max: 4,
};
const TOKENS: Label = Label {
    name: "tokens",
    values_max: 2,
};
const REQUEST: Label = Label {
    name: "request",
    values_max: 5,
};
const BECAME: Label = Label {
    name: "became",
    values_max: 3,
};
const DECISION: Label = Label {
    name: "decision",
    values_max: 9,
};
const TRIGGER: Label = Label {
    name: "trigger",
    values_max: 5,
};
const FIRING: Label = Label {
    name: "firing",
    values_max: 5,
};

catalogue! {
    EXECUTIONS_ACCEPTED = "escapement_executions_accepted_total", Counter, [NAMESPACE],
        "Executions that were accepted durably.";
    EXECUTIONS_SETTLED = "escapement_executions_settled_total", Counter, [NAMESPACE, STATUS],
        "Executions that were settled durably, by status.";
    EXECUTION_ERRORS = "escapement_execution_errors_total", Counter, [CODE],
        "Executions that were settled with an error, by its code. Codes of handlers are _other.";
    SUBMISSIONS_REFUSED = "escapement_submissions_refused_total", Counter, [REFUSAL],
        "Valid requests for an execution that were refused, by the reason in the answer.";
    EXECUTIONS = "escapement_executions", Gauge, [STATE],
        "Executions that are accepted and not settled: queued, running.";
    EXECUTIONS_MAX = "escapement_executions_max", Gauge, [],
        "Maximum of executions that are accepted and not settled.";
    EXECUTIONS_PARKED = "escapement_executions_parked", Gauge, [],
        "Queued executions whose requests are on the disk only.";
    EXECUTION_QUEUE_WAIT = "escapement_execution_queue_wait_seconds", Histogram, [NAMESPACE],
        "From acceptance to start, of executions that started.";
    EXECUTION_DURATION = "escapement_execution_duration_seconds", Histogram, [NAMESPACE, STATUS],
        "From start to settlement, of executions that started.";
    STEPS_WAITING = "escapement_steps_waiting", Gauge, [ACTION],
        "Steps that are ready and wait for a free slot of a worker.";
    STEP_OLDEST_WAIT = "escapement_step_oldest_wait_seconds", Gauge, [ACTION],
        "Seconds that the step has waited that waits for longest; 0 if none waits.";
    STEP_WAIT = "escapement_step_wait_seconds", Histogram, [ACTION],
        "From the turn of a step to the assignment of its attempt.";
    ATTEMPTS_IN_FLIGHT = "escapement_attempts_in_flight", Gauge, [ACTION],
        "Attempts that workers have.";
    ACTION_DEMAND = "escapement_action_demand", Gauge, [ACTION],
        "Waiting steps, attempts at workers, and executions held back for lack of a worker, together: \
         what to scale workers by.";
    ACTION_SLOTS = "escapement_action_slots", Gauge, [ACTION],
        "Attempts that its workers could run concurrently if they did nothing else. Actions of one worker share its slots.";
    ACTION_FREE_SLOTS = "escapement_action_free_slots", Gauge, [ACTION],
        "Attempts that could start now. Actions of one worker share its slots.";
    ACTION_WORKERS = "escapement_action_workers", Gauge, [ACTION],
        "Active sessions that offer the action.";
    ATTEMPTS = "escapement_attempts_total", Counter, [ACTION, OUTCOME],
        "Attempts of settled executions: success, failure, timeout, lost, cancelled, returned.";
    ATTEMPT_DURATION = "escapement_attempt_duration_seconds", Histogram, [ACTION],
        "From the assignment of an attempt to its end.";
    ATTEMPT_ERRORS = "escapement_attempt_errors_total", Counter, [CODE],
        "Attempts of settled executions that ended with an error, by its code. Codes of handlers are _other.";
    WORKER_SESSIONS = "escapement_worker_sessions", Gauge, [STATE],
        "Sessions of workers: active, suspect, draining.";
    WORKERS_LOST = "escapement_workers_lost_total", Counter, [],
        "Workers that are gone for good with attempts that they had.";
    SESSION_ERRORS = "escapement_session_errors_total", Counter, [SESSION_END],
        "Sessions of workers that the orchestrator ended or refused, by the code of the SessionError.";
    STUCK_HANDLERS = "escapement_stuck_handlers", Gauge, [],
        "Attempts that were cancelled 10 s ago or more, and that their workers still have.";
    LATE_OUTCOMES = "escapement_late_outcomes_total", Counter, [ANSWER],
        "Outcomes of workers that were not taken: duplicate, stale, already_ended, unknown, invalid.";
    ENGINE_TURN = "escapement_engine_turn_seconds", Histogram, [],
        "Batches of inputs that the engine handled, with what they led to.";
    ENGINE_LANE_DEPTH = "escapement_engine_lane_depth", Gauge, [LANE],
        "Messages that wait for the engine: control, workers, writes, reads, long_reads, open.";
    STORE_COMMIT = "escapement_store_commit_seconds", Histogram, [],
        "Commits of the store that hold writes of executions, written and synced.";
    STORE_COMMITS = "escapement_store_commits_total", Counter, [],
        "Commits of the store that hold writes of executions.";
    STORE_WRITES = "escapement_store_writes_total", Counter, [],
        "Writes of executions that these commits held.";
    STORE_FILE_BYTES = "escapement_store_file_bytes", Gauge, [FILE],
        "Size of the store: database, log.";
    STORE_FREE_BYTES = "escapement_store_free_bytes", Gauge, [],
        "Bytes of the store's file system that the process may still write.";
    STORE_FULL = "escapement_store_full", Gauge, [],
        "1 from a commit of executions or of runs that was refused, because the disk is full or the store is busy, until one of the \
         same kind goes through; else 0.";
    STORE_DAMAGED = "escapement_store_damaged", Gauge, [],
        "Damaged records, and pages that could not be read, that the last scrub of the store found; the log names each record.";
    STORE_LAST_SCRUB = "escapement_store_last_scrub_timestamp_seconds", Gauge, [],
        "End of the last scrub, in seconds since 1970; 0 before the first.";
    RPC_REQUESTS = "escapement_rpc_requests_total", Counter, [METHOD, RPC_CODE],
        "Finished calls, by their status. Calls whose callers are gone are CANCELLED, unknown paths _other.";
    RPC_DURATION = "escapement_rpc_duration_seconds", Histogram, [METHOD],
        "Calls with one answer, from their head to the end of the answer.";
    RPC_OPEN = "escapement_rpc_open", Gauge, [KIND],
        "Calls in progress, by the kind that bounds them.";
    CONNECTIONS = "escapement_connections", Gauge, [TRANSPORT],
        "Connections that speak HTTP/2: plaintext, tls, mtls.";
    CONNECTIONS_REFUSED = "escapement_connections_refused_total", Counter, [REASON],
        "Connections that were closed as soon as they came: too_many, broken; or later, evicted by others: displaced.";
    HANDSHAKE = "escapement_handshake_seconds", Histogram, [],
        "TLS handshakes that succeeded.";
    HANDSHAKE_FAILURES = "escapement_handshake_failures_total", Counter, [REASON],
        "Connections that did not come to HTTP/2: tls_on_plaintext, plaintext_on_tls, too_slow, too_many, handshake, no_alpn, no_http2.";
    AUTH_FAILURES = "escapement_auth_failures_total", Counter, [REASON],
        "Calls with credentials that are missing, invalid or expired, by the reason of the refusal.";
    RELOADS = "escapement_reloads_total", Counter, [WHAT, OUTCOME],
        "Reloads of changed files: replaced, or refused, which leaves the earlier ones in force.";
    TLS_CERTIFICATE_EXPIRY = "escapement_tls_certificate_expiry_timestamp_seconds", Gauge, [],
        "When the certificate that the orchestrator shows ends, in seconds since 1970; 0 without TLS.";
    JWKS_LAST_SUCCESS = "escapement_jwks_last_success_timestamp_seconds", Gauge, [ISSUER],
        "Time at which the current keys of an issuer of tokens were fetched, in seconds since 1970; 0 without keys.";
    RUNS = "escapement_runs", Gauge, [RUN_STATE],
        "Runs that have not ended: queued, planning, running, waiting, pausing, paused, verifying.";
    RUNS_MAX = "escapement_runs_max", Gauge, [],
        "Maximum of runs that have not ended; 0 without runs.";
    RUNS_CREATED = "escapement_runs_created_total", Counter, [NAMESPACE],
        "Runs that were made durably.";
    RUNS_ENDED = "escapement_runs_ended_total", Counter, [NAMESPACE, ENDING],
        "Runs that ended durably: completed, partial, failed, timeout, cancelled.";
    RUN_DURATION = "escapement_run_duration_seconds", Histogram, [ENDING],
        "From the making of a run to its end, waits and downtime included.";
    RUNS_RECOVERED = "escapement_runs_recovered_total", Counter, [],
        "Runs that this start resumed.";
    RUN_ATTEMPTS = "escapement_run_attempts_total", Counter, [CLASS],
        "Attempts of runs that ended: completed, never_ran, failed, failed_for_good, timed_out, unknown, approval_required.";
    RUN_RESULTS_REUSED = "escapement_run_results_reused_total", Counter, [],
        "Steps and units that reused an earlier result instead of an attempt.";
    RUN_LIMITS = "escapement_run_limits_total", Counter, [LIMIT],
        "Limits of runs that ran out: lifetime, run, watchdog, revision, pause.";
    PLAN_GENERATIONS = "escapement_run_generations_total", Counter, [VERDICT],
        "Requests to planners by outcome: accepted, refused, failed, timed_out, out_of_budget.";
    RUN_REPLANS = "escapement_run_replans_total", Counter, [CAUSE],
        "Revisions that failed or were rejected, by their replacement: substitution, fallback, planner, revise.";
    MODEL_TOKENS = "escapement_run_tokens_total", Counter, [TOKENS],
        "Tokens of language models that attempts of runs used: prompt, completion.";
    INPUT_REQUESTS = "escapement_run_input_requests", Gauge, [REQUEST],
        "Requests that wait for people: question, approval, retry_extension, ambiguous_effect, budget_extension.";
    INPUT_REQUEST_OLDEST = "escapement_run_input_request_oldest_timestamp_seconds", Gauge, [],
        "When the oldest request was opened that waits for people, in seconds since 1970; 0 if none waits.";
    INPUT_REQUESTS_ENDED = "escapement_run_input_requests_ended_total", Counter, [REQUEST, BECAME],
        "Requests to people that were answered, expired, or were closed because they are no longer needed.";
    INPUT_REQUEST_WAIT = "escapement_run_input_request_wait_seconds", Histogram, [REQUEST],
        "From the opening of a request to its answer, of those that people answered.";
    DECISIONS = "escapement_run_decisions_total", Counter, [DECISION],
        "What people decided: answer, approve, approve_with_edits, deny, extend, happened, did_not, fail, revise.";
    TRIGGER_CAUSES = "escapement_run_trigger_causes_total", Counter, [TRIGGER, FIRING],
        "Causes of triggers (schedule, event, condition, webhook, manual) by outcome: started, waiting, skipped, failed, \
         missed. One that waits is counted again in its turn.";
    RUNS_STORE_COMMIT = "escapement_runs_store_commit_seconds", Histogram, [],
        "Commits of runs, from the request of their thread to the answer of the store's writer; the wait for an earlier commit \
         included.";
    EVENTS = "escapement_events_total", Counter, [SINK, OUTCOME],
        "Events of sinks that get them at least once: delivered; tries that were refused; given_up after too many; ends dropped before \
         the sink had their events.";
    EVENT_FEED_LAG = "escapement_event_feed_lag", Gauge, [SINK],
        "Settled executions that the sink has not come to.";
    EVENT_FEED_LAG_SECONDS = "escapement_event_feed_lag_seconds", Gauge, [SINK],
        "Seconds since the settlement of the event that the sink gets next; 0 without one.";
    EVENT_QUEUE_BYTES = "escapement_event_queue_bytes", Gauge, [QUEUE],
        "Bytes that wait for what gets them best effort: webhook of --event-webhook, error_handler of --error-handler-path.";
    TELEMETRY_DROPPED = "escapement_telemetry_dropped_total", Counter, [SIGNAL],
        "What was to be exported and was not: traces of executions and runs, and lines of the log.";
    READY = "escapement_ready", Gauge, [],
        "1 if calls should be sent here, as /readyz says; else 0.";
    BUILD_INFO = "escapement_build_info", Gauge, [VERSION],
        "1, with the version of the program.";
    PROCESS_CPU = "process_cpu_seconds_total", Counter, [],
        "Processor time of the process, in seconds.";
    PROCESS_RESIDENT_MEMORY = "process_resident_memory_bytes", Gauge, [],
        "Memory of the process that is in RAM.";
    PROCESS_VIRTUAL_MEMORY = "process_virtual_memory_bytes", Gauge, [],
        "Addresses that the process has.";
    PROCESS_OPEN_FDS = "process_open_fds", Gauge, [],
        "Open files of the process.";
    PROCESS_MAX_FDS = "process_max_fds", Gauge, [],
        "Most files that the process may have open.";
    PROCESS_THREADS = "process_threads", Gauge, [],
        "Threads of the process.";
    PROCESS_START_TIME = "process_start_time_seconds", Gauge, [],
        "When the process started, in seconds since 1970.";
}
