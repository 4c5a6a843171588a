//! The figures of runs, and the words of their labels.

use crate::catalogue;
use crate::kinds::{Buckets, Counters, Gauges, Histograms, LONGEST, SHORT, registered, signed};
use crate::label;
use crate::label::Value;
use escapement_model::Namespace;
use escapement_run::journal::{Decision, Limit, OutcomeClass, RequestKind, RequestState, Verdict};
use escapement_runs::{Census, Ending, LIVE_STATES, REQUEST_KINDS, Replan};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::MetricConstructor;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// The figures of runs.
#[derive(Debug)]
pub(crate) struct OfRuns {
    pub(crate) runs: Gauges,
    pub(crate) runs_max: Gauge,
    pub(crate) runs_created: Counters,
    pub(crate) runs_ended: Counters,
    pub(crate) run_duration: Histograms,
    pub(crate) runs_recovered: Counter,
    pub(crate) run_attempts: Counters,
    pub(crate) run_results_reused: Counter,
    pub(crate) run_limits: Counters,
    pub(crate) plan_generations: Counters,
    pub(crate) run_replans: Counters,
    pub(crate) model_tokens: Counters,
    pub(crate) input_requests: Gauges,
    pub(crate) input_request_oldest: Gauge,
    pub(crate) input_requests_ended: Counters,
    pub(crate) input_request_wait: Histograms,
    pub(crate) decisions: Counters,
    pub(crate) trigger_causes: Counters,
    pub(crate) runs_store_commit: Histogram,
}

impl OfRuns {
    pub(crate) fn new(registry: &mut Registry) -> Self {
        Self {
            runs: registered(registry, &catalogue::RUNS, Gauges::default()),
            runs_max: registered(registry, &catalogue::RUNS_MAX, Gauge::default()),
            runs_created: registered(registry, &catalogue::RUNS_CREATED, Counters::default()),
            runs_ended: registered(registry, &catalogue::RUNS_ENDED, Counters::default()),
            run_duration: registered(
                registry,
                &catalogue::RUN_DURATION,
                Histograms::new_with_constructor(Buckets(LONGEST)),
            ),
            runs_recovered: registered(registry, &catalogue::RUNS_RECOVERED, Counter::default()),
            run_attempts: registered(registry, &catalogue::RUN_ATTEMPTS, Counters::default()),
            run_results_reused: registered(registry, &catalogue::RUN_RESULTS_REUSED, Counter::default()),
            run_limits: registered(registry, &catalogue::RUN_LIMITS, Counters::default()),
            plan_generations: registered(registry, &catalogue::PLAN_GENERATIONS, Counters::default()),
            run_replans: registered(registry, &catalogue::RUN_REPLANS, Counters::default()),
            model_tokens: registered(registry, &catalogue::MODEL_TOKENS, Counters::default()),
            input_requests: registered(registry, &catalogue::INPUT_REQUESTS, Gauges::default()),
            input_request_oldest: registered(registry, &catalogue::INPUT_REQUEST_OLDEST, Gauge::default()),
            input_requests_ended: registered(registry, &catalogue::INPUT_REQUESTS_ENDED, Counters::default()),
            input_request_wait: registered(
                registry,
                &catalogue::INPUT_REQUEST_WAIT,
                Histograms::new_with_constructor(Buckets(LONGEST)),
            ),
            decisions: registered(registry, &catalogue::DECISIONS, Counters::default()),
            trigger_causes: registered(registry, &catalogue::TRIGGER_CAUSES, Counters::default()),
            runs_store_commit: registered(
                registry,
                &catalogue::RUNS_STORE_COMMIT,
                Buckets(SHORT).new_metric(),
            ),
        }
    }

    /// Shows those at 0 whose labels are known before anything happens.
    pub(crate) fn begin_at_zero(&self) {
        self.stand(&Census::default());
        for class in CLASSES {
            drop(
                self.run_attempts
                    .get_or_create(&catalogue::RUN_ATTEMPTS.with([class.as_str()])),
            );
        }
        for limit in LIMITS {
            drop(
                self.run_limits
                    .get_or_create(&catalogue::RUN_LIMITS.with([limit.as_str()])),
            );
        }
        for verdict in VERDICTS {
            let labels = catalogue::PLAN_GENERATIONS.with([verdict.as_str()]);
            drop(self.plan_generations.get_or_create(&labels));
        }
        for cause in [
            Replan::Substitution,
            Replan::Fallback,
            Replan::Planner,
            Replan::Revise,
        ] {
            drop(
                self.run_replans
                    .get_or_create(&catalogue::RUN_REPLANS.with([cause.as_str()])),
            );
        }
        for decision in DECISIONS {
            drop(
                self.decisions
                    .get_or_create(&catalogue::DECISIONS.with([decision.as_str()])),
            );
        }
        self.tokens(0, 0);
        let default = || Value::from(Namespace::DEFAULT);
        drop(
            self.runs_created
                .get_or_create(&catalogue::RUNS_CREATED.with([default()])),
        );
        for ending in ENDINGS {
            let labels = [default(), ending.as_str().into()];
            drop(self.runs_ended.get_or_create(&catalogue::RUNS_ENDED.with(labels)));
            let labels = catalogue::RUN_DURATION.with([ending.as_str()]);
            drop(self.run_duration.get_or_create(&labels));
        }
        for trigger in TRIGGERS {
            for firing in FIRINGS {
                self.fired(trigger, firing, 0);
            }
        }
        for kind in REQUEST_KINDS {
            let labels = catalogue::INPUT_REQUEST_WAIT.with([request_label(Some(kind))]);
            drop(self.input_request_wait.get_or_create(&labels));
            for state in [
                RequestState::Answered,
                RequestState::Expired,
                RequestState::Closed,
            ] {
                drop(self.ended_requests(Some(kind), state));
            }
        }
    }

    pub(crate) fn stand(&self, census: &Census) {
        for (state, n) in LIVE_STATES.iter().zip(census.runs) {
            let labels = catalogue::RUNS.with([state.as_str()]);
            self.runs.get_or_create(&labels).set(signed(n));
        }
        self.runs_max.set(signed(census.runs_max));
        for (kind, n) in REQUEST_KINDS.iter().zip(census.open_requests) {
            let labels = catalogue::INPUT_REQUESTS.with([request_label(Some(*kind))]);
            self.input_requests.get_or_create(&labels).set(signed(n));
        }
        let oldest_ms = census.oldest_request_at.unwrap_or_default();
        self.input_request_oldest.set(oldest_ms / 1_000);
    }

    pub(crate) fn tokens(&self, prompt: u64, completion: u64) {
        for (kind, n) in [("prompt", prompt), ("completion", completion)] {
            let labels = catalogue::MODEL_TOKENS.with([kind]);
            self.model_tokens.get_or_create(&labels).inc_by(n);
        }
    }

    pub(crate) fn fired(&self, kind: &'static str, outcome: &'static str, n: u32) {
        let labels = catalogue::TRIGGER_CAUSES.with([kind, outcome]);
        self.trigger_causes.get_or_create(&labels).inc_by(n.into());
    }

    pub(crate) fn ended_requests(&self, kind: Option<RequestKind>, state: RequestState) -> Counter {
        let labels = catalogue::INPUT_REQUESTS_ENDED.with([request_label(kind), became_label(state)]);
        self.input_requests_ended.get_or_create_owned(&labels)
    }
}

pub(crate) fn request_label(kind: Option<RequestKind>) -> &'static str {
    kind.map_or(label::OTHER, RequestKind::as_str)
}

fn became_label(state: RequestState) -> &'static str {
    match state {
        RequestState::Answered => "answered",
        RequestState::Expired => "expired",
        RequestState::Closed | RequestState::Open => "closed",
    }
}

const ENDINGS: [Ending; 5] = [
    Ending::Completed,
    Ending::Partial,
    Ending::Failed,
    Ending::Timeout,
    Ending::Cancelled,
];
const CLASSES: [OutcomeClass; 7] = [
    OutcomeClass::Completed,
    OutcomeClass::NeverRan,
    OutcomeClass::Failed,
    OutcomeClass::FailedForGood,
    OutcomeClass::TimedOut,
    OutcomeClass::Unknown,
    OutcomeClass::ApprovalRequired,
];
const LIMITS: [Limit; 5] = [
    Limit::Lifetime,
    Limit::Run,
    Limit::Watchdog,
    Limit::Revision,
    Limit::Pause,
];
const VERDICTS: [Verdict; 5] = [
    Verdict::Accepted,
    Verdict::Refused,
    Verdict::Failed,
    Verdict::TimedOut,
    Verdict::OutOfBudget,
];
const DECISIONS: [Decision; 9] = [
    Decision::Answer,
    Decision::Approve,
    Decision::ApproveWithEdits,
    Decision::Deny,
    Decision::Extend,
    Decision::Happened,
    Decision::DidNot,
    Decision::Fail,
    Decision::Revise,
];
/// Kinds of causes of triggers, as firings spell them.
const TRIGGERS: [&str; 5] = ["schedule", "event", "condition", "webhook", "manual"];
/// What becomes of them.
const FIRINGS: [&str; 5] = ["started", "waiting", "skipped", "failed", "missed"];
