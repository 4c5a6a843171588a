//! How slow the machine is at a time, by work that is always the same. Knows nothing of what is measured beside it.

use escapement_tests::usage;
use std::collections::BTreeMap;
use std::time::Duration;

/// How many times as long as usual the machine takes for what it does; 1 if it is as fast as usual or faster.
pub(crate) fn slowness() -> f64 {
    (work().as_secs_f64() / USUAL.as_secs_f64()).max(1.0)
}

/// The processor time of some work with memory, as requests are.
fn work() -> Duration {
    let before = usage::cpu_of_this_thread().unwrap();
    let mut state = 1_u64;
    let mut kept = BTreeMap::new();
    for _ in 0..N_ENTRIES {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        kept.insert(state, vec![0_u8; 64]);
    }
    drop(kept);
    usage::cpu_of_this_thread().unwrap() - before
}

const N_ENTRIES: usize = 20_000;
/// What it takes in the build of `cargo verify` on the machine of the page.
const USUAL: Duration = Duration::from_millis(15);
