#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::{Content, Found, look, look_at_runs};
use crate::deliveries::cloud_event::message_of;
use crate::deliveries::file::SinksFile;
use escapement_delivery::Cursor;
use escapement_store::runs::{RunBatch, RunRemoval, RunStore};
use escapement_store::{Removal, Store};
use escapement_store_kit::Memory;
use escapement_store_kit::conformance::Sample;
use escapement_store_kit::runs::MemoryRuns;
use escapement_store_kit::runs::conformance::RunSample;
use std::path::Path;

const SECRET: &[u8] = b"whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

/// Returns a store with the endings of these seeds, each successful.
fn store(seeds: std::ops::Range<u64>) -> (Memory, Vec<Sample>) {
    let mut store = Memory::new();
    let samples: Vec<Sample> = seeds.map(Sample::new).collect();
    for sample in &samples {
        store.commit(&[sample.accept(), sample.settle(1)]).unwrap();
    }
    (store, samples)
}

fn behind(place: u64, sample: Option<&Sample>) -> Cursor {
    Cursor {
        place,
        id: sample.map(|sample| *sample.execution_id().as_bytes()),
        refused_since_ms: None,
    }
}

/// What a look finds: the last place of each item with what it is.
fn found(store: &Memory, cursor: Cursor) -> Result<Vec<(u64, String)>, u64> {
    let text = "version = 1\n[[sink]]\nname = \"crm\"\nkind = \"webhook\"\nurl = \"http://127.0.0.1/\"\nsecret_file = \"s\"\n";
    let file = SinksFile::parse(text.as_bytes(), &|_: &Path| SECRET).unwrap();
    let look = look(&*store.reader().unwrap(), cursor, true, &file.sinks()[0]).unwrap();
    match look.found {
        Found::OtherStore(begin) => Err(begin),
        Found::Items(items) => Ok(items
            .into_iter()
            .map(|item| {
                let content = item.content.unwrap();
                (item.place, message_of(&content, "/test").id)
            })
            .collect()),
    }
}

fn ids(samples: &[Sample], places: std::ops::RangeInclusive<u64>) -> Vec<(u64, String)> {
    let id = |place: u64| {
        samples[usize::try_from(place).unwrap() - 1]
            .execution_id()
            .to_string()
    };
    places.map(|place| (place, id(place))).collect()
}

#[test]
fn what_stands_behind_the_cursor_is_found_in_order() {
    let (store, samples) = store(0..5);
    assert_eq!(found(&store, Cursor::default()), Ok(ids(&samples, 1..=5)));
    assert_eq!(
        found(&store, behind(3, Some(&samples[2]))),
        Ok(ids(&samples, 4..=5))
    );
    assert_eq!(found(&store, behind(5, Some(&samples[4]))), Ok(Vec::new()));
}

#[test]
fn what_was_removed_before_the_sink_came_to_it_is_a_loss_in_its_place() {
    let (mut store, samples) = store(0..5);
    let policy = Removal {
        keep_settled_count: Some(2),
        ..Removal::default()
    };
    store.remove_settled(&policy, i64::MAX).unwrap();
    let lost = |first, last| vec![(last, format!("lost-{first}-{last}"))];
    let expected = [lost(1, 3), ids(&samples, 4..=5)].concat();
    assert_eq!(found(&store, Cursor::default()), Ok(expected));
    let expected = [lost(3, 3), ids(&samples, 4..=5)].concat();
    assert_eq!(found(&store, behind(2, Some(&samples[1]))), Ok(expected));
    assert_eq!(
        found(&store, behind(3, Some(&samples[2]))),
        Ok(ids(&samples, 4..=5))
    );
    let nothing = Removal {
        keep_settled_count: Some(0),
        ..Removal::default()
    };
    store.remove_settled(&nothing, i64::MAX).unwrap();
    assert_eq!(found(&store, behind(2, None)), Ok(lost(3, 5)));
    assert_eq!(found(&store, behind(5, Some(&samples[4]))), Ok(Vec::new()));
}

#[test]
fn a_store_that_is_not_the_one_of_the_cursor_is_noticed() {
    let (store, samples) = store(0..5);
    assert_eq!(
        found(&store, behind(6, None)),
        Err(0),
        "the store is an older copy"
    );
    assert_eq!(
        found(&store, behind(3, Some(&samples[0]))),
        Err(0),
        "and has gone another way since"
    );
}

#[test]
fn a_notice_says_what_is_lost() {
    let message = message_of(&Content::Lost { first: 3, last: 9 }, "/test");
    let event: serde_json::Value = serde_json::from_slice(&message.body).unwrap();
    assert_eq!(
        (&event["type"], &event["id"]),
        (&"events_lost".into(), &"lost-3-9".into())
    );
    assert_eq!(event["data"], serde_json::json!({"first": 3, "last": 9}));
    assert_eq!(event["sequence"], "00000000000000000009");
    let message = message_of(&Content::OtherStore { place: 7 }, "/test");
    let event: serde_json::Value = serde_json::from_slice(&message.body).unwrap();
    assert_eq!(
        (&event["type"], &event["data"]["last"]),
        (&"events_begin_anew".into(), &7.into())
    );
}

/// A store of runs of these seeds, each of which has failed.
fn runs(seeds: std::ops::RangeInclusive<u64>) -> MemoryRuns {
    let mut store = MemoryRuns::new();
    for seed in seeds {
        let mut write = RunSample::new(seed).create();
        (write.progress.state, write.progress.ended_at) = (FAILED, Some(i64::try_from(seed).unwrap()));
        let mut batch = RunBatch::new();
        batch.add(write);
        store.commit(&batch).unwrap();
    }
    store
}

fn found_runs(store: &MemoryRuns, place: u64, seen: Option<u64>) -> Result<Vec<(u64, String)>, u64> {
    let text = "version = 1\n[[sink]]\nname = \"crm\"\nfeed = \"runs\"\nkind = \"webhook\"\n\
                url = \"http://127.0.0.1/\"\nsecret_file = \"s\"\n";
    let file = SinksFile::parse(text.as_bytes(), &|_: &Path| SECRET).unwrap();
    let cursor = Cursor {
        place,
        id: seen.map(|seed| *RunSample::new(seed).run_id().as_bytes()),
        refused_since_ms: None,
    };
    let look = look_at_runs(&*store.reader().unwrap(), cursor, true, &file.sinks()[0], "/test").unwrap();
    match look.found {
        Found::OtherStore(begin) => Err(begin),
        Found::Items(items) => Ok(items
            .into_iter()
            .map(|item| (item.place, message_of(&item.content.unwrap(), "/test").id))
            .collect()),
    }
}

#[test]
fn ends_of_runs_are_found_in_order_and_what_was_removed_is_a_loss_in_its_place() {
    let mut store = runs(1..=5);
    let id = |seed| (seed, RunSample::new(seed).run_id().to_string());
    let lost = |first, last| (last, format!("lost-{first}-{last}"));
    assert_eq!(found_runs(&store, 0, None), Ok((1..=5).map(id).collect()));
    assert_eq!(found_runs(&store, 3, Some(3)), Ok(vec![id(4), id(5)]));
    assert_eq!(found_runs(&store, 5, Some(5)), Ok(vec![]));
    assert_eq!(found_runs(&store, 6, None), Err(0), "the store is an older copy");
    assert_eq!(
        found_runs(&store, 3, Some(1)),
        Err(0),
        "and has gone another way since"
    );
    // By their names: one in the middle, the one of a cursor, and the last.
    for seed in [2, 3, 5] {
        store.remove_run(RunSample::new(seed).run_id(), 9).unwrap();
    }
    let expected = vec![id(1), lost(2, 3), id(4)];
    assert_eq!(found_runs(&store, 0, None), Ok(expected));
    assert_eq!(found_runs(&store, 3, Some(3)), Ok(vec![id(4)]));
    assert_eq!(found_runs(&store, 4, Some(4)), Ok(vec![lost(5, 5)]));
    let nothing = RunRemoval {
        keep_ended_count: Some(0),
        ..RunRemoval::default()
    };
    store.remove_ended(&nothing, i64::MAX).unwrap();
    assert_eq!(found_runs(&store, 0, None), Ok(vec![lost(1, 5)]));
    assert_eq!(found_runs(&store, 5, Some(5)), Ok(vec![]));
}

#[test]
fn the_event_of_a_run_says_how_it_ended() {
    let store = runs(1..=1);
    let reader = store.reader().unwrap();
    let (_, run) = reader.ended(0, 1).unwrap().runs.remove(0);
    let event = |data_bytes_max| {
        let event = escapement_runs_api::endings::event(&*reader, &run, "/test", data_bytes_max);
        let content = Content::RunEnding {
            place: 1,
            ended_at: Some(1),
            event: Box::new(event.unwrap().unwrap()),
        };
        let message = message_of(&content, "/test");
        assert_eq!(message.namespace.as_ref(), Some(&run.created.namespace));
        serde_json::from_slice::<serde_json::Value>(&message.body).unwrap()
    };
    let whole = event(10_000);
    let run_id = run.run_id.to_string();
    assert_eq!(
        (&whole["id"], &whole["type"]),
        (&run_id.as_str().into(), &"run_failed".into())
    );
    assert_eq!(whole["time"], "1970-01-01T00:00:00.001Z");
    assert_eq!(whole["sequence"], "00000000000000000001");
    assert_eq!(
        (&whole["data"]["state"], &whole["data"]["completed_at"]),
        (&"failed".into(), &1.into())
    );
    assert_eq!(whole["data"]["error_type"], "EXECUTION_ERROR");
    assert_eq!(whole["data"]["user_id"], run.created.owner.clone().unwrap());
    let by_reference = event(10);
    assert_eq!(by_reference.get("data"), None);
    let place = format!("/escapement.runs.v1.RunService/GetRun?run_id={run_id}");
    assert_eq!(by_reference["dataref"], place);
}

/// As a run's row has it.
const FAILED: u8 = 7;
