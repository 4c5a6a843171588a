//! Every fuzz target over its corpus, its seeds, and random changes of both; without libFuzzer, so in every `cargo verify`.
//! Finds nothing new for long: that is what `cargo fuzzing` is for.
//!
//! `ESCAPEMENT_FUZZ_INPUT=FILE ESCAPEMENT_FUZZ_TARGET=NAME` runs one input alone.
#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps says at which line its assumption broke"
)]

use escapement_fuzz::{Mutator, TARGETS, Target, target};
use escapement_tests::checkout;
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
    replay("plan", 8_000);
}

#[test]
fn session_holds() {
    replay("session", 3_000);
}

#[test]
fn execution_holds() {
    replay("execution", 5_000);
}

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

/// The corpus, the seeds, and so many changes of them: a second or two for each target without optimisation.
fn replay(name: &str, n_changes: u32) {
    let target = target(name).unwrap();
    let mut inputs: Vec<Vec<u8>> = Vec::new();
    for (file, bytes) in corpus(name) {
        check(target, &bytes, &file);
        inputs.push(bytes);
    }
    for (number, bytes) in target.seeds().into_iter().enumerate() {
        check(target, &bytes, &format!("seed {number}"));
        inputs.push(bytes);
    }
    let mut mutator = Mutator::new(1);
    for number in 0..n_changes {
        let changed = mutator.next(&inputs);
        check(target, &changed, &format!("change {number}"));
    }
}

/// Runs one input; where it fails, the input is kept in a file and named.
fn check(target: &Target, input: &[u8], what: &str) {
    let outcome = catch_unwind(AssertUnwindSafe(|| target.run(input)));
    if outcome.is_err() {
        let path = std::env::temp_dir().join(format!("escapement-{}-{}", target.name, std::process::id()));
        std::fs::write(&path, input).unwrap();
        panic!(
            "{}: {what} fails. Again, alone: ESCAPEMENT_FUZZ_TARGET={} ESCAPEMENT_FUZZ_INPUT={} \
             cargo test -p escapement-tests --test fuzzing one_input_alone",
            target.name,
            target.name,
            path.display()
        );
    }
}
