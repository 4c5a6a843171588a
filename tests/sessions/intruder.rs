//! What attacks with raw sessions start from: greetings, plans, reading with a limit, memory. Breaks nothing by itself.

use crate::arena::LIMIT;
use bytes::Bytes;
use escapement_tests::raw_session::RawSession;
use escapement_tests::{Orchestrator, PlanDocument, ScriptedWorker, fresh_id, usage};
use escapement_wire::worker::v1::session_error::Code;
use escapement_wire::worker::v1::session_request::Message;
use escapement_wire::worker::v1::session_response::Message as Answer;
use escapement_wire::worker::v1::{Heartbeat, SessionError};
use serde_json::{Value, json};

/// Returns the first message of an instance of its own that offers these actions.
pub(crate) fn hello(actions: &[&str], max_in_flight: u32) -> Message {
    Message::Hello(ScriptedWorker::hello_for(
        ScriptedWorker::specs(actions),
        max_in_flight,
    ))
}

/// Returns a heartbeat without a hash.
pub(crate) fn heartbeat(n: u64) -> Message {
    Message::Heartbeat(Heartbeat {
        n,
        ..Heartbeat::default()
    })
}

/// Returns a session that was welcomed.
pub(crate) async fn greeted(orchestrator: &Orchestrator, hello: Message) -> RawSession {
    let mut session = RawSession::open(orchestrator.address()).await.unwrap();
    session.send(hello).await.unwrap();
    let first = next(&mut session).await;
    assert!(matches!(first, Some(Answer::Welcome(_))), "{first:?}");
    session
}

/// Returns the next message; `None` at the end of the stream.
pub(crate) async fn next(session: &mut RawSession) -> Option<Answer> {
    let next = tokio::time::timeout(LIMIT, session.next()).await;
    let next = next.expect("the orchestrator says nothing");
    next.unwrap()
        .map(|response| response.message.expect("an orchestrator sends what it knows"))
}

/// Reads to the end of a session and gives the error that ended it, where there was one.
pub(crate) async fn end_of(session: &mut RawSession) -> Option<SessionError> {
    let read = async {
        let mut error = None;
        // A stream that breaks has ended as well.
        while let Ok(Some(response)) = session.next().await {
            if let Some(Answer::SessionError(said)) = response.message {
                error = Some(said);
            }
        }
        error
    };
    tokio::time::timeout(LIMIT, read)
        .await
        .expect("the session goes on")
}

/// Passes when the session ends with this code.
pub(crate) async fn expect_end(session: &mut RawSession, code: Code, what: &str) {
    let error = end_of(session).await;
    let found = error.as_ref().map(SessionError::code);
    assert_eq!(found, Some(code), "{what}: {error:?}");
}

/// Passes when the session is alive: a heartbeat is answered.
pub(crate) async fn expect_alive(session: &mut RawSession, n: u64) {
    session.send(heartbeat(n)).await.expect("the stream stands");
    loop {
        match next(session).await.expect("the session goes on") {
            Answer::HeartbeatAck(ack) if ack.n == n => return,
            Answer::SessionError(error) => panic!("the session was ended: {error:?}"),
            _ => {}
        }
    }
}

/// Returns a plan of so many steps of one action, all at once. A step that fails is skipped.
pub(crate) fn steps(action: &str, count: usize, fields: &Value) -> PlanDocument {
    let mut all = json!({ "on_failure": "skip" });
    let object = all.as_object_mut().unwrap();
    object.extend(fields.as_object().unwrap().clone());
    let plan = PlanDocument::new("attack").request_field("options", json!({ "max_concurrent_steps": count }));
    (0..count).fold(plan, |plan, _| {
        plan.step_with(action, json!({}), &[], all.clone())
    })
}

/// Returns a token that nobody was given.
pub(crate) fn foreign_token() -> Bytes {
    Bytes::from(fresh_id().replace('-', "").into_bytes()[..16].to_vec())
}

/// The most memory that the orchestrator has had since the last [`forget_peak`], in MiB.
pub(crate) fn peak_mib(orchestrator: &Orchestrator) -> u64 {
    usage::peak_bytes(orchestrator.process.id()).unwrap() >> 20
}

/// Returns the memory that it has now, in MiB.
pub(crate) fn memory_mib(orchestrator: &Orchestrator) -> u64 {
    usage::resident_bytes(orchestrator.process.id()).unwrap() >> 20
}

/// Counts its peak from now on.
pub(crate) fn forget_peak(orchestrator: &Orchestrator) {
    let file = format!("/proc/{}/clear_refs", orchestrator.process.id());
    std::fs::write(file, "5").expect("a process may reset the peak of its child");
}
