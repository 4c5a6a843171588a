//! A small kubelet: starts the containers of rendered pods as processes, with exactly their arguments, variables and files, asks
//! their probes, and stops them as Kubernetes does. Addresses and paths alone become those of the test.

use crate::containers::{image_variables, texts, translated};
use crate::stage::{LIMIT, get, metrics_address};
use escapement_tests::authority::Authority;
use escapement_tests::{Binaries, ChildProcess, Orchestrator, PrivateDirectory, wait_for};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// What is rendered, and the machine that it runs on.
pub(crate) struct Node {
    objects: Vec<Value>,
    pub(crate) directory: PrivateDirectory,
    /// Secrets that the chart expects to be there, by name and key.
    secrets: BTreeMap<String, BTreeMap<String, String>>,
    /// What stands in arguments, and what it is here.
    here: Vec<(String, String)>,
}

impl Node {
    pub(crate) fn new(objects: Vec<Value>, directory: PrivateDirectory) -> Self {
        let mut secrets = BTreeMap::new();
        for secret in objects.iter().filter(|object| object["kind"] == "Secret") {
            let name = secret["metadata"]["name"].as_str().unwrap().to_owned();
            secrets.insert(
                name,
                serde_json::from_value(secret["stringData"].clone()).unwrap(),
            );
        }
        let here = ["0.0.0.0:7400", "0.0.0.0:7401", "0.0.0.0:7402"]
            .map(|address| (address.to_owned(), "0.0.0.0:0".to_owned()));
        Self {
            objects,
            directory,
            secrets,
            here: here.to_vec(),
        }
    }

    /// Makes a secret, as somebody did before the chart came.
    pub(crate) fn secret<const N: usize>(&mut self, name: &str, keys: [(&str, String); N]) {
        let keys = keys.map(|(key, value)| (key.to_owned(), value));
        self.secrets.insert(name.to_owned(), keys.into());
    }

    /// Plays cert-manager: makes the secret of each certificate that is asked for, with the names that it is to have.
    pub(crate) fn issue(&mut self, authority: &Authority) {
        let asked: Vec<Value> = self
            .objects
            .iter()
            .filter(|object| object["kind"] == "Certificate")
            .map(|object| object["spec"].clone())
            .collect();
        assert!(!asked.is_empty());
        for spec in asked {
            let names = texts(&spec["dnsNames"]);
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let issued = authority.issue(&names).unwrap();
            let keys = [
                ("ca.crt", authority.pem()),
                ("tls.crt", issued.cert),
                ("tls.key", issued.key),
            ];
            self.secret(spec["secretName"].as_str().unwrap(), keys);
        }
    }

    /// The pod of the object of this kind.
    pub(crate) fn pod(&self, kind: &str) -> &Value {
        let object = self.objects.iter().find(|object| object["kind"] == kind).unwrap();
        &object["spec"]["template"]["spec"]
    }

    pub(crate) fn replicas(&self, kind: &str) -> u64 {
        let object = self.objects.iter().find(|object| object["kind"] == kind).unwrap();
        object["spec"]["replicas"].as_u64().unwrap()
    }

    /// Where a volume lies: files of secrets are written, what the pod may write to is kept by the pod's name.
    fn volume(&self, pod: &Value, volume: &str, name: &str) -> String {
        let declared = pod["volumes"]
            .as_array()
            .unwrap()
            .iter()
            .find(|declared| declared["name"] == volume);
        let secret = declared.and_then(|declared| declared["secret"]["secretName"].as_str());
        let folder = match secret {
            Some(secret) => self.directory.join(format!("secret-{secret}")),
            None => self.directory.join(format!("{name}-{volume}")),
        };
        std::fs::create_dir_all(&folder).unwrap();
        for (key, value) in secret.into_iter().flat_map(|secret| &self.secrets[secret]) {
            std::fs::write(folder.join(key), value).unwrap();
        }
        folder.display().to_string()
    }

    /// Starts the one container of a pod.
    fn start(&self, kind: &str, name: &str, program: &Path) -> ChildProcess {
        let pod = self.pod(kind);
        let [container] = &pod["containers"].as_array().unwrap()[..] else {
            panic!("{kind} has one container");
        };
        let mut here = self.here.clone();
        for mount in container["volumeMounts"].as_array().unwrap() {
            let volume = self.volume(pod, mount["name"].as_str().unwrap(), name);
            here.push((mount["mountPath"].as_str().unwrap().to_owned(), volume));
        }
        let image = container["image"].as_str().unwrap();
        let image = image
            .rsplit('/')
            .next()
            .unwrap()
            .split([':', '@'])
            .next()
            .unwrap();
        assert_eq!(program.file_name().unwrap(), image);
        let mut command = Command::new(program);
        command.env_clear();
        for (name, value) in image_variables(image) {
            command.env(name, translated(&value, &here));
        }
        for variable in container["env"].as_array().into_iter().flatten() {
            command.env(
                variable["name"].as_str().unwrap(),
                variable["value"].as_str().unwrap(),
            );
        }
        for argument in texts(&container["args"]) {
            command.arg(translated(&argument, &here));
        }
        let log = self.directory.join(format!("{name}.stderr"));
        ChildProcess::start(name, &mut command, &log).unwrap()
    }

    /// The pod of the orchestrator, once its probes say that it has started, lives and is ready. Its service leads to it from
    /// then on, and the next one gets the same address.
    pub(crate) async fn orchestrator(&mut self) -> Orchestrator {
        let binaries = Binaries::build().unwrap();
        let log = self.directory.join("orchestrator-0.stderr");
        // The log of one before it tells of another port.
        let _ = std::fs::remove_file(log);
        let process = self.start("StatefulSet", "orchestrator-0", &binaries.orchestrator);
        let orchestrator = Orchestrator::of(process).await.unwrap();
        let metrics = metrics_address(&orchestrator.process).await;
        let container = &self.pod("StatefulSet")["containers"][0];
        let ports = container["ports"].as_array().unwrap();
        let metrics_port = ports.iter().find(|port| port["containerPort"] == 7401).unwrap();
        for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
            let asked = &container[probe]["httpGet"];
            assert_eq!(asked["port"], metrics_port["name"], "{probe}");
            let path = asked["path"].as_str().unwrap();
            let good = async || (get(&metrics, path).await?.0 == 200).then_some(());
            wait_for(probe, LIMIT, good).await.unwrap();
        }
        let port = orchestrator.address().port();
        self.here[0].1 = format!("0.0.0.0:{port}");
        self.here
            .push(("try-escapement:7400".to_owned(), format!("localhost:{port}")));
        orchestrator
    }

    /// A pod of the workers, once it has a session.
    pub(crate) async fn worker(&self, name: &str) -> ChildProcess {
        let mut process = self.start("Deployment", name, &Binaries::build().unwrap().worker);
        process.announcement("connected", LIMIT).await.unwrap();
        let metrics = metrics_address(&process).await;
        let (status, _) = get(&metrics, "/metrics").await.unwrap();
        assert_eq!(status, 200, "{name}");
        process
    }

    /// Ends a pod: SIGTERM, and no SIGKILL is needed within the rest of its time.
    pub(crate) async fn end(&self, kind: &str, mut process: ChildProcess) {
        let pod = self.pod(kind);
        let grace = pod["terminationGracePeriodSeconds"].as_u64().unwrap();
        let slept = pod["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
            .as_u64()
            .unwrap_or(0);
        let began = Instant::now();
        let status = process
            .terminate(Duration::from_secs(grace - slept))
            .await
            .unwrap();
        assert!(status.success(), "{status} after {:?}", began.elapsed());
    }
}
