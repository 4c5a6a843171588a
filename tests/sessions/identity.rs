//! Workers that are not who they say they are, or not any more. Nobody gets another's work, and nobody's is lost by it.

use crate::arena::{Arena, LIMIT, scale};
use crate::intruder::{
    end_of, expect_alive, foreign_token, forget_peak, greeted, hello, memory_mib, next, peak_mib, steps,
};
use bytes::Bytes;
use escapement_sdk::{StepContext, Worker};
use escapement_tests::fault_proxy::{Direction, Flow};
use escapement_tests::raw_session::RawSession;
use escapement_tests::session_checker::Count;
use escapement_tests::{ScriptedWorker, wait_for};
use escapement_wire::v1::plan_result::Status;
use escapement_wire::v1::{DeclareWorkerDeadRequest, DrainWorkerRequest};
use escapement_wire::worker::v1::attempt_outcome::Outcome;
use escapement_wire::worker::v1::in_flight::Phase;
use escapement_wire::worker::v1::outcome_ack::Verdict;
use escapement_wire::worker::v1::session_error::Code;
use escapement_wire::worker::v1::session_request::Message;
use escapement_wire::worker::v1::session_response::Message as Answer;
use escapement_wire::worker::v1::worker_service_client::WorkerServiceClient;
use escapement_wire::worker::v1::{
    ActionSpec, AttemptOutcome, Capacity, Hello, InFlight, Outcomes, RegisterActions, ReportOutcomesRequest,
    Success,
};
use serde_json::{Value, json};
use std::time::Duration;

/// What a worker may cost that registers new actions all the time.
const REGISTRATION_COST_MIB: u64 = 150;

#[tokio::test]
async fn forged_tokens_are_unknown_and_foreign_ones_too() {
    let arena = Arena::start().await;
    let id = arena.submit(steps("forge", 1, &json!({}))).await;
    let mut victim = ScriptedWorker::connect(&arena.orchestrator, &["forge"], 1).await;
    let real = victim.started().await;
    let mut forger = greeted(&arena.orchestrator, hello(&["forge"], 0)).await;
    // Every token that differs in one bit from a real one, and some that are none.
    let near = (0..128).map(|bit| {
        let mut token = real.attempt_token.to_vec();
        token[bit / 8] ^= 1 << (bit % 8);
        Bytes::from(token)
    });
    let forged: Vec<Bytes> = near.chain((0..872).map(|_| foreign_token())).collect();
    let items: Vec<_> = forged.iter().map(outcome).collect();
    // On a stream, the real token of an attempt that another worker has is as good as none.
    let mut on_the_stream = items.clone();
    on_the_stream.push(outcome(&real.attempt_token));
    let n_sent = on_the_stream.len();
    let sent = Message::Outcomes(Outcomes { items: on_the_stream });
    forger.send(sent).await.unwrap();
    let mut n_answered = 0;
    while n_answered < n_sent {
        if let Some(Answer::OutcomeAcks(acks)) = next(&mut forger).await {
            assert!(acks.items.iter().all(|ack| ack.verdict() == Verdict::Unknown));
            n_answered += acks.items.len();
        }
    }
    let mut client = WorkerServiceClient::new(arena.orchestrator.channel());
    let answer = client
        .report_outcomes(ReportOutcomesRequest { items })
        .await
        .unwrap()
        .into_inner();
    assert!(answer.items.iter().all(|ack| ack.verdict() == Verdict::Unknown));
    // Tokens of other lengths are answered as they came.
    let odd: Vec<_> = [0, 1, 15, 17, 300]
        .map(|n| outcome(&Bytes::from(vec![9; n])))
        .to_vec();
    let answer = client
        .report_outcomes(ReportOutcomesRequest { items: odd.clone() })
        .await
        .unwrap()
        .into_inner();
    for (asked, answered) in odd.iter().zip(&answer.items) {
        assert_eq!(
            (&answered.attempt_token, answered.verdict()),
            (&asked.attempt_token, Verdict::Unknown)
        );
    }
    // A hello that lists what others have gets none of it.
    let mut said = ScriptedWorker::hello_for(ScriptedWorker::specs(&["forge"]), 0);
    said.in_flight = vec![held(&real.attempt_token, Phase::Running)];
    let (thief, welcome) = ScriptedWorker::open(&arena.orchestrator.url(), said).await;
    assert_eq!(welcome.verdicts[0].verdict, 2, "stop");
    assert_eq!(victim.succeed(&real, json!({})).await, Verdict::Accepted);
    assert_eq!(arena.result_of(&id).await.status(), Status::Success);
    drop((victim, forger, thief));
    arena
        .finish()
        .await
        .exactly(Count::OutcomesAccepted, 1)
        .at_least(Count::OutcomesRefused, 2_000);
}

#[tokio::test]
async fn a_second_process_with_the_same_instance_takes_over_and_an_sdk_worker_ends() {
    let arena = Arena::start().await;
    let entered = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
    let entering = std::sync::Arc::clone(&entered);
    let worker = Worker::builder(arena.orchestrator.url())
        .worker_id("first")
        .handler("hold", move |_: Value, _: StepContext| {
            entering.add_permits(1);
            std::future::pending::<Result<Value, _>>()
        })
        .build()
        .unwrap();
    let running = tokio::spawn(worker.run());
    let id = arena.submit(steps("hold", 1, &json!({}))).await;
    entered.acquire().await.unwrap().forget();
    arena.wait_for_starts(&id, 1).await;
    let instance = arena
        .wait_for_workers("the first worker", "first", |all| all.first().cloned())
        .await
        .instance_id;
    // Another process says that it is the same, and has none of its work.
    let mut said = ScriptedWorker::hello_for(ScriptedWorker::specs(&["hold"]), 1);
    said.worker_id = "second".to_owned();
    said.instance_id = unhex(&instance);
    said.hello_number = 1_000;
    let (second, _) = ScriptedWorker::open(&arena.orchestrator.url(), said).await;
    let ended = tokio::time::timeout(LIMIT, running)
        .await
        .expect("the first worker goes on")
        .unwrap();
    assert!(ended.is_err(), "it must end with an error");
    assert_eq!(
        arena.result_of(&id).await.status(),
        Status::Failure,
        "what ran with the first one is lost"
    );
    second.goodbye().await;
    arena
        .finish()
        .await
        .at_least(Count::Losses, 1)
        .at_least(Count::Resumes, 1);
}

#[tokio::test]
async fn of_two_sessions_of_one_instance_the_later_has_what_it_lists() {
    let arena = Arena::start().await;
    let id = arena.submit(steps("hold", 4, &json!({}))).await;
    let said = ScriptedWorker::hello_for(ScriptedWorker::specs(&["hold"]), 4);
    let (mut first, _) = ScriptedWorker::open(&arena.orchestrator.url(), said.clone()).await;
    let (started, kept) = (first.started().await, first.started().await);
    let (waiting, kept_waiting) = (first.assignment().await, first.assignment().await);
    arena.wait_for_starts(&id, 2).await;
    let second = Hello {
        hello_number: 2,
        in_flight: vec![
            held(&kept.attempt_token, Phase::Running),
            held(&kept_waiting.attempt_token, Phase::Received),
        ],
        ..said
    };
    let (mut second, welcome) = ScriptedWorker::open(&arena.orchestrator.url(), second).await;
    second.keep_alive(HEARTBEAT);
    assert!(
        welcome.verdicts.iter().all(|verdict| verdict.verdict == 1),
        "keep: {:?}",
        welcome.verdicts
    );
    assert_eq!(first.session_error().await.code(), Code::Superseded);
    // The first one goes on talking, as long as its stream stands: nobody listens.
    for one in [&started, &kept, &waiting] {
        first
            .send(Message::Outcomes(Outcomes {
                items: vec![outcome(&one.attempt_token)],
            }))
            .await;
    }
    // What was left out and had not started comes again, to the one that is left.
    let again = second.started().await;
    assert_eq!(again.step_id, waiting.step_id);
    assert_eq!(second.succeed(&started, json!({})).await, Verdict::AlreadyEnded);
    assert_eq!(second.succeed(&waiting, json!({})).await, Verdict::Stale);
    for one in [&kept, &kept_waiting, &again] {
        assert_eq!(second.succeed(one, json!({})).await, Verdict::Accepted);
    }
    assert_eq!(arena.result_of(&id).await.status(), Status::Partial);
    second.goodbye().await;
    drop(first);
    let judgement = arena.finish().await;
    judgement
        .exactly(Count::OutcomesAccepted, 3)
        .exactly(Count::KeptAttempts, 2)
        .exactly(Count::Losses, 2);
}

/// Two that fight for one instance, many times: each hand-over settles what the new one does not list, and nothing else.
#[tokio::test]
async fn two_processes_that_fight_for_one_instance_do_not_do_a_step_twice() {
    let arena = Arena::start().await;
    let n_rounds = scale(40, 1_000);
    let id = arena.submit(steps("hold", 1, &json!({}))).await;
    let said = ScriptedWorker::hello_for(ScriptedWorker::specs(&["hold"]), 1);
    let mut before: Option<ScriptedWorker> = None;
    let mut last = None;
    for n in 0..n_rounds {
        let said = Hello {
            hello_number: 0,
            worker_id: format!("fighter-{}", n % 2),
            ..said.clone()
        };
        let (mut worker, _) = ScriptedWorker::open(&arena.orchestrator.url(), said).await;
        worker.keep_alive(HEARTBEAT);
        if let Some(mut before) = before.take() {
            assert_eq!(before.session_error().await.code(), Code::Superseded);
        }
        last = Some(worker.assignment().await);
        before = Some(worker);
    }
    let (mut worker, last) = (before.unwrap(), last.unwrap());
    assert_eq!(last.attempt, 1, "none of them started it");
    worker.start(&last).await;
    assert_eq!(worker.succeed(&last, json!({})).await, Verdict::Accepted);
    assert_eq!(arena.result_of(&id).await.status(), Status::Success);
    worker.goodbye().await;
    let judgement = arena.finish().await;
    judgement
        .exactly(Count::Assignments, n_rounds)
        .exactly(Count::OutcomesAccepted, 1);
}

#[tokio::test]
async fn a_hello_that_was_held_up_changes_nothing_when_it_comes() {
    let arena = Arena::start().await;
    let proxy = arena.proxy().await;
    let said = ScriptedWorker::hello_for(ScriptedWorker::specs(&["late"]), 1);
    proxy.set(Direction::ToTarget, Flow::Hold);
    let (address, early) = (proxy.address(), Message::Hello(said.clone()));
    let held_up = tokio::spawn(async move {
        let mut session = RawSession::open(address).await.unwrap();
        session.send(early).await.unwrap();
        end_of(&mut session).await.map(|error| error.code())
    });
    let held = async || (proxy.traffic().connections == 1).then_some(());
    wait_for("the connection that is held up", LIMIT, held)
        .await
        .unwrap();
    let (mut present, _) = ScriptedWorker::open(
        &arena.orchestrator.url(),
        Hello {
            hello_number: 2,
            ..said
        },
    )
    .await;
    let id = arena.submit(steps("late", 1, &json!({}))).await;
    let one = present.started().await;
    proxy.set(Direction::ToTarget, Flow::Pass);
    assert_eq!(held_up.await.unwrap(), Some(Code::Superseded));
    assert_eq!(present.succeed(&one, json!({})).await, Verdict::Accepted);
    assert_eq!(arena.result_of(&id).await.status(), Status::Success);
    present.goodbye().await;
    drop(proxy);
    arena
        .finish()
        .await
        .exactly(Count::Sessions, 1)
        .exactly(Count::OutcomesAccepted, 1);
}

#[tokio::test]
async fn levels_and_actions_of_an_old_revision_are_passed_over() {
    let arena = Arena::start().await;
    let mut worker = ScriptedWorker::connect(&arena.orchestrator, &["old"], 1).await;
    let capacity = |revision, max_in_flight| {
        Message::Capacity(Capacity {
            revision,
            max_in_flight,
            ..Capacity::default()
        })
    };
    let register = |revision, names: &[&str]| {
        Message::RegisterActions(RegisterActions {
            revision,
            actions: ScriptedWorker::specs(names),
        })
    };
    worker.send(capacity(5, 2)).await;
    worker.send(capacity(4, 0)).await;
    worker.send(capacity(1, 4_000)).await;
    worker.send(register(5, &["old", "new"])).await;
    worker.send(register(4, &["gone"])).await;
    worker.send(register(0, &[])).await;
    let old = arena.submit(steps("old", 3, &json!({}))).await;
    let new = arena.submit(steps("new", 1, &json!({}))).await;
    let (first, second) = (worker.started().await, worker.started().await);
    assert_eq!(worker.n_assignments_sent().await, 0, "two are the level");
    for one in [first, second] {
        assert_eq!(worker.succeed(&one, json!({})).await, Verdict::Accepted);
    }
    for _ in 0..2 {
        worker.complete_next(json!({})).await;
    }
    for id in [old, new] {
        assert_eq!(arena.result_of(&id).await.status(), Status::Success);
    }
    worker.goodbye().await;
    arena.finish().await.exactly(Count::OutcomesAccepted, 4);
}

#[tokio::test]
async fn a_living_worker_that_is_declared_dead_comes_back_and_changes_nothing() {
    let arena = Arena::start().await;
    let id = arena.submit(steps("dead", 2, &json!({}))).await;
    let said = ScriptedWorker::hello_for(ScriptedWorker::specs(&["dead"]), 2);
    let (mut worker, _) = ScriptedWorker::open(&arena.orchestrator.url(), said.clone()).await;
    let (started, waiting) = (worker.started().await, worker.assignment().await);
    arena.wait_for_starts(&id, 1).await;
    let request = DeclareWorkerDeadRequest {
        instance_id: hex(&said.instance_id),
        force: true,
    };
    let answer = arena
        .orchestrator
        .fleet()
        .declare_worker_dead(request.clone())
        .await
        .unwrap()
        .into_inner();
    assert_eq!((answer.attempts_lost, answer.attempts_returned), (1, 1));
    assert_eq!(worker.session_error().await.code(), Code::DeclaredDead);
    let again = arena.orchestrator.fleet().declare_worker_dead(request).await;
    assert_eq!(again.unwrap_err().code(), tonic::Code::NotFound);
    // It lives, and says so with all that it had.
    let said = Hello {
        hello_number: 2,
        in_flight: vec![
            held(&started.attempt_token, Phase::Running),
            held(&waiting.attempt_token, Phase::Received),
        ],
        ..said
    };
    let (mut worker, welcome) = ScriptedWorker::open(&arena.orchestrator.url(), said).await;
    worker.keep_alive(HEARTBEAT);
    assert!(
        welcome.verdicts.iter().all(|verdict| verdict.verdict == 2),
        "stop: {:?}",
        welcome.verdicts
    );
    assert_eq!(worker.succeed(&started, json!({})).await, Verdict::AlreadyEnded);
    assert_eq!(worker.succeed(&waiting, json!({})).await, Verdict::Stale);
    let again = worker.complete_next(json!({})).await;
    assert_eq!((again.step_id, again.attempt), (waiting.step_id, 1));
    assert_eq!(arena.result_of(&id).await.status(), Status::Partial);
    worker.goodbye().await;
    arena
        .finish()
        .await
        .exactly(Count::OutcomesAccepted, 1)
        .exactly(Count::Losses, 2);
}

#[tokio::test]
async fn a_drained_process_gets_nothing_however_often_it_comes_back() {
    let arena = Arena::start().await;
    let said = ScriptedWorker::hello_for(ScriptedWorker::specs(&["drained"]), 4);
    let id = arena.submit(steps("drained", 1, &json!({}))).await;
    let (mut worker, _) = ScriptedWorker::open(&arena.orchestrator.url(), said.clone()).await;
    let one = worker.started().await;
    let request = DrainWorkerRequest {
        instance_id: hex(&said.instance_id),
        ..DrainWorkerRequest::default()
    };
    arena.orchestrator.fleet().drain_worker(request).await.unwrap();
    worker.drain_started().await;
    assert_eq!(worker.succeed(&one, json!({})).await, Verdict::Accepted);
    assert_eq!(arena.result_of(&id).await.status(), Status::Success);
    let waits = arena
        .submit(steps("drained", 1, &json!({ "timeout_ms": 20_000 })))
        .await;
    for n in 0..scale(20, 500) {
        let said = Hello {
            hello_number: 2 + n,
            ..said.clone()
        };
        let (mut back, _) = ScriptedWorker::open(&arena.orchestrator.url(), said).await;
        back.drain_started().await;
        // It asks for work in every way there is.
        back.send(Message::Capacity(Capacity {
            revision: 1,
            max_in_flight: 100,
            ..Capacity::default()
        }))
        .await;
        let actions = ScriptedWorker::specs(&["drained", "more"]);
        back.send(Message::RegisterActions(RegisterActions { revision: 1, actions }))
            .await;
        assert_eq!(back.n_assignments_sent().await, 0);
        worker = back;
    }
    // Another process gets it.
    let mut other = ScriptedWorker::connect(&arena.orchestrator, &["drained"], 1).await;
    other.complete_next(json!({})).await;
    assert_eq!(arena.result_of(&waits).await.status(), Status::Success);
    other.goodbye().await;
    drop(worker);
    arena
        .finish()
        .await
        .at_least(Count::Drains, 21)
        .exactly(Count::Assignments, 2);
}

/// Names that are new each time, with the largest schemas there may be: what is not offered any more is not kept.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_registers_new_actions_all_the_time_takes_little_memory() {
    let arena = Arena::start().await;
    greeted(&arena.orchestrator, hello(&["absurd"], 1)).await;
    let before = memory_mib(&arena.orchestrator);
    forget_peak(&arena.orchestrator);
    let schema = format!(r#"{{"title":"{}"}}"#, "x".repeat(60_000));
    let n_rounds = scale(100, 1_500);
    for round in 1..=n_rounds {
        // A session of its own each time, as one that says so much again and again is ended.
        let mut worker = greeted(&arena.orchestrator, hello(&["absurd"], 1)).await;
        let action = |n: usize| ActionSpec {
            name: format!("absurd-{round}-{n}"),
            input_schema: if n < 60 { schema.clone() } else { String::new() },
            description: "d".repeat(1_000),
            ..ActionSpec::default()
        };
        let actions = (0..200).map(action).collect();
        worker
            .send(Message::RegisterActions(RegisterActions { revision: 1, actions }))
            .await
            .unwrap();
        expect_alive(&mut worker, round).await;
    }
    let cost = peak_mib(&arena.orchestrator).saturating_sub(before);
    eprintln!("actions: {n_rounds} times 200 new ones cost {cost} MiB");
    assert!(cost <= REGISTRATION_COST_MIB, "{cost} MiB");
    arena.finish().await.at_least(Count::Sessions, 2);
}

fn outcome(token: &Bytes) -> AttemptOutcome {
    AttemptOutcome {
        attempt_token: token.clone(),
        run_time_ms: 1,
        outcome: Some(Outcome::Success(Success::default())),
    }
}

fn held(token: &Bytes, phase: Phase) -> InFlight {
    InFlight {
        attempt_token: token.clone(),
        phase: phase.into(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Bytes {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

/// The first heartbeat goes out at once: one that names no session before it gets no work without it.
const HEARTBEAT: Duration = Duration::from_secs(3);
