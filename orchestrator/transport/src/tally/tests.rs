#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use std::sync::Mutex;

fn told_of(follow: impl FnOnce(&Tally)) -> Vec<Happened> {
    let told = Arc::new(Mutex::new(Vec::new()));
    let to = Arc::clone(&told);
    follow(&Tally::new(move |happened| to.lock().unwrap().push(happened)));
    Arc::into_inner(told).unwrap().into_inner().unwrap()
}

fn answered(told: &[Happened]) -> (Option<&str>, Code) {
    match told.last() {
        Some(Happened::Answered(answered)) => (answered.method.as_deref(), answered.code),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_call_that_nobody_finished_is_cancelled() {
    let told = told_of(|tally| {
        let path = "/escapement.v1.PlanExecutionService/WaitExecution";
        tally.call(path, CallClass::Waits).unwrap().let_in();
    });
    assert_eq!(told[0], Happened::CallBegan(CallClass::Waits));
    assert_eq!(told[1], Happened::CallEnded(CallClass::Waits));
    let method = "escapement.v1.PlanExecutionService/WaitExecution";
    assert_eq!(answered(&told), (Some(method), Code::Cancelled));
}

#[test]
fn the_status_is_that_of_the_trailers() {
    let told = told_of(|tally| {
        let mut call = tally
            .call("/grpc.health.v1.Health/Check", CallClass::Health)
            .unwrap();
        let mut trailers = HeaderMap::new();
        call.read(&trailers);
        trailers.insert(STATUS, "5".parse().unwrap());
        call.read(&trailers);
    });
    assert_eq!(
        answered(&told),
        (Some("grpc.health.v1.Health/Check"), Code::NotFound)
    );
}

#[test]
fn a_path_that_is_no_call_is_no_label() {
    let told = told_of(|tally| drop(tally.call("/chosen/by-a-client", CallClass::Reads)));
    assert_eq!(answered(&told).0, None);
}

#[test]
fn without_a_listener_nothing_is_followed() {
    assert!(Tally::default().call("/a/b", CallClass::Reads).is_none());
}
