//! Ordinary work: what goes in, what comes out.

use std::time::Duration;

use escapement_model::headers;
use escapement_tests::Fault;
use escapement_wire::v1::execution_error::Severity;
use escapement_wire::worker::v1::attempt_outcome::Outcome;
use escapement_wire::worker::v1::rejected_attempt::Reason;
use serde_json::{Value, json};

use crate::catalogue::{Check, check};
use crate::log::Log;
use crate::messages::{assignment, assignments, delay, delays, milliseconds, output, shown, tokens};
use crate::play::{ANSWER_LIMIT, Play, demand, outcome_of};
use crate::scene::Scene;

pub(super) const CHECKS: &[Check] = &[
    check!(
        assignments_are_answered,
        "Every assignment is answered `started` or `rejected` within a second.",
        "session.proto, Assignments: The worker MUST answer each item `started` or `rejected`."
    ),
    check!(
        even_the_shortest_is_answered,
        "An attempt that ends at once is reported as `started` as well.",
        "session.proto, Assignments: The worker MUST answer each item `started` or `rejected`."
    ),
    check!(
        fail_fails_as_told,
        "A failure carries code, message and each severity as the handler gave them.",
        "session.proto, Failure: The handler failed."
    ),
    check!(
        not_here_is_told,
        "A failure says that another worker may do the step if the handler said so, and only then.",
        "session.proto, Failure.not_here: This worker may not do the step, and its handler did nothing; another worker may."
    ),
    check!(
        a_repetition_is_known_by_its_key,
        "`fail` counts attempts and tells the key as the headers say, and without them by the attempt, the execution and the step.",
        "PROTOCOL.md, section 1: It is the same for every attempt to have one effect."
    ),
    check!(
        delay_tells_how_long_it_ran,
        "`delay` ends after its time with `elapsed_ms`, and `run_time_ms` is about as long.",
        "session.proto, AttemptOutcome.run_time_ms: Milliseconds that the handler ran."
    ),
    check!(
        an_unknown_action_is_rejected,
        "An assignment without a handler is rejected as `unknown_action`.",
        "session.proto, RejectedAttempt.unknown_action: The worker no longer has this handler."
    ),
];

async fn assignments_are_answered(scene: Scene) -> Result<(), Fault> {
    let (_play, session) = Play::begin(&scene).await?;
    let items = delays(4, Duration::from_secs(60));
    session.send(assignments(items.clone()));
    let told = tokens(&items);
    let answered = |log: &Log| {
        told.iter()
            .all(|token| log.started(token).is_some())
            .then_some(())
    };
    session
        .expect("`started` for 4 attempts within a second", ANSWER_LIMIT, answered)
        .await
}

async fn even_the_shortest_is_answered(scene: Scene) -> Result<(), Fault> {
    let (_play, session) = Play::begin(&scene).await?;
    for _ in 0..5 {
        let item = assignment("echo", json!({}));
        outcome_of(&session, &item, ANSWER_LIMIT).await?;
        let what = "`started` for an attempt that has ended";
        session
            .expect(what, ANSWER_LIMIT, |log| log.started(&item.attempt_token))
            .await?;
    }
    Ok(())
}

async fn fail_fails_as_told(scene: Scene) -> Result<(), Fault> {
    let (_play, session) = Play::begin(&scene).await?;
    let severities = [
        ("warn", Severity::Warn),
        ("error", Severity::Error),
        ("fatal", Severity::Fatal),
    ];
    for (word, severity) in severities {
        let (code, message) = (
            format!("KIT_{word}"),
            format!("ein Überlauf: {word}, wie bestellt"),
        );
        let payload = json!({ "code": code, "message": message, "severity": word });
        let item = outcome_of(&session, &assignment("fail", payload), ANSWER_LIMIT).await?;
        let Some(Outcome::Failure(failure)) = &item.outcome else {
            return Err(format!("expected a failure, got {}", shown(item.outcome.as_ref())).into());
        };
        let got = (&failure.code, &failure.message, failure.severity());
        let expected = (&code, &message, severity);
        demand(got == expected, || format!("expected {expected:?}, got {got:?}"))?;
    }
    Ok(())
}

async fn not_here_is_told(scene: Scene) -> Result<(), Fault> {
    let (_play, session) = Play::begin(&scene).await?;
    for not_here in [true, false] {
        let payload = json!({ "code": "KIT_NOT_HERE", "message": "as told", "not_here": not_here });
        let item = outcome_of(&session, &assignment("fail", payload), ANSWER_LIMIT).await?;
        let told = matches!(&item.outcome, Some(Outcome::Failure(failure)) if failure.not_here == not_here);
        demand(told, || {
            format!(
                "expected a failure with not_here {not_here}, got {}",
                shown(item.outcome.as_ref())
            )
        })?;
    }
    Ok(())
}

async fn a_repetition_is_known_by_its_key(scene: Scene) -> Result<(), Fault> {
    let (_play, session) = Play::begin(&scene).await?;
    let attempt = |told: Option<&str>, counted: u32| {
        let mut item = assignment("fail", json!({ "code": "NOT_YET", "succeed_on_attempt": 2 }));
        item.attempt = counted;
        for (name, value) in told
            .into_iter()
            .flat_map(|number| [(headers::ATTEMPT, number), KEY])
        {
            item.headers.insert(name.to_owned(), value.to_owned());
        }
        item
    };
    // As in a run: each attempt is an execution of its own, and the first of it.
    let first = outcome_of(&session, &attempt(Some("1"), 1), ANSWER_LIMIT).await?;
    let failed = matches!(&first.outcome, Some(Outcome::Failure(failure)) if failure.code == "NOT_YET");
    demand(failed, || {
        format!(
            "expected a failure of the first attempt, got {}",
            shown(first.outcome.as_ref())
        )
    })?;
    let second = output(&outcome_of(&session, &attempt(Some("2"), 1), ANSWER_LIMIT).await?)?;
    let alone = attempt(None, 2);
    let own_key = format!("{}/{}", alone.execution_id, alone.step_id);
    let without = output(&outcome_of(&session, &alone, ANSWER_LIMIT).await?)?;
    for (told, key) in [(second, KEY.1), (without, &own_key)] {
        let expected = json!({ "attempt": 2, "idempotency_key": key });
        demand(told == expected, || format!("expected {expected}, got {told}"))?;
    }
    Ok(())
}

async fn delay_tells_how_long_it_ran(scene: Scene) -> Result<(), Fault> {
    let (_play, session) = Play::begin(&scene).await?;
    let asked = Duration::from_millis(600);
    let item = outcome_of(&session, &delay(asked), Duration::from_secs(5)).await?;
    let elapsed = output(&item)?["elapsed_ms"].as_f64();
    let range = milliseconds(asked) as f64 - 5.0..4_000.0;
    let fits = |ms: f64| range.contains(&ms);
    demand(elapsed.is_some_and(fits), || {
        format!("expected elapsed_ms of about 600, got {elapsed:?}")
    })?;
    let ran = item.run_time_ms;
    demand(fits(ran as f64), || {
        format!("expected run_time_ms of about 600, got {ran}")
    })
}

async fn an_unknown_action_is_rejected(scene: Scene) -> Result<(), Fault> {
    let (mut play, session) = Play::begin(&scene).await?;
    for action in ["no.such.action", "ECHO", "echo ", ""] {
        let item = assignment(action, Value::Object(Default::default()));
        session.send(assignments([item.clone()]));
        let what = format!("a rejection of the action {action:?}");
        let rejected = session.expect(&what, ANSWER_LIMIT, |log| {
            log.rejected(&item.attempt_token)
                .map(|(_, rejected)| rejected.reason())
        });
        let reason = rejected.await?;
        demand(reason == Reason::UnknownAction, || {
            format!("expected unknown_action, got {reason:?}")
        })?;
    }
    play.must_still_work(&session).await
}

/// The header with the key against repeats of a run's attempt.
const KEY: (&str, &str) = (
    headers::IDEMPOTENCY_KEY,
    "0b9e7a34-51c2-4d8e-8f60-1a2b3c4d5e01/pay",
);
