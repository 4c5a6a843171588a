//! Drawings of plans and executions: what they look like, and what they are made of.
//!
//! The drawings under `samples/` are renewed with `ESCAPEMENT_TESTS_RENEW_DRAWINGS=1`; look at them before they are committed.
#![allow(
    clippy::unwrap_used,
    missing_docs,
    reason = "a test fails by panicking and its name is its documentation"
)]

#[path = "drawing/drawings.rs"]
mod drawings;
#[path = "drawing/inputs.rs"]
mod inputs;
#[path = "drawing/markup.rs"]
mod markup;
#[path = "drawing/recorded.rs"]
mod recorded;

use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// A file of the repository, from its top.
fn in_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// A file beside the drawings.
fn sample_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/samples")
        .join(name)
}

fn sample(name: &str) -> Vec<u8> {
    std::fs::read(sample_path(name)).unwrap()
}

/// The same number, the same id.
fn step_id(number: usize) -> String {
    format!("{number:08x}-aaaa-4bbb-8ccc-0123456789ab")
}

/// A valid plan document.
fn plan(name: &str, dependencies: &[Vec<usize>]) -> Value {
    let step = |(at, depends_on): (usize, &Vec<usize>)| {
        json!({
            "id": step_id(at),
            "action": "work",
            "payload": {},
            "depends_on": depends_on.iter().map(|at| step_id(*at)).collect::<Vec<_>>(),
        })
    };
    json!({
        "id": "11111111-1111-4111-8111-111111111111",
        "version": 1,
        "created_at": 1_766_016_000_000_i64,
        "name": name,
        "context_requirements": ["region"],
        "steps": dependencies.iter().enumerate().map(step).collect::<Vec<_>>(),
    })
}

fn bytes(document: &Value) -> Vec<u8> {
    serde_json::to_vec(document).unwrap()
}
