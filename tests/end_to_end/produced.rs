//! A run that must produce a file: a stock worker writes it, and looks at it before the run completes.

use crate::runs::{create, creation, ended};
use crate::world::World;
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::action_profile::{Effect, Risk};
use escapement_wire::runs::v1::action_service_client::ActionServiceClient;
use escapement_wire::runs::v1::artifact_service_client::ArtifactServiceClient;
use escapement_wire::runs::v1::run::State;
use escapement_wire::runs::v1::run_service_client::RunServiceClient;
use serde_json::{Value, json};

/// Ten bytes that begin as a PNG does, and ten that do not, as base64.
const PNG: &str = "iVBORw0KGgoAAA==";
const NO_PNG: &str = "bm8gcGljdHVyZQ==";

/// Writes a file, and calls it a picture.
fn picture(file: &str, content: &str) -> Value {
    let written = json!({"path": file, "content": content, "encoding": "base64", "create_dirs": true});
    let made = json!({"type": "image", "mime_type": "image/png", "path": "${write:/path}",
                      "size_bytes": "${write:/bytes}", "sha256": "${write:/sha256}"});
    let step = |key: &str, action: &str, arguments: Value| {
        let config = json!({"tool_name": action, "tool_args": arguments});
        json!({"key": key, "type": "tool_call", "config": config})
    };
    json!({
        "schema": "escapement.plan/1", "name": "Paint", "constraints": {"must_produce": ["image"]},
        "steps": [step("write", "file.write", written), step("paint", "echo", json!({"$artifacts": [made]}))],
    })
}

// RUN-12.8, RUN-12.9
#[tokio::test]
async fn a_file_that_a_run_must_produce_is_looked_at_by_the_worker_that_has_it() {
    let world = World::start().await;
    let worker = world.stock_worker("stock", |settings| settings).await;
    let channel = || world.orchestrator.channel();
    let profile = v1::ActionProfile {
        action: "echo".to_owned(),
        effect: Effect::Pure.into(),
        risk: Risk::Safe.into(),
        produces: vec!["image".to_owned()],
        ..v1::ActionProfile::default()
    };
    let put = v1::PutActionProfileRequest {
        profile: Some(profile),
    };
    ActionServiceClient::new(channel())
        .put_action_profile(put)
        .await
        .unwrap();
    let ran = async |request_id: &str, content: &str| {
        let document = picture(&format!("out/{request_id}.png"), content);
        let run = create(&world.orchestrator, creation(request_id, &document)).await;
        ended(&world.orchestrator, &run.run_id).await
    };

    let run = ran("right", PNG).await;
    assert_eq!(run.state(), State::Completed, "{run:?}");
    let file = std::fs::read(world.directory.join("stock-files/out/right.png")).unwrap();
    assert_eq!(file, b"\x89PNG\r\n\x1a\n\0\0");
    let listed = v1::ListArtifactsRequest {
        run_id: run.run_id.clone(),
        ..v1::ListArtifactsRequest::default()
    };
    let listed = ArtifactServiceClient::new(channel()).list_artifacts(listed).await;
    let [made]: [v1::Artifact; 1] = listed.unwrap().into_inner().artifacts.try_into().unwrap();
    assert_eq!(
        (made.verdict.as_str(), made.path.as_str(), made.size_bytes),
        ("right", "out/right.png", 10)
    );
    let evidence = v1::ListEvidenceRequest {
        run_id: run.run_id.clone(),
        ..v1::ListEvidenceRequest::default()
    };
    let evidence = RunServiceClient::new(channel()).list_evidence(evidence).await;
    let evidence = evidence.unwrap().into_inner().evidence;
    let called: Vec<(&str, &str)> = evidence
        .iter()
        .map(|one| (one.tool_name.as_str(), one.worker_id.as_str()))
        .collect();
    let by_stock = ["file.write", "echo", "file.stat"].map(|action| (action, "stock"));
    assert_eq!(called, by_stock, "the last one before the end");

    let run = ran("wrong", NO_PNG).await;
    assert_eq!(run.state(), State::Failed, "{run:?}");
    let error = run.error.unwrap();
    assert_eq!(error.code, "ARTIFACT_INVALID", "{error:?}");
    assert!(error.message.contains("out/wrong.png"), "{error:?}");
    worker.stop().await.unwrap();
}
