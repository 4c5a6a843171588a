//! A model behind a stock worker, asked by a run: its tools, and what it answers.

use crate::runs::{create, creation, ended};
use crate::world::World;
use escapement_tests::{ModelServer, Turn};
use escapement_wire::json;
use escapement_wire::runs::v1::CreateRunRequest;
use escapement_wire::runs::v1::run::State;
use serde_json::{Value, json};

#[tokio::test]
async fn a_model_looks_at_a_file_by_a_tool_and_answers() {
    let look = ("file_stat".to_owned(), r#"{"path": "notes.txt"}"#.to_owned());
    let script = [Turn::Calls(vec![look]), Turn::Says("5 bytes".to_owned())];
    let model = ModelServer::start(script).await.unwrap();
    let world = World::start().await;
    let endpoint = model.endpoint();
    let worker = world
        .stock_worker("stock", |settings| {
            settings
                .flag("--llm-endpoint", &endpoint)
                .flag("--llm-model", "scripted")
        })
        .await;
    std::fs::write(world.directory.join("stock-files/notes.txt"), "hello").unwrap();
    let config = json!({"prompt": "How large is notes.txt?", "tools": ["file.stat"]});
    let document = json!({
        "schema": "escapement.plan/1", "name": "Ask",
        "steps": [{"key": "ask", "type": "llm_decision", "config": config}]
    });
    // No approval is needed: the worker's own description of the model and the tool is enough.
    let request = CreateRunRequest {
        autonomy_level: Some(2),
        ..creation("model", &document)
    };
    let run = create(&world.orchestrator, request).await;
    let run = ended(&world.orchestrator, &run.run_id).await;
    assert_eq!(run.state(), State::Completed, "{run:?}");
    let asked = model.asked();
    assert_eq!(asked.len(), 2, "{asked:?}");
    assert_eq!(asked[0]["model"], "scripted");
    let offered = &asked[0]["tools"][0]["function"];
    assert_eq!(offered["name"], "file_stat");
    assert_eq!(offered["parameters"]["required"], json!(["path"]));
    let told = asked[1]["messages"].as_array().unwrap().last().unwrap();
    assert_eq!(told["role"], "tool");
    let told: Value = serde_json::from_str(told["content"].as_str().unwrap()).unwrap();
    assert_eq!(
        (told["size_bytes"].as_f64(), &told["mime_type"]),
        (Some(5.0), &json!("text/plain"))
    );
    let output = json::from_opaque_value(&run.output.unwrap()).unwrap();
    assert_eq!(output["decision"], "5 bytes");
    worker.stop().await.unwrap();
}
