//! Runs property tests from a fixed seed and says how to repeat a failure. Writes no file.

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngSeed, TestCaseResult, TestRunner};

/// The seed where `ESCAPEMENT_SEED` names no other.
const SEED_DEFAULT: u64 = 0x0e5c_a9e3;

/// Runs `n_cases` (times `ESCAPEMENT_CASES`) random cases; a failure names the command that repeats it.
#[track_caller]
pub(crate) fn check_cases<S: Strategy>(
    test: &str,
    n_cases: u32,
    strategy: &S,
    property: impl Fn(S::Value) -> TestCaseResult,
) {
    escapement_tests::planted::arm();
    let factor = number_from_environment("ESCAPEMENT_CASES").unwrap_or(1);
    let seed = number_from_environment("ESCAPEMENT_SEED").unwrap_or(SEED_DEFAULT);
    let cases = u32::try_from(u64::from(n_cases).saturating_mul(factor)).unwrap_or(u32::MAX);
    let config = Config {
        cases,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        max_shrink_iters: 4_000,
        ..Config::default()
    };
    if let Err(failure) = TestRunner::new(config).run(strategy, property) {
        panic!(
            "{failure}\nRepeat it with: ESCAPEMENT_SEED={seed} ESCAPEMENT_CASES={factor} \
             cargo test -p escapement-tests --test contract -- --exact {test}"
        );
    }
}

fn number_from_environment(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} must be a whole number, not {text:?}")),
    )
}
