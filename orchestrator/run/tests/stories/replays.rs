//! Journals that are decided again: the world does that with every story. Here is what happens to those that were written by
//! something else than the law.

use bytes::Bytes;
use escapement_run::journal::{Decision, Empty, Entry, Event, OutcomeClass};
use escapement_run::presets::Preset;
use escapement_run::{Input, OverrideWord, RewindScope, Rollback};
use escapement_runs_insight::{Difference, replay};
use prost::Message;
use serde_json::json;

use crate::world::{World, call, rollback, spec};

/// Makes a run to which nearly everything has happened.
pub(crate) fn eventful() -> World {
    let question =
        json!({"key": "q", "type": "user_input", "depends_on": ["a"], "config": {"question": "?"}});
    let condition = json!({"key": "c", "type": "condition", "config": {"condition": "input.n > 2"}});
    let mut limited = spec(Preset::Standard);
    limited.policy.quorum = 2;
    let mut world = World::with(json!([call("a"), question, condition, call("z")]), limited);
    world.fail("a", OutcomeClass::Failed).pass(60_000);
    world.complete("a", json!({"text": "x".repeat(40_000)}));
    world.input(Input::Checkpoint {
        data: escapement_model::Opaque::default(),
    });
    world.input(Input::Override {
        step_key: "q".to_owned(),
        word: OverrideWord::Skip,
        reason: "not now".to_owned(),
    });
    world.input(Input::Evaluated {
        evaluation: 1,
        result: Ok(true),
    });
    world.input(Input::Rewind {
        step_key: "q".to_owned(),
        scope: RewindScope::Later,
        allow_repeat_effects: false,
    });
    world.input(Input::Pause {
        reason: "look".to_owned(),
    });
    world.input(rollback(Rollback::Restore(None)));
    world.input(Input::Recovered);
    world.input(Input::Resume {
        reason: "go".to_owned(),
    });
    world.answer(Decision::Answer, json!("sure"));
    world.input(Input::Evaluated {
        evaluation: 2,
        result: Ok(false),
    });
    world.input(Input::Cancel {
        reason: "user".to_owned(),
    });
    world
}

/// True if the entry closes a request or a step, as ends and operators do.
fn closes(world: &World, sequence: u64) -> bool {
    let at = usize::try_from(sequence).unwrap() - 1;
    matches!(
        world.journal[at].event,
        Some(Event::InputClosed(_) | Event::StepSkipped(_))
    )
}

/// Replays a journal of the world's that was changed.
fn difference(world: &World, journal: &[Bytes]) -> Difference {
    replay(journal, &world.disk).expect_err("it was changed")
}

// RUN-2.1
#[test]
fn inputs_are_told_from_the_first_entry_that_each_of_them_led_to() {
    let world = eventful();
    let replayed = replay(&world.bytes, &world.disk).unwrap();
    assert_eq!(replayed.n_inputs, 16);
    assert_eq!(replayed.run.state(), world.run.state());
}

// RUN-2.1
#[test]
fn an_entry_that_the_law_would_not_have_written_is_named() {
    let world = eventful();
    for at in 0..world.bytes.len() {
        let mut changed = world.bytes.clone();
        let mut entry = Entry::decode(changed[at].clone()).unwrap();
        entry.event = Some(Event::RunPaused(Empty {}));
        changed[at] = entry.encode_to_vec().into();
        if changed[at] != world.bytes[at] {
            // What closes requests and steps is told from what follows it.
            let found = difference(&world, &changed).sequence;
            assert!(found == at as u64 + 1 || closes(&world, found), "{at}: {found}");
        }

        let mut without = world.bytes.clone();
        without.remove(at);
        if at + 1 < world.bytes.len() {
            assert_eq!(difference(&world, &without).sequence, at as u64 + 1);
        }
        let mut twice = world.bytes.clone();
        twice.insert(at, world.bytes[at].clone());
        assert_eq!(difference(&world, &twice).sequence, at as u64 + 2);
    }
}

// RUN-2.1
#[test]
fn a_journal_may_end_behind_any_input_and_nowhere_else() {
    let world = eventful();
    let mut n_whole = 0;
    for length in 1..=world.bytes.len() {
        match replay(&world.bytes[..length], &world.disk) {
            Ok(replayed) => {
                n_whole += 1;
                assert_eq!(replayed.n_inputs, n_whole);
            }
            Err(found) => {
                let is_cut = found.sequence == length as u64 + 1;
                assert!(is_cut || closes(&world, found.sequence), "{length}: {found}");
            }
        }
    }
    assert_eq!(n_whole, 16);
}

// RUN-2.1
#[test]
fn no_journal_makes_a_replay_panic() {
    let world = eventful();
    for at in 0..world.bytes.len() {
        for byte in 0..world.bytes[at].len().min(400) {
            for bit in [0x01, 0x10, 0x80] {
                let mut changed = world.bytes.clone();
                let mut bytes = changed[at].to_vec();
                bytes[byte] ^= bit;
                changed[at] = bytes.into();
                let is_readable = Entry::decode(changed[at].clone())
                    .is_ok_and(|entry| entry.contents().iter().all(|digest| world.disk.has(digest)));
                if is_readable {
                    let _ = replay(&changed, &world.disk);
                }
            }
        }
    }
}
