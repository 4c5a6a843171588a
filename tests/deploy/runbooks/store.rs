//! Alerts of the store and its disk.

use super::machine::Machine;
use super::page::{blocks, commands};
use crate::stage::LIMIT;
use escapement_tests::fault_layer::FaultLayer;
use escapement_tests::plans::echo;
use escapement_tests::wait_for;
use escapement_wire::v1::GetExecutionRequest;
use serde_json::json;
use std::os::unix::fs::FileExt;
use tonic::Code;

fn large() -> escapement_wire::v1::PlanStep {
    echo(0, json!({ "filling": "x".repeat(16_000) }))
}

#[tokio::test]
async fn a_full_store_is_made_to_take_writes_again() {
    let Some(mut machine) = Machine::new("mount -t tmpfs -o size=24m tmpfs var/lib/escapement;").await else {
        return;
    };
    machine.systemctl("start escapement-orchestrator").await;
    machine.follow(
        "cd /var/lib/escapement/
         mkdir -p backups/last-month backups/today
         echo copy > backups/today/store.db
         ! head -c 100M /dev/zero > backups/last-month/store.db 2>/dev/null
         touch -d '8 days ago' backups/last-month",
    );
    let refused = async || machine.try_submit(large()).await.err();
    let refused = wait_for("a refusal", LIMIT, refused).await.unwrap();
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
    assert_eq!(machine.figure("escapement_store_full").await, 1.0);
    assert_eq!(machine.probe("/readyz").await.0, 503);

    let said = machine.follow(&commands("StoreFull"));
    assert!(said.contains("last-month/store.db"), "it is found: {said}");
    assert_eq!(machine.figure("escapement_store_full").await, 0.0);
    machine.follow("test -f /var/lib/escapement/backups/today/store.db");
    machine.submit(large()).await;
}

#[tokio::test]
async fn a_disk_that_fills_gets_room_before_it_is_full() {
    let mounts = "mount -t tmpfs -o size=300m tmpfs var/lib/escapement;";
    let Some(mut machine) = Machine::new(mounts).await else {
        return;
    };
    machine.systemctl("start escapement-orchestrator").await;
    machine.follow(
        "mkdir -p /var/lib/escapement/backups/old
         head -c 100M /dev/zero >/var/lib/escapement/backups/old/store.db
         touch -d '8 days ago' /var/lib/escapement/backups/old",
    );
    let room = "escapement_store_free_bytes";
    machine.until(room, |bytes| bytes < LITTLE_ROOM).await;
    let said = machine.follow(&commands("DiskFillsSoon"));
    let large = said.find("backups/old/store.db").unwrap();
    let store = said.find("/var/lib/escapement/store.db\n");
    assert!(
        store.is_none_or(|store| store < large),
        "the copy is larger: {said}"
    );
    machine.follow(&commands("StoreFull"));
    machine.until(room, |bytes| bytes > LITTLE_ROOM).await;
}

/// True if more than 1 % of the commits so far took longer than 100 ms.
async fn commits_slowly(machine: &Machine) -> bool {
    let quick = machine
        .figure(r#"escapement_store_commit_seconds_bucket{le="0.1"}"#)
        .await;
    let all = machine.figure("escapement_store_commit_seconds_count").await;
    all > 0.0 && quick < all * 0.99
}

#[tokio::test]
async fn a_slow_disk_is_seen_to_be_slow_and_the_store_moves_to_another() {
    let Some(mut machine) = Machine::new("mount -t tmpfs tmpfs mnt;").await else {
        return;
    };
    let store = machine.directory.join("var/lib/escapement");
    let layer = FaultLayer::new(&machine.directory.join("run/faults"), &store).unwrap();
    layer.slow_syncs(300).unwrap();
    machine.variables = layer.variables().to_vec();
    machine.systemctl("start escapement-orchestrator").await;
    let before = machine.submit(echo(0, json!({}))).await;
    let slowly = async || commits_slowly(&machine).await.then_some(());
    wait_for("a slow commit", LIMIT, slowly).await.unwrap();

    let [look, moves] = &blocks("CommitSlow")[..] else {
        panic!("it has two parts");
    };
    let output = machine.tried(look);
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    let took = said.lines().find_map(|line| line.strip_prefix("real\t0m"));
    let took: f64 = took.unwrap().trim_end_matches('s').parse().unwrap();
    assert!(took >= 0.3, "{said}");
    // The other disk is as quick as that of the test.
    machine.variables.clear();
    machine.follow_block(moves).await;
    machine.submit(echo(0, json!({}))).await;
    machine
        .until("escapement_store_commit_seconds_count", |count| count > 0.0)
        .await;
    assert!(!commits_slowly(&machine).await);
    machine.follow("findmnt /var/lib/escapement");
    let asked = GetExecutionRequest { execution_id: before };
    let kept = machine.orchestrator().plans().get_execution(asked).await;
    assert!(kept.is_ok(), "{kept:?}");
}

#[tokio::test]
async fn an_orchestrator_that_does_not_start_is_brought_up() {
    let [settings, damage, restore] = &blocks("EscapementDown")[..] else {
        panic!("it has three parts");
    };
    let Some(mut machine) = Machine::with("").await else {
        return;
    };
    let kept = machine.submit(large()).await;
    machine.follow(
        "mkdir /var/lib/escapement/backups
         orchestrator backup --store-path /var/lib/escapement --to /var/lib/escapement/backups/today",
    );
    machine.systemctl("stop escapement-orchestrator").await;

    machine.set("orchestrator", "ESCAPEMENT_MAX_QUEUED_EXECUTIONS=many\n");
    let exit = machine.launch("orchestrator").exit(LIMIT).await.unwrap();
    assert_eq!(exit.code(), Some(64));
    let output = machine.tried(settings);
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert_eq!(output.status.code(), Some(64), "{said}");
    assert!(said.matches("max-queued-executions").count() >= 2, "{said}");
    machine.set("orchestrator", "ESCAPEMENT_MAX_QUEUED_EXECUTIONS=1000\n");
    machine.follow(settings);

    let file = machine.directory.join("var/lib/escapement/store.db");
    let file = std::fs::File::options().write(true).open(file).unwrap();
    file.write_all_at(&[0xff; 16_384], 0).unwrap();
    let exit = machine.launch("orchestrator").exit(LIMIT).await.unwrap();
    assert_eq!(exit.code(), Some(74));
    let output = machine.tried(damage);
    assert_eq!(output.status.code(), Some(74), "{output:?}");
    machine.follow_block(restore).await;
    let asked = GetExecutionRequest { execution_id: kept };
    let kept = machine.orchestrator().plans().get_execution(asked).await;
    assert!(kept.is_ok(), "{kept:?}");
    machine.submit(large()).await;
}

#[tokio::test]
async fn what_is_damaged_is_named_and_given_up_and_the_rest_stays() {
    let [look, give_up] = &blocks("StoreDamaged")[..] else {
        panic!("it has two parts");
    };
    let Some(mut machine) = Machine::with("ESCAPEMENT_SCRUB_INTERVAL_MS=500\n").await else {
        return;
    };
    machine.systemctl("start escapement-worker").await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        let id = machine.submit(echo(0, json!({}))).await;
        machine.result_of(&id).await;
        ids.push(id);
    }
    let store = machine.directory.join("var/lib/escapement/store.db");
    let store = rusqlite::Connection::open(store).unwrap();
    store.busy_timeout(LIMIT).unwrap();
    let damage = "UPDATE accepted_record SET record = x'00' WHERE number = 2";
    assert_eq!(store.execute(damage, ()).unwrap(), 1);
    drop(store);
    let damaged = "escapement_store_damaged";
    machine.until(damaged, |count| count == 1.0).await;
    let said = machine.follow_block(look).await;
    assert!(
        said.contains("\"number\":2") && said.matches(&ids[1]).count() >= 1,
        "{said}"
    );
    machine.follow_block(&give_up.replace("NUMBER\n", "2\n")).await;
    assert_eq!(machine.figure(damaged).await, 0.0);
    let asked = |id: &String| GetExecutionRequest {
        execution_id: id.clone(),
    };
    let mut plans = machine.orchestrator().plans();
    assert!(plans.get_execution(asked(&ids[0])).await.is_ok());
    assert!(plans.get_execution(asked(&ids[2])).await.is_ok());
    let gone = plans.get_execution(asked(&ids[1])).await.unwrap_err();
    assert_eq!(gone.code(), Code::NotFound, "{gone:?}");
}

/// Below it the alert of the disk fires.
const LITTLE_ROOM: f64 = 268_435_456.0;
