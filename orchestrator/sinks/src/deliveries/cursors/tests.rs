#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::{Cursors, FILE, SinkKey};
use crate::deliveries::key::Feed;
use escapement_delivery::Cursor;
use std::path::PathBuf;

/// A directory of a test's own, which goes with it.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("cursors-{name}-{}", std::process::id()));
        let _left_over = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn open(&self, sinks: &[&str]) -> Cursors {
        Cursors::open(&self.0, keys(sinks), 7)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}

/// Returns a sink of executions.
fn key(name: &str) -> SinkKey {
    SinkKey {
        name: name.to_owned(),
        feed: Feed::Executions,
    }
}

fn keys(sinks: &[&str]) -> Vec<SinkKey> {
    sinks.iter().map(|name| key(name)).collect()
}

fn place(cursors: &Cursors) -> Option<u64> {
    cursors.mark(Feed::Executions).held().map(|held| held.behind)
}

fn at(place: u64) -> Cursor {
    Cursor {
        place,
        id: Some([7; 16]),
        refused_since_ms: place.is_multiple_of(2).then_some(1_700_000_000_000),
    }
}

#[test]
fn what_was_saved_is_there_after_a_restart() {
    let directory = Directory::new("saved");
    let cursors = directory.open(&["bus", "crm"]);
    assert_eq!(cursors.of(&key("crm")), None);
    cursors.save(&key("crm"), at(7)).unwrap();
    cursors.save(&key("bus"), at(4)).unwrap();
    cursors.save(&key("crm"), at(8)).unwrap();
    let again = directory.open(&["bus", "crm"]);
    assert_eq!(
        (again.of(&key("crm")), again.of(&key("bus"))),
        (Some(at(8)), Some(at(4)))
    );
    assert!(!again.is_unknown());
}

#[test]
fn the_mark_is_the_lowest_place_that_is_saved_of_the_sinks_that_there_are() {
    let directory = Directory::new("mark");
    let cursors = directory.open(&["bus", "crm"]);
    let mark = cursors.mark(Feed::Executions);
    let held = mark.held().unwrap();
    assert_eq!((held.behind, held.for_ms), (0, 7));
    let place = || mark.held().map(|held| held.behind);
    cursors.save(&key("crm"), at(8)).unwrap();
    assert_eq!(place(), Some(0), "one has had nothing");
    cursors.save(&key("bus"), at(5)).unwrap();
    assert_eq!(place(), Some(5));
    cursors.set_sinks(keys(&["crm"]));
    assert_eq!(place(), Some(8));
    // Forgotten: if it comes back it begins anew.
    cursors.save(&key("crm"), at(9)).unwrap();
    assert_eq!(directory.open(&["bus", "crm"]).of(&key("bus")), None);
    cursors.set_sinks(Vec::new());
    assert_eq!(place(), None);
}

#[test]
fn a_sink_of_runs_has_a_cursor_and_a_mark_of_its_own() {
    let directory = Directory::new("runs");
    let of_runs = SinkKey {
        feed: Feed::Runs,
        ..key("crm")
    };
    let sinks = vec![key("bus"), of_runs.clone()];
    let cursors = Cursors::open(&directory.0, sinks.clone(), 7);
    cursors.save(&of_runs, at(9)).unwrap();
    cursors.save(&key("bus"), at(4)).unwrap();
    let again = Cursors::open(&directory.0, sinks, 7);
    let behind = |feed| again.mark(feed).held().map(|held| held.behind);
    assert_eq!((again.of(&of_runs), behind(Feed::Runs)), (Some(at(9)), Some(9)));
    assert_eq!(behind(Feed::Executions), Some(4));
    assert_eq!(
        again.of(&key("crm")),
        None,
        "as one of executions it is a new one"
    );
    again.set_sinks(keys(&["bus", "crm"]));
    assert_eq!((behind(Feed::Runs), behind(Feed::Executions)), (None, Some(0)));
}

#[test]
fn a_save_that_fails_changes_nothing() {
    let directory = Directory::new("failing");
    let cursors = directory.open(&["crm"]);
    cursors.save(&key("crm"), at(3)).unwrap();
    // Nothing can be written under that name.
    let next = directory.0.join(FILE).with_extension("json.next");
    std::fs::create_dir(&next).unwrap();
    cursors.save(&key("crm"), at(5)).unwrap_err();
    assert_eq!((cursors.of(&key("crm")), place(&cursors)), (Some(at(3)), Some(3)));
    std::fs::remove_dir(&next).unwrap();
    cursors.save(&key("crm"), at(5)).unwrap();
    assert_eq!(directory.open(&["crm"]).of(&key("crm")), Some(at(5)));
}

#[test]
fn a_file_that_does_not_read_is_as_good_as_none_and_known_to_be() {
    let directory = Directory::new("damaged");
    for text in ["", "{", r#"{"version":2,"sinks":{}}"#] {
        std::fs::write(directory.0.join(FILE), text).unwrap();
        let cursors = directory.open(&["crm"]);
        assert!(cursors.is_unknown(), "{text}");
        assert_eq!((cursors.of(&key("crm")), place(&cursors)), (None, Some(0)));
    }
}

/// Checks the file as it was first written: `tests/records/README.md`.
#[test]
fn the_file_is_read_and_written_as_it_ever_was() {
    let kept = include_bytes!("../../../../../tests/records/sinks.json");
    let directory = Directory::new("kept");
    let path = directory.0.join(FILE);
    std::fs::write(&path, kept).unwrap();
    let cursors = super::read(&path).unwrap();
    let bus = Cursor {
        place: 3,
        ..Cursor::default()
    };
    assert_eq!(
        cursors,
        [("bus".to_owned(), bus), ("crm".to_owned(), at(4))].into()
    );
    super::write(&path, &cursors).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), kept);
}
