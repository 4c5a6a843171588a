//! The conformance kit: the workers that ship pass every check, and workers with one flaw each fail the checks that look for it.
//! The flawed workers are this test program itself, which the kit starts again with the name of a flaw.

mod flawed_worker;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::process::{Command, Stdio};
use std::sync::Mutex;

use escapement_tests::{Binaries, PrivateDirectory, checkout, tool};

use flawed_worker::{FLAW, Flaw};

/// What the kit said.
struct Judgement {
    passed: BTreeSet<String>,
    failed: BTreeSet<String>,
    success: bool,
    told: String,
}

/// Runs the kit with these options on this command.
fn judge(options: &[&str], command: &[&OsStr], flaw: &str) -> Judgement {
    judgement(kit(options, command, flaw))
}

fn kit(options: &[&str], command: &[&OsStr], flaw: &str) -> Command {
    let mut kit = Command::new(Binaries::build().unwrap().conformance);
    kit.args(options).args(command).env(FLAW, flaw);
    kit
}

fn judgement(mut kit: Command) -> Judgement {
    let ran = kit.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    let told = format!("{said}\n{}", String::from_utf8_lossy(&ran.stderr));
    let names = |word: &str| {
        let lines = said
            .lines()
            .filter_map(|line| line.strip_prefix(word)?.split([' ', ':']).next());
        lines.map(str::to_owned).collect::<BTreeSet<_>>()
    };
    let (passed, failed) = (names("pass "), names("fail "));
    let counts = format!(r#"{{"passed":{},"failed":{}}}"#, passed.len(), failed.len());
    assert_eq!(said.lines().last(), Some(&*counts), "{told}");
    Judgement {
        passed,
        failed,
        success: ran.status.success(),
        told,
    }
}

/// Judges this program as a worker with a flaw by the checks that follow.
fn judge_flawed(flaw: Flaw) -> Judgement {
    let only: Vec<_> = WATCHED.iter().flat_map(|name| ["--only", name]).collect();
    let own = std::env::current_exe().unwrap();
    let entry = ["--exact", "conformance::a_flawed_worker", "--nocapture"].map(OsStr::new);
    judge(&only, &[&[own.as_os_str()], &entry[..]].concat(), flaw.name())
}

/// Enough of the kit for every flaw to be found, and for a worker to fail what it should not.
const WATCHED: [&str; 18] = [
    "hello_comes_within_5_s",
    "instance_id_is_the_process",
    "heartbeats_go_on_while",
    "assignments_are_answered",
    "echo_returns_nested_values",
    "fail_fails_as_told",
    "an_unknown_action_is_rejected",
    "never_more_than_capacity",
    "one_token_runs_once",
    "an_outcome_survives_breaks",
    "an_acknowledged_outcome_is_forgotten",
    "a_cancel_stops_the_body",
    "the_lease_stops_what_runs",
    "nothing_succeeds_after_the_lease",
    "a_gap_in_numbers_ends_the_stream",
    "messages_are_numbered",
    "heartbeats_hash_in_flight",
    "an_outcome_never_changes",
];

/// The flawed worker itself, where the kit starts this program. In a test run of its own it has nothing to do.
#[test]
fn a_flawed_worker() {
    if let Ok(flaw) = std::env::var(FLAW) {
        flawed_worker::run(Flaw::named(&flaw));
    }
}

#[test]
fn the_stock_worker_passes_every_check() {
    let worker = Binaries::build().unwrap().worker;
    let judgement = judge(&[], &[worker.as_os_str()], "");
    assert!(
        judgement.failed.is_empty() && judgement.success,
        "{}",
        judgement.told
    );
    assert!(judgement.passed.len() >= 100, "{}", judgement.told);
}

#[test]
fn the_worker_in_python_passes_every_check() {
    let Some(python) = tool("python/bin/python", "`cargo verify` installs it") else {
        return;
    };
    let script = checkout::root().join("worker/python/escapement_worker.py");
    let cache = PrivateDirectory::new("python").unwrap();
    let mut kit = kit(&[], &[python.as_os_str(), script.as_os_str()], "");
    kit.env_remove("ESCAPEMENT_PROTO_DIR")
        .env("XDG_CACHE_HOME", cache.path());
    let judgement = judgement(kit);
    assert!(
        judgement.failed.is_empty() && judgement.success,
        "{}",
        judgement.told
    );
    assert!(judgement.passed.len() >= 100, "{}", judgement.told);
}

#[test]
fn a_worker_without_a_flaw_passes_and_each_flaw_is_found() {
    let expected: [(Flaw, &[&str]); 10] = [
        (Flaw::None, &[]),
        (Flaw::NeverAnswers, &["assignments_are_answered"]),
        (Flaw::ForgetsOutcomesAtABreak, &["an_outcome_survives_breaks"]),
        (Flaw::NewInstanceAtABreak, &["instance_id_is_the_process"]),
        (Flaw::WrongHash, &["heartbeats_hash_in_flight"]),
        (Flaw::RunsTokensTwice, &["one_token_runs_once"]),
        (Flaw::ChangesOutcomes, &["an_outcome_never_changes"]),
        (Flaw::IgnoresCancels, &["a_cancel_stops_the_body"]),
        (
            Flaw::IgnoresTheLease,
            &["nothing_succeeds_after_the_lease", "the_lease_stops_what_runs"],
        ),
        (Flaw::ForgetsANumber, &["messages_are_numbered"]),
    ];
    // The kits wait more than they work, so a few run side by side.
    let next = Mutex::new(expected.into_iter());
    std::thread::scope(|scope| {
        for _ in 0..KITS {
            scope.spawn(|| {
                loop {
                    let Some((flaw, checks)) = next.lock().unwrap().next() else {
                        return;
                    };
                    is_found(flaw, checks);
                }
            });
        }
    });
}

/// The kit finds the flaw, and what it spoils at most.
fn is_found(flaw: Flaw, checks: &[&str]) {
    let judgement = judge_flawed(flaw);
    for check in checks {
        assert!(
            judgement.failed.contains(*check),
            "{flaw:?} passes {check}:\n{}",
            judgement.told
        );
    }
    // What cannot be without the flaw's own effect may fail as well.
    let beside: Vec<_> = judgement
        .failed
        .iter()
        .filter(|name| !checks.contains(&name.as_str()))
        .collect();
    let excused = |name: &str| flaw.spoils().contains(&name);
    assert!(
        beside.iter().all(|name| excused(name)),
        "{flaw:?} fails {beside:?}:\n{}",
        judgement.told
    );
    assert_eq!(judgement.success, judgement.failed.is_empty());
}

/// Kits that run at the same time.
const KITS: usize = 3;
