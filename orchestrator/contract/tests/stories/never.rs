//! Section 8: what is never done, as far as one execution can show it.

use crate::story::{completed, failed, output, steps};
use escapement_contract::{Input, Phase, Status, StepState};
use escapement_model::Severity;

//
#[test]
fn a_settled_execution_never_runs_again() {
    let mut story = steps("a retry").attempts(9, 0, &["*"]).running();
    story.end("a", failed("X", Some(Severity::Fatal))).settle();
    story.refused(Input::Start);
    story.refused(Input::StartPersisted);
    story.refused(Input::SettlePersisted);
    story.refused(story.ended("a", 1, completed("a")));
    assert_eq!(story.execution.next_due_ms(), None);
}

//
#[test]
fn the_plan_is_the_same_before_and_after() {
    let mut story = steps("a skip; b after=a skip").running();
    let before = story.execution.request().plan().clone();
    story.fail("a", "X").settle();
    assert_eq!(story.execution.request().plan(), &before);
}

//
#[test]
fn a_running_execution_that_was_interrupted_is_not_resumed() {
    let story = steps("a").running();
    let mut recovered = crate::durability::recovered(&story);
    assert_eq!(recovered.execution.phase(), Phase::Settling);
    recovered.refused(story.ended("a", 1, completed("a")));
    recovered.refused(Input::Start);
}

//
#[test]
fn outputs_change_neither_payloads_nor_decisions() {
    let run = |spoken: &str| {
        let mut story = steps("a; b after=a").running();
        let outcome = escapement_contract::Outcome::completed(output(spoken));
        story.end("a", outcome).says("dispatch a#1, dispatch b#1");
        let plan = story.execution.request().plan().clone();
        (plan.step(story.index("b")).payload().clone(), story.state("b"))
    };
    assert_eq!(run("on_failure"), run("fatal"));
}

//
#[test]
fn every_step_whose_dependencies_completed_runs() {
    let mut story = steps("a; b after=a; c after=a").running();
    for name in ["a", "b", "c"] {
        assert_eq!(story.state(name), StepState::Waiting { attempt: 1 });
        story.complete(name);
    }
}

//
#[test]
fn no_input_cancels_an_execution() {
    // The only inputs without an attempt: each is refused, or nothing comes of it.
    let mut story = steps("a").running();
    story.hand("a").says("dispatch a#1");
    for input in [Input::Start, Input::StartPersisted, Input::SettlePersisted] {
        story.refused(input);
    }
    story.tick().says("");
    assert_eq!(story.state("a"), StepState::Started { attempt: 1 });
}

//
#[test]
fn an_execution_is_the_same_alone_and_between_the_inputs_of_another() {
    let begin = || steps("a; b after=a").running();
    let mut alone = begin();
    alone.complete("a").complete("b");
    // The same content as another one, which ends otherwise.
    let (mut one, mut other) = (begin(), begin());
    one.complete("a");
    other.fail("a", "X");
    one.complete("b");
    assert_ne!(other.settle().status, Status::Success);
    assert_eq!(one.settle(), alone.settle());
}
