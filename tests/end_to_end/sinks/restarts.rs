//! The orchestrator is stopped in good order, and its store is replaced by an older copy.

use super::{event, execute, taken, wait_for_taken, world};
use crate::world::{LIMIT, World};
use escapement_tests::Receiver;
use std::path::Path;

/// Executes so many plans with a worker of their own; then the orchestrator is stopped in good order.
async fn execute_and_stop(world: &mut World, receiver: &Receiver, count: usize) -> Vec<String> {
    let before = taken(&receiver.received()).len();
    let worker = world.stock_worker("stock", |settings| settings).await;
    let ids = execute(world, count).await;
    wait_for_taken(receiver, before + count).await;
    drop(worker);
    world.orchestrator.process.terminate(LIMIT).await.unwrap();
    ids
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for file in std::fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}

#[tokio::test]
async fn a_stop_in_good_order_repeats_nothing() {
    let receiver = Receiver::start(204).await.unwrap();
    let (mut world, _sinks) = world(
        |sinks| sinks.sink("crm", &receiver.url("/"), ""),
        |settings| settings,
    )
    .await;
    let mut ids = execute_and_stop(&mut world, &receiver, 5).await;
    world.crash_and_restart().await;
    ids.extend(execute_and_stop(&mut world, &receiver, 5).await);
    let received = receiver.received();
    assert_eq!((received.len(), taken(&received)), (10, ids));
}

#[tokio::test]
async fn an_older_copy_of_the_store_is_told_and_all_of_it_comes_again() {
    let receiver = Receiver::start(204).await.unwrap();
    let (mut world, _sinks) = world(
        |sinks| sinks.sink("crm", &receiver.url("/"), ""),
        |settings| settings,
    )
    .await;
    let older = execute_and_stop(&mut world, &receiver, 3).await;
    let (store, kept) = (world.directory.join("store"), world.directory.join("kept"));
    copy(&store, &kept);
    world.crash_and_restart().await;
    execute_and_stop(&mut world, &receiver, 3).await;
    // How far the sink is lies beside the store, and no backup has it.
    std::fs::remove_file(kept.join("sinks.json")).unwrap();
    let cursors = std::fs::read(store.join("sinks.json")).unwrap();
    std::fs::remove_dir_all(&store).unwrap();
    copy(&kept, &store);
    std::fs::write(store.join("sinks.json"), cursors).unwrap();
    let before = receiver.received().len();
    world.crash_and_restart().await;
    receiver.wait_for_requests(before + 4, LIMIT).await.unwrap();
    let mut expected = vec!["restored-6".to_owned()];
    expected.extend(older);
    expected.extend(execute_and_stop(&mut world, &receiver, 1).await);
    let received = receiver.wait_for_requests(before + 5, LIMIT).await.unwrap();
    assert_eq!(taken(&received[before..]), expected);
    assert_eq!(event(&received[before])["type"], "events_begin_anew");
}
