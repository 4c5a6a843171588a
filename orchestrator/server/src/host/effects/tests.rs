#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use crate::host::handle::SessionLink;
use crate::limits::SESSION_QUEUE_MAX;
use escapement_contract::Moment;
use escapement_engine::{EngineConfig, Input};
use escapement_host::{Batch, Message, Route};
use escapement_model::{BootId, SessionId};
use tokio::sync::{mpsc, oneshot};

/// A host with one session, and what the session's ends hear.
struct Desk {
    effects: EffectRunner,
    host: Host<Channels>,
    queue: mpsc::Receiver<Outbound>,
    closed: oneshot::Receiver<&'static str>,
}

const SESSION: SessionKey = SessionKey(1);

impl Desk {
    fn new() -> Self {
        let boot_id = BootId::new([1; 16]);
        let (writer, loader) = (std::sync::mpsc::channel().0, std::sync::mpsc::channel().0);
        let sinks = Sinks::without_sinks();
        let effects = EffectRunner::new(writer, loader, sinks, watch::channel(None).0, None);
        let now = Moment {
            monotonic_ms: 0,
            unix_ms: 1,
        };
        let mut host = Host::new(EngineConfig::new(boot_id, [1; 32]), now);
        let (outbound, queue) = mpsc::channel(SESSION_QUEUE_MAX);
        let (closing, closed) = oneshot::channel();
        let opened = Message {
            input: Input::SessionOpened {
                session: SESSION,
                session_id: SessionId::new([1; 16]),
            },
            route: Route::Session(SESSION, SessionLink::new(outbound, closing)),
        };
        let mut batch = Batch {
            messages: vec![opened],
            ..Batch::default()
        };
        host.handle_batch(now, &mut batch, &mut |_| {});
        Self {
            effects,
            host,
            queue,
            closed,
        }
    }

    fn send(&mut self, seq: u64, message: ToWorker) {
        let send = Output::Send {
            session: SESSION,
            seq,
            message,
        };
        self.effects.carry_out(&mut self.host, send);
    }
}

#[test]
fn a_worker_that_does_not_read_loses_its_session_at_the_limit() {
    let mut desk = Desk::new();
    for n in 0..SESSION_QUEUE_MAX as u64 {
        desk.send(n, ToWorker::HeartbeatAck { n });
    }
    assert!(matches!(
        desk.closed.try_recv(),
        Err(oneshot::error::TryRecvError::Empty)
    ));
    desk.send(0, ToWorker::HeartbeatAck { n: 0 });
    assert_eq!(desk.closed.try_recv(), Ok("does not read"));
    assert_eq!(desk.queue.len(), SESSION_QUEUE_MAX);
}

#[test]
fn large_messages_reach_the_limit_sooner_and_make_room_again_when_they_are_sent() {
    let mut desk = Desk::new();
    let unknown = || ToWorker::UnknownOutcomes(vec![vec![7; 1 << 20].into()]);
    for seq in 1..=200 {
        desk.send(seq, unknown());
        assert!(desk.queue.try_recv().is_ok());
    }
    assert!(desk.closed.try_recv().is_err(), "it reads");
    for seq in 201..=400 {
        desk.send(seq, unknown());
    }
    assert_eq!(desk.closed.try_recv(), Ok("does not read"));
    assert!(desk.queue.len() < 65, "{} MiB wait", desk.queue.len());
}
