#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::{Cursors, FILE};
use escapement_delivery::Cursor;
use escapement_model::ExecutionId;
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
        Cursors::open(&self.0, names(sinks), 7)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}

fn names(sinks: &[&str]) -> Vec<String> {
    sinks.iter().map(|name| (*name).to_owned()).collect()
}

fn place(cursors: &Cursors) -> Option<u64> {
    cursors.mark().held().map(|held| held.behind)
}

fn at(place: u64) -> Cursor {
    Cursor {
        place,
        execution: Some(ExecutionId::from_random([7; 16])),
        refused_since_ms: place.is_multiple_of(2).then_some(1_700_000_000_000),
    }
}

#[test]
fn what_was_saved_is_there_after_a_restart() {
    let directory = Directory::new("saved");
    let cursors = directory.open(&["bus", "crm"]);
    assert_eq!(cursors.of("crm"), None);
    cursors.save("crm", at(7)).unwrap();
    cursors.save("bus", at(4)).unwrap();
    cursors.save("crm", at(8)).unwrap();
    let again = directory.open(&["bus", "crm"]);
    assert_eq!((again.of("crm"), again.of("bus")), (Some(at(8)), Some(at(4))));
    assert!(!again.is_unknown());
}

#[test]
fn the_mark_is_the_lowest_place_that_is_saved_of_the_sinks_that_there_are() {
    let directory = Directory::new("mark");
    let cursors = directory.open(&["bus", "crm"]);
    let mark = cursors.mark();
    let held = mark.held().unwrap();
    assert_eq!((held.behind, held.for_ms), (0, 7));
    let place = || mark.held().map(|held| held.behind);
    cursors.save("crm", at(8)).unwrap();
    assert_eq!(place(), Some(0), "one has had nothing");
    cursors.save("bus", at(5)).unwrap();
    assert_eq!(place(), Some(5));
    cursors.set_sinks(names(&["crm"]));
    assert_eq!(place(), Some(8));
    // Forgotten: if it comes back it begins anew.
    cursors.save("crm", at(9)).unwrap();
    assert_eq!(directory.open(&["bus", "crm"]).of("bus"), None);
    cursors.set_sinks(Vec::new());
    assert_eq!(place(), None);
}

#[test]
fn a_save_that_fails_changes_nothing() {
    let directory = Directory::new("failing");
    let cursors = directory.open(&["crm"]);
    cursors.save("crm", at(3)).unwrap();
    // Nothing can be written under that name.
    let next = directory.0.join(FILE).with_extension("json.next");
    std::fs::create_dir(&next).unwrap();
    cursors.save("crm", at(5)).unwrap_err();
    assert_eq!((cursors.of("crm"), place(&cursors)), (Some(at(3)), Some(3)));
    std::fs::remove_dir(&next).unwrap();
    cursors.save("crm", at(5)).unwrap();
    assert_eq!(directory.open(&["crm"]).of("crm"), Some(at(5)));
}

#[test]
fn a_file_that_does_not_read_is_as_good_as_none_and_known_to_be() {
    let directory = Directory::new("damaged");
    for text in ["", "{", r#"{"version":2,"sinks":{}}"#] {
        std::fs::write(directory.0.join(FILE), text).unwrap();
        let cursors = directory.open(&["crm"]);
        assert!(cursors.is_unknown(), "{text}");
        assert_eq!((cursors.of("crm"), place(&cursors)), (None, Some(0)));
    }
}
