//! Workers that are not who they say they are, or not any more. Nobody gets another's work, and nobody's is lost by it.

use crate::arena::{Arena, LIMIT, scale};
use crate::intruder::{
    expect_alive, foreign_token, forget_peak, greeted, hello, memory_mib, next, peak_mib, steps,
};
use bytes::Bytes;
use escapement_sdk::{StepContext, Worker};
use escapement_tests::ScriptedWorker;
use escapement_tests::session_checker::Count;
use escapement_wire::v1::plan_result::Status;
use escapement_wire::worker::v1::attempt_outcome::Outcome;
use escapement_wire::worker::v1::in_flight::Phase;
use escapement_wire::worker::v1::outcome_ack::Verdict;
use escapement_wire::worker::v1::session_request::Message;
use escapement_wire::worker::v1::session_response::Message as Answer;
use escapement_wire::worker::v1::worker_service_client::WorkerServiceClient;
use escapement_wire::worker::v1::{
    ActionSpec, AttemptOutcome, InFlight, Outcomes, RegisterActions, ReportOutcomesRequest, Success,
};
use serde_json::{Value, json};

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

fn unhex(text: &str) -> Bytes {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}
