#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use escapement_transport::response_budget::Budgeted;

fn id() -> ExecutionId {
    ExecutionId::from_random([1; 16])
}

fn record(n_entries: i64) -> SettledRecord {
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
    SettledRecord {
        execution_id: id(),
        audit: list.encode_to_vec().into(),
        result: Bytes::new(),
        room: Budgeted::small(()).room,
    }
}

fn piece(
    record: &SettledRecord,
    from_sequence: u64,
    entries_max: usize,
    bytes_max: usize,
) -> (Vec<i64>, bool) {
    let piece = record
        .piece(
            from_sequence,
            Piece {
                entries_max,
                bytes_max,
            },
        )
        .unwrap();
    let sequences = piece.entries.iter().map(|entry| entry.sequence).collect();
    (sequences, piece.has_more)
}

#[test]
fn a_record_is_cut_by_entries_and_by_bytes_without_gap_or_repeat() {
    let record = record(10);
    assert_eq!(piece(&record, 0, 3, 1_000), (vec![1, 2, 3], true));
    assert_eq!(piece(&record, 4, 7, 1_000), (vec![4, 5, 6, 7, 8, 9, 10], false));
    assert_eq!(piece(&record, 10, 1, 1_000), (vec![10], false));
    assert_eq!(piece(&record, 11, 1, 1_000), (vec![], false));
    // Each entry has 39 bytes.
    assert_eq!(piece(&record, 2, 100, 78), (vec![2, 3], true));
    assert_eq!(piece(&record, 2, 100, 0), (vec![2], true), "one always fits");
}

#[test]
fn a_record_that_is_cut_off_is_damaged() {
    let mut record = record(10);
    record.audit.truncate(record.audit.len() - 1);
    let wanted = Piece {
        entries_max: 100,
        bytes_max: 1_000,
    };
    assert_eq!(record.piece(1, wanted).unwrap_err(), Rejection::RecordDamaged);
    let last = record.find(10, None).and_then(|place| record.at(place));
    assert_eq!(last.unwrap_err(), Rejection::RecordDamaged);
}

#[test]
fn a_watcher_goes_on_behind_what_it_has_seen_and_learns_where_that_is_not_there_any_more() {
    let record = record(10);
    let hash = |sequence| [sequence; 32];
    let first = |from, after: Option<[u8; 32]>| {
        let place = record.find(from, after.as_ref().map(|hash| hash.as_slice()))?;
        Ok(record.at(place)?.entry.sequence)
    };
    for (from, sequence) in [(0, 1), (1, 1), (2, 2), (10, 10)] {
        assert_eq!(first(from, None), Ok(sequence));
    }
    assert_eq!(first(2, Some(hash(1))), Ok(2));
    // The last entry brings the result, also to a watcher that has seen it.
    assert_eq!(first(11, Some(hash(10))), Ok(10));
    assert_eq!(first(1_000, None), Ok(10));
    for (from, after) in [(2, 2), (11, 9), (12, 10), (1_000, 10), (1, 0)] {
        assert_eq!(
            first(from, Some(hash(after))),
            Err(Rejection::RecordRewritten),
            "{from}"
        );
    }
}

#[tokio::test]
async fn those_who_want_a_record_at_the_same_time_share_one_reading_and_the_last_forgets_it() {
    let records = SettledRecords::default();
    let first = records.join(id());
    first.shared.set(record(10)).unwrap();
    let second = records.join(id());
    drop(first);
    assert!(second.shared.initialized(), "read once");
    drop(second);
    assert!(records.0.lock().unwrap().is_empty());
    assert!(!records.join(id()).shared.initialized());
}
