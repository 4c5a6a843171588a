//! Every execution ends, whatever nobody does. And the ends that random scripts reach too seldom.

use crate::cases::check_cases;
use crate::documents::{CONCURRENCY_LIMIT, EXECUTION_ID, UNIX_MS, object_of, request, step, step_after};
use escapement_contract::{
    AuditKind, Effect, Execution, ExecutionError, Input, Interruption, Moment, Outcome, Phase, Reported,
    Request, RequestDraft, Status, StepState, validate_request,
};
use escapement_fuzz::execution::draft;
use escapement_model::opaque::ValueView;
use escapement_model::{Opaque, Severity};
use proptest::collection::vec;
use proptest::prelude::*;
use std::sync::Arc;

/// What others do, in the tests in which some of them do nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Others {
    /// Nobody admits the execution.
    Nobody,
    /// It is admitted, and no write is answered.
    Admission,
    /// Writes are answered, and no worker takes anything.
    Store,
    /// Workers take everything and answer nothing.
    SilentWorkers,
}

/// The instant at which executions are accepted.
pub(crate) const ACCEPTED: Moment = Moment {
    monotonic_ms: 7_000,
    unix_ms: UNIX_MS,
};

/// Accepts the request as an execution.
pub(crate) fn accept(request: &Arc<Request>, deadline_ms: i64) -> Execution {
    let id = EXECUTION_ID.parse().unwrap();
    Execution::accept(request.clone(), id, ACCEPTED.unix_ms, deadline_ms, ACCEPTED)
}

fn valid(draft: RequestDraft) -> Arc<Request> {
    Arc::new(validate_request(draft, CONCURRENCY_LIMIT).unwrap())
}

fn later(ms: u64) -> Moment {
    Moment {
        monotonic_ms: ACCEPTED.monotonic_ms + ms,
        unix_ms: ACCEPTED.unix_ms + i64::try_from(ms).unwrap(),
    }
}

/// Lets time pass from timer to timer until the result is made.
/// Says when that was, in milliseconds after acceptance.
fn wait_for_the_end(execution: &mut Execution, others: Others) -> u64 {
    let mut now = ACCEPTED;
    if others != Others::Nobody {
        execution.handle(now, Input::Start).unwrap();
    }
    for _ in 0..10_000 {
        while let Some(effect) = execution.poll_effect() {
            match (effect, others) {
                (Effect::PersistResult(_), _) => return now.monotonic_ms - ACCEPTED.monotonic_ms,
                (Effect::PersistStart { .. }, Others::Store | Others::SilentWorkers) => {
                    execution.handle(now, Input::StartPersisted).unwrap();
                }
                // The end withdraws what was dispatched just before.
                (Effect::Dispatch { .. }, _) if execution.phase() != Phase::Running => {}
                (Effect::Dispatch { step, attempt }, Others::SilentWorkers) => {
                    let worker = "worker-1".into();
                    execution
                        .handle(
                            now,
                            Input::Assigned {
                                step,
                                attempt,
                                worker,
                            },
                        )
                        .unwrap();
                }
                (_, _) => {}
            }
        }
        let due = execution
            .next_due_ms()
            .expect("an execution that has not ended has a timer");
        assert!(due >= now.monotonic_ms, "a timer that was due has not fired");
        now = later(due - ACCEPTED.monotonic_ms);
        execution.handle(now, Input::Tick).unwrap();
    }
    panic!("the execution does not end");
}

#[test]
fn every_execution_ends_at_its_limit_at_the_latest_whoever_is_silent() {
    //
    let others = prop_oneof![
        Just(Others::Nobody),
        Just(Others::Admission),
        Just(Others::Store),
        Just(Others::SilentWorkers)
    ];
    check_cases(
        "endings::every_execution_ends_at_its_limit_at_the_latest_whoever_is_silent",
        800,
        &(vec(any::<u8>(), 0..60), others),
        |(bytes, others)| {
            let draft = draft(&bytes);
            let plan = draft.plan.as_ref().unwrap();
            let timeout_ms = plan.timeout_ms.unwrap_or(300_000) as u64;
            let has_environment = draft.environment.is_some();
            let request = valid(draft);
            let mut execution = accept(&request, UNIX_MS + timeout_ms as i64 + 500);
            let ended_after_ms = wait_for_the_end(&mut execution, others);
            prop_assert_eq!(execution.next_due_ms(), None);
            execution
                .handle(later(ended_after_ms), Input::SettlePersisted)
                .unwrap();
            let result = execution.result().unwrap();
            let code = result.error.as_ref().map(|error| error.code.as_str());
            match others {
                Others::Nobody => {
                    prop_assert_eq!(
                        (ended_after_ms, code),
                        (timeout_ms + 500, Some("DEADLINE_EXCEEDED"))
                    );
                }
                _ if !has_environment => {
                    prop_assert_eq!((ended_after_ms, code), (0, Some("CONTEXT_MISSING")))
                }
                Others::Admission | Others::Store => {
                    prop_assert_eq!((ended_after_ms, code), (timeout_ms, Some("PLAN_TIMEOUT")));
                    prop_assert_eq!(result.duration_ms as u64, timeout_ms);
                }
                Others::SilentWorkers => prop_assert!(ended_after_ms <= timeout_ms),
            }
            prop_assert_eq!(result.steps_executed, 0);
            prop_assert_eq!(result.status, Status::Failure);
            Ok(())
        },
    );
}

/// Starts an execution and hands out attempts; `outcome` says how the step with that list index ends.
pub(crate) fn run(draft: RequestDraft, outcome: impl Fn(usize) -> Outcome) -> Execution {
    let mut execution = accept(&valid(draft), UNIX_MS + 600_000);
    execution.handle(ACCEPTED, Input::Start).unwrap();
    while let Some(effect) = execution.poll_effect() {
        let input = match effect {
            Effect::PersistStart { .. } => Input::StartPersisted,
            // The end withdraws what was dispatched just before.
            Effect::Dispatch { .. } if execution.phase() != Phase::Running => continue,
            Effect::Dispatch { step, attempt } => {
                execution
                    .handle(
                        ACCEPTED,
                        Input::Assigned {
                            step,
                            attempt,
                            worker: "worker-1".into(),
                        },
                    )
                    .unwrap();
                Input::AttemptEnded {
                    step,
                    attempt,
                    outcome: outcome(step.as_usize()),
                }
            }
            Effect::PersistResult(_) => Input::SettlePersisted,
            Effect::Withdraw { .. } | Effect::Deliver(_) => continue,
        };
        execution.handle(ACCEPTED, input).unwrap();
    }
    assert_eq!(execution.phase(), Phase::Settled);
    execution
}

pub(crate) fn completed(output: Opaque) -> Outcome {
    Outcome::Completed {
        output,
        warnings: vec![],
    }
}

fn failed(code: &str) -> Outcome {
    Outcome::Failed(Reported {
        code: code.into(),
        ..Reported::default()
    })
}

pub(crate) fn top(execution: &Execution) -> &ExecutionError {
    execution.result().unwrap().error.as_ref().unwrap()
}

fn context_keys(error: &ExecutionError) -> Vec<String> {
    error
        .context
        .entries()
        .map(|entry| entry.unwrap().0.to_owned())
        .collect()
}

#[test]
fn an_output_that_takes_the_payload_beyond_its_limit_is_resource_exhaustion() {
    //
    let mut draft = request();
    draft.plan.as_mut().unwrap().steps = (0..16).map(step).collect();
    let execution = run(draft, |_| completed(object_of(1 << 20)));
    let result = execution.result().unwrap();
    assert_eq!(result.status, Status::Failure);
    assert_eq!(top(&execution).code, "RESOURCE_EXHAUSTED");
    // Twelve outputs of 1 MiB with their ids are more than the 12 MiB that a payload has.
    assert_eq!(result.steps_executed, 11);
    assert!(result.result_payload.len() <= 12 << 20);
}

#[test]
fn an_output_of_one_mebibyte_is_kept_and_one_byte_more_is_not() {
    //
    let mut draft = request();
    draft.plan.as_mut().unwrap().steps.truncate(1);
    let execution = run(draft.clone(), |_| completed(object_of(1 << 20)));
    assert_eq!(execution.result().unwrap().status, Status::Success);
    let execution = run(draft, |_| completed(object_of((1 << 20) + 1)));
    assert_eq!(top(&execution).code, "RESOURCE_EXHAUSTED");
    assert_eq!(top(&execution).cause, None);
}

#[test]
fn a_long_cascade_of_skipped_steps_has_chains_of_three_causes_at_most() {
    //
    let mut draft = request();
    let plan = draft.plan.as_mut().unwrap();
    plan.steps = (0..20)
        .map(|n| if n == 0 { step(0) } else { step_after(n, &[n - 1]) })
        .collect();
    plan.steps.iter_mut().for_each(|step| step.on_failure = 1);
    plan.steps.push(step(20));
    let execution = run(draft, |n| {
        if n == 0 {
            failed("BUSY")
        } else {
            completed(Opaque::default())
        }
    });
    let result = execution.result().unwrap();
    assert_eq!((result.status, result.steps_executed), (Status::Partial, 1));
    assert_eq!(
        (top(&execution).code.as_str(), top(&execution).severity),
        ("BUSY", Severity::Error)
    );
    let mut n_skipped = 0;
    for entry in execution.audit() {
        let AuditKind::StepNotCompleted { error, .. } = &entry.kind else {
            continue;
        };
        let mut chain = vec![error.as_ref()];
        while let Some(cause) = &chain[chain.len() - 1].cause {
            chain.push(cause);
        }
        assert!(chain.len() <= 4, "{} causes", chain.len() - 1);
        assert_eq!(
            chain[chain.len() - 1].code,
            "BUSY",
            "every chain ends at the root"
        );
        n_skipped += usize::from(error.code == "STEP_SKIPPED");
    }
    assert_eq!(n_skipped, 19);
}

#[test]
fn at_most_64_warnings_of_a_step_are_recorded_and_all_are_warn() {
    //
    let mut draft = request();
    draft.plan.as_mut().unwrap().steps.truncate(1);
    let warning = Reported {
        code: "UNKNOWN_ERROR".into(),
        severity: Some(Severity::Fatal),
        ..Reported::default()
    };
    let execution = run(draft, |_| Outcome::Completed {
        output: Opaque::default(),
        warnings: vec![warning.clone(); 65],
    });
    assert_eq!(execution.result().unwrap().status, Status::Success);
    let warnings = execution.audit().iter().find_map(|entry| match &entry.kind {
        AuditKind::StepCompleted { warnings, .. } => Some(warnings),
        _ => None,
    });
    let warnings = warnings.unwrap();
    assert_eq!(warnings.len(), 64);
    assert!(warnings.iter().all(|warning| warning.severity == Severity::Warn));
}

#[test]
fn messages_are_cut_at_1000_code_points_and_large_contexts_are_dropped() {
    //
    let mut draft = request();
    draft.plan.as_mut().unwrap().steps.truncate(1);
    let report = |context: Opaque| {
        Outcome::Failed(Reported {
            code: "BUSY".into(),
            message: "\u{1f600}".repeat(1_001),
            severity: None,
            context,
        })
    };
    let execution = run(draft.clone(), |_| report(object_of(16 << 10)));
    assert_eq!(top(&execution).message, "\u{1f600}".repeat(1_000));
    assert!(
        context_keys(top(&execution))
            .iter()
            .any(|key| key.starts_with("fill"))
    );
    let execution = run(draft.clone(), |_| report(object_of((16 << 10) + 1)));
    let keys = context_keys(top(&execution));
    assert!(keys.contains(&"context_dropped".to_owned()), "{keys:?}");
    assert!(!keys.iter().any(|key| key.starts_with("fill")), "{keys:?}");
    let execution = run(draft, |_| report(crate::documents::broken_object()));
    assert!(context_keys(top(&execution)).contains(&"context_dropped".to_owned()));
}

#[test]
fn a_failure_by_halt_shows_the_error_of_the_step_as_fatal_above_itself() {
    //
    let execution = run(request(), |_| failed("BUSY"));
    let top = top(&execution);
    let cause = top.cause.as_ref().unwrap();
    assert_eq!((top.severity, cause.severity), (Severity::Fatal, Severity::Error));
    assert_eq!(
        (&top.code, &top.message, &top.step_id),
        (&cause.code, &cause.message, &cause.step_id)
    );
}

#[test]
fn an_execution_that_was_started_before_a_restart_is_a_failure_that_is_never_resumed() {
    //
    let request = valid(request());
    let id = EXECUTION_ID.parse().unwrap();
    let mut execution = Execution::recover(
        request,
        id,
        UNIX_MS - 100,
        UNIX_MS + 600_000,
        Interruption::Restarted {
            started_at: UNIX_MS - 50,
        },
        ACCEPTED,
    );
    let effects: Vec<Effect> = std::iter::from_fn(|| execution.poll_effect()).collect();
    assert!(
        matches!(effects.as_slice(), [Effect::PersistResult(_)]),
        "{effects:?}"
    );
    assert_eq!(execution.result(), None);
    assert!(execution.handle(ACCEPTED, Input::StartPersisted).is_err());
    execution.handle(ACCEPTED, Input::SettlePersisted).unwrap();
    let result = execution.result().unwrap();
    assert_eq!(
        (result.status, result.steps_executed, result.duration_ms),
        (Status::Failure, 0, 50)
    );
    assert_eq!(top(&execution).code, "UNKNOWN_ERROR");
    let reason = top(&execution)
        .context
        .entries()
        .map(Result::unwrap)
        .find(|(key, _)| *key == "reason");
    assert_eq!(
        reason,
        Some(("reason", ValueView::Text("orchestrator_restarted")))
    );
}

#[test]
fn a_limit_that_runs_out_names_no_step_and_tells_what_was_in_flight() {
    //
    let mut execution = accept(&valid(request()), UNIX_MS + 600_000);
    execution.handle(ACCEPTED, Input::Start).unwrap();
    execution.handle(ACCEPTED, Input::StartPersisted).unwrap();
    let first = execution.request().plan().canonical_order()[0];
    execution
        .handle(
            ACCEPTED,
            Input::Assigned {
                step: first,
                attempt: 1,
                worker: "w".into(),
            },
        )
        .unwrap();
    execution.handle(later(60_000), Input::Tick).unwrap();
    assert_eq!(execution.step_state(first), StepState::Stopped);
    execution.handle(later(60_001), Input::SettlePersisted).unwrap();
    let error = top(&execution);
    assert_eq!((error.code.as_str(), error.step_id), ("PLAN_TIMEOUT", None));
    let keys = context_keys(error);
    for key in ["limit_ms", "started_at", "deadline_ms", "errors"] {
        assert!(keys.contains(&key.to_owned()), "{key} is missing in {keys:?}");
    }
    let lists_the_step = format!("{:?}", error.context).contains(&crate::documents::step_id(0));
    assert!(lists_the_step, "the steps in flight are named");
}

#[test]
fn an_attempt_that_was_not_started_cannot_be_lost() {
    // R-2.12 R-2.18 R-4.15: before the acknowledgement it can only be returned.
    let mut execution = accept(&valid(request()), UNIX_MS + 600_000);
    execution.handle(ACCEPTED, Input::Start).unwrap();
    execution.handle(ACCEPTED, Input::StartPersisted).unwrap();
    let step = execution.request().plan().canonical_order()[0];
    execution
        .handle(
            ACCEPTED,
            Input::Assigned {
                step,
                attempt: 1,
                worker: "w".into(),
            },
        )
        .unwrap();
    let lost = Input::AttemptEnded {
        step,
        attempt: 1,
        outcome: Outcome::Lost,
    };
    assert!(
        execution.handle(ACCEPTED, lost.clone()).is_err(),
        "WORKER_LOST needs an attempt that had started"
    );
    execution
        .handle(ACCEPTED, Input::AttemptStarted { step, attempt: 1 })
        .unwrap();
    execution.handle(ACCEPTED, lost).unwrap();
}

#[test]
fn a_step_that_cannot_run_waits_for_its_turn() {
    // : one step at a time means that what cannot run does not stop what runs before it.
    let mut draft = request();
    draft.max_concurrent_steps = Some(2);
    let plan = draft.plan.as_mut().unwrap();
    plan.steps = vec![step(0), step(1), step(2), step_after(3, &[0])];
    plan.steps[0].on_failure = 1;
    let mut execution = accept(&valid(draft), UNIX_MS + 600_000);
    execution.handle(ACCEPTED, Input::Start).unwrap();
    execution.handle(ACCEPTED, Input::StartPersisted).unwrap();
    let first = execution.request().plan().canonical_order()[0];
    let last = execution.request().plan().canonical_order()[3];
    execution
        .handle(
            ACCEPTED,
            Input::Assigned {
                step: first,
                attempt: 1,
                worker: "w".into(),
            },
        )
        .unwrap();
    let outcome = failed("BUSY");
    execution
        .handle(
            ACCEPTED,
            Input::AttemptEnded {
                step: first,
                attempt: 1,
                outcome,
            },
        )
        .unwrap();
    // The third step of the list took the slot of the first.
    assert_eq!(execution.step_state(last), StepState::Pending);
    assert_eq!(execution.phase(), Phase::Running);
}
