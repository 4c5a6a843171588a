//! An outcome against the limit of its step: one winner each time, and the same one wherever somebody looks.

use crate::arena::{Arena, LIMIT, scale};
use crate::load::{Caller, id_of, object, step, submission};
use bytes::Bytes;
use escapement_tests::session_checker::Count;
use escapement_tests::{ScriptedWorker, let_pass, wait_for};
use escapement_wire::v1::audit_entry::Event;
use escapement_wire::v1::plan_result::Status;
use escapement_wire::v1::{AuditEntry, PlanResult, SubscribeEventsRequest};
use escapement_wire::worker::v1::attempt_outcome::Outcome;
use escapement_wire::worker::v1::outcome_ack::Verdict;
use escapement_wire::worker::v1::session_request::Message as ToOrchestrator;
use escapement_wire::worker::v1::session_response::Message as FromOrchestrator;
use escapement_wire::worker::v1::{Assignment, AttemptOutcome, Outcomes, Success};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outcome_at_the_limit_of_its_step_has_one_winner_wherever_one_looks() {
    let (n_races, n_at_once) = scale((300, 12), (10_000, 64));
    let arena = Arena::start().await;
    let caller = Caller::of(&arena.orchestrator);
    let events = Events::subscribe(&arena).await;
    let judge = Arc::new(Judge::default());
    let mut sessions = JoinSet::new();
    for _ in 0..N_SESSIONS {
        let worker = ScriptedWorker::connect(&arena.orchestrator, &["race"], n_at_once / N_SESSIONS).await;
        sessions.spawn(race(worker, Arc::clone(&judge)));
    }

    let left = Arc::new(AtomicUsize::new(n_races));
    let mut lanes = JoinSet::new();
    for lane in 0..i64::from(n_at_once) {
        let (caller, left, judge) = (caller.clone(), Arc::clone(&left), Arc::clone(&judge));
        lanes.spawn(async move {
            let mut ids = Vec::new();
            while left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
                .is_ok()
            {
                ids.push(one_race(&caller, 40 + lane % 21, &judge).await);
            }
            ids
        });
    }
    let ids: Vec<(String, bool)> = lanes.join_all().await.into_iter().flatten().collect();
    assert_eq!(ids.len(), n_races);
    for (id, completed) in &ids {
        let event = events.of(id).await;
        let kind = if *completed {
            "plan_execution_success"
        } else {
            "plan_execution_failure"
        };
        assert_eq!(event, (1, kind.to_owned()), "{id}");
    }
    let n_completed = ids.iter().filter(|(_, completed)| *completed).count();
    let offset_us = judge.offset_us.load(Ordering::Relaxed);
    eprintln!("race: {n_races} races, the outcome won {n_completed}, offset at the end {offset_us} us");
    assert!(
        n_completed * 10 >= n_races,
        "the outcome won {n_completed} of {n_races}"
    );
    assert!(
        (n_races - n_completed) * 10 >= n_races,
        "the limit won too few of {n_races}: {n_completed}"
    );

    sessions.shutdown().await;
    let verdicts = judge.verdicts.lock().unwrap().clone();
    assert!(verdicts.values().all(|(_, n)| *n == 1), "{verdicts:?}");
    drop((caller, events));
    let judgement = arena.finish().await;
    judgement
        .at_least(Count::Assignments, n_races as u64)
        .at_least(Count::OutcomesAccepted, n_completed as u64)
        .at_least(Count::OutcomesRefused, (n_races - n_completed) as u64);
}

/// What the workers were told, and when they send.
#[derive(Default)]
struct Judge {
    /// By execution: the verdict on its outcome, and how many came.
    verdicts: Mutex<BTreeMap<String, (Verdict, usize)>>,
    /// From the limit to the sending, in microseconds: it follows the loser.
    offset_us: AtomicI64,
    n_verdicts: AtomicI64,
}

impl Judge {
    fn note(&self, execution_id: &str, verdict: Verdict) {
        let n = self.n_verdicts.fetch_add(1, Ordering::Relaxed);
        let shift = (SHIFT_US_MAX * HALF / (HALF + n)).max(SHIFT_US_MIN);
        let shift = if verdict == Verdict::Accepted {
            shift
        } else {
            -shift
        };
        let moved = |offset: i64| Some((offset + shift).clamp(-OFFSET_US_MAX, OFFSET_US_MAX));
        let _ = self
            .offset_us
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, moved);
        let mut verdicts = self.verdicts.lock().unwrap();
        let noted = verdicts.entry(execution_id.to_owned()).or_insert((verdict, 0));
        noted.0 = verdict;
        noted.1 += 1;
    }

    /// When to send the n-th outcome: 1 ms before, at or after the place where both win as often.
    fn wait(&self, limit_ms: i64, n: i64) -> Duration {
        let wait_us = limit_ms * 1_000 + self.offset_us.load(Ordering::Relaxed) + (n % 3 - 1) * 1_000;
        Duration::from_micros(u64::try_from(wait_us).unwrap_or(0))
    }
}

/// One session: starts what comes, and sends each outcome around its limit, too late or not.
async fn race(mut worker: ScriptedWorker, judge: Arc<Judge>) {
    worker.keep_alive(Duration::from_secs(1));
    let (tx, mut due) = mpsc::unbounded_channel::<Assignment>();
    let mut executions: BTreeMap<Bytes, String> = BTreeMap::new();
    let mut n = 0;
    loop {
        tokio::select! {
            // What is due must not wait for what comes in.
            biased;
            Some(assignment) = due.recv() => {
                let outcome = Success { output: Some(object(json!({}))), warnings: Vec::new() };
                let item = AttemptOutcome {
                    attempt_token: assignment.attempt_token,
                    run_time_ms: 1,
                    outcome: Some(Outcome::Success(outcome)),
                };
                worker.send(ToOrchestrator::Outcomes(Outcomes { items: vec![item] })).await;
            }
            next = worker.next() => match next.unwrap().unwrap().message.unwrap() {
                FromOrchestrator::Assignments(assignments) => for assignment in assignments.items {
                    n += 1;
                    let wait = judge.wait(assignment.timeout_ms, n);
                    let tx = tx.clone();
                    executions.insert(assignment.attempt_token.clone(), assignment.execution_id.clone());
                    worker.start(&assignment).await;
                    tokio::spawn(async move {
                        let_pass(wait).await;
                        let _ = tx.send(assignment);
                    });
                },
                FromOrchestrator::OutcomeAcks(acks) => for ack in acks.items {
                    judge.note(&executions[&ack.attempt_token], ack.verdict());
                },
                // The outcome that is on its way is the answer to a cancel.
                FromOrchestrator::Cancels(_) | FromOrchestrator::HeartbeatAck(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

/// Runs one plan and compares what everybody says of it. True if the outcome won.
async fn one_race(caller: &Caller, limit_ms: i64, judge: &Judge) -> (String, bool) {
    let mut step = step(0, "race", json!({}));
    step.timeout_ms = Some(limit_ms);
    let request = submission([step]);
    let id = id_of(&request);
    caller.submit(&request).await;
    let ((watched, result), waited) = tokio::join!(caller.watch(&id), caller.result_of(&id));
    let verdict = async || judge.verdicts.lock().unwrap().get(&id).copied();
    let (verdict, n_verdicts) = wait_for("the verdict", LIMIT, verdict).await.unwrap();
    assert_eq!(n_verdicts, 1, "{id}");
    let completed = match verdict {
        Verdict::Accepted => true,
        Verdict::AlreadyEnded => false,
        other => panic!("{id}: {other:?}"),
    };
    assert_eq!(waited, result, "WaitExecution and WatchExecution");
    assert_eq!(
        caller.execution(&id).await.result.as_ref(),
        Some(&result),
        "GetExecution"
    );
    assert_eq!(caller.record_of(&id).await, watched, "ListAuditEntries");
    assert_eq!(
        winner_of_result(&result),
        completed,
        "{id}: the verdict is {verdict:?}, the result {result:?}"
    );
    assert_eq!(
        winner_of_record(&watched),
        completed,
        "{id}: the verdict is {verdict:?}, the record {watched:?}"
    );
    (id, completed)
}

fn winner_of_result(result: &PlanResult) -> bool {
    let code = result.error.as_ref().map(|error| error.error_code.as_str());
    match (result.status(), code, result.steps_executed) {
        (Status::Success, None, 1) => true,
        (Status::Failure, Some("STEP_TIMEOUT"), _) => false,
        _ => panic!("{result:?}"),
    }
}

fn winner_of_record(entries: &[AuditEntry]) -> bool {
    let count = |is_wanted: fn(&Event) -> bool| {
        let events = entries.iter().filter_map(|entry| entry.event.as_ref());
        events.filter(|event| is_wanted(event)).count()
    };
    let ends = [
        count(|event| matches!(event, Event::StepCompleted(_))),
        count(|event| matches!(event, Event::AttemptFailed(_))),
        count(|event| matches!(event, Event::StepNotCompleted(_))),
        count(|event| matches!(event, Event::Settled(_))),
        count(|event| matches!(event, Event::AttemptAssigned(_))),
    ];
    match ends {
        [1, 0, 0, 1, 1] => true,
        [0, 1, 1, 1, 1] => false,
        _ => panic!("{entries:?}"),
    }
}

/// How many events of each execution came, and the kind of the last one.
struct Events {
    seen: Arc<Mutex<BTreeMap<String, (usize, String)>>>,
    reading: AbortHandle,
}

impl Drop for Events {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

impl Events {
    async fn subscribe(arena: &Arena) -> Self {
        let request = SubscribeEventsRequest { types: Vec::new() };
        let answer = arena.orchestrator.events().subscribe_events(request).await;
        let mut stream = answer.unwrap().into_inner();
        let seen = Arc::new(Mutex::new(BTreeMap::new()));
        let noting = Arc::clone(&seen);
        let reading = tokio::spawn(async move {
            while let Ok(Some(answer)) = stream.message().await {
                assert_eq!(answer.dropped, 0);
                let event = answer.event.unwrap();
                let mut seen = noting.lock().unwrap();
                let noted: &mut (usize, String) = seen.entry(event.id).or_default();
                *noted = (noted.0 + 1, event.r#type);
            }
        })
        .abort_handle();
        Self { seen, reading }
    }

    async fn of(&self, id: &str) -> (usize, String) {
        let seen = async || self.seen.lock().unwrap().get(id).cloned();
        wait_for("the event", LIMIT, seen).await.unwrap()
    }
}

const N_SESSIONS: u32 = 4;
/// How far the first verdict moves the offset; later ones move it less and less.
const SHIFT_US_MAX: i64 = 4_000;
const SHIFT_US_MIN: i64 = 100;
/// Verdicts after which the shift is half.
const HALF: i64 = 8;
const OFFSET_US_MAX: i64 = 35_000;
