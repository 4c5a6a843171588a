//! Sessions that end in every way, again and again: the orchestrator is left with nothing of them.

use crate::arena::{Arena, LIMIT, scale};
use crate::load::{Caller, submission};
use escapement_tests::fault_proxy::FaultProxy;
use escapement_tests::plans::step;
use escapement_tests::raw_session::RawSession;
use escapement_tests::session_checker::Count;
use escapement_tests::{ScriptedWorker, usage, wait_for};
use escapement_wire::v1::ListActionsRequest;
use escapement_wire::worker::v1::outcome_ack::Verdict;
use escapement_wire::worker::v1::session_error::Code;
use escapement_wire::worker::v1::session_request::Message as ToOrchestrator;
use escapement_wire::worker::v1::session_response::Message as FromOrchestrator;
use escapement_wire::worker::v1::{Capacity, Hello, SessionRequest};
use serde_json::json;
use std::sync::Arc;
use tokio::task::JoinSet;

/// How a session ends.
#[derive(Clone, Copy, Debug)]
enum Ending {
    Goodbye,
    Drain,
    /// The connection closes while a step runs.
    Drop,
    /// The connection closes before the step was started.
    DropUnstarted,
    /// TCP RST on both sides.
    ConnectionReset,
    /// RST_STREAM.
    StreamReset,
    /// The request side ends without `Goodbye`.
    HalfClose,
    /// A gap in the numbers.
    Violation,
    /// A message that does not decode.
    Garbage,
    /// Another session of the same instance takes over.
    Supersession,
}

const ENDINGS: [Ending; 10] = [
    Ending::Goodbye,
    Ending::Drain,
    Ending::Drop,
    Ending::DropUnstarted,
    Ending::ConnectionReset,
    Ending::StreamReset,
    Ending::HalfClose,
    Ending::Violation,
    Ending::Garbage,
    Ending::Supersession,
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_many_sessions_with_every_kind_of_end_nothing_is_left_of_them() {
    let n_cycles = scale(200, 5_000);
    let arena = Arena::start_with(|settings| {
        settings
            .lease(2_000, 500)
            .flag("--registration-grace-ms", 1_000)
            .flag("--registration-memory-ms", 1_000)
            // Plans whose worker is gone run on until its lease is over, and none is to wait for them.
            .flag("--max-running-executions", 2 * n_cycles)
    })
    .await;
    let started = usage::resident_bytes(arena.orchestrator.process.id()).unwrap();
    run_cycles(&arena, 0, n_cycles / 2).await;
    let half = all_gone(&arena).await;
    run_cycles(&arena, n_cycles / 2, n_cycles).await;
    let end = all_gone(&arena).await;
    let per_cycle = end.saturating_sub(half) / (n_cycles / 2) as u64;
    eprintln!(
        "leaks: {n_cycles} sessions; resident KiB {} before, {} after half of them, {} after all: {per_cycle} bytes a session \
         in the second half",
        started >> 10,
        half >> 10,
        end >> 10
    );
    assert!(
        end.saturating_sub(half) < GROWTH_BYTES_MAX,
        "{half} bytes, then {end}"
    );
    let n_each = (n_cycles / ENDINGS.len()) as u64;
    let judgement = arena.finish().await;
    judgement
        .at_least(Count::Sessions, n_cycles as u64)
        .at_least(Count::Resumes, n_each)
        .at_least(Count::Drains, n_each)
        .at_least(Count::Assignments, n_cycles as u64)
        .at_least(Count::OutcomesAccepted, 3 * n_each);
}

/// One session after the other in each lane; every lane has a proxy of its own.
async fn run_cycles(arena: &Arena, from: usize, to: usize) {
    let mut lanes = JoinSet::new();
    for lane in 0..LANES {
        let caller = Caller::of(&arena.orchestrator);
        let proxy = Arc::new(arena.proxy().await);
        lanes.spawn(async move {
            for number in (from + lane..to).step_by(LANES) {
                cycle(&caller, &proxy, number).await;
            }
        });
    }
    lanes.join_all().await;
}

/// One session for an action that nobody else has, with one step of it, and its end.
async fn cycle(caller: &Caller, proxy: &FaultProxy, number: usize) {
    let ending = ENDINGS[number % ENDINGS.len()];
    let action = format!("leak-{number}");
    let request = submission([step(0, &action)]);
    let hello = ScriptedWorker::hello_for(ScriptedWorker::specs(&[&action]), 1);
    if matches!(ending, Ending::StreamReset | Ending::HalfClose | Ending::Garbage) {
        let mut session = welcomed(proxy, hello).await;
        caller.submit(&request).await;
        assigned(&mut session).await;
        match ending {
            Ending::StreamReset => session.reset(),
            Ending::HalfClose => {
                session.half_close().unwrap();
                while let Ok(Some(_)) = session.next().await {}
            }
            _ => {
                session.send_message(&[0xff; 7]).await.unwrap();
                // With a status or without, the stream is over.
                let _ = session.status().await;
            }
        }
        return;
    }
    let (mut worker, _) = ScriptedWorker::open(&proxy.url(), hello).await;
    caller.submit(&request).await;
    let assignment = worker.assignment().await;
    if !matches!(ending, Ending::DropUnstarted) {
        worker.start(&assignment).await;
    }
    match ending {
        Ending::Goodbye => {
            assert_eq!(worker.succeed(&assignment, json!({})).await, Verdict::Accepted);
            worker.goodbye().await;
        }
        Ending::Drain => {
            worker.drain(1_000).await;
            assert_eq!(worker.succeed(&assignment, json!({})).await, Verdict::Accepted);
            worker.goodbye().await;
        }
        Ending::ConnectionReset => {
            proxy.reset_all();
            while let Some(Ok(_)) = worker.next().await {}
        }
        Ending::Violation => {
            let message = Some(ToOrchestrator::Capacity(Capacity::default()));
            worker.send_raw(SessionRequest { seq: 99, message }).await;
            assert_eq!(worker.session_error().await.code(), Code::ProtocolViolation);
        }
        Ending::Supersession => {
            let hello = Hello {
                in_flight: worker.in_flight(),
                ..worker.next_hello()
            };
            let (mut next, _) = ScriptedWorker::open(&proxy.url(), hello).await;
            assert_eq!(worker.session_error().await.code(), Code::Superseded);
            assert_eq!(next.succeed(&assignment, json!({})).await, Verdict::Accepted);
            next.goodbye().await;
        }
        _ => {}
    }
}

async fn welcomed(proxy: &FaultProxy, hello: Hello) -> RawSession {
    let mut session = RawSession::open(proxy.address()).await.unwrap();
    session.send(ToOrchestrator::Hello(hello)).await.unwrap();
    let first = session.next().await.unwrap().unwrap();
    assert!(
        matches!(first.message, Some(FromOrchestrator::Welcome(_))),
        "{first:?}"
    );
    session
}

async fn assigned(session: &mut RawSession) {
    let next = session.next().await.unwrap().unwrap();
    assert!(
        matches!(next.message, Some(FromOrchestrator::Assignments(_))),
        "{next:?}"
    );
}

/// Waits until sessions, actions and running executions are gone, but the neighbour's. Gives the resident bytes then.
async fn all_gone(arena: &Arena) -> u64 {
    let gone = async || {
        let actions = arena
            .orchestrator
            .fleet()
            .list_actions(ListActionsRequest {})
            .await;
        let n_actions = actions.unwrap().into_inner().actions.len();
        (arena.workers().await.len() == 1 && n_actions == 1).then_some(())
    };
    wait_for("sessions and actions to be gone", LIMIT, gone)
        .await
        .unwrap();
    usage::resident_bytes(arena.orchestrator.process.id()).unwrap()
}

const LANES: usize = 8;
const GROWTH_BYTES_MAX: u64 = 32 << 20;
