//! Tests of periods without writes, and of inputs that arrive in them.

use escapement_model::Opaque;
use escapement_run::ShownState;
use escapement_runs_host::Create;
use escapement_runs_shell::CallError;
use escapement_store_kit::MemoryFault;

use crate::world::{World, call, create, document, id, list, step};

/// Creates a run of one attempt that must not be active for longer than the store is full.
fn hasty(n: u8) -> Create {
    let mut create = create(id(n), &document(list([step("a", "tool_call", call("x.a"))])));
    create.run.spec.limits.watchdog_ms = 2_500;
    create
}

// RUN-7.2, RUN-7.5
#[tokio::test]
async fn no_limit_is_over_because_nothing_could_be_written() {
    let mut world = World::new();
    let mut attempts = Vec::new();
    for n in 1..=3 {
        world.handle.create(hasty(n)).await.unwrap();
        attempts.push(world.next_submission().await);
    }
    let [first, second, third] = attempts.try_into().expect("three runs");
    // The pauses between them are 0.2, 0.4, 0.8 and 1.6 seconds.
    for _ in 0..4 {
        world.disk.fail_next_commit(MemoryFault::Full);
    }
    world.settle(first, &Opaque::default());
    let refused = world.handle.create(hasty(4)).await;
    assert!(
        matches!(refused, Err(CallError::StoreFull | CallError::Store)),
        "{refused:?}"
    );
    // This one comes in time and waits for capacity; the third has not timed out yet.
    world.settle(second, &Opaque::default());
    world.ended(id(1), ShownState::Completed).await;
    world.ended(id(2), ShownState::Completed).await;
    world.settle(third, &Opaque::default());
    world.ended(id(3), ShownState::Completed).await;
}
