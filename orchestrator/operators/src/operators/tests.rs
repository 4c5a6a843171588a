#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use crate::recording::Scribe;
use escapement_model::BootId;
use escapement_store::OperatorIntent;
use escapement_store::{OperatorAction, OperatorFilter, Reader, Store, StoreFault};
use escapement_store_kit::{Memory, MemoryDisk, MemoryFault};
use serde_json::json;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use tonic::Code;

fn scribe(boot: u8) -> Scribe {
    Scribe {
        boot_id: BootId::new([boot; 16]),
        keep_ms: None,
    }
}

/// Operators whose entries a thread writes until it cannot go on.
struct Stage {
    operators: Operators,
    reader: Box<dyn Reader>,
    /// For an act.
    other: Option<Box<dyn Reader>>,
    disk: MemoryDisk,
}

impl Stage {
    fn new() -> Self {
        let mut store = Memory::new();
        let (reader, other, disk) = (store.reader().unwrap(), store.reader().ok(), store.disk());
        let (to_writer, recordings) = mpsc::channel();
        std::thread::spawn(move || {
            for (at, recording) in (1..).zip(recordings) {
                if scribe(1).write(&mut store, recording, at, at).is_err() {
                    return;
                }
            }
        });
        Self {
            operators: Operators::new(move |recording| to_writer.send(recording).is_ok()),
            reader,
            other,
            disk,
        }
    }

    fn actions(&self) -> Vec<OperatorAction> {
        self.reader
            .operator_actions(&OperatorFilter::default(), None, 100)
            .unwrap()
    }

    async fn act(&self) -> (Result<u8, Status>, bool) {
        let has_acted = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&has_acted);
        let act = async move {
            told.store(true, Ordering::Relaxed);
            Ok((7, json!({"n": 7})))
        };
        let extensions = Extensions::new();
        let done = self.operators.perform(&extensions, "S/M", json!({"a": 1}), act);
        (done.await, has_acted.load(Ordering::Relaxed))
    }
}

fn outcome_of(action: &OperatorAction) -> &str {
    match &action.outcome.as_ref().unwrap().deed {
        OperatorDeed::Outcome { outcome, .. } => outcome,
        OperatorDeed::Intent(_) => panic!("an outcome is none"),
    }
}

#[tokio::test]
async fn an_act_begins_behind_its_intent_and_ends_before_its_outcome() {
    let mut stage = Stage::new();
    let reader = stage.other.take().unwrap();
    let act = async move {
        let open = reader
            .operator_actions(&OperatorFilter::default(), None, 9)
            .unwrap();
        assert!(open.len() == 1 && open[0].outcome.is_none(), "{open:?}");
        Err::<((), Value), _>(Status::not_found("nobody"))
    };
    let status = stage
        .operators
        .perform(&Extensions::new(), "S/M", json!({}), act)
        .await;
    assert_eq!(status.unwrap_err().code(), Code::NotFound);
    let actions = stage.actions();
    assert_eq!(actions.len(), 1);
    assert_eq!(
        outcome_of(&actions[0]),
        r#"{"code":"NOT_FOUND","message":"nobody"}"#
    );
}

#[tokio::test]
async fn what_cannot_be_recorded_does_not_happen() {
    for (fault, code) in [
        (MemoryFault::Full, Code::ResourceExhausted),
        (MemoryFault::Busy, Code::Unavailable),
        (MemoryFault::Fatal, Code::Unavailable),
        (MemoryFault::WrittenNotSynced, Code::Unavailable),
    ] {
        let stage = Stage::new();
        stage.disk.fail_next_commit(fault);
        let (done, has_acted) = stage.act().await;
        assert_eq!((done.unwrap_err().code(), has_acted), (code, false), "{fault:?}");
    }
    let ended = Operators::new(|_| false);
    let never = async { panic!("nothing is done") };
    let done: Result<(), _> = ended.perform(&Extensions::new(), "S/M", json!({}), never).await;
    assert_eq!(done.unwrap_err().code(), Code::Unavailable);
}

#[tokio::test]
async fn an_outcome_that_cannot_be_recorded_changes_no_answer_and_is_closed_by_the_next_start() {
    let stage = Stage::new();
    stage.disk.pass_next_commit();
    stage.disk.fail_next_commit(MemoryFault::Full);
    let (done, has_acted) = stage.act().await;
    assert_eq!((done.unwrap(), has_acted), (7, true));
    assert!(stage.actions()[0].outcome.is_none());

    let mut store = stage.disk.open();
    let next = scribe(2);
    assert_eq!(next.close_open(&mut store, 9).unwrap(), 1);
    assert_eq!(next.close_open(&mut store, 9).unwrap(), 0);
    let reader = store.reader().unwrap();
    let actions = reader
        .operator_actions(&OperatorFilter::default(), None, 9)
        .unwrap();
    assert!(outcome_of(&actions[0]).contains("UNKNOWN"));
    assert_eq!(actions[0].outcome.as_ref().unwrap().boot_id, next.boot_id);
}

#[tokio::test]
async fn an_act_goes_to_its_end_although_its_caller_does_not_wait() {
    let stage = Stage::new();
    let (go, went) = oneshot::channel::<()>();
    let (over, is_over) = oneshot::channel();
    let act = async move {
        went.await.unwrap();
        over.send(()).unwrap();
        Ok(((), json!({})))
    };
    let extensions = Extensions::new();
    let mut performed = Box::pin(stage.operators.perform(&extensions, "S/M", json!({}), act));
    assert!(
        std::future::poll_fn(|context| std::task::Poll::Ready(performed.as_mut().poll(context)))
            .await
            .is_pending()
    );
    drop(performed);
    go.send(()).unwrap();
    is_over.await.unwrap();
    while stage.actions()[0].outcome.is_none() {
        tokio::task::yield_now().await;
    }
}

#[test]
fn what_must_happen_happens_without_a_record() {
    let stage = Stage::new();
    let mut n_done = 0;
    let mut act = || {
        n_done += 1;
        json!({})
    };
    stage
        .operators
        .perform_in_any_case("reload/hangup", &json!({"what": "policy"}), &mut act);
    stage.disk.fail_next_commit(MemoryFault::Full);
    stage
        .operators
        .perform_in_any_case("reload/hangup", &json!({}), &mut act);
    Operators::new(|_| false).perform_in_any_case("reload/hangup", &json!({}), &mut act);
    assert_eq!(n_done, 3);
    let actions = stage.actions();
    let [one] = &actions[..] else {
        panic!("{actions:?}");
    };
    let OperatorDeed::Intent(intent) = &one.intent.deed else {
        panic!("{one:?}");
    };
    assert_eq!((intent.kind.as_str(), intent.name.as_str()), ("process", ""));
    assert_eq!(intent.request, r#"{"what":"policy"}"#);
}

#[test]
fn what_must_happen_does_not_wait_for_a_disk_that_hangs() {
    let (hung, hanging) = mpsc::channel();
    let operators = Operators::new(move |recording| hung.send(recording).is_ok());
    let mut has_acted = false;
    operators.perform_in_any_case("reload/hangup", &json!({}), || {
        has_acted = true;
        json!({})
    });
    assert!(has_acted);
    assert_eq!(
        hanging.try_iter().count(),
        1,
        "the intent, and no outcome without its number"
    );
}

#[test]
fn nobody_is_told_anything_once_the_store_cannot_be_trusted() {
    let mut store = Memory::new();
    store.disk().fail_next_commit(MemoryFault::SyncedNotAcknowledged);
    let (told, wait) = mpsc::channel();
    let recorded = Box::new(move |number| told.send(number).unwrap());
    let deed = OperatorDeed::Intent(OperatorIntent::default());
    let fault = scribe(1).write(&mut store, Recording { deed, recorded }, 1, 1);
    assert!(matches!(fault, Err(StoreFault::Fatal(_))));
    assert_eq!(wait.try_recv(), Err(mpsc::TryRecvError::Disconnected));
}
