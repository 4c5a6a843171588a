//! The commands over a store with runs, as the binary does them: what they say, what they leave, and with which code they end.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use escapement_model::opaque::{ListBuilder, StructBuilder};
use escapement_model::{ExecutionId, RunId};
use escapement_run::ShownState;
use escapement_run::journal::OutcomeClass;
use escapement_run::outcome::{AttemptOutcome, value_of_object};
use escapement_run::plan;
use escapement_run::presets::Preset;
use escapement_run::spec::{ActionProfile, EffectClass, InDoubt, Risk, Spec};
use escapement_run::{Effect, Input};
use escapement_runs::{Config, NewRun};
use escapement_runs_host::{Create, RunsHost, state_byte};
use escapement_store::runs::RunStore;
use escapement_store::{Embedded, EmbeddedOptions};
use serde_json::{Value, json};

const N_ENDED: u8 = 4;
const N_ALL: u8 = N_ENDED + 2;

/// A directory that is removed behind its test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("runs-{name}-{}", std::process::id()));
        let _gone = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn join(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}

fn id(n: u8) -> RunId {
    RunId::from_random([n; 16])
}

fn now() -> i64 {
    let since_epoch = std::time::UNIX_EPOCH.elapsed().unwrap();
    i64::try_from(since_epoch.as_millis()).unwrap()
}

fn create(n: u8) -> Create {
    let step = |key: &str| {
        let config = StructBuilder::new().text("tool_name", "mail.send").build();
        let step = StructBuilder::new().text("key", key).text("type", "tool_call");
        step.object("config", config.as_encoded()).build()
    };
    let steps = ["first", "second"]
        .into_iter()
        .fold(ListBuilder::new(), |list, key| {
            list.object(step(key).as_encoded())
        });
    let document = StructBuilder::new()
        .text("schema", "escapement.plan/1")
        .text("name", &format!("needle-of-plan-{n}"))
        .list("steps", steps)
        .build();
    let profile = ActionProfile {
        action: "mail.send".to_owned(),
        effect: EffectClass::SideEffect.into(),
        risk: Risk::Safe.into(),
        seen: true,
        ..ActionProfile::default()
    };
    let mut policy = Preset::Autonomous.policy();
    policy.set_ambiguity(InDoubt::Ask);
    Create {
        run: NewRun {
            run_id: id(n),
            spec: Spec {
                limits: Preset::Autonomous.limits(1),
                policy,
                autonomy_level: 4,
                priority: 5,
                user_id: "ada".to_owned(),
                ..Spec::default()
            },
            plan: Arc::new(plan::read(&document).unwrap()),
            profiles: vec![profile],
        },
        request: None,
        saved_plan: None,
    }
}

/// Writes what the host has decided; returns what it submits.
fn write(host: &mut RunsHost, store: &mut Embedded) -> Vec<(RunId, ExecutionId)> {
    while let Some(batch) = host.poll_batch() {
        let outcome = store.commit(&batch).unwrap();
        host.handle_committed(outcome);
    }
    let submitted = host
        .poll_effects()
        .into_iter()
        .map(|(run_id, effect)| match effect {
            Effect::Submit { execution_id, .. } => (run_id, execution_id),
            other => panic!("{other:?}"),
        });
    submitted.collect()
}

/// A store with four runs that have ended and two whose first attempts are under way. Each has an output of its own that stands
/// beside its journal.
fn furnished(name: &str) -> Scratch {
    let scratch = Scratch::new(name);
    let directory = scratch.0.join("store");
    drop(Embedded::open(&directory, EmbeddedOptions::default()).unwrap());
    let mut store = Embedded::open(&directory, EmbeddedOptions::default()).unwrap();
    let config = Config {
        max_live_runs: 10,
        max_runs: 10,
    };
    let (mut host, _) = RunsHost::open(&store, config, now()).unwrap();
    for n in 1..=N_ALL {
        host.create(create(n), now()).unwrap();
    }
    let mut submitted = write(&mut host, &mut store);
    while let Some((run_id, execution_id)) = submitted.pop() {
        let number = run_id.as_bytes()[0];
        if number > N_ENDED {
            continue;
        }
        let text = format!("needle-of-output-{number}-{}", "x".repeat(40_000));
        let outcome = AttemptOutcome {
            class: OutcomeClass::Completed,
            output: Some(value_of_object(&StructBuilder::new().text("text", &text).build())),
            code: String::new(),
            message: String::new(),
            pause: false,
            ..AttemptOutcome::default()
        };
        let settled = Input::Settled {
            execution_id,
            outcome,
        };
        host.handle(run_id, settled, now()).unwrap();
        submitted.extend(write(&mut host, &mut store));
    }
    scratch
}

/// What a command said: its code, its lines, its stderr.
fn command(arguments: &[&str]) -> (i32, Vec<Value>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_orchestrator"))
        .args(arguments)
        .env_clear()
        .output()
        .unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    let lines = stdout.lines().map(|line| serde_json::from_str(line).unwrap());
    let stderr = String::from_utf8(output.stderr).unwrap();
    (output.status.code().unwrap(), lines.collect(), stderr)
}

/// Flips a bit of each place in the file that has these bytes.
fn flip(file: &Path, needle: &str) {
    let mut bytes = std::fs::read(file).unwrap();
    let places: Vec<usize> = bytes
        .windows(needle.len())
        .enumerate()
        .filter(|(_, window)| *window == needle.as_bytes())
        .map(|(at, _)| at)
        .collect();
    assert!(!places.is_empty(), "{needle}");
    places.iter().for_each(|at| bytes[at + 3] ^= 1);
    std::fs::write(file, bytes).unwrap();
}

fn database(scratch: &Scratch) -> PathBuf {
    scratch.0.join("store").join("store.db")
}

#[test]
fn a_whole_store_is_checked_with_its_runs_and_one_without_runs_has_none() {
    let scratch = furnished("whole");
    let (code, lines, stderr) = command(&["check", "--store-path", &scratch.join("store")]);
    assert_eq!((code, lines.len()), (0, 1), "{lines:?} {stderr}");
    assert_eq!(lines[0]["runs"], N_ALL);
    let n_contents = N_ALL + N_ENDED;
    assert_eq!(
        lines[0]["contents"], n_contents,
        "a plan each, and equal outputs once"
    );
    let without = scratch.0.join("without");
    drop(Embedded::open(&without, EmbeddedOptions::default()).unwrap());
    let (code, lines, _) = command(&["check", "--store-path", without.to_str().unwrap()]);
    assert_eq!((code, &lines[0]["runs"]), (0, &Value::from(0)));
    let (code, ..) = command(&["check", "--repair", "--store-path", &scratch.join("store")]);
    assert_eq!(code, 0);
}

// S7
#[test]
fn a_flipped_byte_of_a_plan_is_named_and_given_up_and_hurts_no_other_run() {
    let scratch = furnished("entry");
    let store = scratch.join("store");
    flip(&database(&scratch), "needle-of-plan-2");
    let (code, lines, _) = command(&["check", "--store-path", &store]);
    assert_eq!(
        (code, lines.len()),
        (74, 3),
        "its journal and the revision: {lines:?}"
    );
    assert_eq!(
        (&lines[0]["event"], &lines[0]["number"], &lines[0]["run_id"]),
        (&"run_damaged".into(), &2.into(), &id(2).to_string().into())
    );
    let (code, lines, _) = command(&[
        "export",
        "--all",
        "--store-path",
        &store,
        "--to",
        &scratch.join("all"),
    ]);
    assert_eq!(code, 74);
    let last = lines.last().unwrap();
    assert_eq!(
        (&last["runs"], &last["damaged"]),
        (&(N_ALL - 1).into(), &1.into())
    );
    let not_exported: Vec<_> = lines
        .iter()
        .filter(|line| line["event"] == "not_exported")
        .collect();
    assert!(
        not_exported.len() == 1 && not_exported[0]["run_number"] == 2,
        "{lines:?}"
    );

    let (code, _, stderr) = command(&["drop", "--run-number", "1", "--store-path", &store]);
    assert!(
        code == 73 && stderr.contains("run number 1 is not dropped: it is whole"),
        "{stderr}"
    );
    let (code, ..) = command(&["drop", "--run-number", "9", "--store-path", &store]);
    assert_eq!(code, 73);
    let (code, lines, _) = command(&["drop", "--run-number", "2", "--store-path", &store]);
    assert_eq!((code, &lines[0]["run_id"]), (0, &id(2).to_string().into()));
    let (code, lines, _) = command(&["check", "--store-path", &store]);
    assert_eq!((code, &lines[0]["runs"]), (0, &(N_ALL - 1).into()), "{lines:?}");
}

#[test]
fn a_flipped_byte_of_an_output_is_named_with_the_run_that_refers_to_it() {
    let scratch = furnished("content");
    flip(&database(&scratch), "needle-of-output-3");
    let (code, lines, _) = command(&["check", "--store-path", &scratch.join("store")]);
    assert_eq!(code, 74);
    let named: BTreeMap<&str, &Value> = lines
        .iter()
        .map(|line| (line["event"].as_str().unwrap(), line))
        .collect();
    assert_eq!(
        named["content_damaged"]["runs"],
        Value::from(vec![3]),
        "{lines:?}"
    );
}

// S70
#[test]
fn an_exported_run_is_verified_and_a_flipped_byte_names_the_entry() {
    let scratch = furnished("record");
    let (store, file, bent) = (
        scratch.join("store"),
        scratch.join("record"),
        scratch.join("bent"),
    );
    let run_id = id(1).to_string();
    let export =
        |run_id: &str, to: &str| command(&["export", "--run-id", run_id, "--store-path", &store, "--to", to]);
    let (code, lines, stderr) = export(&run_id, &file);
    assert_eq!(
        (code, &lines[0]["run_id"]),
        (0, &run_id.as_str().into()),
        "{stderr}"
    );
    assert_eq!(export(&run_id, &file).0, 73, "a file is never overwritten");
    assert_eq!(export(&id(9).to_string(), &bent).0, 73);

    let (code, lines, _) = command(&["verify", &file]);
    let last = lines.last().unwrap();
    assert_eq!(
        (code, &last["bad"], &last["incomplete"]),
        (0, &0.into(), &0.into()),
        "{lines:?}"
    );
    assert_eq!(last["run_id"], run_id);
    assert_eq!(last["head"].as_str().unwrap().len(), 64);
    assert!(
        last["inputs"].as_u64().unwrap() >= 4,
        "it is decided again: {lines:?}"
    );

    // The plan stands in the second entry; both steps have the same output, which the first of them refers to first.
    for (needle, entry) in [("needle-of-plan-1", 2), ("needle-of-output-1", 6)] {
        std::fs::copy(&file, &bent).unwrap();
        flip(Path::new(&bent), needle);
        let (code, lines, _) = command(&["verify", &bent]);
        assert_eq!(code, 74);
        assert_eq!(
            (&lines[0]["part"], &lines[0]["sequence"]),
            (&"entry".into(), &entry.into()),
            "{lines:?}"
        );
    }

    // As grpcurl prints what ExportRun streams.
    let printed = scratch.join("printed");
    let bytes = std::fs::read(&file).unwrap();
    let pieces = bytes
        .chunks(30_000)
        .map(|piece| json!({"data": base64(piece)}).to_string());
    std::fs::write(&printed, pieces.collect::<Vec<_>>().join("\n")).unwrap();
    let (code, lines, _) = command(&["verify", &printed]);
    assert_eq!(
        (code, &lines.last().unwrap()["run_id"]),
        (0, &run_id.as_str().into()),
        "{lines:?}"
    );

    let live = scratch.join("live");
    assert_eq!(export(&id(N_ENDED + 1).to_string(), &live).0, 0);
    let (code, lines, _) = command(&["verify", &live]);
    assert_eq!(
        (code, &lines.last().unwrap()["incomplete"]),
        (0, &1.into()),
        "{lines:?}"
    );
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |three: &[u8]| {
        let bits = (0..3).fold(0, |bits, n| bits << 8 | usize::from(*three.get(n).unwrap_or(&0)));
        let digit = |n: usize| match n <= three.len() {
            true => char::from(DIGITS[bits >> (18 - 6 * n) & 63]),
            false => '=',
        };
        [0, 1, 2, 3].map(digit)
    };
    bytes.chunks(3).flat_map(group).collect()
}

/// The state of a run in a store, and how many questions it asks.
fn state_of(directory: &str, n: u8) -> (u8, usize) {
    let store = Embedded::open(Path::new(directory), EmbeddedOptions::default()).unwrap();
    let reader = store.reader().unwrap();
    let summary = reader.summary(id(n)).unwrap().unwrap();
    let open = reader.open_input_requests(None, None, 10).unwrap();
    (summary.progress.state, open.requests.len())
}

#[test]
fn a_restored_run_is_paused_and_what_it_had_under_way_is_in_doubt() {
    let scratch = furnished("backup");
    let (store, file) = (scratch.join("store"), scratch.join("backup"));
    let (code, lines, stderr) = command(&["backup", "--store-path", &store, "--to", &file]);
    assert_eq!((code, &lines[0]["runs"]), (0, &N_ALL.into()), "{stderr}");
    let restore = |name: &str, more: &[&str]| {
        let target = scratch.join(name);
        let arguments = [&["restore", "--from", &file, "--store-path", &target], more].concat();
        let (code, lines, stderr) = command(&arguments);
        assert_eq!(code, 0, "{stderr}");
        let (code, checked, _) = command(&["check", "--store-path", &target]);
        assert_eq!((code, &checked[0]["runs"]), (0, &N_ALL.into()));
        (target, lines[0]["runs_paused"].clone())
    };
    let (target, n_paused) = restore("held", &[]);
    assert_eq!(n_paused, 2);
    assert_eq!(
        state_of(&target, N_ENDED + 1),
        (state_byte(ShownState::Paused), 2)
    );
    assert_eq!(state_of(&target, 1).0, state_byte(ShownState::Completed));
    let (target, n_paused) = restore("goes-on", &["--run-queued"]);
    assert_eq!(n_paused, 0);
    assert_eq!(
        state_of(&target, N_ENDED + 1),
        (state_byte(ShownState::Running), 0)
    );
}

/// An orchestrator over the store; it is killed at the end.
struct Serving(Child);

impl Serving {
    fn start(scratch: &Scratch, log: &Path, more: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_orchestrator"))
            .args(["--listen", "127.0.0.1:0", "--store-path", &scratch.join("store")])
            .args(more)
            .env_clear()
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(log).unwrap())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stdout = child.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        assert!(line.contains("serving"), "{line}");
        Self(child)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Looks at the store beside the orchestrator until it is as expected.
fn check_until(scratch: &Scratch, is_as_expected: impl Fn(&Value) -> bool) -> Value {
    let patience = Instant::now() + Duration::from_secs(60);
    loop {
        let (_, lines, stderr) = command(&["check", "--store-path", &scratch.join("store")]);
        let last = lines.last().expect(&stderr);
        if is_as_expected(last) {
            return last.clone();
        }
        assert!(Instant::now() < patience, "{last}");
    }
}

// S7
#[test]
fn an_orchestrator_starts_over_a_damaged_run_names_it_and_goes_on_with_the_others() {
    let scratch = furnished("damaged-live");
    let log = scratch.0.join("log");
    flip(&database(&scratch), &format!("needle-of-plan-{}", N_ENDED + 1));
    let _serving = Serving::start(&scratch, &log, &[]);
    // The attempt of the other one that has not ended is submitted again.
    check_until(&scratch, |checked| checked["executions"] == 1);
    let damaged = id(N_ENDED + 1).to_string();
    let patience = Instant::now() + Duration::from_secs(60);
    let said = |what: &str| {
        let log = std::fs::read_to_string(&log).unwrap();
        log.lines()
            .any(|line| line.contains(what) && line.contains(&damaged))
    };
    while !(said("run is damaged and is not taken up") && said("run damaged; restore a backup")) {
        assert!(
            Instant::now() < patience,
            "{}",
            std::fs::read_to_string(&log).unwrap()
        );
        std::thread::yield_now();
    }
}

#[test]
fn ended_runs_are_removed_while_it_serves_and_a_backup_is_made_beside_it() {
    let scratch = furnished("retention");
    let serving = Serving::start(&scratch, &scratch.0.join("log"), &["--keep-runs-count", "1"]);
    let checked = check_until(&scratch, |checked| checked["runs_removed"] == N_ENDED - 1);
    assert_eq!(
        (&checked["damaged"], &checked["runs"]),
        (&0.into(), &3.into()),
        "{checked}"
    );
    let file = scratch.join("backup");
    let (code, lines, stderr) = command(&["backup", "--store-path", &scratch.join("store"), "--to", &file]);
    assert_eq!((code, &lines[0]["runs"]), (0, &3.into()), "{stderr}");
    drop(serving);
    let target = scratch.join("restored");
    let (code, lines, stderr) = command(&["restore", "--from", &file, "--store-path", &target]);
    assert_eq!((code, &lines[0]["runs_paused"]), (0, &2.into()), "{stderr}");
}
