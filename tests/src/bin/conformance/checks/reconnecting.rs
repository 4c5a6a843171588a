//! When and how a worker comes back: after breaks, after `Reconnect`, and after an error.

use std::time::Duration;

use escapement_tests::{Fault, wait_for};
use escapement_wire::worker::v1::attempt_verdict::Verdict;
use escapement_wire::worker::v1::rejected_attempt::Reason;
use escapement_wire::worker::v1::session_error::Code;
use escapement_wire::worker::v1::session_response::Message as ToWorker;
use escapement_wire::worker::v1::{Reconnect, SessionError};
use serde_json::json;
use tokio::time::Instant;

use crate::catalogue::{Check, check};
use crate::log::Log;
use crate::messages::{assignment, assignments, delay, milliseconds};
use crate::play::{ANSWER_LIMIT, HELLO_LIMIT, Play, counts, demand, outcome_of, pass, start_one};
use crate::scene::Scene;
use crate::session::Session;
use crate::stage::{Stage, Welcoming};

pub(super) const CHECKS: &[Check] = &[
    check!(
        reconnect_moves_an_idle_worker,
        "At `Reconnect` with a deadline of 0 an idle worker says `Goodbye` and is back within the jitter and a second.",
        "session.proto, Reconnect: At the deadline the worker finishes what it has, says `Goodbye`, and connects again ..."
    ),
    check!(
        reconnect_waits_for_its_deadline,
        "Until the deadline of `Reconnect` the worker takes and runs what it is given, and does not leave.",
        "session.proto, Reconnect: Until the deadline the executions that run may still need the worker, so assignments may follow."
    ),
    check!(
        reconnect_finishes_what_runs,
        "What runs at the deadline succeeds on the same stream, new work is rejected as `draining`, then comes `Goodbye`.",
        "PROTOCOL.md, section 11: At the deadline it answers new ones `rejected` `draining`, finishes what it has, says `Goodbye` ..."
    ),
    check!(
        the_worker_comes_back_from_a_closed_port,
        "After three seconds without a listener the worker comes back, as the same instance.",
        "PROTOCOL.md, section 12: A stream that ends without a `SessionError`, with whatever status, is a break: backoff, then resume."
    ),
    check!(
        the_worker_starts_before_its_orchestrator,
        "A worker that is started first waits for its orchestrator.",
        "PROTOCOL.md, section 5: the delay is over: connecting."
    ),
    check!(
        dials_grow_rarer,
        "Where every connection is closed at once the worker dials on, at most 40 times in 8 s, and not more often in the second half.",
        "PROTOCOL.md, section 5: The first delay is 100 ms, and each further one is twice as long, up to 5 s."
    ),
    check!(
        a_refused_call_is_not_repeated_in_haste,
        "Where every call is answered by HTTP 503 or gRPC UNAVAILABLE the worker calls again, but not in haste.",
        "PROTOCOL.md, section 12: A stream that ends without a `SessionError`, with whatever status, is a break: backoff, then resume."
    ),
    check!(
        a_silent_server_is_given_up,
        "A connection on which nobody ever speaks is given up within 20 s.",
        "PROTOCOL.md, section 5: No `Welcome` for 5 s since the dial: drop the stream, backoff"
    ),
    check!(
        a_missing_welcome_is_given_up,
        "A stream on which no `Welcome` comes is given up within 20 s, and another `Hello` follows.",
        "PROTOCOL.md, section 5: No `Welcome` for 5 s since the dial: drop the stream, backoff"
    ),
    check!(
        retry_after_is_respected,
        "After `SessionError` unavailable with `retry_after_ms` no session comes before that time, and one after it.",
        "session.proto, SessionError.retry_after_ms: Milliseconds before a new session makes sense."
    ),
    check!(
        the_worker_returns_after_errors_that_pass,
        "After `lease_expired`, `limit_exceeded`, `declared_dead` and an error from the future the worker is back.",
        "session.proto, SessionError: Sent before the orchestrator ends a stream on account of the worker."
    ),
    check!(
        a_superseded_worker_stays_away,
        "After `SessionError` superseded no session of that process comes; it may end.",
        "session.proto, SessionError.superseded: A newer session of the same instance took over."
    ),
    check!(
        a_worker_with_other_credentials_comes_back_as_another_instance,
        "After `SessionError` unauthorized with `new_instance` the worker returns with another `instance_id` and ends what it had.",
        "session.proto, SessionError.new_instance: The worker MUST end what it has of this orchestrator"
    ),
    check!(
        a_hopeless_worker_does_not_hammer,
        "Refused as unsupported_protocol or unauthorized, the worker ends or tries at most 10 times in 6 s.",
        "session.proto, SessionError.unsupported_protocol: No revision that both speak."
    ),
];

fn error(code: i32, retry_after: Duration) -> ToWorker {
    let retry_after_ms = milliseconds(retry_after);
    ToWorker::SessionError(SessionError {
        code,
        detail: "on purpose".to_owned(),
        retry_after_ms,
        ..SessionError::default()
    })
}

fn reconnect(deadline: Duration, jitter: Duration) -> ToWorker {
    ToWorker::Reconnect(Reconnect {
        reason: "on purpose".to_owned(),
        jitter_ms: milliseconds(jitter),
        deadline_ms: milliseconds(deadline),
    })
}

async fn back_within(
    play: &mut Play,
    session: &Session,
    from: Instant,
    limit: Duration,
) -> Result<(), Fault> {
    let before = session
        .log()
        .hello()
        .cloned()
        .ok_or("a session begins with `Hello`")?;
    let (next, hello) = play.greeted_within(limit + HELLO_LIMIT).await?;
    let took = next.log().opened - from;
    demand(took <= limit, || {
        format!("expected a new session within {limit:?}, it took {took:?}")
    })?;
    demand(hello.instance_id == before.instance_id, || {
        "expected the same instance, got another".to_owned()
    })?;
    demand(hello.in_flight.is_empty(), || {
        format!("expected nothing in flight, got {}", hello.in_flight.len())
    })
}

async fn reconnect_moves_an_idle_worker(scene: Scene) -> Result<(), Fault> {
    let (mut play, session) = Play::begin(&scene).await?;
    pass(Duration::from_millis(500)).await;
    let jitter = Duration::from_millis(800);
    let told = Instant::now();
    session.send(reconnect(Duration::ZERO, jitter));
    session
        .expect("`Goodbye` after `Reconnect`", ANSWER_LIMIT, |log| log.goodbye())
        .await?;
    back_within(&mut play, &session, told, jitter + COMES_BACK).await
}

async fn reconnect_waits_for_its_deadline(scene: Scene) -> Result<(), Fault> {
    let (mut play, session) = Play::begin(&scene).await?;
    let (deadline, jitter) = (Duration::from_millis(2_500), Duration::from_millis(300));
    let running = delay(Duration::from_secs(2));
    start_one(&session, &running).await?;
    let told = Instant::now();
    session.send(reconnect(deadline, jitter));
    while told.elapsed() + Duration::from_millis(1_000) < deadline {
        outcome_of(&session, &assignment("echo", json!({})), ANSWER_LIMIT).await?;
        pass(Duration::from_millis(200)).await;
    }
    let token = &running.attempt_token;
    session
        .expect_success(
            "a success before the deadline of `Reconnect`",
            token,
            Duration::from_secs(3),
        )
        .await?;
    back_within(&mut play, &session, told + deadline, jitter + COMES_BACK).await
}

async fn reconnect_finishes_what_runs(scene: Scene) -> Result<(), Fault> {
    let (mut play, session) = Play::begin(&scene).await?;
    let running = delay(Duration::from_millis(3_000));
    start_one(&session, &running).await?;
    let jitter = Duration::from_millis(300);
    session.send(reconnect(Duration::from_millis(500), jitter));
    pass(Duration::from_millis(1_200)).await;
    let late = assignment("echo", json!({ "too": "late" }));
    session.send(assignments([late.clone()]));
    let what = "a rejection after the deadline of `Reconnect`";
    let rejected = |log: &Log| log.rejected(&late.attempt_token).map(|(_, item)| item.reason());
    let reason = session.expect(what, ANSWER_LIMIT, rejected).await?;
    demand(reason == Reason::Draining, || {
        format!("expected draining, got {reason:?}")
    })?;
    let token = &running.attempt_token;
    session
        .expect_success(
            "a success on the same stream after the deadline",
            token,
            Duration::from_secs(5),
        )
        .await?;
    let said = session
        .expect("`Goodbye`", ANSWER_LIMIT, |log| log.goodbye())
        .await?;
    back_within(&mut play, &session, said, jitter + COMES_BACK).await
}

async fn the_worker_comes_back_from_a_closed_port(scene: Scene) -> Result<(), Fault> {
    let (mut play, session) = Play::begin(&scene).await?;
    pass(Duration::from_millis(500)).await;
    play.stage.close_port();
    pass(Duration::from_secs(3)).await;
    let opened = Instant::now();
    play.stage.open_port().await?;
    back_within(&mut play, &session, opened, Duration::from_secs(20)).await
}

async fn the_worker_starts_before_its_orchestrator(scene: Scene) -> Result<(), Fault> {
    let mut stage = Stage::open().await?;
    stage.close_port();
    let mut play = Play::start_on(stage, &scene)?;
    pass(Duration::from_secs(3)).await;
    play.worker.must_live()?;
    play.stage.open_port().await?;
    let session = play.welcomed().await?;
    play.must_still_work(&session).await
}

async fn dials_grow_rarer(scene: Scene) -> Result<(), Fault> {
    let (play, session) = Play::begin(&scene).await?;
    pass(Duration::from_millis(500)).await;
    play.stage.welcome_by(Welcoming::CloseAtOnce);
    session.cut();
    let (begin, half) = (Instant::now(), Duration::from_secs(4));
    pass(half * 2).await;
    let dials: Vec<_> = play
        .stage
        .connects()
        .into_iter()
        .filter(|at| *at > begin)
        .collect();
    let (first, second) = (
        dials.iter().filter(|at| **at <= begin + half).count(),
        dials.iter().filter(|at| **at > begin + half).count(),
    );
    let met = first + second <= 40 && first >= 1 && second <= first.max(2);
    demand(met, || {
        format!("expected up to 40 dials, fewer in the second half, got {first} and {second}")
    })?;
    play.worker.must_live()
}

async fn a_refused_call_is_not_repeated_in_haste(scene: Scene) -> Result<(), Fault> {
    for welcoming in [Welcoming::NoService, Welcoming::GrpcStatus(UNAVAILABLE)] {
        let (mut play, session) = Play::begin(&scene).await?;
        pass(Duration::from_millis(300)).await;
        play.stage.welcome_by(welcoming);
        session.cut();
        pass(Duration::from_secs(5)).await;
        // A call that is refused on a connection that stays is seen by the stage as well.
        let n = play.stage.n_refused();
        demand((1..=30).contains(&n), || {
            format!("expected 1 to 30 calls in 5 s at {welcoming:?}, got {n}")
        })?;
        play.stage.welcome_by(Welcoming::Serve);
        play.stage.cut_all();
        let session = play.welcomed().await?;
        play.must_still_work(&session).await?;
    }
    Ok(())
}

async fn a_silent_server_is_given_up(scene: Scene) -> Result<(), Fault> {
    let stage = Stage::open().await?;
    stage.welcome_by(Welcoming::SaysNothing);
    let mut play = Play::start_on(stage, &scene)?;
    wait_for("a first dial", Duration::from_secs(30), async || {
        (!play.stage.connects().is_empty()).then_some(())
    })
    .await?;
    play.stage.welcome_by(Welcoming::Serve);
    let session = play.greeted_within(GIVES_UP).await?.0;
    session.cut();
    Ok(())
}

async fn a_missing_welcome_is_given_up(scene: Scene) -> Result<(), Fault> {
    let mut play = Play::start(&scene).await?;
    let (first, _) = play.greeted().await?;
    first
        .ended("the end of a stream without `Welcome`", GIVES_UP)
        .await?;
    let session = play.welcomed().await?;
    play.must_still_work(&session).await
}

async fn retry_after_is_respected(scene: Scene) -> Result<(), Fault> {
    let retry_after = Duration::from_millis(2_500);
    // Once instead of a welcome, and once after it.
    for welcomed in [false, true] {
        let mut play = Play::start(&scene).await?;
        let session = if welcomed {
            play.welcomed().await?
        } else {
            play.greeted().await?.0
        };
        let told = Instant::now();
        session.send(error(Code::Unavailable.into(), retry_after));
        session.finish(0);
        let (next, _) = play.greeted_within(retry_after + Duration::from_secs(20)).await?;
        let waited = next.log().opened - told;
        demand(waited + CLOCKS >= retry_after, || {
            format!("expected no session before {retry_after:?}, got one after {waited:?}")
        })?;
    }
    Ok(())
}

async fn the_worker_returns_after_errors_that_pass(scene: Scene) -> Result<(), Fault> {
    for code in [
        Code::LeaseExpired.into(),
        Code::LimitExceeded.into(),
        Code::DeclaredDead.into(),
        99,
    ] {
        let (mut play, session) = Play::begin(&scene).await?;
        pass(Duration::from_millis(300)).await;
        session.send(error(code, Duration::from_millis(200)));
        session.finish(0);
        let next = play
            .welcomed()
            .await
            .map_err(|fault| format!("after the error {code}: {fault}"))?;
        play.must_still_work(&next).await?;
    }
    Ok(())
}

async fn a_superseded_worker_stays_away(scene: Scene) -> Result<(), Fault> {
    let mut play = Play::start(&scene).await?;
    let (session, hello) = play.greeted().await?;
    session.send(ToWorker::Welcome(play.welcome_for(&hello, Verdict::Keep)));
    pass(Duration::from_millis(300)).await;
    session.send(error(Code::Superseded.into(), Duration::ZERO));
    session.finish(0);
    match play.back_within(Duration::from_secs(6), &hello).await {
        None => Ok(()),
        Some(came) => {
            let first = session.log().end.clone();
            Err(
                format!("expected no session after superseded, one came: {came}; the first: {first:?}")
                    .into(),
            )
        }
    }
}

async fn a_worker_with_other_credentials_comes_back_as_another_instance(scene: Scene) -> Result<(), Fault> {
    let mut play = Play::start(&scene).await?;
    play.leave_books_alone();
    let (session, before) = play.greeted().await?;
    session.send(ToWorker::Welcome(play.welcome_for(&before, Verdict::Keep)));
    let running = delay(Duration::from_secs(30));
    start_one(&session, &running).await?;
    session.send(ToWorker::SessionError(SessionError {
        code: Code::Unauthorized.into(),
        detail: "on purpose".to_owned(),
        new_instance: true,
        ..SessionError::default()
    }));
    session.finish(0);
    let (session, after) = play.greeted_within(Duration::from_secs(5)).await?;
    demand(
        after.instance_id.len() == 16 && after.instance_id != before.instance_id,
        || format!("expected another instance, got {:?} again", after.instance_id),
    )?;
    demand(after.previous_session_id.is_empty(), || {
        "expected no session before, for this instance had none".to_owned()
    })?;
    // The work of the instance before is not continued.
    session.send(ToWorker::Welcome(play.welcome_for(&after, Verdict::Stop)));
    counts(&session, 0, Duration::from_secs(10)).await?;
    play.must_still_work(&session).await
}

async fn a_hopeless_worker_does_not_hammer(scene: Scene) -> Result<(), Fault> {
    for code in [Code::UnsupportedProtocol, Code::Unauthorized] {
        let mut play = Play::start(&scene).await?;
        let (first, _) = play.greeted().await?;
        let refuse = |session: &Session| {
            session.send(error(code.into(), Duration::ZERO));
            session.finish(0);
        };
        refuse(&first);
        let (end, mut n) = (Instant::now() + Duration::from_secs(6), 1);
        while let Ok(session) = play
            .stage
            .stream(end.saturating_duration_since(Instant::now()))
            .await
        {
            refuse(&session);
            n += 1;
        }
        demand(n <= 10, || {
            format!("expected at most 10 sessions in 6 s after {code:?}, got {n}")
        })?;
    }
    Ok(())
}

const UNAVAILABLE: u16 = 14;
/// The second after the jitter, and what a busy machine adds.
const COMES_BACK: Duration = Duration::from_millis(2_000);
const GIVES_UP: Duration = Duration::from_secs(20);
const CLOCKS: Duration = Duration::from_millis(50);
