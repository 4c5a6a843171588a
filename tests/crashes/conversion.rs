//! Conversions of an earlier version's files that are killed at their calls, or fail there.
//! The next one makes the same store.

use crate::tables::{Table, tables_of};
use crate::world::World;
use escapement_tests::fault_layer::{Action, Call};
use escapement_tests::{Binaries, checkout};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

/// Creates a directory with the two databases of an earlier version, as its backup has them.
fn earlier() -> World {
    let world = World::new();
    std::fs::create_dir(world.store()).unwrap();
    let backup = std::fs::read(checkout::root().join("tests/kept/0.1/tenants.backup")).unwrap();
    let (parts, footer) = backup.split_at(backup.len() - 36);
    let length = usize::try_from(u64::from_le_bytes(footer[20..28].try_into().unwrap())).unwrap();
    std::fs::write(world.file("executions.db"), &parts[..length]).unwrap();
    std::fs::write(world.file("runs.db"), &parts[length..]).unwrap();
    world
}

/// Converts the files of a world; `disturbed`: under the layer.
fn convert(world: &World, disturbed: bool) -> ExitStatus {
    let mut command = Command::new(Binaries::build().unwrap().orchestrator);
    command.arg("convert").arg("--store-path").arg(world.store());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    if disturbed {
        world.layer.phase("convert").unwrap();
        command.envs(world.layer.variables());
    }
    command.status().unwrap()
}

/// Returns all rows of a store.
fn rows(store: &Path) -> String {
    tables_of(store).iter().map(Table::statements).collect()
}

/// Returns the defect of a world whose conversion ended so at this call.
fn disturb(call: &Call, action: Action, expected: &str) -> Option<String> {
    let world = earlier();
    world.layer.phase("convert").unwrap();
    world.layer.arm(&call.phase, call.ordinal, action).unwrap();
    let first = convert(&world, true);
    if matches!(action, Action::KillBefore | Action::KillAfter) && first.code().is_some() {
        return Some(format!("it ended with {first}"));
    }
    let again = convert(&world, false);
    if !again.success() {
        return Some(format!("the next one ends with {again}"));
    }
    let found = rows(&world.file("store.db"));
    if found != expected {
        return Some("there are other rows".to_owned());
    }
    let left = ["restoring", "runs.db", "mark"]
        .into_iter()
        .find(|name| world.file(name).exists());
    if let Some(left) = left {
        return Some(format!("{left} is left"));
    }
    let kept = ["executions.db", "runs.db"].map(|name| world.file("before-store").join(name).is_file());
    (kept != [true; 2]).then(|| "the old files are not kept".to_owned())
}

#[test]
fn a_conversion_that_is_cut_short_at_any_call_makes_the_same_store() {
    let world = earlier();
    assert!(convert(&world, true).success());
    let calls = world.layer.trace().unwrap();
    let expected = rows(&world.file("store.db"));
    assert!(expected.lines().count() > 15, "{expected}");
    let is_move = |call: &Call| ["rename", "unlink", "mkdir", "create"].contains(&call.kind.as_str());
    let is_picked = |call: &Call, action| match action {
        Action::KillBefore => is_move(call) || call.ordinal.is_multiple_of(16),
        _ => call.kind == "rename",
    };
    let mut wrong = Vec::new();
    for call in &calls {
        let actions = [Action::KillBefore, Action::KillAfter, Action::Io, Action::Full].into_iter();
        for action in actions.filter(|action| crate::is_long() || is_picked(call, *action)) {
            let verdict = disturb(call, action, &expected);
            wrong.extend(verdict.map(|verdict| format!("{action} at {call}: {verdict}")));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        calls.len(),
        wrong.join("\n")
    );
    let n_renamed = calls.iter().filter(|call| call.kind == "rename").count();
    assert!(n_renamed >= 4, "{calls:?}");
}
