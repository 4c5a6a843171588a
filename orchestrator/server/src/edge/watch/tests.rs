#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use escapement_contract::AuditKind;

fn entries(n_entries: u64) -> Vec<AuditEntry> {
    let entry = |sequence| AuditEntry {
        sequence,
        at_unix_ms: 1,
        kind: AuditKind::Accepted { deadline_ms: 2 },
        hash: [0; 32],
    };
    (1..=n_entries).map(entry).collect()
}

#[test]
fn a_page_names_the_next_entry_exactly_where_there_is_one_to_be_seen() {
    let cases = [(3, true, 0), (3, false, 4), (0, true, 0)];
    for (n_entries, is_all, next_sequence) in cases {
        let page = page(&entries(n_entries), is_all);
        assert_eq!(page.entries.len() as u64, n_entries);
        assert_eq!(page.next_sequence, next_sequence);
    }
}

#[test]
fn entries_are_cut_by_bytes_and_one_always_fits() {
    assert_eq!(cut(&entries(3), 0).len(), 1);
    assert_eq!(cut(&entries(3), 1 << 20).len(), 3);
}

#[test]
fn entries_that_are_ready_are_given_once_and_in_order() {
    let mut ready = Ready::Live(entries(2).into(), 0);
    let mut sequences = Vec::new();
    while let Some(Held { value: answer, .. }) = ready.next() {
        assert_eq!(answer.result, None);
        sequences.push(answer.entry.unwrap().sequence);
    }
    assert_eq!(sequences, [1, 2]);
}
