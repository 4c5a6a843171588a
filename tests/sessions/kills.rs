//! A worker that is gone without a word: how soon the orchestrator knows, and what becomes of each of its attempts.
//! With the default lease.

use crate::arena::{Arena, unix_ms};
use crate::load::{Caller, submission};
use crate::recorder::Recorder;
use escapement_sdk::StepContext;
use escapement_tests::fault_proxy::{FaultProxy, Flow, Side};
use escapement_tests::plans::{StepWords, step};
use escapement_tests::session_checker::Count;
use escapement_wire::v1::audit_entry::Event;
use escapement_wire::v1::plan_result::Status;
use escapement_wire::v1::plan_step::OnFailure;
use escapement_wire::v1::{AuditEntry, PlanResult, RetryPolicy, SubmitPlanRequest, worker};
use rustix::process::Signal;
use serde_json::{Value, json};

/// What the orchestrator gets to see of the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Death {
    /// The operating system closes the connection.
    Closed,
    /// The network carries nothing any more.
    Partition,
    /// The worker's end of the connection is gone, and nobody tells the orchestrator's: half-open.
    HalfOpen,
}

#[tokio::test]
async fn a_worker_that_dies_is_lost_with_its_lease_whatever_the_orchestrator_gets_to_see() {
    tokio::join!(die(Death::Closed), die(Death::Partition), die(Death::HalfOpen));
}

async fn die(death: Death) {
    let arena = Arena::start().await;
    let caller = Caller::of(&arena.orchestrator);
    let proxy = arena.proxy().await;
    let url = if death == Death::Closed {
        arena.orchestrator.url()
    } else {
        proxy.url()
    };
    let actions = |settings: escapement_tests::WorkerSettings| settings.flag("--actions", ACTION);
    let mut doomed = arena.stock_worker(&url, DOOMED, actions).await;

    let halts = caller.submit(&plan(OnFailure::Halt, "*")).await;
    let retried = caller.submit(&plan(OnFailure::Retry, "WORKER_LOST")).await;
    let not_listed = caller.submit(&plan(OnFailure::Retry, "OTHER")).await;
    for id in [&halts, &retried, &not_listed] {
        arena.wait_for_starts(id, 1).await;
    }
    // A stopped process answers nothing, so these stay unstarted.
    doomed.process.signal(Signal::STOP).unwrap();
    let mut unstarted = Vec::new();
    for _ in 0..3 {
        let id = caller.submit(&plan(OnFailure::Halt, "*")).await;
        let is_assignment = |event: &Event| matches!(event, Event::AttemptAssigned(_));
        arena.wait_for_events(&id, "a hand-out", 1, is_assignment).await;
        unstarted.push(id);
    }
    let spare = Recorder::connect_with(&arena.orchestrator.url(), "spare", |builder| {
        builder.handler(ACTION, |_: Value, _: StepContext| async { Ok(json!({})) })
    })
    .await;

    let died_at = unix_ms();
    cut(death, &proxy);
    doomed.process.kill().unwrap();
    let suspect_after_ms = if death == Death::Closed {
        let is_suspect = |workers: &[escapement_wire::v1::Worker]| {
            (workers.len() == 1 && workers[0].state() == worker::State::Suspect).then(unix_ms)
        };
        Some(arena.wait_for_workers("the suspicion", DOOMED, is_suspect).await - died_at)
    } else {
        None
    };

    let lost_ms = expect_lost(&arena, &caller, [&halts, &retried, &not_listed]).await;
    let mut returned_ms = Vec::new();
    for id in &unstarted {
        assert_eq!(caller.result_of(id).await.status(), Status::Success);
        let record = arena.record_of(id).await;
        returned_ms.push(first_at(&record, |event| {
            matches!(event, Event::AttemptReturned(_))
        }));
        let attempts = hand_outs(&record);
        assert_eq!(attempts, [(1, DOOMED.to_owned()), (1, "spare".to_owned())]);
    }
    let lost_ms = lost_ms - died_at;
    let returned_ms = returned_ms.into_iter().max().unwrap() - died_at;
    eprintln!(
        "kills: {death:?}: suspect after {suspect_after_ms:?} ms, unstarted handed out again after {returned_ms} ms, \
         started lost after {lost_ms} ms"
    );
    assert!(
        suspect_after_ms.is_none_or(|ms| ms < SUSPECT_MS_MAX),
        "{suspect_after_ms:?}"
    );
    assert!(
        lost_ms <= LOST_MS_MAX && returned_ms <= LOST_MS_MAX,
        "{lost_ms}, {returned_ms}"
    );

    spare.stop().await;
    drop((proxy, caller));
    let judgement = arena.finish().await;
    judgement
        .at_least(Count::Losses, 4) // Of those that nobody has again, the journal of a closed stream says nothing.
        .exactly(Count::HandedOutAgain, unstarted.len() as u64)
        .exactly(Count::Assignments, 6 + 4);
}

/// What the orchestrator sees from now on, besides that the process is killed.
fn cut(death: Death, proxy: &FaultProxy) {
    match death {
        Death::Closed => {}
        Death::Partition => proxy.set_both(Flow::Hold),
        Death::HalfOpen => {
            for connection in proxy.connections() {
                proxy.close_one_side(connection.id, Side::Client);
            }
        }
    }
}

/// Passes where the started attempts are lost, and the one that is listed for it is tried again. Gives when the last was lost.
async fn expect_lost(arena: &Arena, caller: &Caller, [halts, retried, not_listed]: [&String; 3]) -> i64 {
    let mut lost_ms = Vec::new();
    for (id, attempts, completes) in [
        (halts, vec![(1, DOOMED)], false),
        (retried, vec![(1, DOOMED), (2, "spare")], true),
        (not_listed, vec![(1, DOOMED)], false),
    ] {
        let result = caller.result_of(id).await;
        expect_end(&result, completes);
        let record = arena.record_of(id).await;
        let expected: Vec<_> = attempts
            .iter()
            .map(|(n, worker)| (*n, (*worker).to_owned()))
            .collect();
        assert_eq!(hand_outs(&record), expected);
        lost_ms.push(first_at(&record, |event| {
            let code = |failed: &escapement_wire::v1::AttemptFailed| {
                failed.error.as_ref().map(|e| e.error_code.clone())
            };
            matches!(event, Event::AttemptFailed(failed) if code(failed).as_deref() == Some("WORKER_LOST"))
        }));
    }
    lost_ms.into_iter().max().unwrap()
}

fn expect_end(result: &PlanResult, completes: bool) {
    let code = result.error.as_ref().map(|error| error.error_code.as_str());
    let expected = if completes {
        (Status::Success, None)
    } else {
        (Status::Failure, Some("WORKER_LOST"))
    };
    assert_eq!((result.status(), code), expected, "{result:?}");
}

fn hand_outs(record: &[AuditEntry]) -> Vec<(i32, String)> {
    let assigned = record.iter().filter_map(|entry| match entry.event.as_ref() {
        Some(Event::AttemptAssigned(entry)) => Some((entry.attempt, entry.worker_id.clone())),
        _ => None,
    });
    assigned.collect()
}

fn first_at(record: &[AuditEntry], is_wanted: impl Fn(&Event) -> bool) -> i64 {
    let found = record
        .iter()
        .find(|entry| entry.event.as_ref().is_some_and(&is_wanted));
    found.unwrap_or_else(|| panic!("{record:?}")).at
}

fn plan(on_failure: OnFailure, listed: &str) -> SubmitPlanRequest {
    let step = step(0, ACTION)
        .payload(json!({ "ms": 60_000 }))
        .on_failure(on_failure);
    let mut request = submission([step]);
    let plan = request.plan.as_mut().unwrap();
    plan.retry_policy = Some(RetryPolicy {
        max_attempts: Some(2),
        retryable_error_codes: vec![listed.to_owned()],
        ..RetryPolicy::default()
    });
    request
}

const ACTION: &str = "delay";
const DOOMED: &str = "doomed";
const SUSPECT_MS_MAX: i64 = 1_000;
/// The lease and its margin, and one second more.
const LOST_MS_MAX: i64 = 12_000;
