//! A machine that runs the units of the page: their settings, folders and logs lie in a directory of the test, and systemd is
//! played. Nothing it does reaches the files of the real one.

use super::page;
use crate::stage::{LIMIT, get, metrics_address};
use crate::units::{unit, values};
use escapement_tests::plans::{RequestWords, plan, request};
use escapement_tests::{
    Binaries, ChildProcess, Orchestrator, PrivateDirectory, calls, skip, tool, tools_path, wait_for,
};
use escapement_wire::v1::{PlanResult, PlanStep, SubmitPlanRequest};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

/// The machine. What runs on it ends before its files go.
pub(super) struct Machine {
    orchestrator: Option<Orchestrator>,
    pub(super) worker: Option<ChildProcess>,
    /// Has the mounts of the machine.
    holder: ChildProcess,
    /// Where the orchestrator serves, the first time at any free port.
    address: Option<SocketAddr>,
    figures: String,
    /// More addresses that stand on the page, each with what it is here.
    pub(super) addresses: Vec<(&'static str, String)>,
    /// More variables of the orchestrator and of the commands.
    pub(super) variables: Vec<(&'static str, String)>,
    pub(super) directory: PrivateDirectory,
}

impl Machine {
    /// A machine on which these words of a shell mount something first. `None` if this user may not mount, or a tool is missing,
    /// which is noted.
    pub(super) async fn new(mounts: &str) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            skip("root, to mount");
            return None;
        }
        tool("grpcurl", "`cargo verify` installs it")?;
        let directory = PrivateDirectory::new("runbook").unwrap();
        for folder in ["var/lib/escapement", "etc/escapement", "mnt", "bin", "run"] {
            std::fs::create_dir_all(directory.join(folder)).unwrap();
        }
        for (name, script) in [("journalctl", JOURNALCTL), ("systemctl", SYSTEMCTL)] {
            let program = directory.join("bin").join(name);
            std::fs::write(&program, script).unwrap();
            std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--propagation", "private", "sh", "-ec"])
            .arg(format!(
                r#"{mounts} echo '{{"event":"mounted"}}'; exec sleep infinity"#
            ))
            .current_dir(directory.path());
        let mut holder = ChildProcess::start("machine", &mut command, &directory.join("run/mounts")).unwrap();
        holder.announcement("mounted", LIMIT).await.unwrap();
        Some(Self {
            orchestrator: None,
            worker: None,
            holder,
            address: None,
            figures: String::new(),
            addresses: Vec::new(),
            variables: Vec::new(),
            directory,
        })
    }

    /// One whose orchestrator runs with these settings, a variable a line.
    pub(super) async fn with(settings: &str) -> Option<Self> {
        let mut machine = Self::new("").await?;
        machine.set("orchestrator", settings);
        machine.systemctl("start escapement-orchestrator").await;
        Some(machine)
    }

    /// Writes the settings of a unit to where it reads them.
    pub(super) fn set(&self, program: &str, settings: &str) {
        // They begin as a line does.
        let settings = self.here(&format!("\n{settings}"));
        self.write(&format!("etc/escapement/{program}.env"), &settings);
    }

    pub(super) fn write(&self, file: &str, text: &str) {
        escapement_tests::authority::replace(&self.directory.join(file), text).unwrap();
    }

    /// Where the orchestrator serves its figures.
    pub(super) fn figures(&self) -> &str {
        &self.figures
    }

    pub(super) fn orchestrator(&self) -> &Orchestrator {
        self.orchestrator.as_ref().unwrap()
    }

    /// Its process, to do it harm.
    pub(super) fn process(&mut self) -> &mut ChildProcess {
        &mut self.orchestrator.as_mut().unwrap().process
    }

    /// What stands on the page, with what is here in its place.
    pub(super) fn here(&self, text: &str) -> String {
        let here = self.directory.path().display();
        let mut text = text.to_owned();
        for (on_the_page, address) in &self.addresses {
            text = text.replace(on_the_page, address);
        }
        if let Some(address) = self.address {
            text = text
                .replace("127.0.0.1:7401", &self.figures)
                .replace("127.0.0.1:7400", &address.to_string())
                .replace(":7400 ", &format!(":{} ", address.port()));
        }
        for folder in ["/var/lib/escapement", "/etc/escapement", "/etc/systemd", "/mnt"] {
            // Only where a path begins.
            for before in [" ", "=", "'", "\"", "\n", ">"] {
                text = text.replace(&format!("{before}{folder}"), &format!("{before}{here}{folder}"));
            }
        }
        text
    }

    /// Variables of a unit: its own, and those of its file.
    fn unit_variables(&self, program: &str) -> Vec<(String, String)> {
        let unit = unit(program);
        let file = self.directory.join(format!("etc/escapement/{program}.env"));
        let file = std::fs::read_to_string(file).unwrap_or_default();
        let lines = file.lines().filter(|line| !line.is_empty());
        let lines = values(&unit, "Environment").into_iter().chain(lines);
        let split = |line: &str| {
            let (name, value) = line.split_once('=').unwrap();
            let value = self.here(&format!(" {value}"));
            (name.to_owned(), value.trim_start().to_owned())
        };
        lines.map(split).collect()
    }

    /// The limit of open files of the orchestrator's unit and of what lies on top of it, or that of this machine if it is lower.
    pub(super) fn open_files(&self) -> u64 {
        let over = self
            .directory
            .join("etc/systemd/system/escapement-orchestrator.service.d/open-files.conf");
        let over = std::fs::read_to_string(over).unwrap_or_default();
        let unit = unit("orchestrator");
        let limits: Vec<&str> = [values(&unit, "LimitNOFILE"), values(&over, "LimitNOFILE")].concat();
        let here = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
        limits
            .last()
            .unwrap()
            .parse()
            .map_or(u64::MAX, |limit: u64| limit.min(here.unwrap_or(u64::MAX)))
    }

    /// A program in the machine.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command
            .args(["--mount", "--target", &self.holder.id().to_string()])
            .arg(program);
        command
    }

    /// Starts a unit and waits for nothing.
    pub(super) fn launch(&self, program: &str) -> ChildProcess {
        let binaries = Binaries::build().unwrap();
        let mut command = self.command("prlimit");
        command.arg(format!("--nofile={}", self.open_files()));
        if program == "orchestrator" {
            let listen = self
                .address
                .map_or("127.0.0.1:0".to_owned(), |address| address.to_string());
            command
                .arg(binaries.orchestrator)
                .args([
                    "--listen",
                    &listen,
                    "--metrics-listen",
                    "127.0.0.1:0",
                    "--log-format",
                    "json",
                ])
                .envs(self.unit_variables(program))
                .envs(self.variables.clone());
        } else {
            command
                .arg(binaries.worker)
                .args(["--orchestrator", &self.orchestrator().url()])
                .envs(self.unit_variables(program))
                .env("ESCAPEMENT_ROOT", self.directory.join("mnt"));
        }
        ChildProcess::start(program, &mut command, &self.log(program)).unwrap()
    }

    fn log(&self, program: &str) -> std::path::PathBuf {
        self.directory.join(format!("run/escapement-{program}.log"))
    }

    /// Plays systemd: `start`, `stop`, `restart` or `reload` of a unit, or `daemon-reload`.
    pub(super) async fn systemctl(&mut self, command: &str) {
        if command == "daemon-reload" {
            return;
        }
        let (verb, unit) = command.split_once(" escapement-").unwrap();
        if verb == "reload" {
            assert_eq!(unit, "orchestrator");
            let reload = self.reload();
            return self.process().signal(reload).unwrap();
        }
        if verb != "start" {
            match unit {
                "orchestrator" => {
                    if let Some(mut served) = self.orchestrator.take() {
                        served.process.terminate(LIMIT).await.unwrap();
                    }
                }
                _ => {
                    if let Some(mut worker) = self.worker.take() {
                        // What stands still is told to go on, as systemd does.
                        worker.signal(rustix::process::Signal::TERM).unwrap();
                        worker.signal(rustix::process::Signal::CONT).unwrap();
                        worker.exit(LIMIT).await.unwrap();
                    }
                }
            }
        }
        if verb != "stop" {
            match unit {
                "orchestrator" => self.start_orchestrator().await,
                _ => {
                    let mut worker = self.launch("worker");
                    worker.announcement("connected", LIMIT).await.unwrap();
                    self.worker = Some(worker);
                }
            }
        }
    }

    /// The signal that the unit sends for a reload.
    fn reload(&self) -> rustix::process::Signal {
        assert_eq!(
            values(&unit("orchestrator"), "ExecReload"),
            [r#"/bin/sh -c "kill -HUP ${MAINPID}""#]
        );
        rustix::process::Signal::HUP
    }

    async fn start_orchestrator(&mut self) {
        // What was logged before tells of another port.
        let log = self.log("orchestrator");
        let before = std::fs::read_to_string(&log).unwrap_or_default();
        let earlier = self.directory.join("run/escapement-orchestrator.earlier");
        let kept = std::fs::read_to_string(&earlier).unwrap_or_default();
        std::fs::write(&earlier, kept + &before).unwrap();
        let _ = std::fs::remove_file(&log);
        let served = Orchestrator::of(self.launch("orchestrator")).await.unwrap();
        self.figures = metrics_address(&served.process).await;
        self.address = Some(served.address());
        std::fs::write(self.directory.join("run/pid"), served.process.id().to_string()).unwrap();
        self.orchestrator = Some(served);
    }

    /// Does what the commands say, and answers how that ended.
    pub(super) fn tried(&self, commands: &str) -> Output {
        let orchestrator = Binaries::build().unwrap().orchestrator;
        let mut path = vec![self.directory.join("bin"), orchestrator.parent().unwrap().into()];
        path.extend(tools_path());
        self.command("timeout")
            .args(["--kill-after=1", "60", "bash", "-exc", &self.here(commands)])
            .env("PATH", std::env::join_paths(path).unwrap())
            .env("MACHINE", self.directory.join("run"))
            .envs(self.variables.clone())
            .output()
            .unwrap()
    }

    /// Does what the commands say, all of which succeed, and answers with what they said.
    pub(super) fn follow(&self, commands: &str) -> String {
        let output = self.tried(commands);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let complained = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}{complained}");
        said
    }

    /// Follows the commands of the page, one block after the other.
    pub(super) async fn follow_page(&mut self, alert: &str) -> String {
        let mut said = String::new();
        for block in page::blocks(alert) {
            said += &self.follow_block(&block).await;
        }
        said
    }

    /// Follows a block, whose `systemctl` is played.
    pub(super) async fn follow_block(&mut self, block: &str) -> String {
        let mut said = String::new();
        let mut commands = String::new();
        for line in block.lines() {
            match line.strip_prefix("systemctl ") {
                Some(command) => {
                    said += &self.follow(&std::mem::take(&mut commands));
                    self.systemctl(command).await;
                }
                None => commands += &format!("{line}\n"),
            }
        }
        said + &self.follow(&commands)
    }

    /// What a figure says, by its name and labels; 0 if it is not there.
    pub(super) async fn figure(&self, name: &str) -> f64 {
        let (_, figures) = get(&self.figures, "/metrics").await.unwrap();
        let line = figures.lines().find(|line| line.split(' ').next() == Some(name));
        line.map_or(0.0, |line| line.rsplit_once(' ').unwrap().1.parse().unwrap())
    }

    /// Waits until a figure is as it should be.
    pub(super) async fn until(&self, name: &str, is_so: impl Fn(f64) -> bool) {
        let seen = async || is_so(self.figure(name).await).then_some(());
        if let Err(fault) = wait_for(name, LIMIT, seen).await {
            panic!("{fault}: {:?}", get(&self.figures, "/metrics").await);
        }
    }

    /// The status and the words of a probe.
    pub(super) async fn probe(&self, path: &str) -> (u16, String) {
        get(&self.figures, path).await.unwrap()
    }

    pub(super) async fn try_submit(&self, step: PlanStep) -> Result<String, tonic::Status> {
        let asked = request(plan([step]));
        let id = asked.id();
        let asked: SubmitPlanRequest = asked.as_submission();
        let mut plans = self.orchestrator().plans();
        plans.submit_plan(asked).await.map(|_| id)
    }

    /// Hands in a plan of one step and answers with its execution.
    pub(super) async fn submit(&self, step: PlanStep) -> String {
        self.try_submit(step).await.unwrap()
    }

    pub(super) async fn result_of(&self, execution_id: &str) -> PlanResult {
        let plans = self.orchestrator().plans();
        calls::result_of(plans, execution_id, LIMIT).await.unwrap()
    }
}

/// `journalctl --unit UNIT --no-pager …`: all that the unit logged.
const JOURNALCTL: &str = r#"#!/bin/sh
test "$1" = --unit && test "$3" = --no-pager
cat "$MACHINE/$2.earlier" "$MACHINE/$2.log" 2>/dev/null || true
"#;
/// `systemctl show --property MainPID --value escapement-orchestrator`.
const SYSTEMCTL: &str = r#"#!/bin/sh
test "$*" = "show --property MainPID --value escapement-orchestrator"
cat "$MACHINE/pid"
"#;
