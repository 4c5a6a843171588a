//! What runs make, on real processes: evidence of every attempt, artifacts that must be right, uploads over a kill.

use crate::commands::succeeds;
use crate::plan_words::{call, document, text, with};
use crate::script::{ACTIONS, ScriptWorker};
use crate::world::World;
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::artifact_service_client::ArtifactServiceClient;
use escapement_wire::runs::v1::upload_request::Part;
use escapement_wire::v1::GetExecutionRequest;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Ten bytes that begin as a PNG does, as base64.
const PNG: &str = "iVBORw0KGgoAAA==";
const PNG_BYTES: &[u8] = b"\x89PNG\r\n\x1a\n\0\0";

/// A world whose worker also offers an action that says what its outputs are.
async fn world() -> (World, ScriptWorker) {
    let world = World::without_worker(|settings| settings).await;
    world.profiles().await;
    world
        .profile(
            json!({"action": "script.safe", "effect": "side_effect", "risk": "safe", "produces": ["image"]}),
        )
        .await;
    let actions: Vec<&str> = ACTIONS.iter().copied().chain(["script.typed"]).collect();
    let worker = ScriptWorker::offering(&world.orchestrator.url(), &world.shared, &actions);
    world.worker_is_there().await;
    (world, worker)
}

fn image(more: Value) -> Value {
    json!({"answer": {"$artifacts": [with(json!({"type": "image", "mime_type": "image/png"}), more)]}})
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[tokio::test]
async fn s68_evidence_is_what_the_worker_got_and_gave() {
    let (world, worker) = world().await;
    let flaky = json!({"each": [{"fail": "FLAKY"}, image(json!({"data": PNG, "name": "cat.png"}))]});
    let skips = |on: &str| json!({"depends_on": [on], "on_failure": "skip"});
    let steps = json!([
        call("right", "script.typed", json!({"answer": {"n": 1.5}})),
        with(
            call("wrong", "script.typed", json!({"answer": {"n": "one"}})),
            skips("right")
        ),
        call("paint", "script.pure", flaky),
        with(call("never", "script.pure", json!({})), skips("wrong")),
    ]);
    let run_id = world.run(steps).await;
    let run = world.ended(&run_id).await;
    assert_eq!(run["state"], "completed", "{run}");
    let evidence = world
        .call(
            "RunService/ListEvidence",
            json!({"run_id": run_id, "page_size": 100}),
        )
        .await;
    let of = |step: &str| -> Vec<Value> {
        let all = evidence["evidence"].as_array().unwrap();
        all.iter().filter(|one| one["step_id"] == step).cloned().collect()
    };
    for call in world.calls_of(&run_id) {
        let all = evidence["evidence"].as_array().unwrap();
        let one = all
            .iter()
            .find(|one| one["execution_id"] == call["execution"])
            .unwrap();
        assert_eq!(
            (&one["input"], &one["tool_name"]),
            (&call["payload"], &call["action"])
        );
        let execution_id = text(&one["execution_id"]);
        let request = GetExecutionRequest { execution_id };
        let answer = world.orchestrator.plans().get_execution(request).await.unwrap();
        let certificate = answer.into_inner().execution.unwrap().certificate.unwrap();
        assert_eq!(one["contract_digest"], certificate.content_digest);
        assert_eq!(
            (&one["worker_id"], &one["late_outcome"]),
            (&json!("script"), &json!(""))
        );
    }
    let (right, wrong) = (&of("right")[0], &of("wrong")[0]);
    assert_eq!(
        (&right["schema_validation"], &right["output"]),
        (&json!("pass"), &json!({"n": 1.5}))
    );
    assert_eq!(
        (&wrong["schema_validation"], &wrong["output"]),
        (&json!("fail"), &json!({"n": "one"}))
    );
    assert_eq!(wrong["status"], "failed_for_good");
    assert!(
        text(&wrong["error_stack"]).starts_with("OUTPUT_INVALID: "),
        "{wrong}"
    );
    let painted = of("paint");
    let status: Vec<&str> = painted
        .iter()
        .map(|one| one["status"].as_str().unwrap())
        .collect();
    assert_eq!(status, ["failed", "completed"]);
    assert_eq!(painted[1]["retry_count"], 1);
    assert_eq!(painted[0]["artifacts"], json!([]));
    let made = &painted[1]["artifacts"][0];
    assert_eq!(
        (&made["type"], &made["mime_type"]),
        (&json!("image"), &json!("image/png"))
    );
    assert_eq!(
        (&made["size_bytes"], &made["sha256"]),
        (&json!(10), &json!(sha256(PNG_BYTES)))
    );
    assert_eq!(
        (&made["name"], &made["step_key"]),
        (&json!("cat.png"), &json!("paint"))
    );
    let never = &of("never")[0];
    assert_eq!(
        (&never["status"], &never["worker_id"], &never["contract_digest"]),
        (&json!("skipped"), &json!(""), &json!(""))
    );
    let named = |id: &str| json!({"run_id": run_id, "artifact_id": id});
    let listed = world
        .call("ArtifactService/ListArtifacts", json!({"run_id": run_id}))
        .await;
    assert_eq!(listed["artifacts"], json!([made]));
    let got = world
        .call("ArtifactService/GetArtifact", named(&text(&made["artifact_id"])))
        .await;
    assert_eq!(got["artifact"], *made);
    let created = world
        .events(&run_id)
        .await
        .into_iter()
        .find(|event| event["event_type"] == "artifact_created");
    let data = created.unwrap()["data"].clone();
    assert_eq!(
        (&data["artifact_id"], &data["type"], &data["size_bytes"]),
        (&made["artifact_id"], &json!("image"), &json!(10.0))
    );
    world.close().await;
    drop(worker);
}

#[tokio::test]
async fn s68_outputs_are_held_against_what_an_operator_says_that_they_are() {
    let (world, worker) = world().await;
    let said = |action: &str, kind: &str| {
        let schema = json!({"type": "object", "properties": {"n": {"type": kind}}}).to_string();
        json!({"action": action, "effect": "pure", "risk": "safe", "output_schema": schema})
    };
    world.profile(said("script.pure", "number")).await;
    // What the operator says goes before what the worker says, which is a number, too.
    world.profile(said("script.typed", "string")).await;
    let skips = json!({"on_failure": "skip"});
    let steps = json!([
        call("right", "script.pure", json!({"answer": {"n": 1}})),
        with(
            call("wrong", "script.pure", json!({"answer": {"n": "one"}})),
            skips
        ),
        call("text", "script.typed", json!({"answer": {"n": "one"}})),
    ]);
    let run_id = world.run(steps).await;
    assert_eq!(world.ended(&run_id).await["state"], "completed");
    let request = json!({"run_id": run_id});
    let evidence = world.call("RunService/ListEvidence", request).await;
    let told = |one: &Value| (text(&one["step_id"]), text(&one["schema_validation"]));
    let told: Vec<_> = evidence["evidence"]
        .as_array()
        .unwrap()
        .iter()
        .map(told)
        .collect();
    let expected = [("right", "pass"), ("wrong", "fail"), ("text", "pass")];
    assert_eq!(
        told,
        expected.map(|(step, word)| (step.to_owned(), word.to_owned()))
    );
    let wrong = &world.step(&run_id, "wrong").await["error"]["code"];
    assert_eq!(*wrong, "OUTPUT_INVALID");
    world.close().await;
    drop(worker);
}

#[tokio::test]
async fn s68_an_orphan_is_left_out_once_its_execution_has_ended() {
    let (world, worker) = world().await;
    let each = json!([{"gate": "late", "answer": {"n": 1}}]);
    let run_id = world
        .run(json!([call("a", "script.pure", json!({ "each": each }))]))
        .await;
    world.called_times(&run_id, "a", 1).await;
    let cancelled = world
        .call("RunService/CancelRun", json!({ "run_id": run_id }))
        .await;
    assert_eq!(cancelled["run"]["orphans"].as_array().unwrap().len(), 1);
    world.shared.open("late");
    let is_gone = async || {
        let run = world.get(&run_id).await;
        run["orphans"].as_array().is_none_or(Vec::is_empty).then_some(())
    };
    escapement_tests::wait_for("the end of the orphan", crate::world::LIMIT, is_gone)
        .await
        .unwrap();
    world.close().await;
    drop(worker);
}

#[tokio::test]
async fn s68_evidence_says_how_an_attempt_ended_that_its_run_went_on_without() {
    let (world, worker) = world().await;
    let each = json!([{"gate": "late", "answer": {"n": 1}}, {"gate": "then", "answer": {"n": 2}}]);
    let run_id = world
        .run(json!([call("a", "script.pure", json!({ "each": each }))]))
        .await;
    world.called_times(&run_id, "a", 1).await;
    let rewind = json!({"run_id": run_id, "step_key": "a"});
    world.call("RunService/RewindRun", rewind).await;
    world.called_times(&run_id, "a", 2).await;
    let evidence = async || {
        let request = json!({"run_id": run_id});
        let listed = world.call("RunService/ListEvidence", request).await;
        let told = |one: &Value| {
            (
                text(&one["status"]),
                text(&one["late_outcome"]),
                one["epoch"].clone(),
            )
        };
        let all = listed["evidence"].as_array().unwrap().iter();
        all.map(told).collect::<Vec<_>>()
    };
    let first = |late: &str| ("fenced".to_owned(), late.to_owned(), json!(0));
    let second = |status: &str| (status.to_owned(), String::new(), json!(1));
    assert_eq!(evidence().await, [first(""), second("submitted")]);
    world.shared.open("late");
    let told = async || (evidence().await == [first("completed"), second("submitted")]).then_some(());
    escapement_tests::wait_for("the late outcome", crate::world::LIMIT, told)
        .await
        .unwrap();
    world.shared.open("then");
    assert_eq!(world.ended(&run_id).await["output"], json!({"n": 2.0}));
    assert_eq!(evidence().await, [first("completed"), second("completed")]);
    world.close().await;
    drop(worker);
}

#[tokio::test]
async fn s69_a_run_completes_only_with_what_it_must_produce() {
    let (world, worker) = world().await;
    let nine = "iVBORw0KGgoA";
    let gif = "R0lGODlhAQABAA==";
    for (payload, code) in [
        (json!({}), "ARTIFACT_MISSING"),
        (image(json!({"data": nine})), "ARTIFACT_INVALID"),
        (image(json!({"data": gif})), "ARTIFACT_INVALID"),
        (image(json!({"data": PNG, "size_bytes": 11})), "ARTIFACT_INVALID"),
        (image(json!({"data": PNG})), ""),
    ] {
        let steps = json!([call("paint", "script.safe", payload.clone())]);
        let wants = json!({"must_produce": ["image"]});
        let request =
            json!({"document": document(steps), "constraints": wants, "limits": {"max_substitutions": 0}});
        let run_id = world.create(request).await;
        let run = world.ended(&run_id).await;
        let state = if code.is_empty() { "completed" } else { "failed" };
        assert_eq!(run["state"], state, "{payload}: {run}");
        assert_eq!(run["error"]["code"].as_str().unwrap_or(""), code, "{payload}");
        let events = world.event_names(&run_id).await;
        assert!(events.iter().any(|name| name == "run_verifying"), "{events:?}");
    }
    // A plan without a step that makes one is none, and nothing of it runs.
    let plan = json!({"plan": document(json!([call("look", "script.pure", json!({}))]))});
    world.shared.model_answers([plan]);
    let request =
        json!({"goal": "crea una imagen de un gato", "preset": "protocol", "limits": {"max_generations": 1}});
    let run_id = world.create(request).await;
    let run = world.ended(&run_id).await;
    assert_eq!(
        (&run["state"], &run["error_type"]),
        (&json!("failed"), &json!("PLANNING_ERROR")),
        "{run}"
    );
    assert!(run["completed_at"].is_number(), "{run}");
    let calls = world.calls_of(&run_id);
    assert!(calls.iter().all(|call| call["action"] == "llm.chat"), "{calls:?}");
    world.close().await;
    drop(worker);
}

#[tokio::test]
async fn s69_an_upload_counts_after_a_kill() {
    let mut world = World::start().await;
    world
        .profile(
            json!({"action": "script.safe", "effect": "side_effect", "risk": "safe", "produces": ["image"]}),
        )
        .await;
    let steps = json!([call("wait", "script.safe", json!({"gate": "go"}))]);
    let request = json!({"document": document(steps), "constraints": {"must_produce": ["image"]}});
    let run_id = world.create(request).await;
    world.until_calls(&run_id, 1).await;
    let content: Vec<u8> = PNG_BYTES
        .iter()
        .copied()
        .chain((0..3_000_000_u32).map(|n| (n % 251) as u8))
        .collect();
    let header = v1::UploadHeader {
        run_id: run_id.clone(),
        r#type: "image".to_owned(),
        mime_type: "image/png".to_owned(),
        ..v1::UploadHeader::default()
    };
    let data = content
        .chunks(64 << 10)
        .map(|data| Part::Data(data.to_vec().into()));
    let parts = std::iter::once(Part::Header(header)).chain(data);
    let requests: Vec<_> = parts.map(|part| v1::UploadRequest { part: Some(part) }).collect();
    let mut artifacts = ArtifactServiceClient::new(world.orchestrator.channel());
    let uploaded = artifacts
        .upload(tokio_stream::iter(requests))
        .await
        .unwrap()
        .into_inner();
    let uploaded = uploaded.artifact.unwrap();
    assert_eq!(uploaded.sha256, sha256(&content));
    world.crash().await;
    world.shared.open("go");
    let request = world.open_request(&run_id).await;
    world
        .respond(&request, json!({"effect": {"happened": {"output": {}}}}))
        .await
        .unwrap();
    let run = world.ended(&run_id).await;
    assert_eq!(run["state"], "completed", "{run}");
    let mut artifacts = ArtifactServiceClient::new(world.orchestrator.channel());
    let request = v1::DownloadRequest {
        run_id: run_id.clone(),
        artifact_id: uploaded.artifact_id,
    };
    let mut pieces = artifacts.download(request).await.unwrap().into_inner();
    let mut downloaded = Vec::new();
    while let Some(piece) = pieces.message().await.unwrap() {
        downloaded.extend_from_slice(&piece.data);
    }
    assert!(downloaded == content);

    // Copies and records have it, too.
    let place = |name: &str| world.directory.join(name).display().to_string();
    let (store, copy, restored, out) = (place("store"), place("copy"), place("restored"), place("out"));
    succeeds(&["backup", "--store-path", &store, "--to", &copy]).await;
    succeeds(&["restore", "--from", &copy, "--store-path", &restored]).await;
    succeeds(&["check", "--store-path", &restored]).await;
    succeeds(&["export", "--all", "--store-path", &restored, "--to", &out]).await;
    let mut n_with_content = 0;
    for file in std::fs::read_dir(&out).unwrap() {
        let path = file.unwrap().path();
        succeeds(&["verify", &path.display().to_string()]).await;
        let bytes = std::fs::read(&path).unwrap();
        let begins = bytes.windows(64).position(|window| *window == content[..64]);
        n_with_content += usize::from(begins.is_some_and(|at| bytes[at..].starts_with(&content)));
    }
    assert_eq!(n_with_content, 1);
    world.close().await;
}
