//! The lists of mandatory actions. Carries nothing out.

use super::words::Status;

/// Rule set, number and name of each action, in order; number 0 for the additions of the rulings.
pub fn mandatory_actions(status: Status) -> Vec<(&'static str, u32, &'static str)> {
    let (rule_set, actions): (_, &[(u32, &'static str)]) = match status {
        Status::Success => ("5.1", &SUCCESS),
        Status::Partial => ("5.2", &PARTIAL),
        Status::Failure => ("5.3", &FAILURE),
    };
    actions
        .iter()
        .map(|(number, action)| (rule_set, *number, *action))
        .collect()
}

const SUCCESS: [(u32, &str); 8] = [
    (1, "validate_completion"),
    (2, "capture_metadata"),
    (3, "set_success_status"),
    (4, "persist_result"),
    (5, "emit_completion_event"),
    (6, "update_plan_state"),
    (7, "release_resources"),
    (8, "return_result"),
];

const PARTIAL: [(u32, &str); 12] = [
    (1, "classify_failure"),
    (2, "aggregate_errors"),
    (3, "validate_partial_progress"),
    (4, "preserve_output"),
    (5, "capture_metadata"),
    (6, "set_partial_status"),
    (7, "persist_result"),
    (8, "emit_partial_event"),
    (9, "mark_incomplete"),
    (0, "update_plan_state"),
    (0, "release_resources"),
    (10, "return_result"),
];

const FAILURE: [(u32, &str); 14] = [
    (1, "identify_failure_cause"),
    (2, "classify_severity"),
    (3, "halt_execution"),
    (4, "capture_failure_context"),
    (5, "truncate_result"),
    (6, "validate_consistency"),
    (7, "set_error"),
    (8, "set_failure_status"),
    (9, "persist_result"),
    (10, "emit_failure_event"),
    (11, "release_resources"),
    (12, "notify_error_handler"),
    (0, "update_plan_state"),
    (13, "return_result"),
];
