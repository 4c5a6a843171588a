//! One thing changed in a true record or its result, and the difference that must be found.

use escapement_wire::v1::audit_entry::Event;
use escapement_wire::v1::execution_error::Severity;
use escapement_wire::v1::plan_result::Status;
use escapement_wire::v1::{AuditEntry, ExecutionError};
use serde_json::{Value, json};

use super::record::{Recorded, id, object, partial, without_steps};

/// The change is found, in this part, at this entry.
fn is_found(change: impl FnOnce(&mut Recorded), entry: Option<i64>, part: &str) {
    let mut recorded = partial();
    change(&mut recorded);
    let difference = recorded.retell().expect_err("something was changed");
    assert_eq!((difference.entry, difference.part), (entry, part), "{difference}");
}

fn error_of(recorded: &mut Recorded) -> &mut ExecutionError {
    recorded
        .result
        .error
        .as_mut()
        .expect("a partial result has an error")
}

#[test]
fn every_field_of_a_result_is_compared() {
    is_found(|it| it.result.plan_id = id(9), None, "plan_id");
    is_found(|it| it.result.set_status(Status::Failure), None, "status");
    is_found(|it| it.result.set_status(Status::Unspecified), None, "status");
    is_found(|it| it.result.steps_executed = 2, None, "steps_executed");
    is_found(|it| it.result.steps_total = 2, None, "steps_total");
    is_found(|it| it.result.completed_at += 1, None, "completed_at");
    is_found(|it| it.result.duration_ms += 1, None, "duration_ms");
    is_found(|it| it.result.result_payload = None, None, "result_payload");
    let payload = |value: &Value| Some(object(value));
    is_found(
        |it| it.result.result_payload = payload(&json!({ (id(0)): {} })),
        None,
        "result_payload",
    );
    is_found(
        |it| it.result.result_payload = payload(&json!({ (id(2)): 1 })),
        None,
        "result_payload",
    );
    is_found(|it| it.result.error = None, None, "error");
    is_found(|it| error_of(it).error_code = "BUSY".into(), None, "error");
    is_found(|it| error_of(it).step_id = Some(id(1)), None, "error");
    is_found(|it| error_of(it).step_id = Some(id(7)), None, "error.step_id");
    is_found(|it| error_of(it).recoverable = false, None, "recoverable");
    is_found(|it| error_of(it).severity = 0, None, "severity");
    is_found(
        |it| {
            error_of(it).set_severity(Severity::Fatal);
            error_of(it).recoverable = false;
        },
        None,
        "error",
    );
    is_found(
        |it| {
            let cause = error_of(it).clone();
            error_of(it).cause = Some(Box::new(cause));
        },
        None,
        "error",
    );
}

#[test]
fn every_field_of_the_list_of_errors_is_compared() {
    let changes: [fn(&mut Value); 8] = [
        |errors| errors[0]["error_code"] = json!("OTHER"),
        |errors| errors[1]["step_id"] = json!(id(2)),
        |errors| errors[1]["severity"] = json!("fatal"),
        |errors| errors[0]["recoverable"] = json!(false),
        |errors| errors[1]["attempt"] = json!(1),
        |errors| errors[2]["timestamp"] = json!(10_090),
        |errors| errors[2]["cause"]["error_code"] = json!("BUSY"),
        |errors| errors.as_array_mut().expect("a list").swap(0, 1),
    ];
    for (n, change) in changes.into_iter().enumerate() {
        let mut recorded = partial();
        let context = error_of(&mut recorded).context.clone().expect("a context");
        let mut context = Value::Object(escapement_wire::json::from_opaque(&context).expect("an object"));
        change(&mut context["errors"]);
        error_of(&mut recorded).context = Some(object(&context));
        let difference = recorded.retell().expect_err("something was changed");
        assert_eq!(
            difference.part, "error.context.errors",
            "change {n}: {difference}"
        );
    }
    is_found(|it| error_of(it).context = None, None, "errors_omitted");
}

#[test]
fn every_entry_must_be_there_in_its_place() {
    let n_entries = partial().entries.len();
    for at in 0..n_entries {
        let mut recorded = partial();
        recorded.entries.remove(at);
        number(&mut recorded.entries);
        // That a worker told nothing of the beginning of an attempt is possible.
        let is_told = matches!(partial().entries[at].event, Some(Event::AttemptStarted(_)));
        assert_eq!(recorded.retell().is_ok(), is_told, "without entry {}", at + 1);

        let mut recorded = partial();
        let twice = recorded.entries[at].clone();
        recorded.entries.insert(at, twice);
        number(&mut recorded.entries);
        recorded.retell().expect_err("an entry stands there twice");
    }
    for at in 1..n_entries {
        let mut recorded = partial();
        recorded.entries.swap(at - 1, at);
        number(&mut recorded.entries);
        // The list of incomplete steps has no place of its own.
        let is_a_list = |at: usize| matches!(partial().entries[at].event, Some(Event::StepsIncomplete(_)));
        let may_be_swapped = is_a_list(at - 1) || is_a_list(at);
        assert_eq!(
            recorded.retell().is_ok(),
            may_be_swapped,
            "entries {at} and {}",
            at + 1
        );
    }
    is_found(|it| it.entries[4].sequence = 7, Some(7), "sequence");
}

fn number(entries: &mut [AuditEntry]) {
    for (entry, sequence) in entries.iter_mut().zip(1..) {
        entry.sequence = sequence;
    }
}

#[test]
fn every_decision_is_compared() {
    fn with(it: &mut Recorded, at: usize, change: impl FnOnce(&mut Event)) {
        change(it.entries[at - 1].event.as_mut().expect("an event"));
    }
    is_found(
        |it| {
            with(it, 7, |event| {
                if let Event::RetryScheduled(retry) = event {
                    retry.delay_ms = 21
                }
            })
        },
        Some(7),
        "event",
    );
    is_found(
        |it| {
            with(it, 7, |event| {
                if let Event::RetryScheduled(retry) = event {
                    retry.next_attempt = 3
                }
            })
        },
        Some(7),
        "event",
    );
    is_found(
        |it| {
            with(it, 12, |event| {
                if let Event::StepNotCompleted(ended) = event {
                    ended.reason = "failed".into()
                }
            })
        },
        Some(12),
        "event",
    );
    is_found(
        |it| {
            with(it, 12, |event| {
                if let Event::StepNotCompleted(ended) = event {
                    ended.reason = "tired".into()
                }
            })
        },
        Some(12),
        "reason",
    );
    is_found(
        |it| {
            with(it, 13, |event| {
                if let Event::StepNotCompleted(ended) = event {
                    ended.attempts = 1
                }
            })
        },
        Some(13),
        "event",
    );
    is_found(
        |it| {
            with(it, 13, |event| {
                if let Event::StepNotCompleted(ended) = event {
                    ended.error.as_mut().expect("an error").cause = None;
                }
            });
        },
        Some(13),
        "event",
    );
    is_found(
        |it| {
            with(it, 14, |event| {
                if let Event::StepWaiting(waiting) = event {
                    waiting.step_id = id(1)
                }
            })
        },
        Some(14),
        "event",
    );
    is_found(
        |it| {
            with(it, 17, |event| {
                if let Event::StepCompleted(completed) = event {
                    completed.attempts = 2
                }
            })
        },
        Some(17),
        "event",
    );
    is_found(
        |it| {
            with(it, 3, |event| {
                if let Event::StepWaiting(waiting) = event {
                    waiting.step_id = "nobody".into()
                }
            })
        },
        Some(3),
        "step_id",
    );
    is_found(
        |it| {
            with(it, 18, |event| {
                if let Event::MandatoryAction(action) = event {
                    action.number = 2
                }
            })
        },
        Some(18),
        "mandatory_action",
    );
    is_found(
        |it| {
            with(it, 27, |event| {
                if let Event::StepsIncomplete(incomplete) = event {
                    incomplete.step_ids.reverse();
                }
            });
        },
        Some(27),
        "event",
    );
    is_found(
        |it| {
            with(it, 31, |event| {
                if let Event::Settled(settled) = event {
                    settled.set_status(Status::Success)
                }
            })
        },
        Some(31),
        "event",
    );
    // What a reserved code weighs is not for the record to say.
    is_found(
        |it| {
            with(it, 11, |event| {
                if let Event::AttemptFailed(failed) = event {
                    let error = failed.error.as_mut().expect("an error");
                    error.set_severity(Severity::Fatal);
                    error.recoverable = false;
                }
            });
        },
        Some(11),
        "event",
    );
}

#[test]
fn a_time_that_cannot_be_is_found() {
    // A decision apart from its cause; an entry before the start; an outcome after the limit; a sleep that was cut.
    is_found(|it| it.entries[6].at += 1, Some(7), "at");
    is_found(|it| it.entries[2].at = 10_009, Some(3), "at");
    is_found(|it| it.entries[7].at -= 2, Some(8), "at, of the end of a sleep");
    is_found(
        |it| it.plan.steps[0].timeout_ms = Some(5),
        Some(6),
        "at, of an outcome within the step's limit",
    );
    is_found(
        |it| it.plan.timeout_ms = Some(5),
        Some(6),
        "at, of an outcome within the plan's limit",
    );
    let early = without_steps("DEADLINE_EXCEEDED", false, 10_500, 10_502, json!({}));
    assert_eq!(early.retell().unwrap_err().part, "at, of the deadline");
}

#[test]
fn another_plan_has_another_story() {
    is_found(|it| it.plan.retry_policy = None, Some(7), "event");
    is_found(|it| it.plan.steps[1].on_failure = 0, Some(13), "event");
    is_found(|it| it.plan.steps[2].depends_on = vec![id(1)], Some(14), "event");
    is_found(|it| it.facts.max_concurrent_steps = Some(2), Some(4), "event");
    is_found(|it| it.entries.clear(), None, "record");
    is_found(|it| it.entries.truncate(30), None, "record");
    // Nothing went wrong, so nothing ends it.
    is_found(
        |it| {
            it.entries.drain(4..17);
            number(&mut it.entries);
        },
        Some(5),
        "at, of the plan's limit",
    );
}
