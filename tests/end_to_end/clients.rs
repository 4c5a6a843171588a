//! Clients that are generated from the protos, in Go and in Python: as little as a user writes, against real processes.

use crate::access::credentials::{Token, policy};
use crate::plans::{RequestWords, object, plan, request, step, step_id};
use crate::tls::SecureWorld;
use crate::world::World;
use escapement_tests::authority::replace;
use escapement_tests::{PrivateDirectory, checkout, fresh_id, tool};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;

const INSTALL: &str = "`cargo verify` installs it where Go and Python are there";

/// Every proto of ours below a folder, as protoc names them.
fn protos(folder: &Path) -> Vec<PathBuf> {
    let mut folders = vec![folder.join("escapement")];
    let mut protos = Vec::new();
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "proto") {
                protos.push(path.strip_prefix(folder).unwrap().to_owned());
            }
        }
    }
    protos
}

/// Runs protoc, which the packages of Python bring along, on the protos of a folder.
fn generate(python: &Path, folder: &Path, arguments: &[String]) {
    let mut protoc = Command::new(python);
    protoc
        .args(["-m", "grpc_tools.protoc", "--proto_path"])
        .arg(folder)
        .args(arguments)
        .args(protos(folder));
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
pub(crate) async fn let_call(mut client: Command) {
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

pub(crate) fn python() -> Option<PathBuf> {
    let python = tool("python/bin/python", INSTALL)?;
    let mut import = Command::new(&python);
    import.args(["-c", "import grpc_tools, grpc_status"]);
    if import.output().is_ok_and(|output| output.status.success()) {
        return Some(python);
    }
    escapement_tests::skip(&format!("grpcio-status; {INSTALL}"));
    None
}

/// Lets a client come by mutual TLS, where its certificate alone may do nothing, and show its token.
async fn let_call_securely(mut client: Command) {
    let token = Token::new("caller");
    let directory = PrivateDirectory::new("secure-client").unwrap();
    let rules = directory.join("policy.toml");
    let worker = "[[certificate]]\ndns = \"worker\"\nroles = [\"worker\"]\n".to_owned();
    let entries = [token.entry("caller", "roles = [\"submitter\"]"), worker];
    replace(&rules, &policy(&entries)).unwrap();
    let secure = SecureWorld::start_with(|settings| {
        settings
            .flag("--access-policy", rules.display())
            .flag("--tls-client-auth", "required")
    })
    .await;
    let (_, files) = secure.issue("worker");
    let _worker = secure.worker("worker", &files).await;
    let (_, shown) = secure.issue("client");
    let file = directory.join("token");
    replace(&file, &token.secret).unwrap();
    client
        .arg(format!(
            "localhost:{}",
            secure.world.orchestrator.address().port()
        ))
        .args([&secure.server_ca, &shown.cert, &shown.key, &file])
        .args([fresh_id(), step_id(0)]);
    let said = tokio::task::spawn_blocking(move || run(client)).await.unwrap();
    assert_eq!(said.trim(), "held");
}

/// The modules that protoc makes for Python of the protos of a folder.
pub(crate) fn python_modules(python: &Path, folder: &Path) -> PrivateDirectory {
    let directory = PrivateDirectory::new("python-client").unwrap();
    let out = directory.path().display();
    generate(
        python,
        folder,
        &[format!("--python_out={out}"), format!("--grpc_python_out={out}")],
    );
    directory
}

/// The module that protoc makes for Go, with our programs in it, and the one of this path compiled.
fn go_program(package: &str) -> Option<(PrivateDirectory, Command)> {
    let (python, go) = (python()?, tool("go", INSTALL)?);
    let messages = tool("protoc-gen-go", INSTALL)?;
    let services = tool("protoc-gen-go-grpc", INSTALL)?;
    let directory = PrivateDirectory::new("go-client").unwrap();
    let out = directory.path().display();
    generate(
        &python,
        &checkout::root().join("proto"),
        &[
            format!("--plugin=protoc-gen-go={}", messages.display()),
            format!("--plugin=protoc-gen-go-grpc={}", services.display()),
            format!("--go_out={out}"),
            format!("--go-grpc_out={out}"),
            "--go_opt=module=escapement.dev".to_owned(),
            "--go-grpc_opt=module=escapement.dev".to_owned(),
        ],
    );
    std::fs::create_dir(directory.join("secure")).unwrap();
    for file in ["go.mod", "go.sum", "main.go", "secure/main.go"] {
        let source = checkout::root().join("tests/clients/go").join(file);
        std::fs::copy(source, directory.join(file)).unwrap();
    }
    let mut build = Command::new(go);
    // Without the paths of this directory a second build finds what the first one compiled.
    build
        .args(["build", "-trimpath", "-o", "client", package])
        .current_dir(directory.path());
    run(build);
    let client = Command::new(directory.join("client"));
    Some((directory, client))
}

#[tokio::test]
async fn a_client_in_python_is_generated_and_holds_a_conversation() {
    let Some(python) = python() else { return };
    let modules = python_modules(&python, &checkout::root().join("proto"));
    let mut client = Command::new(&python);
    client
        .arg(checkout::root().join("tests/clients/python/client.py"))
        .env("PYTHONPATH", modules.path());
    let_call(client).await;
}

#[tokio::test]
async fn a_client_in_python_calls_by_mutual_tls_with_a_token() {
    let Some(python) = python() else { return };
    let modules = python_modules(&python, &checkout::root().join("proto"));
    let mut client = Command::new(&python);
    client
        .arg(checkout::root().join("tests/clients/python/secure.py"))
        .env("PYTHONPATH", modules.path());
    let_call_securely(client).await;
}

#[tokio::test]
async fn a_client_in_go_is_generated_compiles_and_holds_a_conversation() {
    let Some((_directory, client)) = go_program(".") else {
        return;
    };
    let_call(client).await;
}

#[tokio::test]
async fn a_client_in_go_calls_by_mutual_tls_with_a_token() {
    let Some((_directory, client)) = go_program("./secure") else {
        return;
    };
    let_call_securely(client).await;
}

#[tokio::test]
async fn grpcurl_calls_by_mutual_tls_with_a_token() {
    let Some(grpcurl) = tool("grpcurl", crate::grpcurl::INSTALL) else {
        return;
    };
    // The arguments of the other clients, put where grpcurl has them.
    let script = r#"ca=$2 cert=$3 key=$4
call() { "$0" -cacert "$ca" -cert "$cert" -key "$key" "$@"; }
list="$1 escapement.v1.PlanExecutionService/ListExecutions"
call $list 2>&1 | grep -q PermissionDenied
call -H "authorization: Bearer $(cat "$5")" $list >&2
echo held"#;
    let mut client = Command::new("sh");
    client.args(["-ec", script]).arg(grpcurl);
    let_call_securely(client).await;
}
