//! What an explanation says, and the rules that it names, one case after the other.

use crate::story::{Spec, Story, failed, step_id, steps};
use escapement_contract::{Evidence, Explanation, Input, Outcome, StepFacts, StepReason, StepState};
use escapement_model::Severity;

fn explain(story: &Story) -> Explanation {
    let execution = &story.execution;
    execution.explain(story.now, execution.audit().len())
}

fn facts(story: &Story, name: &str) -> StepFacts {
    let index = story.index(name);
    let steps = explain(story).steps.into_iter();
    let mut steps = steps.filter(|facts| facts.step == index);
    steps.next().unwrap()
}

fn words(story: &Story, name: &str) -> String {
    facts(story, name).describe(story.execution.request().plan())
}

/// What is said of each of these steps.
#[track_caller]
fn said(story: &Story, expected: &[(&str, &str)]) {
    for (name, expected) in expected {
        assert_eq!(words(story, name), *expected);
    }
}

fn rules(story: &Story, name: &str) -> Vec<&'static str> {
    facts(story, name).rules()
}

//
#[test]
fn a_step_that_is_ready_waits_for_its_turn_while_no_slot_is_free() {
    let mut story = steps("a; b; c; d after=a,b").running();
    story.hand("a");
    said(
        &story,
        &[
            (
                "a",
                "Its handler runs at a worker. A limit ends the attempt in 1000 ms at the latest.",
            ),
            (
                "b",
                "Waits for a step under way to end, as no more than 1 may be at a time; its turn comes next.",
            ),
            (
                "c",
                "Waits for a step under way to end, as no more than 1 may be at a time; 1 step has its turn before it.",
            ),
        ],
    );
    assert_eq!(rules(&story, "c"), ["R-2.3", "R-2.4", "R-2.2"]);
    let ids = [step_id("a"), step_id("b")];
    assert_eq!(
        words(&story, "d"),
        format!("Waits for step {} and 1 other to end.", ids[0])
    );
    story.complete("a").hand("b");
    assert_eq!(words(&story, "d"), format!("Waits for step {} to end.", ids[1]));
    assert_eq!(words(&story, "a"), "Completed after 1 attempt.");
    assert_eq!(
        explain(&story).execution.describe(),
        "Runs: 1 of 4 steps have ended, 1 of at most 1 is under way. The plan's limit ends it in 1000 ms at the \
         latest."
    );
}

//
#[test]
fn a_step_that_backs_off_says_which_retry_comes_when_and_what_happened_before() {
    let mut story = steps("a retry; b").attempts(3, 40, &["X"]).running();
    story.at(10).fail("a", "X");
    story.at(15).tick();
    assert_eq!(
        words(&story, "a"),
        "Retry 1 of 2 in 35 ms. The attempt before it ended with X."
    );
    assert_eq!(rules(&story, "a"), ["R-4.4", "R-2.11", "R-3.12"]);
    assert_eq!(facts(&story, "a").ends_in_ms, Some(35));
    story.at(50).tick();
    assert_eq!(
        words(&story, "a"),
        "Retry 1 of 2. Waits for a worker that offers do_a."
    );
    story.fail("a", "X").at(999).tick();
    story.assign("a").at(999).end("a", failed("X", None));
    assert_eq!(
        words(&story, "a"),
        "Ended with X after 3 attempts, and no attempt is left; the plan went on."
    );
    assert_eq!(rules(&story, "a"), ["R-2.10", "R-2.9"]);
    assert_eq!(facts(&story, "b").ends_in_ms, Some(1));
}

//
#[test]
fn a_step_that_was_given_back_says_how_that_is_known() {
    let mut story = steps("a limit=100").running();
    story.assign("a");
    assert_eq!(
        words(&story, "a"),
        "Handed to a worker, which has not said yet that the handler runs. A limit ends the attempt in 100 ms \
         at the latest."
    );
    story.give_back("a", Evidence::LeaseExpired);
    assert_eq!(
        words(&story, "a"),
        "Waits for a worker that offers do_a. It was handed out before and did not run: the worker's lease ran out \
         before it started."
    );
    assert_eq!(rules(&story, "a"), ["R-2.15", "R-2.17", "R-2.13"]);
    assert_eq!(
        facts(&story, "a").ends_in_ms,
        Some(1000),
        "its own limit is off until the next hand-out"
    );
}

//
#[test]
fn a_cascade_names_the_step_at_its_root_however_long_it_is() {
    let names = ["b", "c", "d", "e", "f", "g"];
    let mut spec = steps("a skip");
    let mut before = "a";
    for name in names {
        spec = spec.step(name).skip().after(&[before]);
        before = name;
    }
    let mut story = spec
        .step("other")
        .step("last")
        .skip()
        .after(&["a", "other"])
        .running();
    story.fail("a", "X");
    assert_eq!(
        words(&story, "a"),
        "Ended with X after 1 attempt; its on_failure is skip, so the plan went on."
    );
    let root = step_id("a");
    for name in names {
        let skipped = format!("Skipped without an attempt, because step {root} did not complete.");
        assert_eq!(words(&story, name), skipped);
        assert_eq!(rules(&story, name), ["R-2.5", "R-2.6"]);
    }
    assert_eq!(
        words(&story, "last"),
        format!(
            "Waits for step {} to end. It will not run, because step {root} did not complete.",
            step_id("other")
        )
    );
    assert_eq!(rules(&story, "last"), ["R-2.3", "R-2.5"]);
    story.fail("other", "Y");
    story.settle();
    assert_eq!(
        words(&story, "last"),
        format!(
            "Never ran, as its execution ended before its turn came. Failure: the error Y of step {} stopped the \
             plan, as its on_failure is halt.",
            step_id("other")
        )
    );
    assert_eq!(rules(&story, "last"), ["R-3.9", "R-4.6"]);
}

//
#[test]
fn the_end_of_an_execution_is_not_explained_before_it_is_durable() {
    let mut story = steps("a; b").at_a_time(2).running();
    story.hand("a").hand("b");
    let n_shown = story.execution.audit().len();
    story.fail("a", "SECRET");
    let held = story.execution.explain(story.now, n_shown);
    for facts in &held.steps {
        assert_eq!(facts.why, StepReason::Held(StepState::Started { attempt: 1 }));
        assert_eq!(facts.rules(), ["R-9.2"]);
    }
    assert!(!format!("{held:?}").contains("SECRET"));
    assert_eq!(
        held.execution.describe(),
        "Its end is being written; how it ends is told once that is durable."
    );
    story.settle();
    assert!(words(&story, "a").contains("SECRET"));
    assert_eq!(explain(&story).execution.rules(), ["R-4.6", "R-4.12", "R-5.6"]);
}

//
#[test]
fn a_record_that_leaves_attempts_out_still_explains_every_step() {
    let mut spec = steps("a retry; b skip; c").attempts(9_000, 0, &["*"]);
    spec.plan().timeout_ms = Some(1_000_000);
    let mut story = spec.running();
    for _ in 0..8_999 {
        story.fail("a", "X");
    }
    assert!(story.execution.audit().len() >= 16_384, "this record is full");
    story.fail("a", "X").fail("b", "ACTION_NOT_FOUND");
    assert_eq!(
        words(&story, "a"),
        "Ended with X after 9000 attempts, and no attempt is left; the plan went on."
    );
    story.settle();
    assert_eq!(
        words(&story, "b"),
        "Ended with ACTION_NOT_FOUND after 1 attempt, which stopped the plan."
    );
    assert!(words(&story, "c").starts_with("Its execution ended before it did. Failure: "));
}

//
#[test]
fn a_step_whose_action_nobody_offers_says_so() {
    let mut story = steps("a").running();
    let (step, attempt) = (story.index("a"), 1);
    story.ok(Input::ActionNotFound { step, attempt });
    story.settle();
    assert_eq!(
        words(&story, "a"),
        "No live worker offers do_a, which stopped the plan."
    );
    assert_eq!(rules(&story, "a"), ["R-2.14", "R-4.7"]);
}

//
#[test]
fn the_severity_of_an_error_names_the_rule_that_set_it() {
    let ended = |spec: Spec, outcome: Outcome| {
        let mut story = spec.running();
        story.end("a", outcome);
        story.settle();
        rules(&story, "a")
    };
    let one = || steps("a skip");
    assert_eq!(ended(one(), failed("UNKNOWN_ERROR", None)), ["R-4.7", "R-4.1"]);
    assert_eq!(ended(one(), failed("X", Some(Severity::Fatal))), ["R-4.7"]);
    assert_eq!(ended(one(), failed("STEP_TIMEOUT", None)), ["R-4.7", "R-4.2"]);
    assert_eq!(ended(one(), failed("X", Some(Severity::Warn))), ["R-4.3"]);
    assert_eq!(ended(steps("a retry"), failed("X", None)), ["R-2.10", "R-2.8"]);
}
