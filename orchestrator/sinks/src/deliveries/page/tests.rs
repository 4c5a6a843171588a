#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::{Content, Found, look};
use crate::deliveries::cloud_event::message_of;
use crate::deliveries::file::SinksFile;
use escapement_delivery::Cursor;
use escapement_store::conformance::Sample;
use escapement_store::{Memory, Removal, Store};
use std::path::Path;

const SECRET: &[u8] = b"whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

/// A store with the endings of these seeds, each successful.
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
        execution: sample.map(Sample::execution_id),
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
