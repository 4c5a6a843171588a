//! Every execution ends, whatever nobody does. And the ends that random scripts reach too seldom.

use crate::cases::check_cases;
use crate::documents::{CONCURRENCY_LIMIT, EXECUTION_ID, UNIX_MS};
use escapement_contract::{
    Effect, Execution, ExecutionError, Input, Moment, Outcome, Phase, Request, RequestDraft, Status,
    validate_request,
};
use escapement_fuzz::execution::draft;
use escapement_model::Opaque;
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

pub(crate) fn top(execution: &Execution) -> &ExecutionError {
    execution.result().unwrap().error.as_ref().unwrap()
}
