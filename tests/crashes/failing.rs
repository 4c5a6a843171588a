//! Every call that changes a file fails once, with an I/O error or half of the work done.
//! Nothing more is acknowledged then, the file is not touched again, the process ends at once, and nothing is lost.

use std::time::Instant;

use escapement_tests::fault_layer::{Action, Call};

use crate::acts::Scene;
use crate::is_long;
use crate::sweep::{Traced, is_swept, play_with, sweep, traced};
use crate::told::Verdicts;

/// What must come of a failing call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// The store can no longer be trusted: exit code 74.
    Exit,
    /// It does not start: exit code 73 or 74, with a word on stderr.
    NoStart,
    /// It does not start, or nothing depends on the call and it goes on.
    NoStartOrOn,
    /// Nothing depends on the call.
    On,
}

fn expected(call: &Call, action: Action) -> Expected {
    let is_writer = call.thread == "writer";
    if action == Action::Short && call.kind == "write" && call.bytes > 1 {
        // The rest is written by another call.
        return Expected::On;
    }
    if action == Action::Full && is_writer && call.kind == "write" && call.file.ends_with("-wal") {
        // Nothing was written; it is tried again.
        return Expected::On;
    }
    // SQLite syncs the directory as well as it can; the store does it itself once everything is there.
    let is_directory = ["fsync", "fdatasync"].contains(&call.kind.as_str()) && call.file == "store";
    match call.phase.as_str() {
        _ if is_writer && is_directory => Expected::On,
        _ if is_writer => Expected::Exit,
        // The checkpoint of a clean stop: what it does not copy the next start does.
        "stop" | "stop-idle" => Expected::On,
        // A start notes that its end has not been orderly yet, on the thread that runs live on.
        _ if call.thread == "runs" => Expected::Exit,
        _ if is_directory => Expected::NoStartOrOn,
        _ => Expected::NoStart,
    }
}

/// Returns the calls with which an empty file is switched to a write-ahead log: that log is not there before.
fn is_of_the_switch(call: &Call, before: &[Call]) -> bool {
    let log = format!("{}-wal", call.file);
    let is_switched = || before.iter().any(|earlier| earlier.file == log);
    call.file.ends_with("-journal") || (call.file.ends_with(".db") && !is_switched())
}

async fn failed(mut scene: Scene, call: Call, action: Action) -> Verdicts {
    let expected = expected(&call, action);
    let lives = play_with(&mut scene, &call, action).await;
    let trace = scene.world.layer.trace().unwrap();
    let mut verdicts = Vec::new();
    let at = trace.iter().position(|traced| traced.is_same(&call));
    let Some(at) = at else {
        return vec!["the call was not made".to_owned()];
    };
    if lives {
        if !matches!(expected, Expected::On | Expected::NoStartOrOn) {
            verdicts.push(format!("goes on, and {expected:?} was expected"));
        }
    } else {
        let code = scene.world.ended().await.code();
        let holds = match expected {
            Expected::Exit => code == Some(74),
            Expected::NoStart | Expected::NoStartOrOn => {
                matches!(code, Some(73 | 74)) && scene.world.stderr().contains("orchestrator: ")
            }
            Expected::On => false,
        };
        if !holds {
            verdicts.push(format!(
                "exits with {code:?}, and {expected:?} was expected:\n{}",
                scene.world.stderr()
            ));
        }
        // SQLite takes back a switch to the write-ahead log that failed; nothing stands in the file yet.
        // Executions are closed as ever if it is the file of runs that fails.
        let is_of_others =
            |later: &Call| !call.file.contains("executions") && later.file.ends_with("store.db-wal");
        let is_taken_back = |later: &Call| {
            let is_left = later.kind == "unlink" || later.kind == "truncate" && is_of_others(later);
            is_left || is_of_the_switch(&call, &trace[..at]) && later.phase == "start"
        };
        let touched = trace[at + 1..].iter().find(|later| !is_taken_back(later));
        if let Some(touched) = touched {
            verdicts.push(format!("the files are touched again: {touched}"));
        }
    }
    verdicts.extend(scene.told.judge(&mut scene.world).await);
    verdicts
}

/// Leaves out what lies in the middle of a row of equal calls: its neighbours are swept.
fn picks(traced: &[Traced]) -> impl Fn(&Call, Action) -> bool + '_ {
    move |call, action| {
        if !is_swept(call) || action != Action::Io && (call.kind != "write" || call.bytes == 1) {
            return false;
        }
        let calls = traced.iter().flat_map(|traced| &traced.calls);
        let same = |other: &&Call| {
            let near = other.ordinal.abs_diff(call.ordinal) <= 2;
            near && (&other.phase, &other.kind, &other.file) == (&call.phase, &call.kind, &call.file)
        };
        is_long() || calls.filter(same).count() < 5
    }
}

//
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_fails_ends_the_process_and_loses_nothing_that_was_told() {
    let began = Instant::now();
    let traced = traced().await;
    let (n_cases, wrong) = sweep(&traced, &[Action::Io], picks(&traced), failed).await;
    println!("{n_cases} failing calls, {} s", began.elapsed().as_secs());
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
    let least = if is_long() { CASES_MIN } else { CASES_MIN / 8 };
    assert!(n_cases >= least, "{n_cases} calls failed; there are more");
}

//
#[tokio::test(flavor = "multi_thread")]
async fn a_write_without_space_is_tried_again_and_loses_nothing_that_was_told() {
    let began = Instant::now();
    let traced = traced().await;
    let of_the_writer = |call: &Call, action| call.thread == "writer" && picks(&traced)(call, action);
    let (n_cases, wrong) = sweep(&traced, &[Action::Full], of_the_writer, failed).await;
    println!("{n_cases} writes without space, {} s", began.elapsed().as_secs());
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
    let least = if is_long() { WITHOUT_SPACE_MIN } else { 1 };
    assert!(n_cases >= least, "{n_cases} writes; there are more");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_does_half_of_its_work_loses_nothing_that_was_told() {
    let began = Instant::now();
    let traced = traced().await;
    let (n_cases, wrong) = sweep(&traced, &[Action::Torn, Action::Short], picks(&traced), failed).await;
    println!("{n_cases} halved writes, {} s", began.elapsed().as_secs());
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

/// Fewer would mean that the layer does not see all of them.
const CASES_MIN: usize = 100;
const WITHOUT_SPACE_MIN: usize = 10;
