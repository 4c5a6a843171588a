//! Clients that are generated from the protos, in Go and in Python: as little as a user writes, against real processes.

use crate::access::credentials::{Token, policy};
use crate::plans::{RequestWords, object, plan, request, step, step_id};
use crate::tls::SecureWorld;
use crate::world::{LIMIT, World};
use escapement_tests::authority::replace;
use escapement_tests::{PrivateDirectory, Worker, checkout, fresh_id, tool, wait_for};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

const INSTALL: &str = "`cargo verify` installs it";

/// Returns every proto of ours below a folder, as protoc names them.
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

/// An orchestrator that is called by mutual TLS, and a directory with the files that the page `deploy/TLS.md` names, from which its
/// programs run.
struct SecureCallers {
    secure: SecureWorld,
    _worker: Worker,
    directory: PrivateDirectory,
    strong: Token,
    weak: Token,
}

impl SecureCallers {
    /// `None` without openssl, which is noted.
    async fn start() -> Option<Self> {
        if Command::new("openssl").arg("version").output().is_err() {
            escapement_tests::skip("openssl is not installed");
            return None;
        }
        let [strong, weak] = ["strong", "weak"].map(Token::new);
        let directory = PrivateDirectory::new("secure-callers").unwrap();
        let rules = directory.join("policy.toml");
        let entries = [
            strong.entry("strong", "roles = [\"submitter\"]"),
            weak.entry("weak", "roles = [\"worker\"]"),
            "[[certificate]]\ndns = \"worker\"\nroles = [\"worker\"]\n".to_owned(),
        ];
        replace(&rules, &policy(&entries)).unwrap();
        let secure = SecureWorld::start_with(|settings| {
            settings
                .flag("--access-policy", rules.display())
                .flag("--tls-client-auth", "required")
        })
        .await;
        let (_, files) = secure.issue("worker");
        let worker = secure.worker("worker", &files).await;
        certificates_of_the_page(directory.path());
        let read = |name: &str| std::fs::read_to_string(directory.join(name)).unwrap();
        replace(&secure.client_ca, &(secure.clients.pem() + &read("ca.pem"))).unwrap();
        replace(&secure.own.cert, &read("server.pem")).unwrap();
        replace(&secure.own.key, &read("server.key")).unwrap();
        let shown = Identity::from_pem(read("caller.pem"), read("caller.key"));
        let tls = ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(read("ca.pem")))
            .domain_name("localhost")
            .identity(shown);
        let url = secure.world.orchestrator.url();
        wait_for("the certificates of the page", LIMIT, async || {
            let endpoint = Endpoint::from_shared(url.clone()).unwrap();
            endpoint.tls_config(tls.clone()).unwrap().connect().await.ok()
        })
        .await
        .unwrap();
        Some(Self {
            secure,
            _worker: worker,
            directory,
            strong,
            weak,
        })
    }

    /// Returns the block of the page in this language, with the address of the orchestrator.
    fn block(&self, language: &str) -> String {
        let page = std::fs::read_to_string(checkout::root().join("deploy/TLS.md")).unwrap();
        let (_, section) = page.split_once("## Callers in other languages\n").unwrap();
        let (_, block) = section.split_once(&format!("```{language}\n")).unwrap();
        let (block, _) = block.split_once("```").unwrap();
        let port = self.secure.world.orchestrator.address().port();
        assert!(block.contains("localhost:7443"), "{language}");
        block.replace("localhost:7443", &format!("localhost:{port}"))
    }

    /// Lets the program call with a token that may not do that, and with one that may; gives what it says of the answer.
    async fn let_call(&self, program: impl Fn() -> Command) -> String {
        let mut said = Vec::new();
        for token in [&self.weak, &self.strong] {
            replace(&self.directory.join("token"), &token.secret).unwrap();
            let mut command = program();
            command.current_dir(self.directory.path());
            let output = tokio::task::spawn_blocking(move || command.output().unwrap())
                .await
                .unwrap();
            said.push((
                output.status.success(),
                String::from_utf8(output.stdout).unwrap(),
                String::from_utf8(output.stderr).unwrap(),
            ));
        }
        let [refused, answered] = said.try_into().unwrap();
        assert!(!refused.0 && refused.2.contains("ROLE_MISSING"), "{refused:?}");
        assert!(answered.0, "{answered:?}");
        answered.1
    }
}

/// Makes what the page makes by its own commands, and a certificate of a caller as it makes that of the worker: clients must take just
/// these.
fn certificates_of_the_page(directory: &Path) {
    let page = std::fs::read_to_string(checkout::root().join("deploy/TLS.md")).unwrap();
    let block = page.split("```sh\n").nth(1).unwrap().split("```").next().unwrap();
    let block = block.replace("\\\n", "");
    let made: Vec<&str> = block
        .lines()
        .filter(|line| line.starts_with("openssl "))
        .collect();
    assert_eq!(made.len(), 3, "an authority, a server and a worker: {block}");
    let of_caller = made[2].replace("worker", "caller");
    for line in made.into_iter().chain([of_caller.as_str()]) {
        let mut openssl = Command::new("sh");
        openssl.args(["-ec", line]).current_dir(directory);
        run(openssl);
    }
}

/// Returns the modules that protoc makes for Python of the protos of a folder.
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

/// Returns the module that protoc makes for Go with this program in it, compiled.
fn go_program(text: &str) -> Option<(PrivateDirectory, PathBuf)> {
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
    for file in ["go.mod", "go.sum"] {
        let source = checkout::root().join("tests/clients/go").join(file);
        std::fs::copy(source, directory.join(file)).unwrap();
    }
    std::fs::write(directory.join("main.go"), text).unwrap();
    let mut build = Command::new(go);
    // Without the paths of this directory a second build finds what the first one compiled.
    build
        .args(["build", "-trimpath", "-o", "client", "."])
        .current_dir(directory.path());
    run(build);
    let client = directory.join("client");
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
async fn a_client_in_go_is_generated_compiles_and_holds_a_conversation() {
    let text = std::fs::read_to_string(checkout::root().join("tests/clients/go/main.go")).unwrap();
    let Some((_directory, client)) = go_program(&text) else {
        return;
    };
    let_call(Command::new(client)).await;
}

#[tokio::test]
async fn the_python_program_of_the_page_calls_by_mutual_tls_with_a_token() {
    let Some(python) = python() else { return };
    let modules = python_modules(&python, &checkout::root().join("proto"));
    let Some(callers) = SecureCallers::start().await else {
        return;
    };
    let text = callers.block("python");
    let program = || {
        let mut client = Command::new(&python);
        client.args(["-c", &text]).env("PYTHONPATH", modules.path());
        client
    };
    assert_eq!(callers.let_call(program).await, "hello\n");
}

#[tokio::test]
async fn the_go_program_of_the_page_calls_by_mutual_tls_with_a_token() {
    let Some(callers) = SecureCallers::start().await else {
        return;
    };
    let Some((_directory, client)) = go_program(&callers.block("go")) else {
        return;
    };
    assert_eq!(callers.let_call(|| Command::new(&client)).await, "hello\n");
}

#[tokio::test]
async fn the_grpcurl_command_of_the_page_calls_by_mutual_tls_with_a_token() {
    let Some(grpcurl) = tool("grpcurl", crate::grpcurl::INSTALL) else {
        return;
    };
    let Some(callers) = SecureCallers::start().await else {
        return;
    };
    let program = grpcurl.display().to_string();
    let text = callers.block("sh").replacen("grpcurl", &program, 1);
    let program = || {
        let mut client = Command::new("sh");
        client.args(["-ec", &text]);
        client
    };
    let listed = callers.let_call(program).await;
    assert!(listed.starts_with('{'), "{listed}");
}
