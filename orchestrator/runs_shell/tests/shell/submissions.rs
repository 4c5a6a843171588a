//! What is submitted of runs, to a contract that answers when a test says so.

use std::time::Duration;

use crate::fake::{FakeContract, Submission, never};
use crate::world::{World, call, create, document, id, list, step};
use escapement_model::opaque::StructBuilder;
use escapement_run::{Input, RewindScope};
use escapement_runs_shell::{Condition, EffectsConfig, Outgoing, PortRefusal, RunsHandle, perform};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

/// A submission at a time; what waits for its turn waits in the store.
const ONE_AT_A_TIME: EffectsConfig = EffectsConfig {
    max_executions: 1,
    waiting_bytes: 0,
};

/// Performs what leaves the runs, one submission at a time. Returns what is submitted.
fn performed(
    handle: &RunsHandle,
    outgoing: mpsc::UnboundedReceiver<Outgoing>,
) -> mpsc::UnboundedReceiver<Submission> {
    let (contract, submitted) = FakeContract::new();
    perform(contract, handle, ONE_AT_A_TIME, outgoing, &Handle::current());
    submitted
}

async fn next(
    submitted: &mut mpsc::UnboundedReceiver<Submission>,
    action: &str,
) -> oneshot::Sender<PortRefusal> {
    let next = timeout(Duration::from_secs(30), submitted.recv()).await;
    let (next, answer) = next.expect("something is submitted").unwrap();
    assert_eq!(next, action);
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_its_submission_is_not_begun_once_its_run_was_cancelled() {
    let World { handle, outgoing, .. } = World::new();
    let mut submitted = performed(&handle, outgoing);
    let one = |action: &str| document(list([step("a", "tool_call", call(action))]));
    let cancel = || Input::Cancel {
        reason: "user".to_owned(),
    };
    for (n, action) in [(1, "x.a"), (2, "x.b"), (3, "x.c")] {
        handle.create(create(id(n), &one(action))).await.unwrap();
    }
    let first = next(&mut submitted, "x.a").await;
    handle.input(id(2), Condition::default(), cancel()).await.unwrap();
    first.send(never()).unwrap();
    let third = next(&mut submitted, "x.c").await;
    handle.input(id(3), Condition::default(), cancel()).await.unwrap();
    let not_now = PortRefusal::NotKnown {
        reason: "not now".to_owned(),
    };
    third.send(not_now).unwrap();
    handle.create(create(id(4), &one("x.d"))).await.unwrap();
    next(&mut submitted, "x.d").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_with_many_attempts_does_not_hold_the_others_back_and_large_ones_wait_in_the_store() {
    let World { handle, outgoing, .. } = World::new();
    let args = StructBuilder::new().text("text", &"t".repeat(40_000)).build();
    let large = |action: &str| call(action).object("tool_args", args.as_encoded());
    let items = StructBuilder::new().list("steps", list(["x.a", "x.b", "x.c"].map(large)));
    let many = document(list([step("many", "parallel", items)]));
    let one = document(list([step("one", "tool_call", large("x.d"))]));
    handle.create(create(id(1), &many)).await.unwrap();
    handle.create(create(id(2), &one)).await.unwrap();
    let mut submitted = performed(&handle, outgoing);
    // The first began before the other run was known.
    for action in ["x.a", "x.b", "x.d", "x.c"] {
        let answer = next(&mut submitted, action).await;
        answer.send(never()).unwrap();
    }
}

// RUN-4.13
#[tokio::test]
async fn what_waits_for_its_submission_is_not_begun_once_its_step_was_reset() {
    let World { handle, outgoing, .. } = World::new();
    let one = |action: &str| document(list([step("a", "tool_call", call(action))]));
    for (n, action) in [(1, "x.a"), (2, "x.b")] {
        handle.create(create(id(n), &one(action))).await.unwrap();
    }
    let rewind = Input::Rewind {
        step_key: "a".to_owned(),
        scope: RewindScope::Dependents,
        allow_repeat_effects: false,
    };
    handle.input(id(2), Condition::default(), rewind).await.unwrap();
    handle.create(create(id(3), &one("x.c"))).await.unwrap();
    // All of them wait before the first is answered: on one thread they are taken in at once.
    let mut submitted = performed(&handle, outgoing);
    let first = next(&mut submitted, "x.a").await;
    first.send(never()).unwrap();
    // Of the two attempts of the second run, the one that was fenced is passed over.
    for action in ["x.c", "x.b"] {
        let answer = next(&mut submitted, action).await;
        answer.send(never()).unwrap();
    }
    handle.create(create(id(4), &one("x.d"))).await.unwrap();
    next(&mut submitted, "x.d").await;
}
