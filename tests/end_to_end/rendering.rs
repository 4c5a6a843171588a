//! `orchestrator render` of what real processes did: the record, its JSON and the list of entries give the same drawing.

use crate::plans::{RequestWords, StepWords, echo, fail, plan, plan_with_retries, request};
use crate::world::World;
use escapement_tests::{Binaries, documents};
use escapement_wire::v1::plan_step::OnFailure;
use escapement_wire::v1::{ExecutePlanRequest, ExportExecutionRequest, ListAuditEntriesRequest, Plan};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

async fn render(arguments: &[&str]) -> Output {
    let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
    let run = move || {
        let mut command = Command::new(Binaries::build().unwrap().orchestrator);
        command.arg("render").args(&arguments).output().unwrap()
    };
    tokio::task::spawn_blocking(run).await.unwrap()
}

/// What is drawn, as text.
async fn drawn(arguments: &[&str]) -> String {
    let output = render(arguments).await;
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// One step that is repeated and given up, two that are skipped with it, one that goes its way.
fn with_retries() -> ExecutePlanRequest {
    let steps = [
        fail(0, "BUSY").on_failure(OnFailure::Retry),
        echo(1, serde_json::json!({}))
            .after(&[0])
            .on_failure(OnFailure::Skip),
        echo(2, serde_json::json!({}))
            .after(&[1])
            .on_failure(OnFailure::Skip),
        echo(3, serde_json::json!({})),
    ];
    let plan = Plan {
        name: "drawn afterwards".to_owned(),
        ..plan_with_retries(steps, 3, &["BUSY"])
    };
    request(plan)
}

/// Returns the files of an execution: its record, the record in JSON, its entries, its plan.
async fn files_of(world: &World, request: &ExecutePlanRequest) -> [String; 4] {
    let mut plans = world.orchestrator.plans();
    let execution_id = request.id();
    let export = ExportExecutionRequest {
        execution_id: execution_id.clone(),
    };
    let mut pieces = plans.export_execution(export).await.unwrap().into_inner();
    let (mut record, mut pieces_in_json) = (Vec::new(), String::new());
    while let Some(piece) = pieces.message().await.unwrap() {
        pieces_in_json += &documents::to_json("escapement.v1.ExportExecutionResponse", &piece).to_string();
        record.extend(piece.data);
    }
    let list = ListAuditEntriesRequest {
        execution_id,
        ..ListAuditEntriesRequest::default()
    };
    let entries = plans.list_audit_entries(list).await.unwrap().into_inner();
    let entries = documents::to_json("escapement.v1.ListAuditEntriesResponse", &entries);
    let document: Value = documents::to_json("escapement.v1.Plan", request.plan.as_ref().unwrap());
    let write = |name: &str, contents: &[u8]| {
        let path = world.directory.join(name);
        std::fs::write(&path, contents).unwrap();
        path.to_str().unwrap().to_owned()
    };
    [
        write("record", &record),
        write("record.json", pieces_in_json.as_bytes()),
        write("entries.json", entries.to_string().as_bytes()),
        write("plan.json", document.to_string().as_bytes()),
    ]
}

#[tokio::test]
async fn an_execution_is_drawn_from_its_record_and_from_its_entries_alike() {
    let world = World::start().await;
    let _worker = world.stock_worker("stock", |settings| settings).await;
    let request = with_retries();
    let result = world.execute(request.clone()).await;
    let [record, in_json, entries, plan] = files_of(&world, &request).await;
    let drawing = drawn(&["--width", "120", &record]).await;
    assert!(drawing.starts_with("drawn afterwards\npartial"), "{drawing}");
    assert!(
        drawing.contains("1 of 4 steps completed, 4 attempts"),
        "{drawing}"
    );
    assert!(
        drawing.contains("BUSY, 3 attempts") && drawing.matches("STEP_SKIPPED").count() == 4,
        "{drawing}"
    );
    assert_eq!(drawn(&["--width", "120", &in_json]).await, drawing);
    // The entries do not say the error of the result.
    let code = result.error.unwrap().error_code;
    let without_code = drawing.replacen(&format!(" ({code})"), "", 1);
    assert_eq!(
        drawn(&["--width", "120", "--plan", &plan, &entries]).await,
        without_code
    );
}

#[tokio::test]
async fn an_execution_is_drawn_as_a_picture_into_a_file() {
    let world = World::start().await;
    let _worker = world.stock_worker("stock", |settings| settings).await;
    let request = request(plan([echo(0, serde_json::json!({}))]));
    world.execute(request.clone()).await;
    let [record, ..] = files_of(&world, &request).await;
    let picture = world.directory.join("picture.svg");
    let said = drawn(&["--format", "svg", "--to", picture.to_str().unwrap(), &record]).await;
    assert!(said.is_empty());
    let picture = std::fs::read_to_string(&picture).unwrap();
    assert!(picture.starts_with("<svg ") && picture.trim_end().ends_with("</svg>"));
    assert!(picture.contains("href=\"#completed\"") && !picture.contains("<script"));
    cut_record_is_refused(Path::new(&record)).await;
}

async fn cut_record_is_refused(record: &Path) {
    let whole = std::fs::read(record).unwrap();
    std::fs::write(record, &whole[..whole.len() - 1]).unwrap();
    let output = render(&[record.to_str().unwrap()]).await;
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(65), "{said}");
    assert!(said.contains("not as it was written"), "{said}");
}
