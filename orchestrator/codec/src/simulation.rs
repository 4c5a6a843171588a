//! Simulations: stubs from the wire, and what came of the plan to the wire. Simulates nothing.

use crate::audit;
use crate::execution::{self, count};
use crate::request;
use escapement_contract::{Finding, Plan, Reported, RequestDraft};
use escapement_model::limits::{ACTION_CHARS_MAX, VIOLATIONS_MAX};
use escapement_model::{Severity, StepId, codes};
use escapement_simulator::{Activity, AttemptStub, End, Simulation, Span, Stubs};
use escapement_wire::v1;
use escapement_wire::v1::attempt_stub::Outcome;
use escapement_wire::v1::execution_error::Severity as WireSeverity;
use std::collections::BTreeSet;

/// Returns the draft of the request that is simulated.
pub fn request_draft(
    plan: Option<v1::Plan>,
    environment: Option<escapement_model::Opaque>,
    options: Option<v1::ExecutionOptions>,
    deadline_ms: Option<i64>,
) -> RequestDraft {
    request::request_draft(v1::SubmitPlanRequest {
        plan,
        environment,
        options,
        deadline_ms,
        ..v1::SubmitPlanRequest::default()
    })
}

/// Returns the stubs, and everything that is wrong with them. They are for the steps of this plan, valid or not.
pub fn stubs(wire: Vec<v1::StepStub>, plan: Option<&v1::Plan>) -> (Stubs, Vec<Finding>) {
    let steps = plan.map_or(&[][..], |plan| &plan.steps).iter();
    let mut reading = Reading {
        steps: steps.filter_map(|step| step.id.parse().ok()).collect(),
        findings: Vec::new(),
    };
    if wire.len() > STUBS_MAX {
        let message = format!("Must have at most {STUBS_MAX} items, has {}.", wire.len());
        reading.find("stubs".to_owned(), message);
        return (Stubs::default(), reading.findings);
    }
    let mut stubs = Stubs::default();
    for (index, stub) in wire.into_iter().enumerate() {
        stubs = reading.stub(stubs, &format!("stubs[{index}]"), stub);
    }
    (stubs, reading.findings)
}

/// Stubs while they are read.
struct Reading {
    /// Those of the plan.
    steps: BTreeSet<StepId>,
    findings: Vec<Finding>,
}

impl Reading {
    fn find(&mut self, field: String, message: String) {
        if self.findings.len() < VIOLATIONS_MAX {
            self.findings.push(Finding {
                field,
                code: codes::INVALID_PAYLOAD,
                message,
            });
        }
    }

    fn stub(&mut self, stubs: Stubs, path: &str, stub: v1::StepStub) -> Stubs {
        let step_id = stub.step_id.and_then(|step_id| self.step_id(path, &step_id));
        if let Some(action) = &stub.action {
            self.action(path, action, step_id.is_some());
        }
        let n_attempts = stub.attempts.len();
        if !(1..=STUB_ATTEMPTS_MAX).contains(&n_attempts) {
            let message = format!("Must have 1 to {STUB_ATTEMPTS_MAX} items, has {n_attempts}.");
            self.find(format!("{path}.attempts"), message);
            return stubs;
        }
        let attempts = stub.attempts.into_iter().enumerate();
        let attempts = attempts
            .map(|(index, attempt)| self.attempt(&format!("{path}.attempts[{index}]"), attempt))
            .collect();
        match (step_id, stub.action) {
            (Some(step_id), _) => stubs.step(step_id, attempts),
            (None, Some(action)) => stubs.action(action, attempts),
            (None, None) => stubs.otherwise(attempts),
        }
    }

    fn step_id(&mut self, path: &str, step_id: &str) -> Option<StepId> {
        let field = || format!("{path}.step_id");
        match step_id.parse::<StepId>() {
            Ok(step_id) => {
                if !self.steps.contains(&step_id) {
                    self.find(field(), "The plan has no such step.".to_owned());
                }
                Some(step_id)
            }
            Err(invalid) => {
                self.find(field(), format!("It {invalid}."));
                None
            }
        }
    }

    fn action(&mut self, path: &str, action: &str, has_step: bool) {
        let n_chars = action.chars().count();
        let message = if has_step {
            "Must be absent where `step_id` is given.".to_owned()
        } else if !(1..=ACTION_CHARS_MAX).contains(&n_chars) {
            format!("Must have 1 to {ACTION_CHARS_MAX} characters, has {n_chars}.")
        } else {
            return;
        };
        self.find(format!("{path}.action"), message);
    }

    fn attempt(&mut self, path: &str, attempt: v1::AttemptStub) -> AttemptStub {
        AttemptStub {
            waits_ms: self.duration(path, "waits_ms", attempt.waits_ms),
            takes_ms: self.duration(path, "takes_ms", attempt.takes_ms),
            end: match attempt.outcome {
                None => End::default(),
                Some(Outcome::Output(output)) => End::Completed(output),
                Some(Outcome::Failure(failure)) => self.failure(path, failure),
                Some(Outcome::Lost(is_so)) => self.marked(path, "lost", is_so, End::Lost),
                Some(Outcome::Returned(is_so)) => self.marked(path, "returned", is_so, End::Returned),
                Some(Outcome::Silent(is_so)) => self.marked(path, "silent", is_so, End::Silent),
                Some(Outcome::ActionNotFound(is_so)) => {
                    self.marked(path, "action_not_found", is_so, End::ActionNotFound)
                }
            },
        }
    }

    fn duration(&mut self, path: &str, name: &str, duration_ms: i64) -> u64 {
        u64::try_from(duration_ms).unwrap_or_else(|_| {
            let message = format!("Must not be negative, is {duration_ms}.");
            self.find(format!("{path}.{name}"), message);
            0
        })
    }

    fn failure(&mut self, path: &str, failure: v1::FailureStub) -> End {
        let severity = match WireSeverity::try_from(failure.severity) {
            Ok(WireSeverity::Unspecified) => None,
            Ok(WireSeverity::Warn) => Some(Severity::Warn),
            Ok(WireSeverity::Error) => Some(Severity::Error),
            Ok(WireSeverity::Fatal) => Some(Severity::Fatal),
            Err(unknown) => {
                let field = format!("{path}.failure.severity");
                self.find(field, format!("Must be a severity, is {}.", unknown.0));
                None
            }
        };
        End::Failed(Reported {
            code: failure.error_code,
            message: failure.message,
            severity,
            context: failure.context.unwrap_or_default(),
        })
    }

    fn marked(&mut self, path: &str, name: &str, is_so: bool, end: End) -> End {
        if !is_so {
            let message = "Must be true where it is given.".to_owned();
            self.find(format!("{path}.{name}"), message);
        }
        end
    }
}

/// What came of the plan.
pub fn answer(plan: &Plan, simulation: &Simulation) -> v1::SimulatePlanResponse {
    let settlement = &simulation.settlement;
    let spans = simulation.timeline.spans.iter();
    v1::SimulatePlanResponse {
        result: Some(execution::result(&settlement.result)),
        timeline: spans.map(|span| self::span(plan, span)).collect(),
        audit: settlement.audit.iter().map(audit::entry).collect(),
        inputs: i64::try_from(simulation.n_inputs).unwrap_or(i64::MAX),
        timeline_cut: simulation.timeline.is_cut,
    }
}

fn span(plan: &Plan, span: &Span) -> v1::TimelineSpan {
    let step = plan.step(span.step);
    let activity = match span.activity {
        Activity::Waiting => v1::timeline_span::Activity::Waiting,
        Activity::Running => v1::timeline_span::Activity::Running,
        Activity::BackingOff => v1::timeline_span::Activity::BackingOff,
    };
    v1::TimelineSpan {
        step_id: step.id().to_string(),
        action: step.action().to_owned(),
        activity: activity as i32,
        attempt: count(span.attempt),
        from_ms: i64::try_from(span.from_ms).unwrap_or(i64::MAX),
        to_ms: i64::try_from(span.to_ms).unwrap_or(i64::MAX),
        outcome: span
            .ended
            .as_ref()
            .map_or(String::new(), |ended| ended.as_str().to_owned()),
    }
}

/// Stubs of one simulation.
pub const STUBS_MAX: usize = 4_096;
/// Attempts of one stub.
pub const STUB_ATTEMPTS_MAX: usize = 1_000;
