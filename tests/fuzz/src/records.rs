//! What stands in the store, read back from any bytes: refused, or the same again. Opens no file.

use crate::fixture;
use crate::seeds;
use crate::source::Source;
use bytes::Bytes;
use escapement_codec::stored::{decode_accepted, decode_audit, decode_result, encode_accepted};
use escapement_codec::stored_execution::stored_execution;
use escapement_store::StoredExecution;
use escapement_store::embedded::probe;
use escapement_wire::v1;
use prost::Message;

/// The first byte says which record the rest is.
pub(crate) fn run(input: &[u8]) {
    let Some((kind, record)) = input.split_first() else {
        return;
    };
    match kind % 8 {
        0 | 1 => accepted(record),
        2 => result(record),
        3 => audit(record),
        4 => mark(record),
        5 => bent_mark(record),
        6 => tags(record),
        _ => listed_tags(record),
    }
}

/// A record that is taken is a valid request, and its own record says the same for ever.
fn accepted(record: &[u8]) {
    let record = Bytes::copy_from_slice(record);
    let Ok(request) = decode_accepted(&record) else {
        return;
    };
    let Some(execution_id) = request.execution_id() else {
        // Only a request as a caller sends it lacks the id.
        return;
    };
    let again = encode_accepted(&request, execution_id);
    let repeated = decode_accepted(&again).expect("what was read can be read again");
    assert_eq!(repeated.digest(), request.digest());
    assert_eq!(
        encode_accepted(&repeated, execution_id),
        again,
        "the same record for ever"
    );
}

/// A result that decodes is told with the row of its own execution, and with no other.
fn result(record: &[u8]) {
    let record = Bytes::copy_from_slice(record);
    let decoded = decode_result(&record);
    fixture::with(|fixture| {
        let mut stored = StoredExecution {
            summary: fixture.summaries[2].clone(),
            record: Bytes::new(),
            result: Some(record.clone()),
        };
        assert!(
            stored_execution(&stored).is_err(),
            "the row is of another execution"
        );
        let Ok(decoded) = decoded else {
            return;
        };
        let (Ok(execution_id), Ok(plan_id)) = (decoded.execution_id.parse(), decoded.plan_id.parse()) else {
            // No row has such ids.
            return;
        };
        stored.summary.execution_id = execution_id;
        stored.summary.plan_id = plan_id;
        let told = stored_execution(&stored);
        let is_its_own = (execution_id.to_string(), plan_id.to_string())
            == (decoded.execution_id.clone(), decoded.plan_id.clone());
        assert_eq!(told.is_ok(), is_its_own);
        if let Ok(told) = told {
            let told = told.result.expect("it has a result");
            assert!(
                told.encode_to_vec() == decoded.encode_to_vec(),
                "the result is told as it stands"
            );
        }
    });
}

fn audit(record: &[u8]) {
    let Ok(entries) = decode_audit(&Bytes::copy_from_slice(record)) else {
        return;
    };
    let n_entries = entries.len();
    assert!(2 * n_entries <= record.len(), "an entry takes two bytes at least");
    let again = v1::ListAuditEntriesResponse {
        entries,
        next_sequence: 0,
    };
    let again = decode_audit(&Bytes::from(again.encode_to_vec())).expect("what was read can be read again");
    assert_eq!(again.len(), n_entries);
}

fn mark(bytes: &[u8]) {
    match probe::mark(bytes) {
        Some((0, 0, 0)) if bytes.iter().all(|byte| *byte == 0) => {}
        Some((n_commits, execution_last, run_last)) => {
            assert_eq!(
                probe::mark_bytes(n_commits, execution_last, run_last),
                bytes,
                "a mark has one form"
            );
        }
        None => {}
    }
}

/// A mark of which a few bytes are wrong is none, and one that is cut off is none.
fn bent_mark(bytes: &[u8]) {
    let mut source = Source::new(bytes);
    let (n_commits, execution_last, run_last) = (source.long(), source.long(), source.long());
    let good = probe::mark_bytes(n_commits, execution_last, run_last);
    assert_eq!(probe::mark(&good), Some((n_commits, execution_last, run_last)));
    let mut bent = good.clone();
    // Up to 32 bits in a row: what the checksum finds for certain.
    let at = source.below(33);
    for byte in &mut bent[at..at + 4] {
        *byte ^= source.byte();
    }
    assert_eq!(probe::mark(&bent).is_some(), bent == good, "a bent mark is none");
    let length = source.below(36);
    let is_empty = good[..length].iter().all(|byte| *byte == 0);
    assert_eq!(
        probe::mark(&good[..length]).is_some(),
        is_empty,
        "a mark that is cut off is none"
    );
}

fn tags(column: &[u8]) {
    if let Some(tags) = probe::tags(column) {
        assert_eq!(probe::tags_column(&tags), column, "a column has one form");
    }
}

fn listed_tags(bytes: &[u8]) {
    let mut source = Source::new(bytes);
    let mut tags = Vec::new();
    while !source.is_empty() {
        tags.push(source.text());
    }
    let mut column = probe::tags_column(&tags);
    assert_eq!(probe::tags(&column), Some(tags.clone()), "tags come back");
    if column.pop().is_some() {
        assert_eq!(probe::tags(&column), None, "a column that is cut off is none");
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let request = seeds::full_request();
    let execution_id = request.execution_id().expect("the seed has one");
    let (result, audit) = seeds::settled();
    let tags = ["nightly".to_owned(), String::new(), "ä".to_owned()];
    let small = seeds::requests().swap_remove(0).encode_to_vec();
    let first = [0, 2, 3, 4, 5, 6, 7];
    let rest = [
        encode_accepted(&request, execution_id).to_vec(),
        result,
        audit,
        probe::mark_bytes(7, 3, 2),
        probe::mark_bytes(1, 1, 1),
        probe::tags_column(&tags),
        vec![2, b'a', b'b', 0, 1, b'c'],
    ];
    let mut all: Vec<Vec<u8>> = first
        .into_iter()
        .zip(rest)
        .map(|(kind, rest)| [vec![kind], rest].concat())
        .collect();
    all.push([vec![1], small].concat());
    let far = v1::PlanResult {
        steps_executed: i32::MIN,
        steps_total: i32::MAX,
        ..v1::PlanResult::default()
    };
    all.push([vec![2], far.encode_to_vec()].concat());
    all.push([vec![4], vec![0; 28]].concat());
    all
}
