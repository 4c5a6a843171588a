use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use escapement_model::RunId;

use super::*;
use crate::database::schema::MIGRATIONS;
use crate::runs::tables::writer;
use crate::runs::{BatchOutcome, Content, NewRun, RunBatch, RunProgress, RunWrite};

/// Steps that SQLite takes to look at one of so many runs which refer to the same content.
fn n_steps_beside(n_runs: u64) -> u64 {
    let mut connection = Connection::open_in_memory().expect("memory is there");
    for schema in MIGRATIONS {
        connection.execute_batch(schema).expect("the schema is right");
    }
    let mut tally = RunTally::load(&connection).expect("the tally is there");
    let document = Content::new(Bytes::from(vec![7; 100]));
    let mut batch = RunBatch::new();
    for n in 0..n_runs {
        let run_id = RunId::from_random((u128::from(n) << 64).to_be_bytes());
        let progress = RunProgress {
            state: 1,
            updated_at: 1,
            due_at: None,
            ended_at: None,
        };
        let mut write = RunWrite::new(run_id, 1, progress);
        write.created = Some(NewRun::default());
        write.entries = vec![Bytes::from_static(b"first")];
        write.contents = vec![document.clone()];
        batch.add(write);
    }
    let outcome = writer::apply(&connection, &mut tally, &batch).expect("memory takes writes");
    assert_eq!(outcome, BatchOutcome::Done);
    let n_steps = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&n_steps);
    let count = move || {
        counted.fetch_add(1, Ordering::Relaxed);
        false
    };
    connection.progress_handler(1, Some(count)).expect("it takes one");
    let (_, parts) = parts_of(&connection, 1).expect("memory is readable");
    assert_eq!(parts, Vec::<&str>::new());
    let (page, _) = contents(&connection, 0).expect("memory is readable");
    assert_eq!((page.n_contents, page.findings), (1, Vec::new()));
    n_steps.load(Ordering::Relaxed)
}

#[test]
fn a_look_at_a_run_costs_the_same_however_many_others_refer_to_its_content() {
    let (few, many) = (n_steps_beside(2), n_steps_beside(500));
    assert!(
        many < few + few / 2,
        "{few} steps beside one other run, {many} beside 499"
    );
}
