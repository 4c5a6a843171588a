#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use crate::config::Config;
use crate::limits::SESSION_QUEUE_MAX;
use escapement_model::BootId;
use tokio::sync::{mpsc, oneshot};

fn desk() -> Desk {
    let config = Config::from_iterator(["orchestrator"]).unwrap();
    let sinks = Sinks::start(&config, BootId::new([1; 16])).unwrap();
    Desk::new(std_mpsc::channel().0, sinks, watch::channel(None).0)
}

#[test]
fn a_caller_that_gave_up_before_its_call_was_read_is_noticed() {
    let mut desk = desk();
    let (reply, reply_rx) = oneshot::channel::<escapement_engine::Ended>();
    drop(reply_rx);
    assert_eq!(
        desk.register(Route::Caller(CallerId(5), Box::new(reply))),
        Some(CallerId(5))
    );
    assert!(desk.forget_caller(CallerId(5)));
    assert!(
        !desk.forget_caller(CallerId(5)),
        "the notice that comes later finds nothing"
    );
}

const SESSION: SessionKey = SessionKey(1);

fn desk_with_session() -> (Desk, mpsc::Receiver<Outbound>, oneshot::Receiver<&'static str>) {
    let mut desk = desk();
    let (outbound, queue) = mpsc::channel(SESSION_QUEUE_MAX);
    let (closed, engine_closed) = oneshot::channel();
    desk.register(Route::Session(SESSION, SessionLink::new(outbound, closed)));
    (desk, queue, engine_closed)
}

fn send(seq: u64, message: ToWorker) -> Effect {
    Effect::Send {
        session: SESSION,
        seq,
        message,
    }
}

#[test]
fn a_worker_that_does_not_read_loses_its_session_at_the_limit() {
    let (mut desk, queue, mut engine_closed) = desk_with_session();
    for n in 0..SESSION_QUEUE_MAX as u64 {
        desk.carry_out(send(n, ToWorker::HeartbeatAck { n }));
    }
    assert!(matches!(
        engine_closed.try_recv(),
        Err(oneshot::error::TryRecvError::Empty)
    ));
    desk.carry_out(send(0, ToWorker::HeartbeatAck { n: 0 }));
    assert_eq!(engine_closed.try_recv(), Ok("does not read"));
    assert_eq!(queue.len(), SESSION_QUEUE_MAX);
}

#[test]
fn large_messages_reach_the_limit_sooner_and_make_room_again_when_they_are_sent() {
    let (mut desk, mut queue, mut engine_closed) = desk_with_session();
    let unknown = || ToWorker::UnknownOutcomes(vec![vec![7; 1 << 20].into()]);
    for seq in 1..=200 {
        desk.carry_out(send(seq, unknown()));
        assert!(queue.try_recv().is_ok());
    }
    assert!(engine_closed.try_recv().is_err(), "it reads");
    for seq in 201..=400 {
        desk.carry_out(send(seq, unknown()));
    }
    assert_eq!(engine_closed.try_recv(), Ok("does not read"));
    assert!(queue.len() < 65, "{} MiB wait", queue.len());
}

#[test]
fn the_reader_of_a_session_hears_why_the_engine_ended_it() {
    let (mut desk, _queue, mut engine_closed) = desk_with_session();
    desk.carry_out(Effect::CloseSession(SESSION));
    assert_eq!(engine_closed.try_recv(), Ok("goodbye"));

    let (mut desk, _queue, mut engine_closed) = desk_with_session();
    let error = ToWorker::SessionError {
        code: escapement_engine::SessionErrorCode::DeclaredDead,
        detail: "an operator said so".to_owned(),
        retry_after_ms: 0,
    };
    desk.carry_out(send(1, error));
    desk.carry_out(Effect::CloseSession(SESSION));
    assert_eq!(engine_closed.try_recv(), Ok("declared_dead"));
}
