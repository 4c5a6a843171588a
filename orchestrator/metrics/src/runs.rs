//! What runs come to, as their thread tells it.

use crate::catalogue;
use crate::figures::Metrics;
use crate::label::Value;
use crate::of_runs::request_label;
use escapement_runs::Counted;
use escapement_runs_shell::{Happened, Tally};

impl Metrics {
    /// What the thread of runs is to tell.
    pub fn tally_of_runs(&self) -> Tally {
        let metrics = self.clone();
        Tally::new(move |happened| metrics.happened_to_runs(happened))
    }

    pub(crate) fn happened_to_runs(&self, happened: Happened) {
        let runs = &self.0.families.of_runs;
        match happened {
            Happened::Counted(counted) => self.counted_of_runs(counted),
            Happened::Stands(census) => runs.stand(&census),
            Happened::Committed(took) => runs.runs_store_commit.observe(took.as_secs_f64()),
            Happened::TakesWrites(takes_writes) => {
                self.note_refusal(|refusing| refusing.runs = !takes_writes);
            }
            Happened::Fired { kind, outcome, n } => runs.fired(kind, outcome, n),
        }
    }

    fn counted_of_runs(&self, counted: Counted) {
        let runs = &self.0.families.of_runs;
        match counted {
            Counted::Created(namespace) => {
                let namespace = self.0.namespaces.label(namespace.as_str());
                let labels = catalogue::RUNS_CREATED.with([namespace]);
                runs.runs_created.get_or_create(&labels).inc();
            }
            Counted::Ended {
                namespace,
                ending,
                took_ms,
            } => {
                let namespace = self.0.namespaces.label(namespace.as_str());
                let labels = [Value::from(namespace), ending.as_str().into()];
                let labels = catalogue::RUNS_ENDED.with(labels);
                runs.runs_ended.get_or_create(&labels).inc();
                let labels = catalogue::RUN_DURATION.with([ending.as_str()]);
                runs.run_duration.get_or_create(&labels).observe(seconds(took_ms));
            }
            Counted::Recovered => {
                runs.runs_recovered.inc();
            }
            Counted::Attempt(class) => {
                let labels = catalogue::RUN_ATTEMPTS.with([class.as_str()]);
                runs.run_attempts.get_or_create(&labels).inc();
            }
            Counted::Tokens { prompt, completion } => runs.tokens(prompt, completion),
            Counted::Memoized => {
                runs.run_results_reused.inc();
            }
            Counted::Generation(verdict) => {
                let labels = catalogue::PLAN_GENERATIONS.with([verdict.as_str()]);
                runs.plan_generations.get_or_create(&labels).inc();
            }
            Counted::Replan(cause) => {
                let labels = catalogue::RUN_REPLANS.with([cause.as_str()]);
                runs.run_replans.get_or_create(&labels).inc();
            }
            Counted::Limit(limit) => {
                let labels = catalogue::RUN_LIMITS.with([limit.as_str()]);
                runs.run_limits.get_or_create(&labels).inc();
            }
            Counted::RequestEnded {
                kind,
                state,
                decision,
                waited_ms,
            } => {
                runs.ended_requests(kind, state).inc();
                if let Some(decision) = decision {
                    let labels = catalogue::DECISIONS.with([decision.as_str()]);
                    runs.decisions.get_or_create(&labels).inc();
                }
                if let Some(waited_ms) = waited_ms {
                    let labels = catalogue::INPUT_REQUEST_WAIT.with([request_label(kind)]);
                    let wait = runs.input_request_wait.get_or_create(&labels);
                    wait.observe(seconds(waited_ms));
                }
            }
        }
    }
}

fn seconds(ms: u64) -> f64 {
    ms as f64 / 1_000.0
}
