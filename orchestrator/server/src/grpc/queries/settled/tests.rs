#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use escapement_transport::response_budget::Budgeted;

fn id() -> ExecutionId {
    ExecutionId::from_random([1; 16])
}

fn record() -> SettledRecord {
    SettledRecord {
        execution_id: id(),
        trail: AuditTrail::new(Bytes::new()),
        result: Bytes::new(),
        room: Budgeted::small(()).room,
    }
}

#[tokio::test]
async fn those_who_want_a_record_at_the_same_time_share_one_reading_and_the_last_forgets_it() {
    let records = SettledRecords::default();
    let first = records.join(id());
    first.shared.set(record()).unwrap();
    let second = records.join(id());
    drop(first);
    assert!(second.shared.initialized(), "read once");
    drop(second);
    assert!(records.0.lock().unwrap().is_empty());
    assert!(!records.join(id()).shared.initialized());
}
