//! What the page says is done when an alert fires, done: a process in that state, the commands of the paragraph as they are
//! written, and the state is over. systemd itself is played.

use crate::stage::{LIMIT, get, metrics_address};
use escapement_tests::plans::{RequestWords, echo, plan, request};
use escapement_tests::{
    Binaries, ChildProcess, Orchestrator, PrivateDirectory, Worker, WorkerSettings, calls, checkout, skip,
    wait_for,
};
use escapement_wire::v1::SubmitPlanRequest;
use escapement_wire::v1::plan_result::Status;
use serde_json::json;
use std::path::Path;
use std::process::Command;
use tonic::Code;

/// The commands of an alert's paragraph.
fn commands(alert: &str) -> String {
    let page = std::fs::read_to_string(checkout::root().join("deploy/OPERATIONS.md")).unwrap();
    let (_, rest) = page.split_once(&format!("### {alert}\n")).unwrap();
    let paragraph = rest.split("\n### ").next().unwrap();
    let (_, block) = paragraph.split_once("```sh\n").unwrap();
    block.split("```").next().unwrap().replace("\\\n", "")
}

/// A machine with an orchestrator, whose files lie in a directory of the test.
struct Machine {
    directory: PrivateDirectory,
    orchestrator: Orchestrator,
    figures: String,
}

impl Machine {
    /// Starts the orchestrator by a shell, behind words for that, with more flags.
    async fn start(directory: PrivateDirectory, shell: &str, flags: &[&str]) -> Self {
        let store = directory.join("var/lib/escapement");
        std::fs::create_dir_all(&store).unwrap();
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--propagation", "private", "sh", "-ec"])
            .arg(format!(r#"{shell} exec "$@""#))
            .arg(&store)
            .arg(Binaries::build().unwrap().orchestrator)
            .args(["--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"])
            .args(["--log-format", "json", "--store-path"])
            .arg(store.join("store"))
            .args(flags);
        let stderr = directory.join("orchestrator.stderr");
        let process = ChildProcess::start("orchestrator", &mut command, &stderr).unwrap();
        let orchestrator = Orchestrator::of(process).await.unwrap();
        let figures = metrics_address(&orchestrator.process).await;
        Self {
            directory,
            orchestrator,
            figures,
        }
    }

    /// Follows commands of the page, with what is here in place of what is there, where the process sees its files.
    fn follow(&self, commands: &str) -> String {
        let here = self.directory.path().display();
        let commands = commands
            .replace("127.0.0.1:7401", &self.figures)
            .replace("127.0.0.1:7400", &self.orchestrator.address().to_string())
            .replace("/var/lib/escapement", &format!("{here}/var/lib/escapement"))
            .replace("/etc/escapement", &format!("{here}/etc/escapement"));
        let programs = Binaries::build().unwrap().orchestrator;
        let path = std::env::var("PATH").unwrap();
        let output = Command::new("timeout")
            .args(["--kill-after=1", "60", "nsenter", "--mount", "--target"])
            .arg(self.orchestrator.process.id().to_string())
            .args(["sh", "-exc", &commands])
            .env("PATH", format!("{}:{path}", programs.parent().unwrap().display()))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let complained = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}{complained}");
        said
    }

    /// What a figure says, by its name and labels.
    async fn figure(&self, name: &str) -> f64 {
        let (_, figures) = get(&self.figures, "/metrics").await.unwrap();
        let line = figures.lines().find(|line| line.split(' ').next() == Some(name));
        let line = line.unwrap_or_else(|| panic!("{name} in {figures}"));
        line.rsplit_once(' ').unwrap().1.parse().unwrap()
    }

    async fn submit(&self) -> Result<String, tonic::Status> {
        let asked = request(plan([echo(0, json!({ "filling": "x".repeat(16_000) }))]));
        let id = asked.id();
        self.submitted(asked.as_submission()).await.map(|()| id)
    }

    async fn submitted(&self, asked: SubmitPlanRequest) -> Result<(), tonic::Status> {
        self.orchestrator.plans().submit_plan(asked).await.map(drop)
    }
}

/// False if this user may not mount, which is noted.
fn may_mount() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        skip("root, to mount");
    }
    is_root
}

#[tokio::test]
async fn a_full_store_is_made_to_take_writes_again() {
    if !may_mount() {
        return;
    }
    let directory = PrivateDirectory::new("runbook").unwrap();
    let machine = Machine::start(directory, r#"mount -t tmpfs -o size=24m tmpfs "$0";"#, &[]).await;
    machine.follow(
        "cd /var/lib/escapement/
         mkdir -p backups/last-month backups/today
         echo copy > backups/today/executions.db
         ! head -c 100M /dev/zero > backups/last-month/executions.db 2>/dev/null
         touch -d '8 days ago' backups/last-month",
    );
    let refused = async || machine.submit().await.err();
    let refused = wait_for("a refusal", LIMIT, refused).await.unwrap();
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
    assert_eq!(machine.figure("escapement_store_full").await, 1.0);
    assert_eq!(get(&machine.figures, "/readyz").await.unwrap().0, 503);

    let said = machine.follow(&commands("StoreFull"));
    assert!(said.contains("last-month/executions.db"), "it is found: {said}");
    assert_eq!(machine.figure("escapement_store_full").await, 0.0);
    machine.follow("test -f /var/lib/escapement/backups/today/executions.db");
    machine.submit().await.unwrap();
}

/// Follows commands up to the line that starts the worker's unit, which is played, and then the rest.
async fn follow_with_systemd(machine: &Machine, commands: &str) -> (Worker, String) {
    let (before, after) = commands
        .split_once("systemctl restart escapement-worker\n")
        .unwrap();
    machine.follow(before);
    let directory = machine.directory.path();
    let settings = WorkerSettings::new(&machine.orchestrator.url(), "unit", directory, directory);
    let worker = settings.start().unwrap();
    let said = machine.follow(after);
    (worker, said)
}

#[tokio::test]
async fn an_action_without_workers_gets_them() {
    if !may_mount() {
        return;
    }
    let directory = PrivateDirectory::new("runbook").unwrap();
    let machine = Machine::start(directory, "", &["--declare-action", "echo"]).await;
    let waits = machine.submit().await.unwrap();
    let demand = r#"escapement_action_demand{action="echo"}"#;
    let wanted = async || (machine.figure(demand).await == 1.0).then_some(());
    wait_for("demand", LIMIT, wanted).await.unwrap();
    assert_eq!(
        machine
            .figure(r#"escapement_action_workers{action="echo"}"#)
            .await,
        0.0
    );

    let (_worker, said) = follow_with_systemd(&machine, &commands("ActionWithoutWorkers")).await;
    assert!(
        said.contains(r#"escapement_action_workers{action="echo"} 1"#),
        "{said}"
    );
    let result = calls::result_of(machine.orchestrator.plans(), &waits, LIMIT).await;
    assert_eq!(result.unwrap().status(), Status::Success);
    assert_eq!(machine.figure(demand).await, 0.0);
}

/// Makes an authority, and of it a certificate for a day, which the page's own commands do but for the days.
fn certificates(directory: &Path) {
    let (_, made) = commands("CertificateExpires")
        .split_once("openssl req")
        .map(|(_, rest)| ((), rest.to_owned()))
        .unwrap();
    let made = made
        .lines()
        .next()
        .unwrap()
        .replace("-days 90", "-days 1")
        .replace("next.", "server.");
    let script = format!(
        "mkdir -p etc/escapement; cd etc/escapement
         openssl req -x509 -newkey ed25519 -nodes -days 3650 -subj /CN=ca -keyout ca.key -out ca.pem
         openssl req{made}"
    );
    let output = Command::new("sh")
        .args(["-ec", &script])
        .current_dir(directory)
        .output();
    let output = output.unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[tokio::test]
async fn a_certificate_that_ends_is_replaced_also_after_half_of_a_pair_was_refused() {
    if !may_mount() {
        return;
    }
    if Command::new("openssl").arg("version").output().is_err() {
        return skip("openssl is not installed");
    }
    let directory = PrivateDirectory::new("runbook").unwrap();
    certificates(directory.path());
    let [cert, key] = ["server.pem", "server.key"].map(|file| directory.join("etc/escapement").join(file));
    let flags = [
        "--tls-cert",
        cert.to_str().unwrap(),
        "--tls-key",
        key.to_str().unwrap(),
    ];
    let machine = Machine::start(directory, "", &flags).await;
    let left = async || {
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs_f64();
        machine
            .figure("escapement_tls_certificate_expiry_timestamp_seconds")
            .await
            - now
    };
    assert!(left().await < 86_400.0, "the alert fires");
    // Somebody has put another key there.
    machine.follow("cd /etc/escapement; cp ca.key other; mv other server.key");
    let refused = r#"escapement_reloads_total{what="certificates",outcome="refused"}"#;
    let is_refused = async || (machine.figure(refused).await >= 1.0).then_some(());
    wait_for("the refusal", LIMIT, is_refused).await.unwrap();

    let said = machine.follow(&commands("CertificateExpires"));
    assert!(left().await > 86_400.0 * 89.0, "{said}");
    let ends: Vec<&str> = said
        .lines()
        .filter(|line| line.starts_with("notAfter="))
        .collect();
    assert!(
        ends.len() == 2 && ends[0] != ends[1],
        "another one is shown: {said}"
    );
}
