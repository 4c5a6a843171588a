//! Every check with its claim and the sentence that it comes from. Runs none.

use std::future::Future;
use std::pin::Pin;

use escapement_tests::Fault;

use crate::checks;
use crate::scene::Scene;

/// A claim about a worker, and the scene that finds out.
pub(crate) struct Check {
    /// Names it on the command line and in the output.
    pub(crate) name: &'static str,
    /// What the worker does, where it conforms.
    pub(crate) claim: &'static str,
    /// Where that is demanded.
    pub(crate) source: &'static str,
    /// Finds out.
    pub(crate) run: fn(Scene) -> Running,
    /// Takes so much of the machine that nothing else may run beside it.
    pub(crate) alone: bool,
}

/// A check on its way.
pub(crate) type Running = Pin<Box<dyn Future<Output = Result<(), Fault>> + Send>>;

/// A claim that is judged on every stream of every check.
pub(crate) struct Rule {
    /// As of a check.
    pub(crate) name: &'static str,
    /// As of a check.
    pub(crate) claim: &'static str,
    /// As of a check.
    pub(crate) source: &'static str,
}

/// A check whose name is that of its function.
macro_rules! check {
    ($name:ident, $claim:literal, $source:literal) => {
        $crate::catalogue::Check {
            name: stringify!($name),
            claim: $claim,
            source: $source,
            run: |scene| Box::pin($name(scene)),
            alone: false,
        }
    };
    (alone $name:ident, $claim:literal, $source:literal) => {
        $crate::catalogue::Check {
            alone: true,
            ..$crate::catalogue::check!($name, $claim, $source)
        }
    };
}
pub(crate) use check;

/// Returns all checks, in the order in which a worker's life goes.
pub(crate) fn checks() -> impl Iterator<Item = &'static Check> {
    checks::ALL.iter().copied().flatten()
}

/// What is judged everywhere.
pub(crate) const RULES: &[Rule] = &[
    rule(
        "hello_comes_first_and_once",
        "The first message of each stream is `Hello`, and no second one follows.",
        "session.proto, Hello: Sent first and once, within 5 s.",
    ),
    rule(
        "messages_are_numbered",
        "`seq` is 1, 2, 3, ... on each stream.",
        "worker_service.proto, Session: Both sides number their messages 1, 2, 3, ... in `seq`; a gap or a repeat ends the stream.",
    ),
    rule(
        "messages_keep_their_size",
        "No message is longer than 4 MiB.",
        "session.proto, SessionLimits.message_bytes_max: Bytes of one message on the stream.",
    ),
    rule(
        "hello_numbers_rise",
        "`hello_number` rises from stream to stream of a process, or is 0 on all.",
        "session.proto, Hello.hello_number: 1 for the first `Hello` of the process, then one more for each further one. 0: not numbered.",
    ),
    rule(
        "heartbeats_are_numbered",
        "`Heartbeat.n` rises by one on each stream.",
        "session.proto, Heartbeat.n: 1, 2, 3, ...",
    ),
    rule(
        "heartbeats_count_in_flight",
        "Each heartbeat counts the attempts that the worker has not been released from.",
        "session.proto, Heartbeat.in_flight: Number of attempts that the worker has not been released from.",
    ),
    rule(
        "heartbeats_hash_in_flight",
        "The hash of each heartbeat is empty or the XOR of their tokens.",
        "session.proto, Heartbeat.in_flight_hash: XOR of the tokens of these attempts, 16 bytes; zeros for none. ...",
    ),
    rule(
        "no_token_is_made_up",
        "The worker names only tokens that it was given.",
        "session.proto, Assignment.attempt_token: Names the attempt everywhere and proves that it was handed to this worker.",
    ),
    rule(
        "rejected_never_runs",
        "A rejected attempt is never started and has no outcome, and a started one is never rejected.",
        "session.proto, AttemptAcks.rejected: Attempts that never ran and never will.",
    ),
    rule(
        "stopped_is_the_end",
        "After `stopped` no outcome follows.",
        "session.proto, AttemptAcks.stopped: Tokens of cancelled attempts whose handlers have ended. No outcome follows.",
    ),
    rule(
        "an_outcome_never_changes",
        "An outcome that is sent again is the same in every field, on every stream.",
        "session.proto, Outcomes: Each item is sent again, unchanged, on every new session until `OutcomeAcks` answers it.",
    ),
    rule(
        "goodbye_is_the_last_word",
        "Nothing follows `Goodbye`.",
        "session.proto, Goodbye: Sent last.",
    ),
];

const fn rule(name: &'static str, claim: &'static str, source: &'static str) -> Rule {
    Rule { name, claim, source }
}

#[cfg(test)]
mod tests {
    use super::{RULES, checks};
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique() {
        let names: Vec<_> = checks()
            .map(|check| check.name)
            .chain(RULES.iter().map(|rule| rule.name))
            .collect();
        let unique: BTreeSet<_> = names.iter().collect();
        assert_eq!(unique.len(), names.len());
    }

    #[test]
    fn the_readme_has_a_row_for_each() {
        let readme = include_str!("README.md");
        let row = |name, claim, source| format!("| `{name}` | {claim} | {source} |");
        let rows = checks().map(|check| row(check.name, check.claim, check.source));
        let rows = rows.chain(RULES.iter().map(|rule| row(rule.name, rule.claim, rule.source)));
        let missing: Vec<_> = rows.filter(|row| !readme.contains(row)).collect();
        assert!(missing.is_empty(), "README.md lacks\n{}", missing.join("\n"));
    }
}
