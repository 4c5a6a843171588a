//! Writes that are decided on a reader, while others write the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use escapement_model::Namespace;
use escapement_runs_host::{Deciding, RunsHost};
use escapement_runs_shell::limits::DECISIONS_MAX;
use escapement_runs_shell::{CallError, Decided, RunsHandle};
use escapement_store::runs::{DefinitionChange, DefinitionKind, DefinitionPut};
use tokio::runtime::Handle;

use crate::world::World;

const KIND: DefinitionKind = DefinitionKind::Goal;

fn put(record: String) -> DefinitionChange {
    DefinitionChange::Put(DefinitionPut {
        namespace: Namespace::default(),
        owner: None,
        priority: 0,
        at: 1,
        record: Bytes::from(record),
        contents: Vec::new(),
        pinned: Vec::new(),
    })
}

/// Writes the version that it has read, and returns it, while another one writes so often between its reading and its writing.
async fn decided(handle: &RunsHandle, n_others: u32) -> (Result<u64, CallError>, u32) {
    let n_tries = Arc::new(AtomicU32::new(0));
    let (tries, other, runtime) = (n_tries.clone(), handle.clone(), Handle::current());
    let decide = move |deciding: &Deciding<'_>| {
        let found = deciding.definition(KIND, "a")?;
        let version = found.map_or(0, |found| found.version);
        if tries.fetch_add(1, Ordering::SeqCst) < n_others {
            let change = |host: &mut RunsHost, _| {
                host.define(KIND, "a", put("another".to_owned()));
                Ok(())
            };
            runtime.block_on(other.change(0, change)).unwrap();
        }
        Ok(Decided::write(0, move |host: &mut RunsHost, _| {
            host.define(KIND, "a", put(version.to_string()));
            version
        }))
    };
    let decided = handle.decide(None, decide).await;
    (decided, n_tries.load(Ordering::SeqCst))
}

// RUN-9.15
#[tokio::test]
async fn a_write_is_decided_at_most_eight_times() {
    let world = World::new();
    assert_eq!(decided(&world.handle, 0).await, (Ok(0), 1));
    assert_eq!(decided(&world.handle, 2).await, (Ok(3), 3));
    assert_eq!(
        decided(&world.handle, DECISIONS_MAX - 1).await,
        (Ok(11), DECISIONS_MAX)
    );
    assert_eq!(
        decided(&world.handle, DECISIONS_MAX).await,
        (Err(CallError::Contended), DECISIONS_MAX)
    );
    let found = world.handle.readers().read(|reader| reader.definition(KIND, "a"));
    let found = found.await.unwrap().unwrap();
    assert_eq!((found.version, &found.record[..]), (20, &b"another"[..]));
}
