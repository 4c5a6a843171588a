//! Every fuzz target over its corpus, its seeds, and random changes of both; without libFuzzer, so in every `cargo verify`.
//! Finds nothing new for long: that is what `cargo fuzzing` is for.
//!
//! `ESCAPEMENT_FUZZ_INPUT=FILE ESCAPEMENT_FUZZ_TARGET=NAME` runs one input alone, `ESCAPEMENT_CASES` makes that many times
//! as many changes, and `ESCAPEMENT_SEED` other ones.
#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps says at which line its assumption broke"
)]

use escapement_fuzz::{Mutator, TARGETS, execution, target};
use escapement_tests::{checkout, planted};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

/// What a corpus that is checked in may come to.
const FILES_MAX: usize = 200;
const BYTES_MAX: usize = 300 << 10;

#[test]
fn wire_holds() {
    replay("wire", 60_000);
}

#[test]
fn plan_holds() {
    //
    replay("plan", 8_000);
}

#[test]
fn session_holds() {
    replay("session", 3_000);
}

#[test]
fn execution_holds() {
    //
    let mut seen = BTreeMap::new();
    replay_by("execution", 3_000, |input| {
        for what in execution::play(input) {
            *seen.entry(what).or_insert(0) += 1;
        }
    });
    // A comparison proves nothing about what never happens.
    let is_seldom = |what: &&&str| seen.get(**what).copied().unwrap_or(0) < 20;
    let seldom: Vec<_> = WHAT_HAPPENS.iter().filter(is_seldom).collect();
    assert!(seldom.is_empty(), "hardly ever seen: {seldom:?} in {seen:?}");
}

/// What the executions must reach.
const WHAT_HAPPENS: &[&str] = &[
    "success",
    "partial",
    "failure",
    "nothing completed and nothing fatal",
    "halted",
    "refused",
    "returned",
    "a timer at the instant of an input",
    "delayed retry",
    "retry without delay",
    "stopped with attempts in flight",
    "skipped because of another",
    "STEP_TIMEOUT",
    "DEPENDENCY_UNRESOLVED",
    "PLAN_TIMEOUT",
    "DEADLINE_EXCEEDED",
    "CONTEXT_MISSING",
    "ACTION_NOT_FOUND",
    "WORKER_LOST",
    "RESOURCE_EXHAUSTED",
    "UNKNOWN_ERROR",
    "RetriesExhausted",
    "NotRetryable",
    "WarnedWithoutOutput",
    "a chain of four errors",
    "three steps at a time",
];

#[test]
fn pages_holds() {
    replay("pages", 15_000);
}

#[test]
fn records_holds() {
    replay("records", 60_000);
}

#[test]
fn store_file_holds() {
    replay("store_file", 300);
}

#[test]
fn certificates_holds() {
    replay("certificates", 3_000);
}

#[test]
fn policies_holds() {
    replay("policies", 5_000);
}

#[test]
fn tokens_holds() {
    replay("tokens", 10_000);
}

#[test]
fn every_target_has_a_corpus_that_is_small() {
    for target in TARGETS {
        let inputs = corpus(target.name);
        let n_bytes: usize = inputs.iter().map(|(_, bytes)| bytes.len()).sum();
        assert!(!inputs.is_empty(), "{} has a corpus", target.name);
        assert!(
            inputs.len() <= FILES_MAX,
            "{}: {} files",
            target.name,
            inputs.len()
        );
        assert!(n_bytes <= BYTES_MAX, "{}: {n_bytes} bytes", target.name);
    }
    let folders = std::fs::read_dir(checkout::root().join("tests/corpus")).unwrap();
    for folder in folders {
        let name = folder.unwrap().file_name().into_string().unwrap();
        let is_dictionary = name.ends_with(".dict");
        assert!(is_dictionary || target(&name).is_some(), "{name} is no target");
    }
}

#[test]
fn one_input_alone() {
    let Some(file) = std::env::var_os("ESCAPEMENT_FUZZ_INPUT") else {
        return;
    };
    let name = std::env::var("ESCAPEMENT_FUZZ_TARGET").unwrap();
    let path = PathBuf::from(file);
    target(&name).unwrap().run(&std::fs::read(path).unwrap());
}

/// File names and contents, in the order of the names.
fn corpus(name: &str) -> Vec<(String, Vec<u8>)> {
    let folder = checkout::root().join("tests/corpus").join(name);
    let mut inputs: Vec<(String, Vec<u8>)> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, std::fs::read(path).unwrap())
        })
        .collect();
    inputs.sort();
    inputs
}

fn replay(name: &str, n_changes: u32) {
    let target = target(name).unwrap();
    replay_by(name, n_changes, |input| target.run(input));
}

/// Runs the corpus, the seeds, and that many changes of them: a second or two for each target without optimisation.
fn replay_by(name: &str, n_changes: u32, mut run: impl FnMut(&[u8])) {
    planted::arm();
    let mut check = |input: &[u8], what: &str| {
        if catch_unwind(AssertUnwindSafe(|| run(input))).is_err() {
            fail(name, input, what);
        }
    };
    let mut inputs: Vec<Vec<u8>> = Vec::new();
    for (file, bytes) in corpus(name) {
        check(&bytes, &file);
        inputs.push(bytes);
    }
    for (number, bytes) in target(name).unwrap().seeds().into_iter().enumerate() {
        check(&bytes, &format!("seed {number}"));
        inputs.push(bytes);
    }
    let mut mutator = Mutator::new(number_from_environment("ESCAPEMENT_SEED").unwrap_or(1));
    let factor = number_from_environment("ESCAPEMENT_CASES").unwrap_or(1);
    for number in 0..u64::from(n_changes) * factor {
        check(&mutator.next(&inputs), &format!("change {number}"));
        if number % 2 == 0 {
            check(&mutator.any(), &format!("random bytes {number}"));
        }
    }
}

fn number_from_environment(name: &str) -> Option<u64> {
    Some(std::env::var(name).ok()?.parse().expect("a whole number"))
}

/// Keeps the input in a file and names it.
fn fail(target: &str, input: &[u8], what: &str) -> ! {
    let path = std::env::temp_dir().join(format!("escapement-{target}-{}", std::process::id()));
    std::fs::write(&path, input).unwrap();
    panic!(
        "{target}: {what} fails. Again, alone: ESCAPEMENT_FUZZ_TARGET={target} ESCAPEMENT_FUZZ_INPUT={} \
         cargo test -p escapement-tests --test fuzzing one_input_alone",
        path.display()
    );
}
