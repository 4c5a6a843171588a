//! Credits and steps, by the owner alone.

use super::{Fleet, Gone, ReadyStep, Work};
use crate::durable::DurableAccept;
use crate::effect::Effect;
use crate::fixtures::{NOW, config, execution_id, request};
use crate::keys::{ExecutionKey, SessionKey};
use crate::stored::WriteOutcome;
use crate::turn::Turn;
use crate::worker::{ActionSpec, Hello, ToWorker};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use escapement_contract::{Evidence, StepIndex};
use escapement_model::{AttemptToken, InstanceId, SessionId};

const SESSION: SessionKey = SessionKey(1);

/// Returns a worker with one slot for the action "a".
fn fleet() -> (Fleet, Turn) {
    let (mut fleet, mut turn) = (Fleet::new(Arc::new(config()), NOW.monotonic_ms), Turn::new(NOW));
    fleet.session_opened(SESSION, SessionId::from_slice(&[1; 16]).unwrap(), &turn);
    let hello = Hello {
        protocol_min: 1,
        protocol_max: 1,
        worker_id: "worker".into(),
        instance_id: InstanceId::from_slice(&[1; 16]).unwrap(),
        actions: vec![ActionSpec {
            name: "a".into(),
            max_in_flight: 0,
            description: String::new(),
            input_schema: String::new(),
            waits: false,
            traits: bytes::Bytes::new(),
        }],
        max_in_flight: 1,
        in_flight: Vec::new(),
        labels: BTreeMap::new(),
        build: String::new(),
        hello_number: 1,
        previous_session_id: None,
        owner: "".into(),
    };
    let (greeted, _) = fleet.greet(SESSION, hello, &mut turn).expect("it is welcome");
    fleet.welcome(SESSION, greeted.refused_actions, Vec::new(), None, &mut turn);
    (fleet, turn)
}

fn enqueue(fleet: &mut Fleet, turn: &Turn, n: u8, action: &str) {
    let ready = ReadyStep {
        execution: ExecutionKey(n.into()),
        depth: 0,
        request: &request(n, action),
        step: StepIndex::FIRST,
        attempt: 1,
    };
    fleet.enqueue(ready, turn);
}

/// Hands out what can be; returns the tokens that the worker is sent.
fn hand_out(fleet: &mut Fleet, turn: &mut Turn) -> Vec<AttemptToken> {
    let mut pass = fleet.begin_pass();
    while let Some(chosen) = fleet.choose(&mut pass) {
        let work = Work {
            accept: DurableAccept::of(WriteOutcome::Durable).unwrap(),
            execution_id: execution_id(1),
            request: request(1, "a"),
            timeout_ms: 1_000,
        };
        fleet.assign(chosen, work, turn);
    }
    fleet.reindex_all();
    fleet.flush_sessions(turn);
    let mut tokens = Vec::new();
    while let Some(effect) = turn.poll() {
        if let Effect::Send {
            message: ToWorker::Assignments(assignments),
            ..
        } = effect
        {
            tokens.extend(assignments.iter().map(|assignment| assignment.token));
        }
    }
    tokens
}

#[test]
fn a_slot_is_taken_by_one_step_and_given_back_with_its_attempt() {
    let (mut fleet, mut turn) = fleet();
    enqueue(&mut fleet, &turn, 1, "a");
    enqueue(&mut fleet, &turn, 2, "a");
    let first = hand_out(&mut fleet, &mut turn);
    assert_eq!((first.len(), fleet.n_attempts_of(ExecutionKey(1))), (1, 1));
    assert!(hand_out(&mut fleet, &mut turn).is_empty(), "the slot is taken");

    let (gone, told) = fleet.settle_gone(first[0], Evidence::Rejected, &turn);
    assert_eq!(gone, Gone::Returned, "it never started");
    assert_eq!(told.expect("its execution is told").execution, ExecutionKey(1));
    assert!(!fleet.has_steps_of(ExecutionKey(1)) && fleet.has_steps_of(ExecutionKey(2)));
    assert_eq!(hand_out(&mut fleet, &mut turn).len(), 1);
}

#[test]
fn what_started_is_lost_with_its_session_and_an_unknown_action_is_not_found() {
    let (mut fleet, mut turn) = fleet();
    enqueue(&mut fleet, &turn, 1, "a");
    let token = hand_out(&mut fleet, &mut turn)[0];
    assert!(fleet.attempt_started(SESSION, token).is_some());
    assert!(fleet.attempt_started(SESSION, token).is_none(), "it starts once");
    assert_eq!(fleet.begin_loss(SESSION, &turn), [token]);
    assert_eq!(
        fleet.settle_gone(token, Evidence::LeaseExpired, &turn).0,
        Gone::Lost
    );
    fleet.forget_session(SESSION, &turn);

    let mut later = NOW;
    later.monotonic_ms += config().registration_memory_ms;
    turn.advance(later);
    enqueue(&mut fleet, &turn, 2, "b");
    let (execution, ..) = fleet.pop_not_found().expect("no worker ever offered it");
    assert_eq!(execution, ExecutionKey(2));
    assert!(!fleet.has_steps_of(execution));
}
