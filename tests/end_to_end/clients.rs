//! Clients that are generated from the protos, in Go and in Python: as little as a user writes, against real processes.

use crate::plans::{RequestWords, object, plan, request, step, step_id};
use crate::world::World;
use escapement_tests::{PrivateDirectory, checkout, fresh_id, tool};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;

const INSTALL: &str = "`cargo verify` installs it where Go and Python are there";

/// Every proto, as protoc names them.
fn protos() -> Vec<String> {
    let set: prost_reflect::prost_types::FileDescriptorSet =
        prost::Message::decode(escapement_wire::DESCRIPTORS).unwrap();
    let files = set
        .file
        .iter()
        .filter(|file| file.package().starts_with("escapement."));
    files.map(|file| file.name().to_owned()).collect()
}

/// Runs protoc, which the packages of Python bring along.
fn generate(python: &Path, arguments: &[String]) {
    let mut protoc = Command::new(python);
    protoc
        .args(["-m", "grpc_tools.protoc", "--proto_path"])
        .arg(checkout::root().join("proto"))
        .args(arguments)
        .args(protos());
    run(protoc);
}

#[track_caller]
fn run(mut command: Command) -> String {
    let output = command.output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success(), "{command:?}\n{out}\n{err}");
    out
}

/// Lets a client do what it does: with a plan of its own, and with a result of more than 4 MiB.
async fn let_call(mut client: Command) {
    let world = World::start().await;
    let _worker = world.stock_worker("stock", |settings| settings).await;
    let steps = (0..11).map(|number| {
        let mut large = step(number, "json.query");
        large.payload = Some(object(json!({ "filter": "\"x\" * 500000", "input": null })));
        large
    });
    let request = request(plan(steps));
    let result = world.execute(request.clone()).await;
    assert_eq!(result.steps_executed, 11, "{:?}", result.error);
    client
        .arg(world.orchestrator.address().to_string())
        .args([fresh_id(), step_id(0), request.id()]);
    let said = tokio::task::spawn_blocking(move || run(client)).await.unwrap();
    assert_eq!(said.trim(), "held");
}

fn python() -> Option<PathBuf> {
    let python = tool("python/bin/python", INSTALL)?;
    let mut import = Command::new(&python);
    import.args(["-c", "import grpc_tools, grpc_status"]);
    if import.output().is_ok_and(|output| output.status.success()) {
        return Some(python);
    }
    escapement_tests::skip(&format!("grpcio-status; {INSTALL}"));
    None
}

#[tokio::test]
async fn a_client_in_python_is_generated_and_holds_a_conversation() {
    let Some(python) = python() else { return };
    let directory = PrivateDirectory::new("python-client").unwrap();
    let out = directory.path().display();
    generate(
        &python,
        &[format!("--python_out={out}"), format!("--grpc_python_out={out}")],
    );
    let mut client = Command::new(&python);
    client
        .arg(checkout::root().join("tests/clients/python/client.py"))
        .env("PYTHONPATH", directory.path());
    let_call(client).await;
}

#[tokio::test]
async fn a_client_in_go_is_generated_compiles_and_holds_a_conversation() {
    let (Some(python), Some(go), Some(messages), Some(services)) = (
        python(),
        tool("go", INSTALL),
        tool("protoc-gen-go", INSTALL),
        tool("protoc-gen-go-grpc", INSTALL),
    ) else {
        return;
    };
    let directory = PrivateDirectory::new("go-client").unwrap();
    let out = directory.path().display();
    generate(
        &python,
        &[
            format!("--plugin=protoc-gen-go={}", messages.display()),
            format!("--plugin=protoc-gen-go-grpc={}", services.display()),
            format!("--go_out={out}"),
            format!("--go-grpc_out={out}"),
            "--go_opt=module=escapement.dev".to_owned(),
            "--go-grpc_opt=module=escapement.dev".to_owned(),
        ],
    );
    for file in ["go.mod", "go.sum", "main.go"] {
        let source = checkout::root().join("tests/clients/go").join(file);
        std::fs::copy(source, directory.join(file)).unwrap();
    }
    let mut build = Command::new(go);
    // Without the paths of this directory a second build finds what the first one compiled.
    build
        .args(["build", "-trimpath", "-o", "client", "."])
        .current_dir(directory.path());
    run(build);
    let_call(Command::new(directory.join("client"))).await;
}
