//! What earlier versions promised is kept by this one: their words on the wire, their flags and figures, a backup of their store, and
//! their programs.
//!
//! `tests/kept` has a folder for each `MAJOR.MINOR` that was released, and one for the one that is next. A file there is never
//! changed, except `gone.txt`: the flags that were removed, with reasons. `ESCAPEMENT_KEEP=1` writes those of this
//! version that are not there.

mod programs;
mod tenants;

use crate::backup::command;
use crate::plans::{StepWords, WORK, echo, fail, plan, request, step};
use crate::runs::{create, creation, ended};
use crate::world::World;
use escapement_tests::{Binaries, PrivateDirectory, ScriptedWorker, checkout, documents};
use escapement_wire::runs::v1::run::State as RunState;
use escapement_wire::v1::plan_result::Status;
use escapement_wire::v1::plan_step::OnFailure;
use escapement_wire::v1::{PlanResult, ReplayExecutionRequest};
use prost_reflect::{EnumDescriptor, FieldDescriptor, MessageDescriptor, MethodDescriptor};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Returns the folders, by their version.
fn kept() -> Vec<PathBuf> {
    let all = std::fs::read_dir(checkout::root().join("tests/kept")).unwrap();
    all.map(|folder| folder.unwrap().path()).collect()
}

/// Returns the folder of this version, if what is not there is to be written.
fn wanted() -> Option<PathBuf> {
    std::env::var_os("ESCAPEMENT_KEEP")?;
    let (version, _patch) = env!("CARGO_PKG_VERSION").rsplit_once('.')?;
    let folder = checkout::root().join("tests/kept").join(version);
    std::fs::create_dir_all(&folder).unwrap();
    Some(folder)
}

/// Holds the lines of every kept file of this name against those of this version. `may_go`: those that need not stand any more.
fn hold(file: &str, lines: &BTreeSet<String>, may_go: impl Fn(&str) -> bool) {
    if let Some(path) = wanted()
        .map(|folder| folder.join(file))
        .filter(|path| !path.exists())
    {
        let text: Vec<&str> = lines.iter().map(String::as_str).collect();
        std::fs::write(path, text.join("\n") + "\n").unwrap();
    }
    let kept = kept();
    assert!(!kept.is_empty(), "nothing is kept");
    for folder in kept {
        let text = std::fs::read_to_string(folder.join(file)).unwrap();
        assert!(text.lines().count() > 50, "{} is cut", folder.display());
        let is_gone = |line: &&str| !lines.contains(*line) && !may_go(line);
        let gone: Vec<&str> = text.lines().filter(is_gone).collect();
        assert!(gone.is_empty(), "promised by {}: {gone:#?}", folder.display());
    }
}

fn is_ours(name: &str) -> bool {
    name.starts_with("escapement.")
}

fn messages() -> impl Iterator<Item = MessageDescriptor> {
    let all = documents::descriptors().all_messages();
    all.filter(|message| is_ours(message.full_name()))
}

fn enums() -> impl Iterator<Item = EnumDescriptor> {
    let all = documents::descriptors().all_enums();
    all.filter(|one| is_ours(one.full_name()))
}

fn field_line(field: &FieldDescriptor) -> String {
    let (name, number, kind) = (field.full_name(), field.number(), field.kind());
    let many = if field.is_list() || field.is_map() {
        " repeated"
    } else {
        ""
    };
    format!("field {name} {number} {kind:?}{many}")
}

fn call_line(call: &MethodDescriptor) -> String {
    let stream = |is_stream| if is_stream { "stream " } else { "" };
    let (asks, answers) = (
        stream(call.is_client_streaming()),
        stream(call.is_server_streaming()),
    );
    let (input, output) = (call.input(), call.output());
    format!(
        "call {} {asks}{} {answers}{}",
        call.full_name(),
        input.full_name(),
        output.full_name()
    )
}

/// A field or a value that is gone is reserved, by its name and by its number.
fn is_reserved(line: &str) -> bool {
    let words: Vec<&str> = line.split(' ').collect();
    let (scope, name) = words[1].rsplit_once('.').unwrap();
    let reserves = |names: BTreeSet<String>, has_number: bool| names.contains(name) && has_number;
    match words[0] {
        "field" => messages()
            .filter(|message| message.full_name() == scope)
            .any(|message| {
                let number: u32 = words[2].parse().unwrap();
                let names = message.reserved_names().map(str::to_owned).collect();
                reserves(
                    names,
                    message.reserved_ranges().any(|range| range.contains(&number)),
                )
            }),
        "value" => enums().filter(|one| one.full_name() == scope).any(|one| {
            let number: i32 = words[2].parse().unwrap();
            let names = one.reserved_names().map(str::to_owned).collect();
            reserves(names, one.reserved_ranges().any(|range| range.contains(&number)))
        }),
        _ => false,
    }
}

#[test]
fn fields_values_and_calls_of_earlier_versions_are_there_or_reserved() {
    let mut lines = BTreeSet::new();
    for message in messages() {
        lines.extend(message.fields().map(|field| field_line(&field)));
    }
    for one in enums() {
        let (scope, values) = (one.full_name(), one.values());
        lines.extend(values.map(|value| format!("value {scope}.{} {}", value.name(), value.number())));
    }
    for service in documents::descriptors().services() {
        if is_ours(service.full_name()) {
            lines.extend(service.methods().map(|call| call_line(&call)));
        }
    }
    hold("protos.txt", &lines, is_reserved);
}

#[test]
fn what_is_gone_is_reserved_by_its_name_and_by_its_number() {
    let reserved = "field escapement.runs.v1.CreateRunRequest.parent_run_id 27 string";
    assert!(is_reserved(reserved));
    assert!(!is_reserved(&reserved.replace("27", "28")));
    assert!(!is_reserved(&reserved.replace("parent_run_id", "other")));
}

#[test]
fn flags_and_variables_of_earlier_versions_are_there() {
    let binaries = Binaries::build().unwrap();
    let mut lines = BTreeSet::new();
    for (program, path) in [
        ("orchestrator", binaries.orchestrator),
        ("worker", binaries.worker),
    ] {
        let output = Command::new(path).arg("--help").output().unwrap();
        let help = String::from_utf8(output.stdout).unwrap();
        for line in help.lines().map(str::trim) {
            let variable = line
                .strip_prefix("[env: ")
                .and_then(|rest| rest.split(['=', ']']).next());
            let flag = line.split(' ').find(|word| word.starts_with("--"));
            let flag = flag.filter(|_| line.starts_with('-'));
            lines.extend(variable.map(|name| format!("{program} {name}")));
            lines.extend(flag.map(|name| format!("{program} {}", name.trim_end_matches(','))));
        }
    }
    let gone = removed_flags();
    let back: Vec<_> = gone.intersection(&lines).collect();
    assert!(back.is_empty(), "said to be removed: {back:#?}");
    hold("flags.txt", &lines, |line| gone.contains(line));
}

/// Returns the flags and variables of earlier versions that were removed, each of them with its reason.
fn removed_flags() -> BTreeSet<String> {
    let mut removed = BTreeSet::new();
    for file in kept().iter().map(|folder| folder.join("gone.txt")) {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        for line in text.lines() {
            let (flag, reason) = line.split_once(": ").unwrap();
            assert!(!reason.is_empty(), "{flag} is removed without a reason");
            removed.insert(flag.to_owned());
        }
    }
    removed
}

#[test]
fn figures_and_labels_of_earlier_versions_are_there() {
    let page = std::fs::read_to_string(checkout::root().join("deploy/METRICS.md")).unwrap();
    let (_, table) = page.split_once("<!-- catalogue -->").unwrap();
    let mut lines = BTreeSet::new();
    for row in table.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let (name, kind) = (cells[1].trim_matches('`'), cells[2]);
        lines.insert(format!("{name} {kind}"));
        let labels = cells[3].split('`').skip(1).step_by(2);
        lines.extend(labels.map(|label| format!("{name} has {label}")));
    }
    hold("figures.txt", &lines, |_| false);
}

/// Writes a backup of what a few plans and a run leave behind, and what callers were told of them.
async fn keep_a_store(folder: &Path) {
    let world = World::start_with(|settings| settings.flag("--max-running-executions", 1)).await;
    let worker = world.stock_worker("stock", |settings| settings).await;
    let mut told = BTreeMap::new();
    for plan in [
        plan([echo(0, json!({ "a": 1 })), echo(1, json!({})).after(&[0])]),
        plan([echo(0, json!({})), fail(1, "BUSY").on_failure(OnFailure::Skip)]),
        plan([fail(0, "BROKEN")]),
    ] {
        let asked = request(plan);
        let id = asked.execution_id.clone().unwrap();
        let result = world.execute(asked).await;
        told.insert(id, documents::to_json("escapement.v1.PlanResult", &result));
    }
    let say = json!({ "key": "say", "type": "tool_call", "config": { "tool_name": "echo", "tool_args": { "a": 1 } } });
    let document = json!({ "schema": "escapement.plan/1", "name": "kept", "steps": [say] });
    let run = create(&world.orchestrator, creation("kept", &document)).await;
    let run = ended(&world.orchestrator, &run.run_id).await;
    worker.stop().await.unwrap();
    let _works = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    let queued = [request(plan([step(0, WORK)])), request(plan([step(0, WORK)]))];
    for request in &queued {
        world.submit(request).await;
    }
    let told = json!({ "settled": told, "queued": queued[1].execution_id, "run": run.run_id });
    std::fs::write(folder.join("told.json"), format!("{told:#}\n")).unwrap();
    let [store, backup] = [world.directory.join("store"), folder.join("store.backup")];
    let arguments = [
        "backup",
        "--store-path",
        store.to_str().unwrap(),
        "--to",
        backup.to_str().unwrap(),
    ];
    assert_eq!(command(&arguments).await.code, Some(0));
}

#[tokio::test]
async fn a_backup_of_every_earlier_version_is_restored_tells_the_same_and_goes_on() {
    if let Some(folder) = wanted().filter(|folder| !folder.join("store.backup").exists()) {
        keep_a_store(&folder).await;
    }
    for folder in kept() {
        let told = std::fs::read_to_string(folder.join("told.json")).unwrap();
        let told: Value = serde_json::from_str(&told).unwrap();
        let directory = PrivateDirectory::new("kept").unwrap();
        let [backup, store] = [folder.join("store.backup"), directory.join("store")];
        let (backup, store) = (backup.to_str().unwrap(), store.to_str().unwrap());
        let restored = command(&["restore", "--run-queued", "--from", backup, "--store-path", store]).await;
        assert_eq!(restored.code, Some(0), "{restored:?}");
        let checked = command(&["check", "--store-path", store]).await;
        assert_eq!(checked.code, Some(0), "{checked:?}");

        let world = World::start_in(directory, |settings| settings).await;
        let settled = told["settled"].as_object().unwrap();
        assert_eq!(settled.len(), 3);
        for (id, result) in settled {
            let result: PlanResult = documents::from_json("escapement.v1.PlanResult", result).unwrap();
            let now = world.result_of(id).await;
            let [told, now] =
                [result, now].map(|result| documents::to_json("escapement.v1.PlanResult", &result));
            assert_eq!(now, told, "{id}");
            let execution_id = id.clone();
            let replay = ReplayExecutionRequest { execution_id };
            let replayed = world.orchestrator.plans().replay_execution(replay).await;
            assert!(replayed.unwrap().into_inner().identical, "{id}");
        }
        let run = ended(&world.orchestrator, told["run"].as_str().unwrap()).await;
        assert_eq!((run.state(), run.name.as_str()), (RunState::Completed, "kept"));
        let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
        worker.keep_alive(Duration::from_secs(1));
        let new = request(plan([step(0, WORK)]));
        world.submit(&new).await;
        // What was queued ended at its deadline, an hour after it was kept; before that it comes first.
        let queued = told["queued"].as_str().unwrap();
        let mut comes = worker.complete_next(json!({})).await.execution_id;
        if comes == queued {
            comes = worker.complete_next(json!({})).await.execution_id;
        }
        assert_eq!(Some(comes), new.execution_id);
        let queued = world.result_of(queued).await;
        let why = queued.error.map(|error| error.error_code);
        assert!(
            why.as_deref().is_none_or(|code| code == "DEADLINE_EXCEEDED"),
            "{why:?}"
        );
        let result = world.result_of(new.execution_id.as_deref().unwrap()).await;
        assert_eq!(result.status(), Status::Success);
    }
}
