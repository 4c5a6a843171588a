#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use escapement_engine::FromWorker;
use escapement_model::{BootId, SessionId};

/// Callers are known by whether they have left, workers not at all.
#[derive(Debug)]
struct Test;

impl Links for Test {
    type Caller = bool;
    type Session = ();
    type Attempt = u8;
    type RunBatch = u8;

    fn is_given_up(caller: &bool) -> bool {
        *caller
    }
}

const SESSION: SessionKey = SessionKey(1);
const NOW: Moment = Moment {
    monotonic_ms: 0,
    unix_ms: 1,
};

fn host() -> Host<Test> {
    Host::new(EngineConfig::new(BootId::new([1; 16]), [1; 32]), NOW)
}

fn batch(
    host: &mut Host<Test>,
    messages: Vec<(Input, Route<Test>)>,
    gone: Vec<CallerId>,
) -> Vec<Output<Test>> {
    let messages = messages
        .into_iter()
        .map(|(input, route)| Message { input, route });
    let mut batch = Batch {
        messages: messages.collect(),
        gone,
        ..Batch::default()
    };
    host.handle_batch(NOW, &mut batch, &mut |_| {});
    std::iter::from_fn(|| host.poll_output()).collect()
}

fn asks(caller: u64, has_left: bool) -> (Input, Route<Test>) {
    let id = CallerId(caller);
    (Input::ListWorkers(id.into()), Route::Caller(id, has_left))
}

#[test]
fn a_caller_is_answered_once_and_not_if_it_has_left() {
    let mut host = host();
    let answered = batch(&mut host, vec![asks(1, false)], vec![]);
    assert!(matches!(answered[..], [Output::Answer(false, Reply::Workers(_))]));
    assert!(
        batch(&mut host, vec![asks(2, true)], vec![]).is_empty(),
        "it left first"
    );
    assert!(batch(&mut host, vec![asks(3, false)], vec![CallerId(3)]).is_empty());
    assert!(
        batch(&mut host, vec![], vec![CallerId(2)]).is_empty(),
        "the notice that comes later finds nothing"
    );
    assert_eq!(host.callers().count(), 0);
}

#[test]
fn a_session_ends_behind_what_it_was_told_and_says_why() {
    let mut host = host();
    let session_id = SessionId::new([1; 16]);
    let opened = Input::SessionOpened {
        session: SESSION,
        session_id,
    };
    assert!(batch(&mut host, vec![(opened, Route::Session(SESSION, ()))], vec![]).is_empty());
    let before_hello = Input::SessionMessage {
        session: SESSION,
        seq: 1,
        message: FromWorker::Drain,
    };
    let outputs = batch(&mut host, vec![(before_hello, Route::None)], vec![]);
    let [Output::Send { seq: 1, .. }, Output::EndSession { reason, .. }] = &outputs[..] else {
        panic!("{outputs:?}")
    };
    assert_eq!(*reason, "protocol_violation");
    assert!(host.session(SESSION).is_none());
}
