//! Ids of executions that are drawn.

use super::fresh_execution_id;

#[test]
fn ids_rise_with_time_and_differ_within_a_moment() {
    let ids: Vec<_> = (0..64)
        .map(|moment| fresh_execution_id(1_700_000_000_000 + moment))
        .collect();
    assert!(ids.is_sorted());
    assert_ne!(fresh_execution_id(0), fresh_execution_id(0));
    assert_eq!(
        ids[0].to_string().parse(),
        Ok(ids[0]),
        "a UUID v4 like every other"
    );
}
