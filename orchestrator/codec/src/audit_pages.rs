//! Pages of audit entries, as callers list them.

use crate::audit;
use crate::stored::audit_trail::TrailPiece;
use escapement_contract::AuditEntry;
use escapement_wire::v1;
use prost::Message;

/// Returns a page of the entries of a live execution; it counts bytes only roughly.
pub fn page(entries: &[AuditEntry], is_all: bool, bytes_max: usize) -> v1::ListAuditEntriesResponse {
    let listed = cut(entries, bytes_max);
    let has_more = listed.len() < entries.len() || !is_all;
    with_next(listed, has_more)
}

/// Returns a page of the trail of a settled execution.
pub fn stored_page(piece: TrailPiece) -> v1::ListAuditEntriesResponse {
    with_next(piece.entries, piece.has_more)
}

/// Takes as many entries as fit, and at least one.
fn cut(entries: &[AuditEntry], bytes_max: usize) -> Vec<v1::AuditEntry> {
    let mut bytes = 0;
    let fits = |entry: &v1::AuditEntry| {
        let is_first = bytes == 0;
        bytes += entry.encoded_len() + 8;
        is_first || bytes <= bytes_max
    };
    entries.iter().map(audit::entry).take_while(fits).collect()
}

fn with_next(entries: Vec<v1::AuditEntry>, has_more: bool) -> v1::ListAuditEntriesResponse {
    let next_sequence = match entries.last() {
        Some(last) if has_more => last.sequence.saturating_add(1),
        Some(_) | None => 0,
    };
    v1::ListAuditEntriesResponse {
        entries,
        next_sequence,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use escapement_contract::AuditKind;

    fn entries(n_entries: u64) -> Vec<AuditEntry> {
        let entry = |sequence| AuditEntry {
            sequence,
            at_unix_ms: 1,
            kind: AuditKind::Accepted {
                deadline_ms: 2,
                provenance_digest: None,
            },
            hash: [0; 32],
        };
        (1..=n_entries).map(entry).collect()
    }

    #[test]
    fn a_page_names_the_next_entry_exactly_where_there_is_one_to_be_seen() {
        let cases = [(3, true, 0), (3, false, 4), (0, true, 0)];
        for (n_entries, is_all, next_sequence) in cases {
            let page = page(&entries(n_entries), is_all, 1 << 20);
            assert_eq!(page.entries.len() as u64, n_entries);
            assert_eq!(page.next_sequence, next_sequence);
        }
    }

    #[test]
    fn entries_are_cut_by_bytes_and_one_always_fits() {
        assert_eq!(cut(&entries(3), 0).len(), 1);
        assert_eq!(cut(&entries(3), 1 << 20).len(), 3);
    }
}
