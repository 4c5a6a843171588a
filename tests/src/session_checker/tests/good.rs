//! A journal in which everything that may happen happens is clean, and all of it is counted.

use serde_json::json;

use super::script::{Script, instance, token};
use crate::session_checker::Count;

/// Five workers, two boots, and every kind of line.
fn everything() -> Script {
    let mut script = Script::new();
    // An ordinary life: assigned, started, completed; a failure is tried again by another worker.
    script.greet(1, 1, 4).greet(2, 2, 4).at(10);
    script.assign(1, 1, 1, 1).at(20).done(1, 1, "success");
    script
        .assign(1, 2, 2, 1)
        .done(1, 2, "failure")
        .assign(2, 3, 2, 2)
        .done(2, 3, "success");
    // A rejection, an outcome that nobody can read, and one that comes twice.
    script
        .at(30)
        .assign(1, 4, 3, 1)
        .rejected(1, 4)
        .assign(2, 5, 3, 1)
        .started(2, 5);
    script.outcome(2, 5, "invalid").verdict(2, 5, "invalid");
    script.outcome(2, 3, "success").verdict(2, 3, "duplicate");
    script.outcome(1, 99, "success").verdict(1, 99, "unknown");
    script.say(1, json!({"m": "unknown_outcomes", "count": 1}));
    // A time limit, told twice, answered once; the late outcome is refused.
    script
        .at(40)
        .assign(1, 6, 4, 1)
        .started(1, 6)
        .at(30_040)
        .heartbeat(1, 1)
        .heartbeat(2, 1);
    script
        .cancel(1, 6, "step_timeout")
        .at(31_040)
        .cancel(1, 6, "step_timeout");
    script.outcome(1, 6, "success").verdict(1, 6, "already_ended");
    script
        .assign(2, 7, 4, 2)
        .cancel(2, 7, "execution_ended")
        .stopped(2, 7);
    // A broken stream, and the same instance again: one attempt is kept, one stopped, one is not there.
    script
        .at(31_100)
        .assign_of(1, "other", 8, 5, 1)
        .assign_of(1, "other", 9, 6, 1)
        .started(1, 9);
    script
        .assign_of(1, "other", 10, 7, 1)
        .started(1, 8)
        .started(1, 10)
        .shell(1, "closed")
        .at(31_200);
    script.hello(3, 1, 4, json!({token(8): "running", token(10): "running"}));
    script.error(1, "superseded");
    script.welcome(3, json!({token(8): "keep", token(10): "stop"}));
    script
        .outcome(3, 8, "success")
        .verdict(3, 8, "accepted")
        .assign(2, 11, 6, 2)
        .done(2, 11, "success");
    // A snapshot omits what never came; a second one lists what runs.
    script
        .at(31_300)
        .assign(3, 12, 8, 1)
        .assign(3, 13, 9, 1)
        .at(33_300)
        .snapshot_request(3, 1);
    script
        .snapshot(3, 1, 4, json!({token(13): "running"}))
        .assign(2, 14, 8, 1)
        .done(2, 14, "success");
    // Levels and actions change.
    script.hear(
        3,
        json!({"m": "capacity", "revision": 1, "max_in_flight": 1, "per_action": {"other": 1}}),
    );
    script
        .outcome(3, 13, "released")
        .verdict(3, 13, "accepted")
        .assign_of(3, "other", 15, 10, 1);
    script.done(3, 15, "success");
    let actions = json!({"fresh": {"max": 0, "waits": false}});
    script.hear(
        3,
        json!({"m": "register_actions", "revision": 1, "actions": actions}),
    );
    script.assign_of(3, "fresh", 16, 11, 1);
    // A call settles an attempt that a session holds, with the answer in a line of its own.
    script.call(json!({"m": "report_outcomes", "items": [[token(16), "success"]], "call": 1}));
    script.cancel(3, 16, "superseded");
    script.line(json!({"s": 0, "dir": "reply", "m": "report_outcomes", "call": 1, "verdicts": ["accepted"]}));
    script.stopped(3, 16);
    // A worker drains and goes; another one is drained and declared dead by the operator.
    script
        .at(34_000)
        .assign_of(3, "fresh", 17, 12, 1)
        .hear(3, json!({"m": "drain"}))
        .drain_started(3, 11);
    script.rejected(3, 17).hear(3, json!({"m": "goodbye"})).close(3);
    script
        .assign_of(2, "other", 18, 13, 1)
        .assign_of(2, "wait", 19, 14, 1)
        .started(2, 19);
    script.call(json!({"m": "drain_worker", "instance": instance(2), "worker": null}));
    script.drain_started(2, 15).shell(2, "closed");
    script.hello(4, 2, 4, json!({token(18): "received", token(19): "running"}));
    script
        .welcome(4, json!({token(18): "keep", token(19): "keep"}))
        .drain_started(4, 0);
    script
        .at(34_100)
        .call(json!({"m": "declare_worker_dead", "instance": instance(2)}));
    script
        .error(4, "declared_dead")
        .greet(5, 3, 4)
        .assign_of(5, "other", 20, 13, 1);
    // Silence for longer than the lease, on an open stream and on a broken one.
    script
        .at(45_100)
        .error(5, "lease_expired")
        .greet(6, 4, 4)
        .assign_of(6, "other", 21, 13, 1);
    script
        .shell(6, "closed")
        .at(56_100)
        .greet(7, 5, 4)
        .assign_of(7, "other", 22, 13, 1);
    script
        .hear(7, json!({"m": "unknown"}))
        .say(7, json!({"m": "reconnect", "jitter_ms": 1, "deadline_ms": 0}));
    script.done(7, 22, "success");
    // The next process knows nothing of it.
    script
        .boot()
        .greet(1, 5, 1)
        .assign_of(1, "other", 50, 50, 1)
        .done(1, 50, "success");
    script
}

#[test]
fn a_journal_with_everything_in_it_is_clean() {
    let script = everything();
    let report = script.report();
    let floors = [
        (Count::Boots, 2),
        (Count::Sessions, 8),
        (Count::Resumes, 2),
        (Count::KeptAttempts, 3),
        (Count::Assignments, 22),
        (Count::HandedOutAgain, 5),
        (Count::Rejected, 2),
        (Count::OutcomesAccepted, 12),
        (Count::OutcomesRefused, 3),
        (Count::Cancels, 4),
        (Count::Stopped, 2),
        (Count::SnapshotRequests, 1),
        (Count::SnapshotAnswers, 1),
        (Count::Drains, 3),
        (Count::Reports, 1),
    ];
    report.expect_clean();
    for (count, floor) in floors {
        report.at_least(count, floor);
    }
    assert_eq!(report.count(Count::DroppedLines), 0);
}

#[test]
#[should_panic(expected = "Assignments is 0, and should be at least 1")]
fn a_run_that_did_nothing_is_no_proof() {
    Script::new().report().at_least(Count::Assignments, 1);
}

#[test]
#[should_panic(expected = "I5 line 4 session 1 token")]
fn a_violation_is_told_with_its_place() {
    let mut script = Script::new();
    script
        .hello(1, 1, 1, json!({}))
        .assign(1, 1, 1, 1)
        .report()
        .expect_clean();
}
