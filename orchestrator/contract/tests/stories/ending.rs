//! Sections 5 and 7: how an execution ends, and in which order the world learns of it.

use crate::story::{Story, failed, steps};
use escapement_contract::{AuditKind, Phase, RuleSet, SettlementAction};
use escapement_model::Severity;

const SUCCESS: &str = "1 validate_completion, 2 capture_metadata, 3 set_success_status, 4 persist_result, \
    5 emit_completion_event, 6 update_plan_state, 7 release_resources, 8 return_result";
const PARTIAL: &str = "1 classify_failure, 2 aggregate_errors, 3 validate_partial_progress, \
    4 preserve_output, 5 capture_metadata, 6 set_partial_status, 7 persist_result, 8 emit_partial_event, \
    9 mark_incomplete, 0 update_plan_state, 0 release_resources, 10 return_result";
const FAILURE: &str = "1 identify_failure_cause, 2 classify_severity, 3 halt_execution, \
    4 capture_failure_context, 5 truncate_result, 6 validate_consistency, 7 set_error, 8 set_failure_status, \
    9 persist_result, 10 emit_failure_event, 11 release_resources, 12 notify_error_handler, \
    0 update_plan_state, 13 return_result";

/// What settling adds to the record.
fn ending(story: &Story) -> Vec<String> {
    let audit = &story.persisted.as_ref().unwrap().audit;
    let from = audit
        .iter()
        .position(|entry| matches!(entry.kind, AuditKind::MandatoryAction { .. }))
        .unwrap();
    let words = audit[from..].iter().map(|entry| match &entry.kind {
        AuditKind::MandatoryAction {
            rule_set,
            number,
            action,
        } => {
            format!("{} {number} {}", rule_set.as_str(), action.as_str())
        }
        AuditKind::StepsIncomplete { step_ids } => format!("{} incomplete", step_ids.len()),
        AuditKind::Settled { status } => format!("settled {}", status.as_str()),
        other => panic!("{other:?} after the first mandatory action"),
    });
    words.collect()
}

fn listed(clause: &str, actions: &str) -> Vec<String> {
    actions
        .split(", ")
        .map(|action| format!("{clause} {}", action.trim()))
        .collect()
}

/// Judges what settling adds to the record, and what is said once that is durable. `incomplete`: an entry among the
/// actions, and its place.
fn follows(mut story: Story, listed: &[String], incomplete: Option<(usize, &str)>, status: &str, then: &str) {
    let mut expected = listed.to_vec();
    if let Some((place, entry)) = incomplete {
        expected.insert(place, entry.into());
    }
    expected.push(format!("settled {status}"));
    assert_eq!(ending(&story), expected);
    story.said.clear();
    story.settle();
    story.says(&format!("emit plan_execution_{status}, {then}, return {status}"));
}

//
#[test]
fn success_follows_its_list() {
    let mut story = steps("a").running();
    story.complete("a");
    let list = listed("5.1", SUCCESS);
    follows(story, &list, None, "success", "update_registry, release");
}

//
#[test]
fn partial_follows_its_list() {
    let mut story = steps("a skip; b").running();
    story.fail("a", "X").complete("b");
    // What action 9 records follows it, in the record that action 7 writes.
    let incomplete = Some((9, "1 incomplete"));
    let list = listed("5.2", PARTIAL);
    follows(story, &list, incomplete, "partial", "update_registry, release");
}

//
#[test]
fn failure_follows_its_list() {
    let mut story = steps("a; b").at_a_time(2).running();
    story.hand("b").fail("a", "X").says(
        "dispatch a#1, dispatch b#1, withdraw b#1 execution_ended, \
         persist_result failure 0/2 fatal X@a < error X@a",
    );
    let incomplete = Some((5, "2 incomplete"));
    let list = listed("5.3", FAILURE);
    let then = "release, notify, update_registry";
    follows(story, &list, incomplete, "failure", then);
}

//
#[test]
fn every_list_persists_once_and_returns_last() {
    for rule_set in [RuleSet::Success, RuleSet::Partial, RuleSet::Failure] {
        let actions = rule_set.actions();
        assert_eq!(
            actions
                .iter()
                .filter(|item| item.action == SettlementAction::PersistResult)
                .count(),
            1
        );
        assert_eq!(actions.last().unwrap().action, SettlementAction::ReturnResult);
        let numbers: Vec<u32> = actions
            .iter()
            .map(|item| item.number)
            .filter(|number| *number > 0)
            .collect();
        assert!(
            numbers.iter().copied().eq(1..=numbers.len() as u32),
            "{numbers:?}"
        );
    }
}

//
#[test]
fn the_status_follows_from_how_the_steps_ended() {
    let spec = || steps("a skip; b skip");
    let ends: [(&[&str], &str); 4] = [
        (&["ok", "ok"], "success"),
        (&["ok", "error"], "partial"),
        (&["error", "error"], "failure"),
        (&["ok", "fatal"], "failure"),
    ];
    for (outcomes, expected) in ends {
        let mut story = spec().running();
        for (name, outcome) in ["a", "b"].into_iter().zip(outcomes) {
            match *outcome {
                "ok" => story.complete(name),
                "error" => story.fail(name, "X"),
                _ => story.end(name, failed("X", Some(Severity::Fatal))),
            };
        }
        assert_eq!(story.settle().status.as_str(), expected);
    }
}

//
#[test]
fn only_failures_reach_the_error_handler() {
    for rule_set in [RuleSet::Success, RuleSet::Partial, RuleSet::Failure] {
        let notifies = rule_set
            .actions()
            .iter()
            .any(|item| item.action == SettlementAction::NotifyErrorHandler);
        assert_eq!(notifies, rule_set == RuleSet::Failure);
    }
}

//
#[test]
fn every_ending_passes_the_assertions_of_its_list() {
    // The assertions panic; the random walks pass through them for every kind of ending, and here for the
    // smallest plan.
    for outcome in [
        failed("X", None),
        failed("X", Some(Severity::Fatal)),
        failed("X", Some(Severity::Warn)),
    ] {
        let mut story = steps("a").running();
        story.end("a", outcome);
        assert_eq!(story.execution.phase(), Phase::Settling);
        assert_eq!(story.settle().status.as_str(), "failure");
    }
}
