//! Outcomes that come more than once, in two versions, too late or over several ways. One of them counts, and all are answered.

use crate::arena::{Arena, LIMIT};
use crate::intruder::{foreign_token, greeted, hello, next, steps};
use bytes::Bytes;
use escapement_tests::fault_proxy::{Direction, Flow};
use escapement_tests::session_checker::Count;
use escapement_tests::{ScriptedWorker, wait_for};
use escapement_wire::v1::audit_entry::Event;
use escapement_wire::v1::plan_result::Status;
use escapement_wire::worker::v1::attempt_outcome::Outcome;
use escapement_wire::worker::v1::in_flight::Phase;
use escapement_wire::worker::v1::outcome_ack::Verdict;
use escapement_wire::worker::v1::rejected_attempt::Reason;
use escapement_wire::worker::v1::session_request::Message;
use escapement_wire::worker::v1::session_response::Message as Answer;
use escapement_wire::worker::v1::worker_service_client::WorkerServiceClient;
use escapement_wire::worker::v1::{
    Assignment, AttemptAcks, AttemptOutcome, Failure, InFlight, Outcomes, ReportOutcomesRequest,
    SessionRequest, Success,
};
use serde_json::json;
use std::time::Duration;

#[tokio::test]
async fn an_outcome_that_comes_ten_times_over_three_ways_counts_once() {
    let arena = Arena::start().await;
    let proxy = arena.proxy().await;
    let id = arena.submit(steps("twice", 4, &json!({}))).await;
    let said = ScriptedWorker::hello_for(ScriptedWorker::specs(&["twice"]), 4);
    let (mut old, _) = ScriptedWorker::open(&proxy.url(), said.clone()).await;
    let mut assignments = Vec::new();
    for _ in 0..4 {
        assignments.push(old.started().await);
    }
    // The old stream is half dead: what the worker says on it arrives when nobody expects it any more.
    let (_, seq) = (old.n_assignments_sent().await, 7);
    proxy.set(Direction::ToTarget, Flow::Hold);
    for n in 0..10 {
        let message = Some(outcomes(assignments.iter().map(success)));
        old.send_raw(SessionRequest {
            seq: seq + n,
            message,
        })
        .await;
    }
    let mut said = said;
    said.hello_number = 2;
    said.in_flight = assignments.iter().map(|one| held(one, Phase::Finished)).collect();
    let (mut new, welcome) = ScriptedWorker::open(&arena.orchestrator.url(), said).await;
    assert_eq!(welcome.verdicts.len(), 4);
    proxy.set(Direction::ToTarget, Flow::Pass);
    let mut client = WorkerServiceClient::new(arena.orchestrator.channel());
    let mut accepted = 0;
    for round in 0..10 {
        for one in &assignments {
            let verdict = if round % 2 == 0 {
                new.report(one, Outcome::Success(Success::default())).await
            } else {
                let request = ReportOutcomesRequest {
                    items: vec![success(one)],
                };
                let answer = client.report_outcomes(request).await.unwrap().into_inner();
                answer.items[0].verdict()
            };
            match verdict {
                Verdict::Accepted => accepted += 1,
                Verdict::Duplicate => assert!(round > 0),
                other => panic!("round {round}: {other:?}"),
            }
        }
    }
    assert_eq!(accepted, 4);
    let result = arena.result_of(&id).await;
    assert_eq!((result.status(), result.steps_executed), (Status::Success, 4));
    new.goodbye().await;
    drop((old, proxy));
    let judgement = arena.finish().await;
    judgement
        .exactly(Count::OutcomesAccepted, 4)
        .at_least(Count::OutcomesRefused, 36)
        .at_least(Count::Reports, 20);
}

#[tokio::test]
async fn of_two_outcomes_that_contradict_each_other_the_first_counts() {
    let arena = with_a_liar().await;
    let mut worker = ScriptedWorker::connect(&arena.orchestrator, &["twice"], 8).await;
    for success_first in [true, false] {
        let id = arena.submit(steps("twice", 1, &json!({}))).await;
        let one = worker.started().await;
        let mut pair = vec![success(&one), failure(&one)];
        if !success_first {
            pair.reverse();
        }
        for (n, item) in pair.into_iter().chain([success(&one), failure(&one)]).enumerate() {
            let verdict = worker.report(&one, item.outcome.unwrap()).await;
            let expected = if n == 0 {
                Verdict::Accepted
            } else {
                Verdict::Duplicate
            };
            assert_eq!(verdict, expected, "number {n}");
        }
        let completed = arena.result_of(&id).await.steps_executed == 1
            && arena.result_of(&id).await.status() == Status::Success;
        assert_eq!(completed, success_first);
    }
    worker.goodbye().await;
    let judgement = arena.finish().await;
    judgement
        .exactly(Count::OutcomesAccepted, 2)
        .at_least(Count::OutcomesRefused, 6);
}

/// The two versions race over the worker's stream and over a call: whoever wins, the record has one of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn contradicting_outcomes_over_two_ways_at_once_settle_a_step_once() {
    let arena = with_a_liar().await;
    let mut worker = ScriptedWorker::connect(&arena.orchestrator, &["twice"], 8).await;
    let client = WorkerServiceClient::new(arena.orchestrator.channel());
    let mut n_by_call = 0;
    for n in 0..40 {
        let id = arena.submit(steps("twice", 1, &json!({}))).await;
        let one = worker.started().await;
        let mut call = client.clone();
        let request = ReportOutcomesRequest {
            items: vec![failure(&one)],
        };
        let called = tokio::spawn(async move { call.report_outcomes(request).await.unwrap().into_inner() });
        if n % 2 == 0 {
            // The call gets a start.
            tokio::task::yield_now().await;
        }
        let on_stream = worker.report(&one, Outcome::Success(Success::default())).await;
        let by_call = called.await.unwrap().items[0].verdict();
        let succeeded = arena.result_of(&id).await.status() == Status::Success;
        let expected = if succeeded {
            (Verdict::Accepted, Verdict::Duplicate)
        } else {
            (Verdict::Duplicate, Verdict::Accepted)
        };
        assert_eq!((on_stream, by_call), expected);
        n_by_call += u32::from(!succeeded);
    }
    eprintln!("contradictions: {n_by_call} of 40 went to the call");
    worker.goodbye().await;
    arena.finish().await.exactly(Count::OutcomesAccepted, 40);
}

#[tokio::test]
async fn answers_in_a_senseless_order_change_nothing_that_is_settled() {
    let arena = Arena::start().await;
    let mut worker = ScriptedWorker::connect(&arena.orchestrator, &["order"], 8).await;

    // `stopped` unasked, then the outcome: the attempt is lost, and the outcome comes too late.
    let id = arena.submit(steps("order", 1, &json!({}))).await;
    let one = worker.started().await;
    worker.stop(&one).await;
    assert_eq!(worker.succeed(&one, json!({})).await, Verdict::AlreadyEnded);
    assert_eq!(arena.result_of(&id).await.status(), Status::Failure);

    // `rejected` after `started`: what may have run is not handed out again.
    let id = arena.submit(steps("order", 1, &json!({}))).await;
    let one = worker.started().await;
    worker.reject_because(&one, Reason::Cancelled).await;
    assert_eq!(arena.result_of(&id).await.status(), Status::Failure);
    assert_eq!(worker.succeed(&one, json!({})).await, Verdict::AlreadyEnded);

    // `started`, `rejected` and `stopped` after the outcome.
    let id = arena.submit(steps("order", 1, &json!({}))).await;
    let one = worker.assignment().await;
    assert_eq!(worker.succeed(&one, json!({})).await, Verdict::Accepted);
    worker.start(&one).await;
    worker.reject_because(&one, Reason::Cancelled).await;
    worker.stop(&one).await;
    assert_eq!(worker.succeed(&one, json!({})).await, Verdict::Duplicate);
    assert_eq!(arena.result_of(&id).await.status(), Status::Success);

    // All three answers for one attempt in one message, with repeats, and for one that nobody was given.
    let id = arena.submit(steps("order", 1, &json!({}))).await;
    let one = worker.assignment().await;
    let tokens = vec![
        one.attempt_token.clone(),
        foreign_token(),
        one.attempt_token.clone(),
    ];
    worker
        .send(Message::AttemptAcks(AttemptAcks {
            started: tokens.clone(),
            rejected: vec![],
            stopped: tokens,
        }))
        .await;
    assert_eq!(arena.result_of(&id).await.status(), Status::Failure);
    assert_eq!(worker.succeed(&one, json!({})).await, Verdict::AlreadyEnded);
    worker.goodbye().await;
    arena
        .finish()
        .await
        .at_least(Count::Assignments, 4)
        .at_least(Count::OutcomesRefused, 4);
}

#[tokio::test]
async fn what_one_session_says_of_anothers_attempts_is_as_if_it_had_said_nothing() {
    let arena = Arena::start().await;
    let id = arena.submit(steps("order", 3, &json!({}))).await;
    let mut worker = ScriptedWorker::connect(&arena.orchestrator, &["order"], 3).await;
    let mut all = Vec::new();
    for _ in 0..3 {
        all.push(worker.assignment().await);
    }
    let tokens: Vec<Bytes> = all.iter().map(|one| one.attempt_token.clone()).collect();
    let mut thief = greeted(&arena.orchestrator, hello(&["order"], 0)).await;
    for (started, stopped) in [
        (tokens.clone(), vec![]),
        (vec![], tokens.clone()),
        (tokens.clone(), tokens.clone()),
    ] {
        let acks = AttemptAcks {
            started,
            stopped,
            ..AttemptAcks::default()
        };
        thief.send(Message::AttemptAcks(acks)).await.unwrap();
    }
    thief.send(outcomes(all.iter().map(success))).await.unwrap();
    let mut n_unknown = 0;
    while n_unknown < 3 {
        if let Some(Answer::OutcomeAcks(acks)) = next(&mut thief).await {
            assert!(
                acks.items.iter().all(|ack| ack.verdict() == Verdict::Unknown),
                "{acks:?}"
            );
            n_unknown += acks.items.len();
        }
    }
    // They are still where they were, and not started.
    for one in &all {
        worker.start(one).await;
        assert_eq!(worker.succeed(one, json!({})).await, Verdict::Accepted);
    }
    assert_eq!(arena.result_of(&id).await.status(), Status::Success);
    worker.goodbye().await;
    drop(thief);
    let judgement = arena.finish().await;
    judgement
        .exactly(Count::OutcomesAccepted, 3)
        .at_least(Count::OutcomesRefused, 3);
}

#[tokio::test]
async fn a_snapshot_that_lies_loses_what_it_leaves_out_and_gains_nothing() {
    let arena = Arena::start().await;
    let id = arena.submit(steps("order", 2, &json!({}))).await;
    let mut worker = ScriptedWorker::connect(&arena.orchestrator, &["order"], 2).await;
    worker.keep_alive(Duration::from_millis(500));
    worker.leave_snapshots();
    let (started, waiting) = (worker.started().await, worker.assignment().await);
    // The second one is left unanswered until the orchestrator asks.
    let n = worker.snapshot_request().await;
    let invented = foreign_token();
    let lies = vec![
        InFlight {
            attempt_token: invented.clone(),
            phase: Phase::Running.into(),
        },
        InFlight {
            attempt_token: Bytes::from_static(&[1; 9]),
            phase: Phase::Running.into(),
        },
    ];
    // An answer to another question is none.
    worker.snapshot(n + 7, u64::MAX, lies.clone()).await;
    worker.snapshot(n, u64::MAX, lies).await;
    // The invented one is to be stopped; the started one is lost; the waiting one is handed out again.
    let cancelled = Assignment {
        attempt_token: invented,
        ..Assignment::default()
    };
    worker.cancel_of(&cancelled).await;
    worker.stop(&cancelled).await;
    let again = worker.assignment().await;
    assert_eq!(
        (&again.step_id, again.attempt),
        (&waiting.step_id, waiting.attempt)
    );
    assert_ne!(again.attempt_token, waiting.attempt_token);
    assert_eq!(worker.succeed(&started, json!({})).await, Verdict::AlreadyEnded);
    assert_eq!(worker.succeed(&waiting, json!({})).await, Verdict::Stale);
    worker.start(&again).await;
    assert_eq!(worker.succeed(&again, json!({})).await, Verdict::Accepted);
    let result = arena.result_of(&id).await;
    assert_eq!(result.status(), Status::Partial, "{result:?}");
    let record = arena.record_of(&id).await;
    let n_returned = record
        .iter()
        .filter(|entry| matches!(entry.event, Some(Event::AttemptReturned(_))))
        .count();
    assert_eq!(n_returned, 1);
    // Nothing is in flight any more, and both sides know.
    let idle = async || {
        let workers = arena.workers().await;
        let one = workers.iter().find(|one| one.worker_id == "scripted")?;
        (one.in_flight == 0 && one.stopping == 0).then_some(())
    };
    wait_for("a worker with nothing in flight", LIMIT, idle)
        .await
        .unwrap();
    worker.goodbye().await;
    let judgement = arena.finish().await;
    judgement
        .at_least(Count::SnapshotAnswers, 1)
        .at_least(Count::Losses, 2)
        .exactly(Count::OutcomesAccepted, 1);
}

/// An arena where the scripted worker may change its outcomes: the checker holds it against the worker.
async fn with_a_liar() -> Arena {
    let liar = || "scripted".to_owned();
    Arena::start_with(|settings| settings.checker(|checker| checker.careless_workers.extend([liar()]))).await
}

fn success(assignment: &Assignment) -> AttemptOutcome {
    AttemptOutcome {
        attempt_token: assignment.attempt_token.clone(),
        run_time_ms: 1,
        outcome: Some(Outcome::Success(Success::default())),
    }
}

fn failure(assignment: &Assignment) -> AttemptOutcome {
    let failure = Failure {
        code: "CONTRADICTION".to_owned(),
        ..Failure::default()
    };
    AttemptOutcome {
        outcome: Some(Outcome::Failure(failure)),
        ..success(assignment)
    }
}

fn outcomes(items: impl IntoIterator<Item = AttemptOutcome>) -> Message {
    Message::Outcomes(Outcomes {
        items: items.into_iter().collect(),
    })
}

fn held(assignment: &Assignment, phase: Phase) -> InFlight {
    InFlight {
        attempt_token: assignment.attempt_token.clone(),
        phase: phase.into(),
    }
}
