//! What may depend on what. Each test is an absence that the drawing of the architecture promises.

use std::collections::BTreeSet;
use std::path::Path;

use escapement_tests::checkout;

use crate::assert_none;
use crate::metadata::{closure, ours};
use crate::words::SPEAKS_C;

const PURE: [&str; 10] = [
    "escapement-model",
    "escapement-contract",
    "escapement-engine",
    "escapement-simulator",
    "escapement-run",
    "escapement-runs",
    "escapement-expressions",
    "escapement-runs-insight",
    "escapement-triggers",
    "escapement-delivery",
];
/// The disk below the store in tests: the only crate with `unsafe`, and below SQLite itself.
const TEST_DISK: &str = "escapement-test-disk";
/// The simulation of runs, and what judges it.
const RUNS_SIMULATION: &str = "escapement-runs-simulation";
const RUNS_JUDGE: &str = "escapement-runs-judge";
const ORCHESTRATOR: [&str; 21] = [
    "escapement-contract",
    "escapement-engine",
    "escapement-simulator",
    "escapement-store",
    "escapement-codec",
    "escapement-advice",
    "escapement-insight",
    "escapement-commands",
    "escapement-host",
    "escapement-transport",
    "escapement-operators",
    "escapement-scaler",
    "escapement-run",
    "escapement-runs",
    "escapement-runs-host",
    "escapement-expressions",
    "escapement-triggers",
    "escapement-runs-shell",
    "escapement-runs-insight",
    "escapement-runs-api",
    "escapement-orchestrator",
];

#[track_caller]
fn assert_never(name: &str, forbidden: &[&str]) {
    let reached = closure(name);
    let found: Vec<String> = forbidden
        .iter()
        .filter(|other| reached.contains(**other))
        .map(|s| (*s).to_owned())
        .collect();
    assert_none(&found, &format!("{name} must never depend on these"));
}

//
#[test]
fn the_pure_crates_depend_on_nothing_but_each_other_and_three_crates() {
    let allowed: BTreeSet<&str> = PURE.into_iter().chain(["bytes", "prost", "sha2"]).collect();
    for name in PURE {
        let direct = &ours()[name].dependencies;
        let found: Vec<_> = direct
            .iter()
            .filter(|other| !allowed.contains(other.as_str()))
            // Time zones, which no crate should know by itself; it reads no clock without `std`.
            .filter(|other| (name, other.as_str()) != ("escapement-triggers", "jiff"))
            // How the token of an attempt is written, behind a feature.
            .filter(|other| name != "escapement-model" || !["base64", "crc32fast"].contains(&other.as_str()))
            .cloned()
            .collect();
        assert_none(&found, &format!("{name} must not depend on these"));
    }
}

//
#[test]
fn the_pure_crates_are_no_std() {
    let lacks_it = |name: &&str| {
        let root = checkout::root().join(&ours()[*name].folder).join("src/lib.rs");
        !std::fs::read_to_string(root)
            .unwrap()
            .lines()
            .any(|line| line == "#![no_std]")
    };
    let found: Vec<String> = PURE
        .into_iter()
        .filter(|name| lacks_it(name))
        .map(str::to_owned)
        .collect();
    assert_none(
        &found,
        "write `#![no_std]` at the crate root, so that the compiler keeps clocks and I/O out",
    );
}

// Runs are a caller of the contract: what they know of it are its messages.
#[test]
fn runs_and_the_contract_never_depend_on_each_other() {
    let contract = ["escapement-contract", "escapement-engine", "escapement-simulator"];
    let runs = [
        "escapement-run",
        "escapement-runs",
        "escapement-runs-host",
        "escapement-expressions",
        "escapement-runs-shell",
        "escapement-runs-insight",
        "escapement-runs-api",
    ];
    for name in runs {
        assert_never(name, &contract);
    }
    for name in contract {
        assert_never(name, &runs);
    }
    assert_never("escapement-run", &["escapement-runs", "escapement-expressions"]);
    assert_never("escapement-expressions", &["escapement-run"]);
}

#[test]
fn the_contract_never_depends_on_what_surrounds_it() {
    let outer = [
        "escapement-engine",
        "escapement-store",
        "escapement-orchestrator",
        "escapement-wire",
        "tokio",
    ];
    assert_never("escapement-contract", &outer);
}

#[test]
fn the_engine_never_depends_on_store_server_wire_or_runtime() {
    assert_never(
        "escapement-engine",
        &[
            "escapement-store",
            "escapement-orchestrator",
            "escapement-wire",
            "tokio",
        ],
    );
}

#[test]
fn the_simulator_knows_the_contract_alone() {
    let forbidden = [
        "escapement-engine",
        "escapement-store",
        "escapement-wire",
        "tokio",
    ];
    assert_never("escapement-simulator", &forbidden);
}

#[test]
fn the_store_never_depends_on_a_rule_or_on_the_wire() {
    let forbidden = [
        "escapement-contract",
        "escapement-engine",
        "escapement-wire",
        "escapement-orchestrator",
        "tonic",
    ];
    assert_never("escapement-store", &forbidden);
}

#[test]
fn transport_knows_nothing_else_of_the_orchestrator() {
    let others: Vec<&str> = ORCHESTRATOR
        .into_iter()
        .filter(|name| *name != "escapement-transport")
        .collect();
    assert_never("escapement-transport", &others);
}

#[test]
fn the_sdk_never_depends_on_the_orchestrator() {
    assert_never("escapement-sdk", &ORCHESTRATOR);
}

#[test]
fn the_stock_worker_never_depends_on_the_orchestrator() {
    assert_never("escapement-worker", &ORCHESTRATOR);
}

#[test]
fn the_stock_worker_reaches_the_session_through_the_public_sdk() {
    let dependencies = &ours()["escapement-worker"].dependencies;
    assert!(dependencies.contains("escapement-sdk"));
    assert!(
        !dependencies.contains("escapement-model"),
        "what a handler needs belongs into the SDK"
    );
}

#[test]
fn of_the_orchestrator_only_transport_and_server_know_grpc() {
    for name in [
        "escapement-model",
        "escapement-contract",
        "escapement-engine",
        "escapement-simulator",
        "escapement-store",
    ] {
        assert_never(
            name,
            &["tonic", "tonic-prost", "tonic-types", "hyper", "hyper-util"],
        );
    }
}

#[test]
fn the_commands_are_built_without_a_server() {
    let built = built_with("escapement-commands");
    assert!(built.contains("clap"), "{built:?}");
    for other in ["escapement-host", "tonic", "hyper"] {
        assert!(
            !built.contains(other),
            "escapement-commands must never depend on {other}"
        );
    }
}

#[test]
fn codec_insight_and_host_are_built_without_grpc_and_without_a_runtime() {
    for name in ["escapement-codec", "escapement-insight", "escapement-host"] {
        let built = built_with(name);
        assert!(built.contains("escapement-wire"), "{built:?}");
        for other in ["tokio", "tonic", "hyper"] {
            assert!(!built.contains(other), "{name} must never depend on {other}");
        }
    }
}

#[test]
fn a_handler_author_compiles_no_command_line_no_log_format_and_no_server() {
    let built = built_with("escapement-sdk");
    assert!(built.contains("tonic"), "{built:?}");
    for other in [
        "clap",
        "tracing-subscriber",
        "regex-automata",
        "axum",
        "prost-reflect",
    ] {
        assert!(
            !built.contains(other),
            "escapement-sdk must never depend on {other}"
        );
    }
}

/// Everything that a crate is built with when nobody asks for a feature of it. Asks cargo, because features decide.
fn built_with(name: &str) -> BTreeSet<String> {
    let tree = std::process::Command::new(env!("CARGO"))
        .args([
            "tree",
            "--locked",
            "--offline",
            "--edges",
            "normal",
            "--prefix",
            "none",
        ])
        .args(["--package", name])
        .current_dir(checkout::root())
        .output()
        .unwrap();
    assert!(tree.status.success(), "{tree:?}");
    let tree = String::from_utf8(tree.stdout).unwrap();
    tree.lines()
        .filter_map(|line| line.split(' ').next())
        .map(str::to_owned)
        .collect()
}

#[test]
fn only_the_commands_that_draw_and_the_server_know_insight() {
    for name in ["escapement-codec", "escapement-store", "escapement-engine"] {
        assert_never(name, &["escapement-insight", "escapement-orchestrator"]);
    }
}

#[test]
fn only_the_server_serves_health_and_reflection() {
    let serves = ["tonic-health", "tonic-reflection"];
    let others = ours()
        .into_iter()
        .filter(|(name, _)| !["escapement-orchestrator", "escapement-tests"].contains(name));
    let found: Vec<String> = others
        .filter(|(_, package)| serves.iter().any(|one| package.dependencies.contains(*one)))
        .map(|(name, _)| name.to_owned())
        .collect();
    assert_none(&found, "health and reflection belong to the server");
}

#[test]
fn only_the_store_knows_the_database() {
    let others = ours()
        .into_iter()
        .filter(|(name, _)| !["escapement-store", TEST_DISK].contains(name));
    let found: Vec<String> = others
        .filter(|(_, package)| package.dependencies.contains("rusqlite"))
        .map(|(name, _)| name.to_owned())
        .collect();
    assert_none(&found, "go through the store's trait");
}

#[test]
fn every_crate_takes_the_lints_of_the_workspace() {
    let root = std::fs::read_to_string(checkout::root().join("Cargo.toml")).unwrap();
    assert!(
        root.lines().any(|line| line == "unsafe_code = \"forbid\""),
        "the workspace forbids unsafe code"
    );
    let takes = |folder: &str| manifest(folder).contains("[lints]\nworkspace = true");
    let found: Vec<String> = ours()
        .values()
        .filter(|package| package.name != TEST_DISK)
        .map(|package| package.folder.clone())
        .filter(|folder| !takes(folder))
        .collect();
    assert_none(&found, "write `[lints]` and `workspace = true` into the manifest");
}

// That no other file uses it is one of the forbidden words.
#[test]
fn the_one_crate_that_may_be_unsafe_says_why_it_is_sound() {
    let folder = &ours()[TEST_DISK].folder;
    assert!(
        Path::new(SPEAKS_C).starts_with(folder),
        "{SPEAKS_C} is in {folder}"
    );
    assert!(checkout::root().join(SPEAKS_C).exists());
    let manifest = manifest(folder);
    for line in [
        "unsafe_op_in_unsafe_fn = \"deny\"",
        "undocumented_unsafe_blocks = \"deny\"",
    ] {
        assert!(
            manifest.lines().any(|found| found == line),
            "{folder}/Cargo.toml lacks {line}"
        );
    }
}

#[test]
fn no_crate_is_built_with_the_test_disk() {
    // The world around runs is a library, so that both of its tests have it.
    let tests = [TEST_DISK, RUNS_SIMULATION];
    for name in ours().into_keys().filter(|name| !tests.contains(name)) {
        assert_never(name, &tests);
    }
}

#[test]
fn the_judge_of_runs_shares_no_code_with_what_it_judges() {
    let ours: Vec<&str> = ours().into_keys().filter(|name| *name != RUNS_JUDGE).collect();
    assert_never(RUNS_JUDGE, &ours);
}

#[test]
fn every_foreign_dependency_says_why_it_is_there() {
    let mut found = unexplained("Cargo.toml", &manifest(""));
    for package in ours().values() {
        found.extend(unexplained(
            &format!("{}/Cargo.toml", package.folder),
            &manifest(&package.folder),
        ));
    }
    assert_none(
        &found,
        "a dependency is earned by a sentence in a comment on its line or above it",
    );
}

fn manifest(folder: &str) -> String {
    std::fs::read_to_string(checkout::root().join(Path::new(folder)).join("Cargo.toml")).unwrap()
}

/// Dependencies in a manifest that are not ours, not taken from the workspace, and have no comment.
fn unexplained(path: &str, manifest: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut in_dependencies = false;
    let mut above = "";
    for (index, line) in manifest.lines().enumerate() {
        if line.starts_with('[') {
            in_dependencies = line.trim_end().ends_with("dependencies]");
        }
        let declares =
            in_dependencies && line.starts_with(|c: char| c.is_ascii_lowercase()) && line.contains('=');
        let explained = line.contains(" # ") || above.starts_with("# ");
        let from_workspace = line.contains("workspace = true");
        if declares && !explained && !from_workspace && !line.starts_with("escapement-") {
            found.push(format!("{path}:{}: {line}", index + 1));
        }
        above = line;
    }
    found
}

#[test]
fn a_dependency_without_a_sentence_is_found() {
    let manifest =
        "[package]\nname = \"a\"\n[dependencies]\nfoo = \"1\"\nbar.workspace = true\n# Why.\nbaz = \"1\"\n";
    assert_eq!(unexplained("Cargo.toml", manifest), ["Cargo.toml:4: foo = \"1\""]);
}
