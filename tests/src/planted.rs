//! Gives a test process the fault that its environment names, so that a suite can show that it would be caught.
//!
//! Faults of the contract crate are planted in its second writing: a test that compares the two fails whichever is wrong.

use escapement_model::planted;
use std::sync::OnceLock;

/// What the second validator and the second interpreter can be told to misread.
pub const MISREADINGS: [&str; 12] = [
    SELF_EDGE,
    "skipped-counts-as-executed",
    "wall-clock-deadline",
    "retry-too-many",
    "backoff-uncapped",
    "stale-outcome",
    "empty-partial",
    "eager-step",
    "halt-goes-on",
    "worker-sets-severity",
    "timeout-not-withdrawn",
    "emit-before-persist",
];

/// The one of the validator: it takes a step that depends on itself.
pub const SELF_EDGE: &str = "self-edge";

static MISREADING: OnceLock<String> = OnceLock::new();

/// Plants the fault that `ESCAPEMENT_PLANTED_BUG` names, if it names one. Release builds of the product have none.
///
/// # Panics
/// There is no fault of that name.
pub fn arm() {
    let Ok(name) = std::env::var(planted::VARIABLE) else {
        return;
    };
    if MISREADINGS.contains(&name.as_str()) {
        MISREADING.get_or_init(|| name);
        return;
    }
    #[cfg(debug_assertions)]
    planted::plant(
        planted::Bug::from_name(&name).unwrap_or_else(|| panic!("no fault {name} can be planted")),
    );
}

/// Returns true if this process was told to misread that.
pub fn misreads(name: &'static str) -> bool {
    MISREADING.get().is_some_and(|planted| planted == name)
}
