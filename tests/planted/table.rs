//! Which suite is to catch which fault: the quickest one that does. Runs nothing.

use crate::suites::Suite;
use escapement_model::planted::Bug;
use escapement_tests::planted::{MISREADINGS, SELF_EDGE};

const fn suite(package: &'static str, target: &'static str, filter: &'static str) -> Suite {
    Suite {
        package,
        target,
        filter,
        variable: None,
    }
}

/// The contract crate in lock step with the second interpreter, on random executions.
const EXECUTION: Suite = suite("escapement-tests", "fuzzing", "execution_holds");
/// The same on every execution of every plan of up to three steps.
const RULES: Suite = suite("escapement-tests", "rules", "three_steps");
/// Validation against a second validator.
const VALIDATION: Suite = suite("escapement-tests", "fuzzing", "plan_holds");

/// What the second writing of the contract can misread, with all suites that see it.
pub(crate) fn misread() -> impl Iterator<Item = (&'static str, Suite)> {
    MISREADINGS.into_iter().flat_map(|name| {
        let suites: &[Suite] = match name {
            SELF_EDGE => &[VALIDATION],
            _ => &[EXECUTION, RULES],
        };
        suites.iter().map(move |suite| (name, *suite))
    })
}

const fn story(filter: &'static str) -> Suite {
    suite("escapement-engine", "stories", filter)
}

const fn end_to_end(filter: &'static str) -> Suite {
    suite("escapement-tests", "end_to_end", filter)
}

/// The whole system on a virtual clock, some seeds.
const SIMULATION: Suite = Suite {
    package: "escapement-tests",
    target: "simulation",
    filter: "whatever_happens",
    variable: Some(("ESCAPEMENT_SEEDS", "40")),
};

/// The real store on a disk in memory.
const fn storage(filter: &'static str) -> Suite {
    suite("escapement-tests", "storage", filter)
}

/// Each fault with its catcher.
pub(crate) const CATCHERS: &[(Bug, Suite)] = &[
    (Bug::AckBeforePersist, story("accepting")),
    (Bug::DispatchBeforePersist, story("persisting")),
    (Bug::DoubleSettle, story("persisting")),
    (Bug::DigestIgnored, story("accepting")),
    (Bug::PriorityIgnored, story("admission")),
    (Bug::QueueUnlimited, story("accepting")),
    (Bug::NamespaceTagKept, story("namespaces")),
    (Bug::NamespaceWeightIgnored, story("namespaces")),
    (Bug::NamespaceQuotaOffByOne, story("namespaces")),
    (Bug::NamespaceParkedPassed, story("namespaces")),
    (Bug::NestedWaits, story("accepting")),
    (Bug::ChildrenUnlimited, story("accepting")),
    (Bug::RegressOnReload, SIMULATION),
    (
        Bug::ForeignToken,
        suite("escapement-tests", "sessions", "identity::forged_tokens"),
    ),
    (Bug::OutcomeTwice, SIMULATION),
    (Bug::CreditsIgnored, SIMULATION),
    (Bug::StartedHandedOutAgain, story("losing")),
    (Bug::LeaseTooShort, SIMULATION),
    (Bug::SyncSkipped, storage("moments")),
    (Bug::TornTailAccepted, storage("log_tail")),
    (Bug::ChecksumIgnored, storage("flips")),
    (Bug::FatalRetried, storage("failures::every_call")),
    (
        Bug::RemovedIdReusable,
        end_to_end("retention::settled_executions_beyond_the_count"),
    ),
    (
        Bug::LiveRemoved,
        end_to_end("retention::settled_executions_are_removed_by_age"),
    ),
    (
        Bug::FullIsDurable,
        suite("escapement-tests", "crashes", "full_disk::on_a_full_disk"),
    ),
    (Bug::WatchSkipsOne, end_to_end("watching::")),
    (
        Bug::ConflictIsDone,
        end_to_end("ids::an_execution_id_with_another"),
    ),
    (Bug::PageSkipsOne, end_to_end("lists::pages")),
];
