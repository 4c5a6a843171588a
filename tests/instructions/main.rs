//! How many instructions contract, engine and the law of runs take for work of every kind, held against a baseline: nothing may grow by
//! more than a tenth without the baseline being renewed in the same commit. Measures no time; README.md says how to read it.

#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps says at which line its assumption broke"
)]
#![allow(clippy::print_stdout, reason = "the table is what somebody runs this for")]

mod baseline;
mod callgrind;
mod figures;
mod judge;

use baseline::Baseline;
use escapement_tests::{checkout, skip, tool};
use figures::Measured;
use judge::Verdict;

#[test]
fn no_work_takes_more_instructions_than_its_baseline_allows() {
    if !cfg!(target_arch = "x86_64") {
        return skip("an x86_64 machine, of which the baseline is");
    }
    let Some(valgrind) = tool("valgrind", "run `cargo verify`, or `apt-get install valgrind`") else {
        return;
    };
    let path = checkout::root().join(BASELINE);
    let baseline = Baseline::parse(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let programs = callgrind::build();
    let measured: Vec<Measured> = callgrind::measure(&valgrind, &programs);
    let taken_with = callgrind::taken_with(&valgrind);

    let verdicts = judge::judge(&baseline.figures, &measured);
    println!("{}", judge::table(&verdicts));
    if is_renewal() {
        let renewed = baseline.renewed(measured, &taken_with);
        return std::fs::write(&path, renewed.to_string()).unwrap();
    }
    let broken: Vec<String> = verdicts.iter().filter_map(Verdict::complaint).collect();
    let with = match taken_with == baseline.taken_with {
        true => String::new(),
        false => format!("(baseline: {}; here: {taken_with})\n", baseline.taken_with),
    };
    assert!(
        broken.is_empty(),
        "{}\n{with}Where that is meant, renew {BASELINE} in the same commit: {RENEW}",
        broken.join("\n"),
    );
}

/// Whoever reads a diff of it reads what the test wrote, and nothing that somebody put in by hand.
#[test]
fn the_baseline_is_as_the_test_writes_it() {
    if is_renewal() {
        return;
    }
    let text = std::fs::read_to_string(checkout::root().join(BASELINE)).unwrap();
    assert_eq!(
        Baseline::parse(&text).unwrap().to_string(),
        text,
        "renew it with: {RENEW}"
    );
}

fn is_renewal() -> bool {
    std::env::var_os("ESCAPEMENT_WRITE").is_some()
}

const BASELINE: &str = "tests/instructions/baseline.txt";
const RENEW: &str = "ESCAPEMENT_WRITE=1 cargo test -p escapement-tests --test instructions";
