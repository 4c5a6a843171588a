//! Order, cycles and jumps.

use escapement_run::plan;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::documents::{encoded, read, read_steps, told};

fn step(key: &str, order: u32, depends_on: &[&str]) -> Value {
    json!({"key": key, "order": order, "name": key.to_uppercase(), "type": "tool_call",
        "config": {"tool_name": "f"}, "depends_on": depends_on})
}

fn keys(steps: &Value) -> Vec<String> {
    let plan = read_steps(steps).unwrap();
    plan.steps.into_iter().map(|step| step.key).collect()
}

#[test]
fn the_lowest_order_number_among_the_ready_comes_first_then_the_first_in_the_document() {
    assert_eq!(
        keys(&json!([step("a", 2, &[]), step("b", 1, &[]), step("c", 2, &[])])),
        ["b", "a", "c"]
    );
    assert_eq!(
        keys(&json!([
            step("c", 0, &["a"]),
            step("b", 1, &["a"]),
            step("a", 9, &[])
        ])),
        ["a", "c", "b"]
    );
    let diamond = json!([
        step("d", 1, &["b", "c"]),
        step("b", 3, &["a"]),
        step("c", 2, &["a"]),
        step("a", 4, &[])
    ]);
    assert_eq!(keys(&diamond), ["a", "c", "b", "d"]);
}

#[test]
fn a_result_that_is_asked_for_comes_earlier() {
    let steps = json!([
        {"key": "if", "type": "condition", "config": {"condition": "result:late"}},
        step("late", 5, &[]),
    ]);
    let plan = read_steps(&steps).unwrap();
    assert_eq!(plan.steps[1].key, "if");
    assert!(plan.steps[1].depends_on.is_empty());
}

#[test]
fn a_cycle_is_told_with_the_names_of_its_steps() {
    assert_eq!(
        told(read_steps(&json!([step("a", 1, &["a"])]))),
        "steps[0].depends_on[0] CYCLIC_DEPENDENCY Circular dependency detected: A -> A\n"
    );
    assert_eq!(
        told(read_steps(&json!([
            step("a", 1, &["x", "b"]),
            step("x", 1, &[]),
            step("b", 2, &["a"])
        ]))),
        "steps[2].depends_on[0] CYCLIC_DEPENDENCY Circular dependency detected: A -> B -> A\n"
    );
    assert_eq!(
        told(read_steps(&json!([
            step("a", 1, &["b"]),
            step("b", 2, &["c"]),
            step("c", 3, &["a"])
        ]))),
        "steps[2].depends_on[0] CYCLIC_DEPENDENCY Circular dependency detected: A -> B -> C -> A\n"
    );
}

#[test]
fn a_step_that_was_added_is_called_new() {
    let document = json!({"schema": "escapement.plan/1", "name": "P", "steps":
        [step("fetch", 1, &["process"]), step("process", 2, &["new"]), step("new", 3, &["fetch"])]});
    assert_eq!(
        told(plan::read_with_new_step(&encoded(&document), "new")),
        "steps[2].depends_on[0] CYCLIC_DEPENDENCY Circular dependency detected: FETCH -> PROCESS -> (new step) -> FETCH\n"
    );
}

#[test]
fn a_cycle_through_a_reference_is_told_at_the_configuration() {
    let steps = json!([
        {"key": "a", "type": "tool_call", "config": {"tool_name": "f", "tool_args": {"x": ["${b:/y}"]}}},
        step("b", 2, &["a"]),
        {"key": "c", "type": "tool_call", "config": {"tool_name": "f", "tool_args": {"x": {"$from": "c"}}}},
    ]);
    assert_eq!(
        told(read_steps(&steps)),
        "steps[1].depends_on[0] CYCLIC_DEPENDENCY Circular dependency detected: a -> B -> a\n\
         steps[2].config CYCLIC_DEPENDENCY Circular dependency detected: c -> c\n"
    );
}

#[test]
fn a_loop_of_a_step_that_waits_for_the_loop_is_a_cycle() {
    let steps = json!([
        {"key": "again", "type": "loop", "config": {"loop_step": "poll"}},
        {"key": "poll", "type": "tool_call", "config": {"tool_name": "f", "tool_args": {"x": "${again}"}}},
    ]);
    assert_eq!(
        told(read_steps(&steps)),
        "steps[0].config CYCLIC_DEPENDENCY Circular dependency detected: again -> again\n"
    );
}

#[test]
fn the_middle_of_a_long_cycle_is_told_by_its_length() {
    let keys: Vec<String> = (0..20).map(|n| format!("s{n}")).collect();
    let steps: Value = (0..20)
        .map(|n| step(&keys[n], 1, &[&keys[(n + 1) % 20]]))
        .collect();
    let message = told(read_steps(&steps));
    assert!(message.ends_with(
        "S0 -> S1 -> S2 -> S3 -> S4 -> S5 -> (8 more) -> S14 -> S15 -> S16 -> S17 -> S18 -> S19 -> S0\n"
    ));
}

// RUN-1.4
#[test]
fn jumps_lead_forward_in_canonical_order_whatever_the_order_of_the_list() {
    let jump = |to: &str| {
        let mut first = step("first", 1, &[]);
        first["on_success"] = json!(to);
        json!([step("last", 3, &[]), step("middle", 2, &[]), first])
    };
    assert!(read_steps(&jump("last")).is_ok());
    assert_eq!(
        told(read_steps(&jump("first"))),
        "steps[2].on_success BACKWARD_JUMP A jump leads to a later step, and \"first\" does not come after \"first\".\n"
    );
    let steps = json!([
        step("a", 1, &[]),
        {"key": "b", "type": "condition", "config": {"condition": "true", "true_step": "a", "false_step": "c"}},
        {"key": "c", "type": "tool_call", "config": {"tool_name": "f"}, "on_failure": "a"},
    ]);
    let paths = told(read_steps(&steps));
    let paths: Vec<&str> = paths
        .lines()
        .map(|line| line.split(' ').next().unwrap())
        .collect();
    assert_eq!(paths, ["steps[1].config.true_step", "steps[2].on_failure"]);
}

#[test]
fn at_most_a_thousand_violations_are_told_the_first_ones() {
    let bad: Vec<Value> = (0..1024)
        .map(|_| json!({"key": 1, "type": 2, "order": -1}))
        .collect();
    let violations = read_steps(&json!(bad)).unwrap_err();
    assert_eq!(violations.len(), 1000);
    let last = violations.iter().last().unwrap();
    assert_eq!(last.path, "steps[333].key");
}

#[test]
fn violations_of_the_graph_stand_among_those_of_the_fields() {
    let document = json!({"schema": "escapement.plan/1", "name": "", "extra": 1, "steps": [
        {"key": "a", "type": "tool_call", "config": {}, "depends_on": ["a"], "metadata": 1},
        {"key": "b", "type": "x", "on_success": "none"},
    ]});
    let told = told(read(&document));
    let found: Vec<String> = told
        .lines()
        .map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(
        found,
        [
            "name INVALID_FIELD",
            "steps[0].config.tool_name INVALID_FIELD",
            "steps[0].depends_on[0] CYCLIC_DEPENDENCY",
            "steps[0].metadata INVALID_FIELD",
            "steps[1].type UNKNOWN_STEP_TYPE",
            "steps[1].on_success UNKNOWN_REFERENCE",
            "extra UNKNOWN_FIELD",
        ]
    );
}

proptest! {
    // Each step in turn takes the ready step with the lowest order number: written down once more, the slow way.
    #[test]
    fn canonical_order_is_that_of_repeated_choice(
        orders in proptest::collection::vec(0u32..4, 1..9),
        edges in proptest::collection::vec((0usize..9, 0usize..9), 0..10),
    ) {
        let n = orders.len();
        let key = |at: usize| format!("s{at}");
        let before = |at: usize| -> Vec<usize> {
            edges.iter().filter(|(from, to)| *from == at && *to < n).map(|(_, to)| *to).collect()
        };
        let steps: Value = (0..n).map(|at| {
            let keys: Vec<String> = before(at).into_iter().map(key).collect();
            let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
            step(&key(at), orders[at], &keys)
        }).collect();
        let mut left: Vec<usize> = (0..n).collect();
        let mut expected = Vec::new();
        while let Some(next) = left.iter().copied()
            .filter(|at| before(*at).iter().all(|before| !left.contains(before)))
            .min_by_key(|at| (orders[*at], *at))
        {
            left.retain(|at| *at != next);
            expected.push(key(next));
        }
        match read_steps(&steps) {
            Ok(plan) => {
                prop_assert!(left.is_empty());
                let found: Vec<String> = plan.steps.into_iter().map(|step| step.key).collect();
                prop_assert_eq!(found, expected);
            }
            Err(violations) => {
                prop_assert!(!left.is_empty());
                prop_assert!(violations.iter().all(|one| one.code == plan::Code::CyclicDependency));
            }
        }
    }
}
