//! What an expression is about, and how much that may be.

use escapement_run::Input;
use serde_json::{Value, json};

use crate::world::{World, call};

const MIB: usize = 1 << 20;

/// Steps with these keys and outputs completed, and a condition is asked.
fn asked(condition: &str, outputs: &[(String, Value)]) -> World {
    let mut steps: Vec<Value> = outputs.iter().map(|(key, _)| call(key)).collect();
    steps.push(json!({"key": "if", "type": "condition", "config": {"condition": condition}}));
    let mut world = World::of(json!(steps));
    for (key, output) in outputs {
        world.complete(key, output.clone());
    }
    world.disk.n_bytes_read();
    world
}

fn small(keys: &[&str]) -> Vec<(String, Value)> {
    keys.iter()
        .map(|key| ((*key).to_owned(), json!({"n": 1})))
        .collect()
}

fn large(n_steps: usize) -> Vec<(String, Value)> {
    let outputs = (0..n_steps).map(|n| (format!("step{n:02}"), json!({"x": "y".repeat(1_000_000)})));
    outputs.collect()
}

// RUN-4.10
#[test]
fn an_expression_has_the_results_that_it_can_refer_to() {
    let all = ["first", "second", "read-it"];
    let cases: [(&str, &[&str]); 20] = [
        ("results.first.n > 0", &["first"]),
        ("results . first.n > 0", &["first"]),
        ("has(results.first)", &["first"]),
        ("results.first.x.startsWith('a')", &["first"]),
        ("results[\"second\"].n > 0", &["second"]),
        ("results [ 'second' ] .n > 0", &["second"]),
        ("results.`read-it`.n > 0", &["read-it"]),
        ("results.first.n == results['read-it'].n", &["first", "read-it"]),
        ("input.n > 0", &[]),
        // What is computed may name any step.
        ("results[input.city] == 1", &all),
        ("results['fi' + 'rst'].n > 0", &all),
        (r"results['\x66irst'].n > 0", &all),
        ("results[r'first'].n > 0", &all),
        ("(results).first.n > 0", &all),
        ("size(results) > 0", &all),
        ("results.size() > 0", &all),
        ("results.first.n > 0 && results.size () > 0", &all),
        ("results.size //\n () > 0", &all),
        ("'first' in results", &all),
        ("(true ? results : input).first.n > 0", &all),
    ];
    for (condition, keys) in cases {
        let world = asked(condition, &small(&all));
        let bindings = world.bindings(1);
        let mut found: Vec<&str> = bindings["results"]
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        let mut keys = keys.to_vec();
        found.sort_unstable();
        keys.sort_unstable();
        assert_eq!(found, keys, "{condition}");
    }
}

// RUN-4.10
#[test]
fn results_that_an_expression_does_not_name_are_not_read() {
    let world = asked("results.step07.x == 'y'", &large(20));
    let bindings = world.bindings(1);
    assert_eq!(bindings["results"].as_object().unwrap().len(), 1);
    let n_bytes = world.disk.n_bytes_read();
    assert!(n_bytes < 2 * MIB, "{n_bytes}");
}

// RUN-4.10
#[test]
fn an_expression_about_more_than_8_mib_has_no_value() {
    let few = asked("size(results) > 1", &large(8));
    assert_eq!(few.bindings(1)["results"].as_object().unwrap().len(), 8);
    let mut world = asked("size(results) > 1", &large(20));
    let why = world.run.bindings(1, &world.disk).unwrap().unwrap_err();
    assert_eq!(why, "what the expression is about has more than 8388608 bytes");
    let n_bytes = world.disk.n_bytes_read();
    assert!(n_bytes < 10 * MIB, "{n_bytes}");
    world.input(Input::Evaluated {
        evaluation: 1,
        result: Err(why),
    });
    assert!(
        world.shows().ends_with("if failed EXPRESSION_FAILED"),
        "{}",
        world.shows()
    );
}
