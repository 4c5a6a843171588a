//! Journals that were written once and are kept for ever, each with the state that it gave and its last link.

use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use escapement_model::hex;
use escapement_run::journal::{Decision, OutcomeClass};
use escapement_run::presets::Preset;
use escapement_run::record::read;
use escapement_run::state::RunState;
use prost::Message;
use serde_json::json;

use crate::records::file_of;
use crate::replays::eventful;
use crate::world::{World, call, folded, spec};

// RUN-9.1, RUN-9.2
#[test]
fn journals_give_the_states_and_links_that_they_ever_gave() {
    let worlds = [
        ("eventful", eventful()),
        ("approved", approved()),
        ("failed", failed()),
    ];
    for (name, world) in worlds {
        check(name, &world);
    }
}

/// Makes a run that a person approved and that patched the state of its session.
fn approved() -> World {
    let mut guarded = spec(Preset::Standard);
    guarded.autonomy_level = 1;
    let mut world = World::with(json!([call("a"), call("b")]), guarded);
    world.answer(Decision::Approve, json!(null));
    world.complete("a", json!({"$state_patch": {"seen": true}, "n": 1}));
    world.complete("b", json!({"text": "x".repeat(40_000)}));
    assert_eq!(world.shows(), "completed: a completed, b completed");
    world
}

/// Makes a run that fails after a retry.
fn failed() -> World {
    let mut world = World::of(json!([call("a")]));
    world.fail("a", OutcomeClass::Failed).pass(60_000);
    world.fail("a", OutcomeClass::FailedForGood);
    assert!(world.shows().starts_with("failed"), "{}", world.shows());
    world
}

/// Compares the kept journal with its kept state. With `ESCAPEMENT_NEW_RECORDS=1` missing files are written from the world.
fn check(name: &str, world: &World) {
    let (record, state) = (kept(name, "record"), kept(name, "state"));
    if std::env::var_os("ESCAPEMENT_NEW_RECORDS").is_some() && !record.exists() {
        fs::write(&record, file_of(world)).unwrap();
        fs::write(&state, text_of(&world.folded())).unwrap();
    }
    let (read, faults) = read(&Bytes::from(fs::read(&record).unwrap())).unwrap();
    assert_eq!(faults, [], "{name}");
    let journal: Vec<Bytes> = read.entries.iter().map(|entry| entry.bytes.clone()).collect();
    let today = folded(&read.run_id, &journal);
    assert_eq!(
        today.chain,
        read.entries.last().unwrap().link[..],
        "{name}: its last link is another one today"
    );
    let kept = fs::read_to_string(&state).unwrap();
    assert_eq!(
        text_of(&today),
        kept,
        "{name}: the journal gives another state today"
    );
}

fn text_of(state: &RunState) -> String {
    format!("{}\n", hex::text(&state.encode_to_vec()))
}

fn kept(name: &str, extension: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/records/journals");
    folder.join(name).with_extension(extension)
}
