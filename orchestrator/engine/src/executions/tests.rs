//! What leaves an execution, and who is told, by the owner alone.

use super::{Begun, Executions, Routed, Stored};
use crate::answer::{Ended, Refusal, Reply};
use crate::effect::{Effect, StoreWrite};
use crate::fixtures::{NOW, config, execution_id, request};
use crate::input::{Submission, Submitter, UntilDecided};
use crate::keys::{CallerId, ExecutionKey, NamespaceKey, WriteId};
use crate::stored::{WriteFailure, WriteOutcome};
use crate::turn::Turn;
use alloc::sync::Arc;
use escapement_contract::Input as ContractInput;

fn submission(caller: u64, n: u8, action: &str) -> Submission {
    Submission {
        namespace: NamespaceKey::default(),
        submitter: Submitter::ForEnd(CallerId(caller).into()),
        request: request(n, action),
        fresh_id: execution_id(n),
        may_nest: true,
        until_decided: UntilDecided::default(),
    }
}

/// One execution that starts with its accept, which is being written.
fn accepting() -> (Executions, Turn, ExecutionKey, WriteId) {
    let (mut executions, mut turn) = (Executions::new(Arc::new(config())), Turn::new(NOW));
    let submission = executions.take_known(submission(1, 1, "a"), &mut turn);
    let key = executions.accept(submission.expect("it is new"), None, &mut turn);
    let started_at = executions.start_with_accept(key, true, &turn);
    executions.write_accept(key, started_at, &mut turn);
    let Some(Effect::Write {
        write,
        content: StoreWrite::Accept { started_at, .. },
    }) = turn.poll()
    else {
        panic!("the accept is written first");
    };
    assert_eq!(started_at, Some(NOW.unix_ms));
    (executions, turn, key, write)
}

fn is_refused(effect: Option<Effect>, refusal: Refusal) -> bool {
    matches!(effect, Some(Effect::Reply { reply: Reply::Ended(Ended::Refused(given)), .. }) if given == refusal)
}

#[test]
fn nothing_leaves_an_execution_before_its_accept_is_durable() {
    let (mut executions, mut turn, key, write) = accepting();
    assert!(executions.next_effect(key, &mut turn).is_none());
    assert!(executions.durable(execution_id(1)).is_none() && executions.describe(execution_id(1)).is_none());
    let Some(Stored::Accepted(_, accept)) = executions.stored(write, WriteOutcome::Durable, &mut turn) else {
        panic!("a durable accept is an accept");
    };
    assert!(matches!(executions.begin(key, accept, &mut turn), Begun::Started));
    assert!(executions.note_started(key));
    executions
        .apply(key, ContractInput::StartPersisted, &turn)
        .unwrap();
    assert!(matches!(
        executions.next_effect(key, &mut turn),
        Some(Routed::Dispatch { attempt: 1, .. })
    ));
    assert!(executions.next_effect(key, &mut turn).is_none());
    assert!(executions.durable(execution_id(1)).is_some() && !executions.is_writing());
}

#[test]
fn the_same_request_attaches_and_another_one_waits_for_what_becomes_of_the_first() {
    let (mut executions, mut turn, key, write) = accepting();
    assert!(executions.take_known(submission(2, 1, "a"), &mut turn).is_none());
    assert!(executions.take_known(submission(3, 1, "b"), &mut turn).is_none());
    assert!(
        turn.poll().is_none(),
        "neither can be judged before the accept is answered"
    );
    let stored = executions.stored(write, WriteOutcome::Failed(WriteFailure::Full), &mut turn);
    let Some(Stored::NotAccepted(_, Some(refusal))) = stored else {
        panic!("an accept that failed is none");
    };
    let abandoned = executions.abandon(key, Some(refusal), &mut turn);
    assert!(is_refused(turn.poll(), Refusal::StoreFull) && is_refused(turn.poll(), Refusal::StoreFull));
    assert!(turn.poll().is_none() && abandoned.slot_of.is_some() && abandoned.undecided.len() == 1);
    assert_eq!(executions.len(), 0);
    assert!(
        executions.forget_caller(CallerId(1)).is_none(),
        "who was answered is forgotten"
    );
}
