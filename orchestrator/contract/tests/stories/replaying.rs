//! Sections 6 and 10: the chain of a record, the inputs that led to it, and what the core makes of them a second time.
//! That every story of this suite replays is checked where stories end.

use crate::story::{Story, failed, step_id, steps};
use escapement_contract::{
    AuditEntry, AuditKind, ExecutionError, Input, InputLog, LoggedInput, ReplayRefused, Replayed, Settlement,
    chain_seed, replay,
};
use escapement_model::opaque::StructBuilder;
use escapement_model::{Opaque, Severity};
use std::sync::Arc;

/// A step that fails, sleeps, is late for its limit and completes.
fn eventful() -> Story {
    let mut story = steps("a retry limit=50; b skip")
        .attempts(3, 10, &["*"])
        .running();
    story
        .fail("a", "FLAKY")
        .at(10)
        .tick()
        .at(12)
        .hand("a")
        .at(62)
        .tick();
    story.at(72).tick().at(75).complete("a").fail("b", "BAD");
    story
}

fn again(story: &Story, inputs: &InputLog) -> Result<Replayed, ReplayRefused> {
    let execution = &story.execution;
    replay(
        Arc::clone(execution.request()),
        execution.execution_id(),
        execution.accepted_at(),
        execution.deadline(),
        inputs,
    )
}

fn settlement(story: &Story) -> Arc<Settlement> {
    Arc::clone(story.persisted.as_ref().unwrap())
}

//
#[test]
fn a_changed_entry_breaks_the_chain_from_there_on() {
    let story = eventful();
    let settlement = settlement(&story);
    let seed = chain_seed(story.execution.execution_id(), story.execution.request().digest());
    for changed in 0..settlement.audit.len() {
        let mut audit = settlement.audit.clone();
        audit[changed].at_unix_ms += 1;
        let mut head = seed;
        for (index, entry) in audit.iter().enumerate() {
            head = entry.link(&head);
            assert_eq!(
                entry.hash == head,
                index < changed,
                "entry {index} of one changed at {changed}"
            );
        }
    }
}

//
#[test]
fn the_chain_begins_with_the_execution_and_its_request() {
    let (one, other) = (steps("a").running(), steps("b").running());
    let digests = [&one, &other].map(|story| story.execution.request().digest());
    let id = one.execution.execution_id();
    assert_ne!(chain_seed(id, digests[0]), chain_seed(id, digests[1]));
    assert_ne!(
        one.execution.audit()[0].hash,
        other.execution.audit()[0].hash,
        "the same entry of another request"
    );
}

//
#[test]
fn the_context_of_a_cause_is_hashed_once_however_many_steps_fail_of_it() {
    let hash_of = |context: Opaque| {
        let error = |code: &str, cause, context| ExecutionError {
            code: code.into(),
            message: String::new(),
            step_id: Some(step_id("a")),
            severity: Severity::Error,
            cause,
            context,
        };
        let cause = Arc::new(error("ROOT", None, context));
        let entry = AuditEntry {
            sequence: 1,
            at_unix_ms: 1,
            kind: AuditKind::AttemptFailed {
                step_id: step_id("a"),
                attempt: 1,
                error: Arc::new(error("CONSEQUENCE", Some(cause), Opaque::default())),
            },
            hash: [0; 32],
        };
        entry.link(&[0; 32])
    };
    let context = StructBuilder::new().text("seen", "here").build();
    assert_eq!(hash_of(context), hash_of(Opaque::default()));
}

//
#[test]
fn the_inputs_stand_with_the_record_but_for_those_that_were_refused() {
    let mut story = steps("a").running();
    let early = story.ended("a", 1, failed("TOO_EARLY", None));
    story.refused(early);
    story.at(3).tick().complete("a");
    let names: Vec<&str> = settlement(&story)
        .inputs
        .inputs
        .iter()
        .map(|logged| logged.input.name())
        .collect();
    assert_eq!(
        names,
        [
            "start",
            "start_persisted",
            "assigned",
            "attempt_started",
            "attempt_ended"
        ]
    );
}

//
#[test]
fn time_that_did_something_stands_among_the_inputs_even_where_the_input_was_refused() {
    let mut story = steps("a limit=50").running();
    story.hand("a");
    let late = story.ended("a", 1, failed("TOO_LATE", None));
    assert!(story.at(50).feed(late).is_err());
    let settlement = settlement(&story);
    let last = settlement.inputs.inputs.last().unwrap();
    assert_eq!((last.at.monotonic_ms, last.input.name()), (50, "tick"));
}

//
#[test]
fn a_changed_input_shows_in_what_the_core_decides() {
    let story = eventful();
    let settlement = settlement(&story);
    let n_inputs = settlement.inputs.inputs.len();
    assert_eq!(again(&story, &settlement.inputs).unwrap().n_inputs, n_inputs);
    for left_out in 0..n_inputs {
        let mut inputs = settlement.inputs.clone();
        let LoggedInput { input, .. } = inputs.inputs.remove(left_out);
        let same = match again(&story, &inputs) {
            Ok(replayed) => replayed.settlement().is_some_and(|other| *other == settlement),
            Err(_) => false,
        };
        assert!(!same, "{} {left_out} makes no difference", input.name());
    }
    let mut inputs = settlement.inputs.clone();
    inputs.inputs.push(LoggedInput {
        at: inputs.origin,
        input: Input::Start,
    });
    assert_eq!(again(&story, &inputs).unwrap_err().index, n_inputs);
}
