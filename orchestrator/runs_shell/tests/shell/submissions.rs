//! What is submitted of runs, to a contract that answers when a test says so.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use crate::world::{World, call, create, document, id, list, step};
use escapement_model::opaque::StructBuilder;
use escapement_run::{Input, RewindScope};
use escapement_runs_shell::{Condition, EffectsConfig, Outgoing, RunsHandle, perform};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{Body as _, Service, http};

/// A submission, and the way to answer it.
type Submission = (Vec<u8>, oneshot::Sender<Status>);

/// A submission at a time; what waits for its turn waits in the store.
const ONE_AT_A_TIME: EffectsConfig = EffectsConfig {
    max_executions: 1,
    waiting_bytes: 0,
};

#[derive(Clone)]
struct Contract(mpsc::UnboundedSender<Submission>);

impl Service<http::Request<Body>> for Contract {
    type Response = http::Response<Body>;
    type Error = std::convert::Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let submissions = self.0.clone();
        Box::pin(async move {
            if !request.uri().path().ends_with("/SubmitPlan") {
                return Ok(Status::unimplemented("a test asks nothing else").into_http());
            }
            let mut body = pin!(request.into_body());
            let mut bytes = Vec::new();
            while let Some(frame) = poll_fn(|context| body.as_mut().poll_frame(context)).await {
                bytes.extend_from_slice(frame.unwrap().data_ref().unwrap());
            }
            let (answer, answered) = oneshot::channel();
            submissions.send((bytes, answer)).unwrap();
            Ok(answered.await.unwrap().into_http())
        })
    }
}

/// Performs what leaves the runs, one submission at a time. Returns what is submitted.
fn performed(
    handle: &RunsHandle,
    outgoing: mpsc::UnboundedReceiver<Outgoing>,
) -> mpsc::UnboundedReceiver<Submission> {
    let (contract, submitted) = mpsc::unbounded_channel();
    perform(
        Contract(contract),
        handle,
        ONE_AT_A_TIME,
        outgoing,
        &Handle::current(),
    );
    submitted
}

async fn next(submitted: &mut mpsc::UnboundedReceiver<Submission>, action: &str) -> oneshot::Sender<Status> {
    let next = timeout(Duration::from_secs(30), submitted.recv()).await;
    let (request, answer) = next.expect("something is submitted").unwrap();
    let is_it = request
        .windows(action.len())
        .any(|bytes| bytes == action.as_bytes());
    assert!(is_it, "another action than {action} is submitted");
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
    first.send(Status::invalid_argument("no")).unwrap();
    let third = next(&mut submitted, "x.c").await;
    handle.input(id(3), Condition::default(), cancel()).await.unwrap();
    third.send(Status::resource_exhausted("not now")).unwrap();
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
        answer.send(Status::invalid_argument("no")).unwrap();
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
    first.send(Status::invalid_argument("no")).unwrap();
    // Of the two attempts of the second run, the one that was fenced is passed over.
    for action in ["x.c", "x.b"] {
        let answer = next(&mut submitted, action).await;
        answer.send(Status::invalid_argument("no")).unwrap();
    }
    handle.create(create(id(4), &one("x.d"))).await.unwrap();
    next(&mut submitted, "x.d").await;
}
