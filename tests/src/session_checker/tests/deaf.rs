//! Workers that are heard and do not hear: when their `Hello` proves that what it lists is as good as lost, and when not.

use serde_json::{Value, json};

use super::recorded::{assigned, completed, failed, recorded, returned};
use super::script::{Script, token};
use crate::session_checker::Invariant::{I5, I6, I8};

/// What the first attempt's step comes to.
#[derive(Clone, Copy)]
enum Settled {
    Lost,
    HandedOutAgain,
    /// Handed out under the next number.
    Counted,
}

/// Worker 1 has attempt 1, comes back at 6,000 and hears nothing from then on.
fn deafened(phase: &str) -> (Script, Value) {
    let mut script = Script::new();
    let lists = json!({ token(1): phase });
    script.greet(1, 1, 4).greet(2, 2, 4).assign(1, 1, 1, 1);
    if phase != "received" {
        script.started(1, 1);
    }
    script.at(6_000).shell(1, "closed");
    script.hello_after(3, 1, Some(1), lists.clone());
    script.welcome(3, json!({ token(1): "keep" }));
    (script, lists)
}

/// It says the next `Hello`, which is answered with `stop`; what follows from that.
fn stopped(script: &mut Script, session: u64, previous: Option<u64>, lists: &Value, settled: Settled) {
    script.hello_after(session, 1, previous, lists.clone());
    script.welcome(session, json!({ token(1): "stop" }));
    settle(script, settled);
}

fn settle(script: &mut Script, settled: Settled) {
    let events = match settled {
        Settled::Lost => vec![assigned(1, 1), failed(1, 1, "WORKER_LOST")],
        Settled::HandedOutAgain => {
            script.assign(2, 2, 1, 1).done(2, 2, "success");
            let evidence = returned(1, 1, "lease_expired");
            vec![assigned(1, 1), evidence, assigned(1, 1), completed(1, 1)]
        }
        Settled::Counted => {
            script.assign(2, 2, 1, 2).done(2, 2, "success");
            let lost = failed(1, 1, "WORKER_LOST");
            vec![assigned(1, 1), lost, assigned(1, 2), completed(1, 2)]
        }
    };
    recorded(script, events);
}

/// At this time, after one more `Hello` on the way.
fn deaf_until(t: u64, phase: &str, settled: Settled) -> Script {
    let (mut script, lists) = deafened(phase);
    script.at(12_000).shell(3, "closed");
    script.hello_after(4, 1, Some(1), lists.clone());
    script.welcome(4, json!({ token(1): "keep" }));
    script.at(t);
    stopped(&mut script, 5, Some(1), &lists, settled);
    script
}

#[test]
fn deafness_for_a_lease_and_its_margin_explains_a_loss() {
    deaf_until(17_000, "finished", Settled::Lost).is_clean();
    deaf_until(17_000, "finished", Settled::Counted).is_clean();
    deaf_until(17_000, "received", Settled::HandedOutAgain).is_clean();
}

#[test]
fn a_shorter_one_explains_nothing() {
    deaf_until(16_990, "finished", Settled::Lost).violates(I8);
    deaf_until(16_990, "received", Settled::HandedOutAgain).violates(I6);
}

#[test]
fn what_is_lost_and_what_is_handed_out_again_is_not_up_to_choice() {
    deaf_until(17_000, "finished", Settled::HandedOutAgain).violates(I6);
    deaf_until(17_000, "received", Settled::Lost).violates(I8);
}

#[test]
fn what_runs_is_not_settled_by_deafness() {
    deaf_until(17_000, "running", Settled::Lost).violates(I8);
    deaf_until(17_000, "running", Settled::HandedOutAgain).violates(I6);
}

#[test]
fn a_worker_that_names_its_last_session_is_not_deaf() {
    for (previous, is_deaf) in [(Some(4), false), (Some(1), true), (Some(9), true), (None, true)] {
        let (mut script, lists) = deafened("finished");
        script.at(12_000).shell(3, "closed");
        script.hello_after(4, 1, Some(1), lists.clone());
        script.welcome(4, json!({ token(1): "keep" }));
        script.at(17_000);
        stopped(&mut script, 5, previous, &lists, Settled::Lost);
        if is_deaf {
            script.is_clean();
        } else {
            script.violates(I8);
        }
    }
}

#[test]
fn a_heartbeat_ends_the_deafness() {
    for (t, is_deaf) in [(22_990, false), (23_000, true)] {
        let (mut script, lists) = deafened("finished");
        script.at(12_000).heartbeat(3, 1).at(17_000).shell(3, "closed");
        script.hello_after(4, 1, Some(1), lists.clone());
        script.welcome(4, json!({ token(1): "keep" })).at(t);
        stopped(&mut script, 5, Some(1), &lists, Settled::Lost);
        if is_deaf {
            script.is_clean();
        } else {
            script.violates(I8);
        }
    }
}

#[test]
fn a_journal_that_does_not_tell_what_hellos_name_proves_no_deafness() {
    let (mut script, lists) = deafened("finished");
    script
        .at(12_000)
        .hello(4, 1, 4, lists.clone())
        .welcome(4, json!({ token(1): "keep" }));
    script.at(17_000).hello(5, 1, 4, lists);
    script.welcome(5, json!({ token(1): "stop" }));
    settle(&mut script, Settled::Lost);
    script.violates(I8);
}

#[test]
fn hellos_that_are_answered_in_one_go_follow_one_another() {
    for (second_names, is_deaf) in [(Some(1), true), (Some(4), false)] {
        let (mut script, lists) = deafened("finished");
        script.at(17_000);
        script.hello_after(4, 1, Some(1), lists.clone());
        script.hello_after(5, 1, second_names, lists);
        script
            .error(3, "superseded")
            .welcome(4, json!({ token(1): "stop" }))
            .error(4, "superseded")
            .welcome(5, json!({ token(1): "stop" }));
        settle(&mut script, Settled::Lost);
        script.is_clean();
        // The second one has heard the first one, or has not.
        script.records.clear();
        script.assign(5, 9, 9, 1);
        if is_deaf {
            script.violates(I5);
        }
    }
}

#[test]
fn i5_an_assignment_before_the_heartbeat_of_a_deaf_worker() {
    let back = |previous: Option<u64>| {
        let mut script = Script::new();
        script.greet(1, 1, 4).shell(1, "closed").at(60_000);
        script
            .hello_after(2, 1, previous, json!({}))
            .welcome(2, json!({}));
        script
    };
    for previous in [None, Some(9)] {
        let mut script = back(previous);
        script.assign(2, 1, 1, 1);
        script.violates(I5);
        let mut script = back(previous);
        script.heartbeat(2, 1).assign(2, 1, 1, 1);
        script.is_clean();
    }
    let mut script = back(Some(1));
    script.assign(2, 1, 1, 1);
    script.is_clean();
    // An instance that nobody knows has missed nothing.
    let mut script = Script::new();
    script.hello_after(1, 1, Some(9), json!({})).welcome(1, json!({}));
    script.assign(1, 1, 1, 1);
    script.is_clean();
}
