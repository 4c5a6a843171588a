//! What is drawn and what is refused, with the words that say why.

use super::{bytes, plan, sample, step_id};
use escapement_insight::scene::State;
use escapement_insight::{View, read, svg, text};
use serde_json::{Value, json};

/// Why an input is refused.
fn refused(input: &[u8], plan: Option<&[u8]>) -> String {
    read(input, plan).expect_err("it is refused").0
}

fn broken(change: impl FnOnce(&mut Value)) -> String {
    let mut document = plan("broken", &[vec![], vec![0]]);
    change(&mut document);
    refused(&bytes(&document), None)
}

#[test]
fn what_is_no_drawing_s_input_is_told_what_is_expected() {
    let deep = [b"{\"a\":".repeat(100_000), b"1".to_vec()].concat();
    let inputs: [(&[u8], &str); 9] = [
        (b"", "no JSON object"),
        (b" \n", "no JSON object"),
        (b"[]", "no JSON object"),
        (b"\x00\xff\xfe", "no JSON object"),
        (b"{\"steps\": [", "no JSON (EOF"),
        (b"{\"name\": \"\xff\"}", "no JSON (invalid"),
        (&deep, "no JSON (recursion"),
        (b"{}", "none of what can be drawn"),
        (b"{} {}", "more than one document"),
    ];
    for (input, expected) in inputs {
        let problem = refused(input, None);
        assert!(
            problem.contains(expected) && problem.contains("expected a plan document"),
            "{problem}"
        );
    }
}

#[test]
fn a_field_of_another_type_is_named() {
    let problems = [
        (
            broken(|plan| plan["steps"] = json!({})),
            "steps: invalid type: map, expected a list",
        ),
        (
            broken(|plan| plan["steps"][1] = json!(7)),
            "steps[1]: invalid type: integer `7`",
        ),
        (
            broken(|plan| plan["steps"][1]["depends_on"][0] = json!(7)),
            "steps[1].depends_on[0]: invalid type: integer `7`, expected a string",
        ),
        (
            broken(|plan| plan["timeout_ms"] = json!(1.5)),
            "timeout_ms: expected integer value",
        ),
        (
            broken(|plan| plan["version"] = json!("4294967296")),
            "version: number too large",
        ),
        (
            broken(|plan| plan["steps"][0]["on_failure"] = json!("stop")),
            "steps[0].on_failure: unrecognized enum value 'stop'",
        ),
        (
            broken(|plan| plan["steps"][0]["depend_on"] = json!([])),
            "steps[0]: unrecognized field name 'depend_on'",
        ),
    ];
    for (problem, expected) in problems {
        assert!(problem.contains(expected), "{problem}");
    }
}

#[test]
fn a_plan_that_breaks_rules_is_not_drawn_and_every_rule_is_said() {
    let problem = broken(|plan| {
        plan["steps"][0]["depends_on"] = json!([step_id(1)]);
        plan["name"] = json!("");
    });
    assert!(
        problem.contains("not valid (2 found)") && problem.contains("cycle") && problem.contains("plan.name"),
        "{problem}"
    );
    let many = broken(|plan| plan["context_requirements"] = json!(vec![""; 50]));
    assert!(
        many.contains("(50 found)") && many.contains("and 30 more") && many.lines().count() == 22,
        "{many}"
    );
}

#[test]
fn a_request_is_drawn_as_its_plan() {
    let document = plan("inside", &[vec![], vec![0]]);
    let request = json!({"plan": document, "environment": {"region": "eu"}});
    assert_eq!(read(&bytes(&request), None), read(&bytes(&document), None));
}

#[test]
fn numbers_that_travel_as_texts_are_numbers() {
    let mut document = plan("texts", &[vec![]]);
    let as_numbers = read(&bytes(&document), None);
    document["created_at"] = json!("1766016000000");
    document["version"] = json!(1.0);
    document["steps"][0]["on_failure"] = json!(0);
    document["retry_policy"] = Value::Null;
    assert_eq!(read(&bytes(&document), None), as_numbers);
}

#[test]
fn a_record_needs_its_plan_and_no_other() {
    let record = sample("import-record.json");
    assert!(refused(&record, None).contains("give it with --plan FILE"));
    let other = bytes(&plan("other", &[vec![]]));
    assert!(refused(&record, Some(&other)).contains("is --plan the plan of this execution?"));
    assert!(refused(&record, Some(b"{}")).starts_with("--plan: the input is none of what can be drawn"));
    assert!(refused(&other, Some(&other)).contains("leave --plan out"));
}

#[test]
fn a_record_in_pages_or_entry_by_entry_is_the_same_record() {
    let plan = sample("import-plan.json");
    let whole = read(&sample("import-record.json"), Some(&plan)).unwrap();
    let record: Value = serde_json::from_slice(&sample("import-record.json")).unwrap();
    let entries = record["entries"].as_array().unwrap();
    let page = |entries: &[Value]| bytes(&json!({ "entries": entries }));
    let pages = [page(&entries[..9]), page(&entries[9..])].concat();
    assert_eq!(read(&pages, Some(&plan)).unwrap(), whole);
    let watched: Vec<u8> = entries
        .iter()
        .flat_map(|entry| bytes(&json!({ "entry": entry })))
        .collect();
    assert_eq!(read(&watched, Some(&plan)).unwrap(), whole);
}

#[test]
fn half_a_record_is_refused() {
    let plan = sample("import-plan.json");
    let mut record: Value = serde_json::from_slice(&sample("import-record.json")).unwrap();
    record["entries"].as_array_mut().unwrap().remove(4);
    let problem = refused(&bytes(&record), Some(&plan));
    assert!(
        problem.contains("entries[4] is entry 6 of the record, and entry 5 is missing"),
        "{problem}"
    );
}

#[test]
fn what_no_answer_can_hold_is_refused_before_it_takes_much_memory() {
    let many = |n: usize| [b"{\"entries\":[".to_vec(), b"{},".repeat(n), b"{}]}".to_vec()].concat();
    assert!(refused(&many(9 << 20), None).contains("more than 8388608 values"));
    let plan = bytes(&plan("small", &[vec![]]));
    assert!(refused(&many(1 << 20), Some(&plan)).contains("entries has more than 1048576 items"));
    let span = |at| json!({"step_id": step_id(at), "activity": 2, "to_ms": 5});
    let timeline: Vec<Value> = (0..1_025).map(span).collect();
    assert!(refused(&bytes(&json!({ "timeline": timeline })), None).contains("more than 1024 steps"));
}

#[test]
fn a_simulation_with_a_record_is_drawn_from_the_record() {
    let plan = sample("import-plan.json");
    let record: Value = serde_json::from_slice(&sample("import-record.json")).unwrap();
    let answer = json!({
        "audit": record["entries"],
        "result": {"status": "failure", "duration_ms": "2900", "error": {"error_code": "DEPENDENCY_UNRESOLVED"}},
    });
    let mut recorded = read(&sample("import-record.json"), Some(&plan)).unwrap();
    recorded.story.as_mut().unwrap().error_code = "DEPENDENCY_UNRESOLVED".to_owned();
    assert_eq!(read(&bytes(&answer), Some(&plan)).unwrap(), recorded);
}

#[test]
fn the_record_of_an_execution_that_goes_on_shows_what_its_steps_do_now() {
    let document = bytes(&plan("goes on", &[vec![], vec![], vec![], vec![0]]));
    let at = |ms: i64| (1_000 + ms).to_string();
    let entries = json!({"entries": [
        {"at": at(0), "started": {"started_at": "1000"}},
        {"at": at(5), "step_waiting": {"step_id": step_id(0), "attempt": 1}},
        {"at": at(5), "step_waiting": {"step_id": step_id(1), "attempt": 1}},
        {"at": at(7), "attempt_assigned": {"step_id": step_id(1), "attempt": 1}},
        {"at": at(7), "some_kind_of_later": {"step_id": 7}},
        // The clock was set back.
        {"at": at(-900), "attempt_assigned": {"step_id": step_id(2), "attempt": 1}},
        {"at": at(30), "attempt_failed": {"step_id": step_id(2), "attempt": 1, "error": {"error_code": "BUSY"}}},
        {"at": at(30), "retry_scheduled": {"step_id": step_id(2), "next_attempt": 2}},
        {"at": at(40), "attempt_started": {"step_id": step_id(1), "attempt": 1}},
    ]});
    let scene = read(&bytes(&entries), Some(&document)).unwrap();
    let states: Vec<State> = scene.steps.iter().map(|step| step.state).collect();
    assert_eq!(
        states,
        [State::Waiting, State::Running, State::BackingOff, State::Planned]
    );
    let story = scene.story.as_ref().unwrap();
    assert_eq!(
        (story.duration_ms, story.status.as_str(), story.spans.len()),
        (40, "", 5)
    );
    assert!(story.spans.iter().all(|span| span.from_ms <= span.to_ms));
    assert!(text(&scene, View::Both, 80).contains("not settled after 40 ms"));
}

#[test]
fn times_of_all_sizes_are_drawn() {
    for length_ms in [0, 1, 999, 86_400_000, i64::MAX] {
        let span = json!({
            "step_id": step_id(0), "action": "work", "activity": "running", "attempt": 1,
            "from_ms": "0", "to_ms": length_ms.to_string(), "outcome": "completed",
        });
        let back =
            json!({"step_id": step_id(1), "activity": 3, "from_ms": i64::MAX.to_string(), "to_ms": "-5"});
        let scene = read(&bytes(&json!({"timeline": [span, back]})), None).unwrap();
        super::markup::well_formed(&svg(&scene, View::Both, 600));
        assert!(text(&scene, View::Both, 60).contains('✓'));
    }
}

#[test]
fn whatever_is_changed_in_an_input_it_is_drawn_or_refused() {
    let plan = sample("import-plan.json");
    let inputs = [
        (sample("diamond.json"), None),
        (sample("import-record.json"), Some(plan.as_slice())),
        (sample("simulation.json"), None),
        (sample("simulation.json"), Some(plan.as_slice())),
    ];
    let mut dice = 1_u64;
    let mut below = move |n: usize| {
        dice = dice
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (dice >> 33) as usize % n
    };
    let (mut n_drawn, mut n_refused) = (0, 0);
    for round in 0..1_600 {
        let (input, plan) = &inputs[round % inputs.len()];
        let mut input = input.clone();
        for _ in 0..=below(3) {
            let at = below(input.len().max(1));
            match below(4) {
                0 => input[at] = b"0123456789-\",:{}[]e\\"[below(20)],
                1 if input.len() > 1 => drop(input.remove(at)),
                2 => input.truncate(at + 1),
                _ => input[at] ^= 1 << below(8),
            }
        }
        match read(&input, *plan) {
            Err(_) => n_refused += 1,
            Ok(scene) => {
                n_drawn += 1;
                super::markup::well_formed(&svg(&scene, View::Both, 1_280));
                text(&scene, View::Both, 80);
            }
        }
    }
    assert!(
        n_drawn > 100 && n_refused > 100,
        "{n_drawn} drawn, {n_refused} refused"
    );
}
