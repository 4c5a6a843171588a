//! Reasons of refusals that no story needs: each is given by a call, and by one that changed nothing.

use crate::plan_words::{call, document, question, unattended, with};
use crate::world::World;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tonic::Code;

const NOBODY: &str = "0b9e7a34-51c2-4d8e-8f60-1a2b3c4d5e02";

#[tokio::test]
async fn a_request_that_never_was_is_not_found() {
    let world = World::start().await;
    let of = json!({ "input_request_id": NOBODY });
    let refusal = world.refusal("InboxService/GetInputRequest", of.clone()).await;
    assert_eq!(refusal.is(), (Code::NotFound, "REQUEST_NOT_FOUND"));
    let refusal = world.respond(&of, json!({ "text": "yes" })).await.unwrap_err();
    assert_eq!(refusal.is(), (Code::NotFound, "REQUEST_NOT_FOUND"));
    assert!(refusal.message.contains(NOBODY), "{refusal:?}");
    let refusal = world
        .respond(&json!({ "input_request_id": "no id" }), json!({ "text": "yes" }))
        .await
        .unwrap_err();
    assert_eq!(refusal.code, Code::InvalidArgument);
    assert_eq!(refusal.paths()[0].0, "input_request_id");
    world.close().await;
}

#[tokio::test]
async fn a_request_whose_time_is_over_is_expired() {
    let world = World::start().await;
    let short = json!({
        "key": "short", "type": "user_input", "on_failure": "skip",
        "config": { "question": "Now?", "timeout_ms": 1000 }
    });
    let run_id = world.run(json!([short, question("next")])).await;
    let expires = world.open_request(&run_id).await;
    let is_next = |run: &Value| {
        let open = run["open_requests"].as_array().unwrap();
        open.len() == 1 && open[0]["step_key"] == "next"
    };
    let before = world.until(&run_id, "the next question", is_next).await;
    let refusal = world
        .respond(&expires, json!({ "text": "late" }))
        .await
        .unwrap_err();
    assert_eq!(refusal.is(), (Code::FailedPrecondition, "REQUEST_EXPIRED"));
    assert!(refusal.message.contains(&run_id), "{refusal:?}");
    assert_eq!(
        world.get(&run_id).await["etag"],
        before["etag"],
        "nothing changed"
    );
    world.close().await;
}

#[tokio::test]
async fn as_many_runs_as_may_be_refuse_one_more_until_one_ends() {
    let world = World::start_with(|settings| settings.flag("--max-runs", 2)).await;
    let mut runs = Vec::new();
    for _ in 0..2 {
        runs.push(world.run(json!([question("q")])).await);
    }
    let one_more = unattended(json!({ "document": document(json!([question("q")])) }));
    let refusal = world.refusal("RunService/CreateRun", one_more.clone()).await;
    assert_eq!(refusal.is(), (Code::ResourceExhausted, "RUNS_FULL"));
    assert_eq!(world.all_runs(json!({})).await.len(), 2);
    world
        .call("RunService/DiscardRun", json!({ "run_id": runs[0] }))
        .await;
    world.create(one_more).await;
    world.close().await;
}

#[tokio::test]
async fn what_this_server_has_not_is_refused_by_its_field() {
    let world = World::start().await;
    let request = json!({
        "document": document(json!([call("a", "script.pure", json!({}))])),
        "agent": "writer",
        "policy": { "auto_retry": true }
    });
    let refusal = world.refusal("RunService/CreateRun", unattended(request)).await;
    assert_eq!(refusal.is(), (Code::InvalidArgument, "NOT_OFFERED"));
    let expected = [("agent", "NOT_OFFERED"), ("policy.auto_retry", "NOT_OFFERED")];
    assert_eq!(refusal.paths(), expected);
    let unknown = with(
        call("a", "script.pure", json!({})),
        json!({ "child_purity": "pure" }),
    );
    let request = unattended(json!({ "document": document(json!([unknown])) }));
    let refusal = world.refusal("RunService/CreateRun", request).await;
    assert_eq!(refusal.is(), (Code::InvalidArgument, "PLAN_INVALID"));
    assert_eq!(
        refusal.paths(),
        [("document.steps[0].child_purity", "UNKNOWN_FIELD")]
    );
    assert!(world.all_runs(json!({})).await.is_empty());
    world.close().await;
}

#[tokio::test]
async fn a_store_that_takes_no_writes_refuses_and_forgets_nothing_that_it_was_told() {
    let world = World::start().await;
    let run_id = world.run(json!([question("q")])).await;
    world.open_request(&run_id).await;
    let held = rusqlite::Connection::open(world.directory.join("store").join("store.db")).unwrap();
    held.busy_timeout(crate::world::LIMIT).unwrap();
    held.execute_batch("BEGIN IMMEDIATE").unwrap();
    let pause = json!({ "run_id": run_id });
    let refusal = world.refusal("RunService/PauseRun", pause).await;
    assert_eq!(refusal.is(), (Code::Unavailable, "STORE_UNAVAILABLE"));
    assert_eq!(world.get(&run_id).await["state"], "waiting", "not yet");
    held.execute_batch("ROLLBACK").unwrap();
    world.in_state(&run_id, "paused").await;
    world.close().await;
}

/// Gives every stored document another schema, with all checksums, as a store has them that another version wrote.
fn change_schemas(store: &std::path::Path) {
    let file = rusqlite::Connection::open(store.join("store.db")).unwrap();
    let sql = "SELECT place, digest, revision, bytes FROM content WHERE revision IS NOT NULL";
    let mut documents = file.prepare(sql).unwrap();
    let blob = |row: &rusqlite::Row<'_>, column| row.get::<_, Vec<u8>>(column);
    let rows = documents.query_map([], |row| {
        Ok((row.get::<_, i64>(0)?, blob(row, 1)?, blob(row, 2)?, blob(row, 3)?))
    });
    for (place, before, revision, mut bytes) in rows.unwrap().map(Result::unwrap) {
        let schema = b"escapement.plan/1";
        let at = bytes
            .windows(schema.len())
            .position(|window| window == schema)
            .unwrap();
        bytes[at + schema.len() - 1] = b'9';
        let digest = Sha256::digest(&bytes).to_vec();
        let mut summed = Vec::new();
        for part in [&digest, &revision] {
            summed.push(4);
            summed.extend(u64::try_from(part.len()).unwrap().to_le_bytes());
            summed.extend(part);
        }
        let set = "UPDATE content SET digest = ?1, revision_checksum = ?2, bytes = ?3 WHERE place = ?4";
        file.execute(set, (&digest, crc_32(&summed), bytes, place))
            .unwrap();
        file.execute("UPDATE pin SET digest = ?1 WHERE digest = ?2", (digest, before))
            .unwrap();
    }
}

fn crc_32(bytes: &[u8]) -> u32 {
    let mut sum = !0_u32;
    for byte in bytes {
        sum ^= u32::from(*byte);
        for _ in 0..8 {
            sum = sum >> 1 ^ if sum & 1 == 1 { 0xEDB8_8320 } else { 0 };
        }
    }
    !sum
}

#[tokio::test]
async fn a_stored_document_that_this_version_does_not_know_is_unreadable() {
    let mut world = World::start().await;
    let run = world
        .ended_run(json!([call("a", "script.pure", json!({}))]))
        .await;
    let again = unattended(json!({ "revision_digest": run["revision_digest"] }));
    let is_run = world.create(again.clone()).await;
    assert_eq!(world.ended(&is_run).await["state"], "completed");
    world.kill();
    change_schemas(&world.directory.join("store"));
    world.starts().await;
    let refusal = world.refusal("RunService/CreateRun", again).await;
    assert_eq!(refusal.is(), (Code::FailedPrecondition, "PLAN_UNREADABLE"));
    assert!(refusal.message.contains("schema"), "{refusal:?}");
    world.orchestrator.stop().await.unwrap();
}
