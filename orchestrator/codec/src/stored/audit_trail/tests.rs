#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;

fn trail(n_entries: i64) -> AuditTrail {
    let entries = (1..=n_entries)
        .map(|sequence| v1::AuditEntry {
            hash: vec![u8::try_from(sequence).unwrap(); 32],
            sequence,
            at: 7,
            event: None,
        })
        .collect();
    let list = v1::ListAuditEntriesResponse {
        entries,
        next_sequence: 0,
    };
    AuditTrail::new(list.encode_to_vec().into())
}

fn piece(from_sequence: u64, entries_max: usize, bytes_max: usize) -> (Vec<i64>, bool) {
    let wanted = Piece {
        entries_max,
        bytes_max,
    };
    let piece = trail(10).piece(from_sequence, wanted).unwrap();
    let sequences = piece.entries.iter().map(|entry| entry.sequence).collect();
    (sequences, piece.has_more)
}

#[test]
fn a_trail_is_cut_by_entries_and_by_bytes_without_gap_or_repeat() {
    assert_eq!(piece(0, 3, 1_000), (vec![1, 2, 3], true));
    assert_eq!(piece(4, 7, 1_000), (vec![4, 5, 6, 7, 8, 9, 10], false));
    assert_eq!(piece(10, 1, 1_000), (vec![10], false));
    assert_eq!(piece(11, 1, 1_000), (vec![], false));
    // Each entry has 39 bytes.
    assert_eq!(piece(2, 100, 78), (vec![2, 3], true));
    assert_eq!(piece(2, 100, 0), (vec![2], true), "one always fits");
}

#[test]
fn a_trail_that_is_cut_off_is_unreadable() {
    let AuditTrail(mut record) = trail(10);
    record.truncate(record.len() - 1);
    let trail = AuditTrail::new(record);
    let wanted = Piece {
        entries_max: 100,
        bytes_max: 1_000,
    };
    assert!(trail.piece(1, wanted).is_err());
    assert!(trail.find(10, None).is_err());
    let last_but_one = trail.find(9, None).unwrap().unwrap();
    assert!(
        trail.at(last_but_one).is_err(),
        "whether it is the last is not known"
    );
    let nothing = AuditTrail::new(Bytes::new());
    assert!(nothing.find(1, None).is_err() && nothing.at(Place::default()).is_err());
}

#[test]
fn a_watcher_goes_on_behind_what_it_has_seen_and_learns_if_that_is_not_there_any_more() {
    let trail = trail(10);
    let hash = |sequence| [sequence; 32];
    let first = |from, after: Option<[u8; 32]>| {
        let place = trail
            .find(from, after.as_ref().map(|hash| hash.as_slice()))
            .unwrap();
        place.map(|place| trail.at(place).unwrap().entry.sequence)
    };
    for (from, sequence) in [(0, 1), (1, 1), (2, 2), (10, 10)] {
        assert_eq!(first(from, None), Some(sequence));
    }
    assert_eq!(first(2, Some(hash(1))), Some(2));
    // The last entry brings the result, also to a watcher that has seen it.
    assert_eq!(first(11, Some(hash(10))), Some(10));
    assert_eq!(first(1_000, None), Some(10));
    for (from, after) in [(2, 2), (11, 9), (12, 10), (1_000, 10), (1, 0)] {
        assert_eq!(first(from, Some(hash(after))), None, "{from}");
    }
}
