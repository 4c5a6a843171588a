//! The compose files: valid, sealed off, and played: the same programs with the arguments, variables, files and probes that are
//! written there and in the Dockerfile. Only paths and ports become those of the test.

use crate::containers::{documents, health_check, image_variables, texts, translated};
use crate::stage::{LIMIT, get, metrics_address, serves_a_plan_and_a_run};
use escapement_tests::{
    Binaries, ChildProcess, Orchestrator, PrivateDirectory, checkout, skip, tool, wait_for,
};
use escapement_wire::v1::ListExecutionsRequest;
use escapement_wire::v1::plan_execution_service_client::PlanExecutionServiceClient;
use serde_json::{Map, Value, json};
use std::path::Path;
use std::process::Command;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

/// A file of the folder, read. `None` if Python is missing, which is noted.
fn read(file: &str) -> Option<Value> {
    let text = std::fs::read_to_string(checkout::root().join("deploy").join(file)).unwrap();
    Some(documents(&text)?.remove(0))
}

/// One file on top of another, as compose lays them: mappings are united, lists are joined, but a command replaces a command.
fn laid_on(below: Value, top: &Value) -> Value {
    match (below, top) {
        (Value::Object(below), Value::Object(top)) => {
            let mut united: Map<String, Value> = below;
            for (key, value) in top {
                let laid = match united.remove(key) {
                    Some(below) if key != "command" => laid_on(below, value),
                    _ => value.clone(),
                };
                united.insert(key.clone(), laid);
            }
            Value::Object(united)
        }
        (Value::Array(mut below), Value::Array(top)) => {
            below.extend(top.iter().cloned());
            Value::Array(below)
        }
        (_, top) => top.clone(),
    }
}

/// What runs of a compose file.
struct Played {
    file: Value,
    directory: PrivateDirectory,
    /// What stands in the files, and what it is here.
    here: Vec<(String, String)>,
}

impl Played {
    fn new(file: Value, directory: PrivateDirectory) -> Self {
        let mut here = Vec::new();
        for service in file["services"].as_object().unwrap().values() {
            for volume in texts(&service["volumes"]) {
                let mut parts = volume.split(':');
                let (from, to) = (parts.next().unwrap(), parts.next().unwrap());
                let from = match from.strip_prefix("./") {
                    Some(file) => checkout::root().join("deploy").join(file),
                    // A volume is there before what it is mounted in, and the same for all.
                    None => {
                        std::fs::create_dir_all(directory.join(from)).unwrap();
                        directory.join(from)
                    }
                };
                here.push((to.to_owned(), from.display().to_string()));
            }
        }
        for (name, secret) in file["secrets"].as_object().into_iter().flatten() {
            let from = directory.join("deploy").join(secret["file"].as_str().unwrap());
            assert!(from.is_file(), "{}", from.display());
            here.push((format!("/run/secrets/{name}"), from.display().to_string()));
        }
        here.extend(
            [":7400", ":7401", ":7402"].map(|port| (format!("0.0.0.0{port}"), "0.0.0.0:0".to_owned())),
        );
        Self {
            file,
            directory,
            here,
        }
    }

    /// Starts a service as the image and the file say.
    fn start(&self, service: &str, name: &str, program: &Path) -> ChildProcess {
        let written = &self.file["services"][service];
        let mut command = Command::new(program);
        command.env_clear();
        for (name, value) in image_variables(service) {
            command.env(name, translated(&value, &self.here));
        }
        for (name, value) in written["environment"].as_object().into_iter().flatten() {
            command.env(name, translated(value.as_str().unwrap(), &self.here));
        }
        for argument in texts(&written["command"]) {
            command.arg(translated(&argument, &self.here));
        }
        let log = self.directory.join(format!("{name}.stderr"));
        ChildProcess::start(name, &mut command, &log).unwrap()
    }

    /// The orchestrator, once its own probe says that it is healthy, which is what the workers wait for, and the workers.
    async fn up(&mut self) -> (Orchestrator, Vec<ChildProcess>) {
        let binaries = Binaries::build().unwrap();
        let process = self.start("orchestrator", "orchestrator", &binaries.orchestrator);
        let orchestrator = Orchestrator::of(process).await.unwrap();
        let worker = &self.file["services"]["worker"];
        assert_eq!(
            worker["depends_on"],
            json!({ "orchestrator": { "condition": "service_healthy" } })
        );
        assert!(health_check().ends_with(r#"CMD ["/usr/local/bin/orchestrator", "health"]"#));
        let metrics = metrics_address(&orchestrator.process).await;
        let is_healthy = async || {
            let mut check = Command::new(&binaries.orchestrator);
            let check = check.arg("health").env("ESCAPEMENT_METRICS_LISTEN", &metrics);
            check.output().unwrap().status.success().then_some(())
        };
        wait_for("the health of the orchestrator", LIMIT, is_healthy)
            .await
            .unwrap();
        let port = orchestrator.address().port();
        self.here
            .push(("orchestrator:7400".to_owned(), format!("127.0.0.1:{port}")));
        let n_workers = worker["scale"].as_u64().unwrap();
        assert_eq!(n_workers, 2);
        let mut workers = Vec::new();
        for number in 1..=n_workers {
            let mut worker = self.start("worker", &format!("worker-{number}"), &binaries.worker);
            worker.announcement("connected", LIMIT).await.unwrap();
            workers.push(worker);
        }
        (orchestrator, workers)
    }

    /// All are asked to stop, and do so in the time that they have.
    async fn down(&self, orchestrator: Orchestrator, workers: Vec<ChildProcess>) {
        for mut worker in workers {
            assert_eq!(worker.terminate(LIMIT).await.unwrap().code(), Some(0));
        }
        orchestrator.stop().await.unwrap();
    }
}

#[test]
fn the_compose_files_are_valid_and_sealed_off() {
    let Some(check) = tool("python/bin/check-jsonschema", "`cargo verify` installs it") else {
        return;
    };
    for file in ["compose.yaml", "compose.tls.yaml"] {
        let output = Command::new(&check)
            .args(["--builtin-schema", "vendor.compose-spec"])
            .arg(checkout::root().join("deploy").join(file))
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stdout)
        );
    }
    let Some(file) = read("compose.yaml") else { return };
    for (name, service) in file["services"].as_object().unwrap() {
        // The anchor is merged into each.
        assert_eq!(service["read_only"], true, "{name}");
        assert_eq!(service["cap_drop"], json!(["ALL"]), "{name}");
        assert_eq!(
            service["security_opt"],
            json!(["no-new-privileges:true"]),
            "{name}"
        );
        assert!(
            service["mem_limit"].is_string() && service["pids_limit"].is_u64(),
            "{name}"
        );
        assert!(
            texts(&service["ports"])
                .iter()
                .all(|port| port.starts_with("127.0.0.1:")),
            "{name}"
        );
        for volume in texts(&service["volumes"]) {
            let (from, to) = volume.split_once(':').unwrap();
            match from.strip_prefix("./") {
                Some(shipped) => {
                    assert!(to.ends_with(":ro"), "{name} {volume}");
                    assert!(
                        checkout::root().join("deploy").join(shipped).exists(),
                        "{name} {volume}"
                    );
                }
                None => assert!(file["volumes"].get(from).is_some(), "{name} {volume}"),
            }
        }
    }
    let dashboards = read("compose/dashboards.yaml").unwrap();
    let folder = dashboards["providers"][0]["options"]["path"].as_str().unwrap();
    let mounted = texts(&file["services"]["grafana"]["volumes"]);
    assert!(
        mounted.contains(&format!("./monitoring/dashboards:{folder}:ro")),
        "{mounted:?}"
    );
    let source = read("compose/source.yaml").unwrap();
    assert_eq!(source["datasources"][0]["url"], "http://prometheus:9090");
}

#[test]
fn prometheus_understands_what_compose_mounts() {
    let (Some(promtool), Some(file)) = (
        tool("promtool", "`cargo verify` installs it"),
        read("compose.yaml"),
    ) else {
        return;
    };
    let service = &file["services"]["prometheus"];
    let directory = PrivateDirectory::new("mounted").unwrap();
    for volume in texts(&service["volumes"]) {
        if let [from, to, "ro"] = volume.split(':').collect::<Vec<_>>()[..] {
            let to = directory.join(to.trim_start_matches('/'));
            std::fs::create_dir_all(to.parent().unwrap()).unwrap();
            std::fs::copy(checkout::root().join("deploy").join(from), to).unwrap();
        }
    }
    let command = texts(&service["command"]);
    let configuration = command
        .iter()
        .find_map(|flag| flag.strip_prefix("--config.file=/"))
        .unwrap();
    let mut check = Command::new(promtool);
    let output = check
        .args(["check", "config"])
        .arg(directory.join(configuration))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 rule files found"),
        "{said}"
    );
}

#[tokio::test]
async fn what_compose_starts_serves_a_plan_and_a_run() {
    let Some(file) = read("compose.yaml") else { return };
    let mut played = Played::new(file, PrivateDirectory::new("compose").unwrap());
    let (orchestrator, workers) = played.up().await;
    serves_a_plan_and_a_run(orchestrator.channel()).await;
    assert!(played.directory.join("store/store.db").is_file());
    let prometheus = read("monitoring/prometheus.yaml").unwrap();
    let of_workers = &prometheus["scrape_configs"][1]["dns_sd_configs"][0];
    let asked = format!("0.0.0.0:{}", of_workers["port"]);
    assert_eq!(of_workers["names"], json!(["worker"]));
    let worker = &played.file["services"]["worker"];
    assert_eq!(worker["environment"]["ESCAPEMENT_METRICS_LISTEN"], json!(asked));
    for worker in &workers {
        let (status, figures) = get(&metrics_address(worker).await, "/metrics").await.unwrap();
        assert!(
            status == 200 && figures.contains("escapement_worker_sessions 1"),
            "{figures}"
        );
    }
    played.down(orchestrator, workers).await;
}

#[tokio::test]
async fn what_compose_starts_with_tls_believes_the_certificates_of_the_page_alone() {
    if Command::new("openssl").arg("version").output().is_err() {
        return skip("openssl is not installed");
    }
    let (Some(below), Some(top)) = (read("compose.yaml"), read("compose.tls.yaml")) else {
        return;
    };
    let directory = PrivateDirectory::new("compose-tls").unwrap();
    let made = Command::new("sh")
        .args(["-ec", &commands_of_the_page()])
        .current_dir(directory.path())
        .output();
    let made = made.unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let secrets = directory.join("deploy/secrets");
    let mut played = Played::new(laid_on(below, &top), directory);
    let (orchestrator, workers) = played.up().await;
    let port = orchestrator.address().port();
    serves_a_plan_and_a_run(caller(&secrets, port, Some("caller"))).await;
    for stranger in [None, Some("worker")] {
        let channel = caller(&secrets, port, stranger);
        let answer = PlanExecutionServiceClient::new(channel)
            .list_executions(ListExecutionsRequest::default())
            .await;
        assert!(answer.is_err(), "{stranger:?}");
    }
    played.down(orchestrator, workers).await;
}

/// The commands that make certificates.
fn commands_of_the_page() -> String {
    let page = std::fs::read_to_string(checkout::root().join("deploy/README.md")).unwrap();
    let mut blocks = page
        .split("```sh\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap());
    blocks.find(|block| block.contains("openssl")).unwrap().to_owned()
}

/// Who comes with a certificate of this name, or without one.
fn caller(secrets: &Path, port: u16, name: Option<&str>) -> Channel {
    let file = |file: &str| std::fs::read_to_string(secrets.join(file)).unwrap();
    let mut tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(file("ca.pem")));
    if let Some(name) = name {
        tls = tls.identity(Identity::from_pem(
            file(&format!("{name}.pem")),
            file(&format!("{name}.key")),
        ));
    }
    let endpoint = Endpoint::from_shared(format!("https://127.0.0.1:{port}")).unwrap();
    endpoint.tls_config(tls).unwrap().connect_lazy()
}
