//! Outcomes until they are acknowledged, and what a worker says of its attempts after a break.

use std::time::Duration;

use bytes::Bytes;
use escapement_tests::Fault;
use escapement_wire::worker::v1::AttemptVerdict;
use escapement_wire::worker::v1::attempt_verdict::Verdict;
use escapement_wire::worker::v1::in_flight::Phase;
use escapement_wire::worker::v1::outcome_ack::Verdict as OutcomeVerdict;
use escapement_wire::worker::v1::session_response::Message as ToWorker;
use serde_json::json;
use tokio::time::Instant;

use crate::catalogue::{Check, check};
use crate::log::{Log, listed};
use crate::messages::{assignment, assignments, delay, delays, fresh_bytes, output, tokens, verdict};
use crate::play::{ANSWER_LIMIT, Play, all_started, counts, demand, outcome_of, pass, quiet, start_one};
use crate::scene::Scene;
use crate::session::Session;

pub(super) const CHECKS: &[Check] = &[
    check!(
        an_outcome_survives_breaks,
        "An outcome that was not acknowledged is listed as finished and sent again after each of two breaks.",
        "session.proto, Outcomes: Each item is sent again, unchanged, on every new session until `OutcomeAcks` answers it."
    ),
    check!(
        an_acknowledged_outcome_is_forgotten,
        "An acknowledged outcome is neither listed nor sent again after a break.",
        "session.proto, OutcomeAcks: The worker MUST forget an outcome that was answered, after any answer ..."
    ),
    check!(
        every_answer_releases_an_outcome,
        "Each verdict, one without a meaning and one from the future as well, makes the worker forget the outcome.",
        "session.proto, OutcomeAcks: The worker MUST forget an outcome that was answered, after any answer ..."
    ),
    check!(
        acks_of_unknown_tokens_are_ignored,
        "An acknowledgement of what the worker does not have changes nothing.",
        "PROTOCOL.md, section 4: forget each outcome that is answered, whatever the verdict"
    ),
    check!(
        hello_tells_phases,
        "After a break `Hello` lists what runs as running and what ended as finished, and nothing else.",
        "session.proto, Hello.in_flight: Every attempt that the worker has not been released from."
    ),
    check!(
        what_is_kept_goes_on,
        "What runs during a break goes on and does not begin again, with the verdict `keep`, `unspecified`, one from the future, and none.",
        "PROTOCOL.md, section 8: A verdict that is missing, `unspecified` or unknown means `keep`."
    ),
    check!(
        what_shall_stop_stops,
        "What runs during a break stops with the verdict `stop`, frees its slot, and never succeeds.",
        "session.proto, Welcome: MUST stop the attempts whose verdict is `stop`."
    ),
    check!(
        a_finished_attempt_that_shall_stop_is_let_go,
        "The verdict `stop` on what has ended leaves nothing in flight, once the outcome is answered where it still comes.",
        "session.proto, AttemptVerdict.stop: Stop; the outcome would be refused."
    ),
    check!(
        a_new_boot_wants_nothing_from_before,
        "A `Welcome` with another `boot_id` stops everything from before, without a verdict on each.",
        "session.proto, Welcome.boot_id: A new one means that no earlier attempt is needed."
    ),
    check!(
        verdicts_on_unknown_tokens_are_ignored,
        "A verdict on what the worker does not have changes nothing.",
        "session.proto, Welcome.verdicts: Verdicts, one for each entry of `Hello.in_flight`."
    ),
    check!(
        many_breaks_lose_nothing,
        "Four attempts that end while the connection breaks six times have their outcomes in the end.",
        "PROTOCOL.md, section 1: After a break the worker says what it has, the orchestrator compares, and both agree again."
    ),
];

async fn an_outcome_survives_breaks(scene: Scene) -> Result<(), Fault> {
    let (mut play, mut session) = Play::begin(&scene).await?;
    session.withhold_acks();
    let item = assignment("echo", json!({ "again": true }));
    let first = outcome_of(&session, &item, ANSWER_LIMIT).await?;
    for _ in 0..2 {
        session.cut();
        let (next, hello) = play.greeted().await?;
        next.withhold_acks();
        let phase = listed(&hello.in_flight, &item.attempt_token).map(|entry| entry.phase());
        demand(phase == Some(Phase::Finished), || {
            format!("expected it listed as finished, got {phase:?}")
        })?;
        next.send(ToWorker::Welcome(play.welcome_for(&hello, Verdict::Keep)));
        let again = outcome_again(&next, &item.attempt_token).await?;
        demand(output(&again)? == output(&first)?, || {
            "expected the same output again, got another".to_owned()
        })?;
        session = next;
    }
    Ok(())
}

async fn outcome_again(
    session: &Session,
    token: &Bytes,
) -> Result<escapement_wire::worker::v1::AttemptOutcome, Fault> {
    let first = |log: &Log| log.outcomes_of(token).next().map(|(_, item)| item.clone());
    session
        .expect(
            "an unacknowledged outcome again on a new stream",
            ANSWER_LIMIT,
            first,
        )
        .await
}

async fn an_acknowledged_outcome_is_forgotten(scene: Scene) -> Result<(), Fault> {
    let (mut play, session) = Play::begin(&scene).await?;
    let item = assignment("echo", json!({ "once": true }));
    outcome_of(&session, &item, ANSWER_LIMIT).await?;
    counts(&session, 0, Duration::from_secs(3)).await?;
    nothing_comes_again(&mut play, &session).await
}

/// Breaks the connection and makes sure that the worker has nothing more to say of any attempt.
async fn nothing_comes_again(play: &mut Play, session: &Session) -> Result<(), Fault> {
    session.cut();
    let (session, hello) = play.greeted().await?;
    let n = hello.in_flight.len();
    demand(n == 0, || {
        format!("expected nothing in flight after the acknowledgement, got {n} entries in `Hello`")
    })?;
    session.send(ToWorker::Welcome(play.welcome_for(&hello, Verdict::Keep)));
    quiet(Duration::from_millis(800), || {
        let n = session.log().outcomes().count();
        (n > 0).then(|| format!("expected no outcome after the acknowledgement, got {n}"))
    })
    .await
}

async fn every_answer_releases_an_outcome(scene: Scene) -> Result<(), Fault> {
    let (mut play, session) = Play::begin(&scene).await?;
    session.withhold_acks();
    for answer in [0, 1, 2, 3, 4, 5, 6, 99] {
        let item = assignment("echo", json!({ "answer": answer }));
        outcome_of(&session, &item, ANSWER_LIMIT).await?;
        session.acknowledge([item.attempt_token], answer);
        let released = counts(&session, 0, Duration::from_secs(3)).await;
        released.map_err(|fault| format!("after the verdict {answer}: {fault}"))?;
    }
    nothing_comes_again(&mut play, &session).await
}

async fn acks_of_unknown_tokens_are_ignored(scene: Scene) -> Result<(), Fault> {
    let (mut play, session) = Play::begin(&scene).await?;
    let running = delay(Duration::from_secs(60));
    start_one(&session, &running).await?;
    session.acknowledge([fresh_bytes(), fresh_bytes()], OutcomeVerdict::Accepted.into());
    play.must_still_work(&session).await?;
    counts(&session, 1, Duration::from_secs(3)).await
}

async fn hello_tells_phases(scene: Scene) -> Result<(), Fault> {
    let (mut play, session) = Play::begin(&scene).await?;
    session.withhold_acks();
    let (runs, ended) = (delay(Duration::from_secs(60)), assignment("echo", json!({})));
    start_one(&session, &runs).await?;
    outcome_of(&session, &ended, ANSWER_LIMIT).await?;
    session.cut();
    let (_, hello) = play.greeted().await?;
    let phase = |token| listed(&hello.in_flight, token).map(|entry| entry.phase());
    let got = (
        phase(&runs.attempt_token),
        phase(&ended.attempt_token),
        hello.in_flight.len(),
    );
    let expected = (Some(Phase::Running), Some(Phase::Finished), 2);
    demand(got == expected, || format!("expected {expected:?}, got {got:?}"))
}

async fn what_is_kept_goes_on(scene: Scene) -> Result<(), Fault> {
    let (mut play, session) = Play::begin(&scene).await?;
    let asked = Duration::from_millis(3_500);
    let items = delays(4, asked);
    let told = tokens(&items);
    session.send(assignments(items));
    all_started(&session, &told).await?;
    let began = Instant::now();
    pass(Duration::from_millis(1_500)).await;
    session.cut();
    let (session, hello) = play.greeted().await?;
    let mut welcome = play.welcome_for(&hello, Verdict::Keep);
    // The last one has no verdict at all.
    let verdicts = told
        .iter()
        .zip([Verdict::Keep.into(), Verdict::Unspecified.into(), 99]);
    welcome.verdicts = verdicts
        .map(|(token, verdict)| AttemptVerdict {
            attempt_token: token.clone(),
            verdict,
        })
        .collect();
    session.send(ToWorker::Welcome(welcome));
    for (token, verdict) in told.iter().zip(["keep", "unspecified", "99", "none"]) {
        let what = format!("the outcome of what ran during a break, with the verdict {verdict}");
        let ended = session.expect(&what, Duration::from_secs(8), |log| {
            log.outcomes_of(token).next().map(|(at, item)| (at, item.clone()))
        });
        let (at, ended) = ended.await?;
        output(&ended).map_err(|fault| format!("with the verdict {verdict}: {fault}"))?;
        // One that began again after the break would take more than a second longer.
        let took = at - began;
        demand(took < asked + Duration::from_millis(1_000), || {
            format!("expected an end after {asked:?} with the verdict {verdict}, it took {took:?}")
        })?;
    }
    Ok(())
}

async fn what_shall_stop_stops(scene: Scene) -> Result<(), Fault> {
    let (mut play, session) = Play::begin(&scene).await?;
    let item = delay(Duration::from_millis(3_000));
    start_one(&session, &item).await?;
    session.cut();
    let (session, hello) = play.greeted().await?;
    session.answer_outcomes(OutcomeVerdict::AlreadyEnded.into());
    session.send(ToWorker::Welcome(play.welcome_for(&hello, Verdict::Stop)));
    counts(&session, 0, ANSWER_LIMIT).await?;
    quiet(Duration::from_millis(2_500), || {
        succeeded(&session, &item.attempt_token)
    })
    .await?;
    play.must_still_work(&session).await
}

fn succeeded(session: &Session, token: &Bytes) -> Option<String> {
    let log = session.log();
    let any = log.succeeded(token);
    any.then(|| "expected no success of what was to stop, got one".to_owned())
}

async fn a_finished_attempt_that_shall_stop_is_let_go(scene: Scene) -> Result<(), Fault> {
    let (mut play, session) = Play::begin(&scene).await?;
    session.withhold_acks();
    let item = assignment("echo", json!({}));
    outcome_of(&session, &item, ANSWER_LIMIT).await?;
    session.cut();
    let (session, hello) = play.greeted().await?;
    session.answer_outcomes(OutcomeVerdict::AlreadyEnded.into());
    session.send(ToWorker::Welcome(play.welcome_for(&hello, Verdict::Stop)));
    counts(&session, 0, Duration::from_secs(3)).await?;
    play.must_still_work(&session).await
}

async fn a_new_boot_wants_nothing_from_before(scene: Scene) -> Result<(), Fault> {
    let (mut play, session) = Play::begin(&scene).await?;
    session.withhold_acks();
    let (runs, ended) = (delay(Duration::from_millis(3_000)), assignment("echo", json!({})));
    start_one(&session, &runs).await?;
    outcome_of(&session, &ended, ANSWER_LIMIT).await?;
    session.cut();
    play.boot_id = fresh_bytes();
    let (session, hello) = play.greeted().await?;
    session.answer_outcomes(OutcomeVerdict::Unknown.into());
    let mut welcome = play.welcome_for(&hello, Verdict::Stop);
    welcome.verdicts.clear();
    session.send(ToWorker::Welcome(welcome));
    counts(&session, 0, Duration::from_secs(3)).await?;
    quiet(Duration::from_millis(2_500), || {
        succeeded(&session, &runs.attempt_token)
    })
    .await?;
    play.must_still_work(&session).await
}

async fn verdicts_on_unknown_tokens_are_ignored(scene: Scene) -> Result<(), Fault> {
    let mut play = Play::start(&scene).await?;
    let (session, hello) = play.greeted().await?;
    let mut welcome = play.welcome_for(&hello, Verdict::Keep);
    let strange = [fresh_bytes(), fresh_bytes()];
    welcome.verdicts = strange
        .iter()
        .flat_map(|token| [verdict(token, Verdict::Keep), verdict(token, Verdict::Stop)])
        .collect();
    session.send(ToWorker::Welcome(welcome));
    play.must_still_work(&session).await
}

async fn many_breaks_lose_nothing(scene: Scene) -> Result<(), Fault> {
    let (mut play, mut session) = Play::begin(&scene).await?;
    session.withhold_acks();
    let items: Vec<_> = (1..=4).map(|n| delay(Duration::from_millis(n * 500))).collect();
    session.send(assignments(items.clone()));
    let told = tokens(&items);
    all_started(&session, &told).await?;
    for _ in 0..6 {
        pass(Duration::from_millis(300)).await;
        session.cut();
        let (next, hello) = play.greeted().await?;
        next.withhold_acks();
        next.send(ToWorker::Welcome(play.welcome_for(&hello, Verdict::Keep)));
        session = next;
    }
    let ended = |log: &Log| told.iter().all(|token| log.succeeded(token)).then_some(());
    session
        .expect(
            "all four outcomes on the last stream",
            Duration::from_secs(5),
            ended,
        )
        .await?;
    session.acknowledge(told.clone(), OutcomeVerdict::Accepted.into());
    counts(&session, 0, Duration::from_secs(3)).await
}
