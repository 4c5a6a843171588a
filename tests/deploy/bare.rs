//! A bare machine: the files of Debian's smallest packages, the commands of the page, and then what the units say, under the users
//! that were made, with nothing writable but their folders. systemd itself is played.

use crate::packages;
use crate::sealed::Sealed;
use crate::stage::{LIMIT, metrics_address, serves_a_plan_and_a_run};
use escapement_tests::{Binaries, ChildProcess, Orchestrator, PrivateDirectory, checkout, skip, tool};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

/// The machine.
struct Machine {
    directory: PrivateDirectory,
    root: PathBuf,
    /// Where the units were put.
    units: &'static str,
}

impl Machine {
    /// One with the files of Debian's smallest packages. `None` if a tool is missing, which is noted.
    fn bare(units: &'static str) -> Option<Self> {
        let base = tool("base-package/bin/busybox", "`cargo verify` unpacks it")?;
        tool("systemd-sysusers", "install Debian's package systemd")?;
        if !rustix::process::geteuid().is_root() {
            skip("root, to make users and to mount");
            return None;
        }
        let directory = PrivateDirectory::new("bare").unwrap();
        let machine = Self {
            root: directory.join("root"),
            directory,
            units,
        };
        let copied = Command::new("cp")
            .arg("-a")
            .arg(base.ancestors().nth(2).unwrap())
            .arg(&machine.root)
            .status();
        assert!(copied.unwrap().success());
        Some(machine)
    }

    /// Installs as the page says, in its root. `None` if a tool is missing, which is noted.
    fn installed() -> Option<Self> {
        let machine = Self::bare("etc/systemd/system")?;
        let clone = machine.directory.join("clone");
        std::fs::create_dir_all(clone.join("target/release")).unwrap();
        symlink(checkout::root().join("deploy"), clone.join("deploy")).unwrap();
        for (program, name) in programs() {
            symlink(program, clone.join("target/release").join(name)).unwrap();
        }
        machine.run(
            Command::new("sh")
                .args(["-ec", &machine.commands()])
                .current_dir(clone),
        );
        Some(machine)
    }

    /// Unpacks the packages of a release in its root, and makes the users that their scripts make. The programs of the packages are
    /// stand-ins, and the real ones take their places. `None` if a tool is missing, which is noted.
    fn with_packages() -> Option<Self> {
        let machine = Self::bare("usr/lib/systemd/system")?;
        for package in packages::build(&machine.directory.join("packages"))? {
            machine.run(
                Command::new("dpkg-deb")
                    .arg("--extract")
                    .arg(package)
                    .arg(&machine.root),
            );
        }
        for (program, name) in programs() {
            let package = format!("escapement-{name}");
            std::fs::copy(program, machine.root.join("usr/bin").join(&package)).unwrap();
            let mut sysusers = Command::new("systemd-sysusers");
            let root = format!("--root={}", machine.root.display());
            machine.run(sysusers.arg(root).arg(format!("{package}.conf")));
        }
        Some(machine)
    }

    fn run(&self, command: &mut Command) {
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "{command:?} in {}: {said}",
            self.root.display()
        );
    }

    /// The commands of the page that install, with the root of this machine before what they write to.
    fn commands(&self) -> String {
        let page = std::fs::read_to_string(checkout::root().join("deploy/README.md")).unwrap();
        let mut blocks = page
            .split("```sh\n")
            .skip(1)
            .map(|rest| rest.split("```").next().unwrap());
        let block = blocks.find(|block| block.contains("systemd-sysusers")).unwrap();
        let root = self.root.display();
        let mut commands = block.replace("systemd-sysusers ", &format!("systemd-sysusers --root={root} "));
        for folder in [
            "/usr/local/bin/\n",
            "/usr/lib/sysusers.d/escapement.conf\ninstall",
            "/etc/systemd/system ",
        ] {
            assert!(commands.contains(folder), "{folder} in {block}");
            commands = commands.replace(&format!(" {folder}"), &format!(" {root}{folder}"));
        }
        format!("mkdir -p {root}/usr/local/bin\n{commands}")
    }

    /// The values of a setting of an installed unit.
    fn values(&self, program: &str, setting: &str) -> Vec<String> {
        let unit = self
            .root
            .join(self.units)
            .join(format!("escapement-{program}.service"));
        let unit = std::fs::read_to_string(unit).unwrap();
        let lines = unit.lines().filter_map(|line| line.split_once('='));
        lines
            .filter(|(name, _)| *name == setting)
            .map(|(_, value)| value.to_owned())
            .collect()
    }

    /// Writes the settings of a program to where its unit reads them.
    fn set(&self, program: &str, settings: &str) {
        let file = self.values(program, "EnvironmentFile").remove(0);
        let file = self.root.join(file.trim_start_matches("-/"));
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, settings).unwrap();
    }

    /// Starts a unit.
    fn start(&self, program: &str) -> ChildProcess {
        let name = self.values(program, "User").remove(0);
        let users = std::fs::read_to_string(self.root.join("etc/passwd")).unwrap();
        let user = users
            .lines()
            .map(|line| line.split(':').collect::<Vec<_>>())
            .find(|user| user[0] == name)
            .unwrap();
        let mut variables = self.values(program, "Environment");
        let file = self.values(program, "EnvironmentFile").remove(0);
        let file = std::fs::read_to_string(self.root.join(file.trim_start_matches("-/"))).unwrap();
        variables.extend(file.lines().map(str::to_owned));
        variables.push("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned());
        let split = |variable: &String| {
            let (name, value) = variable.split_once('=').unwrap();
            (name.to_owned(), value.to_owned())
        };
        let state = self.values(program, "StateDirectory").remove(0);
        let inside = format!("/var/lib/{state}");
        std::fs::create_dir_all(self.root.join(inside.trim_start_matches('/'))).unwrap();
        let sealed = Sealed {
            tree: self.root.clone(),
            user: format!("{}:{}", user[2], user[3]),
            environment: variables.iter().map(split).collect(),
            writable: Vec::new(),
        };
        let sealed = sealed.with_writable(&self.directory.join(state), &inside);
        let mut command = sealed.command(&self.values(program, "ExecStart"));
        ChildProcess::start(
            program,
            &mut command,
            &self.directory.join(format!("{program}.stderr")),
        )
        .unwrap()
    }
}

fn programs() -> [(PathBuf, &'static str); 2] {
    let binaries = Binaries::build().unwrap();
    [
        (binaries.orchestrator, "orchestrator"),
        (binaries.worker, "worker"),
    ]
}

#[tokio::test]
async fn a_bare_machine_serves_after_the_commands_of_the_page() {
    let Some(machine) = Machine::installed() else {
        return;
    };
    its_units_serve(machine).await;
}

#[tokio::test]
async fn a_bare_machine_serves_with_the_packages_of_a_release() {
    let Some(machine) = Machine::with_packages() else {
        return;
    };
    its_units_serve(machine).await;
}

/// Starts both units, lets them execute a plan and a run, and stops them.
async fn its_units_serve(machine: Machine) {
    machine.set(
        "orchestrator",
        "ESCAPEMENT_LISTEN=127.0.0.1:0\nESCAPEMENT_METRICS_LISTEN=127.0.0.1:0\nESCAPEMENT_LOG_FORMAT=json\n",
    );
    let orchestrator = Orchestrator::of(machine.start("orchestrator")).await.unwrap();
    metrics_address(&orchestrator.process).await;
    machine.set(
        "worker",
        &format!("ESCAPEMENT_ORCHESTRATOR={}\n", orchestrator.url()),
    );
    let mut worker = machine.start("worker");
    worker.announcement("connected", LIMIT).await.unwrap();
    serves_a_plan_and_a_run(orchestrator.channel()).await;
    assert!(machine.directory.join("escapement/store.db").is_file());
    assert!(
        worker.stderr().contains("file.write"),
        "the worker has its folder"
    );
    assert_eq!(worker.terminate(LIMIT).await.unwrap().code(), Some(0));
    orchestrator.stop().await.unwrap();
}

#[tokio::test]
async fn the_programs_serve_that_are_started_by_hand() {
    let page = std::fs::read_to_string(checkout::root().join("deploy/README.md")).unwrap();
    let by_hand = page
        .split("\n## By hand\n")
        .nth(1)
        .unwrap()
        .split("\n## ")
        .next()
        .unwrap();
    let block = by_hand
        .split("```text\n")
        .nth(1)
        .unwrap()
        .split("```")
        .next()
        .unwrap();
    let [first, second] = block.lines().collect::<Vec<_>>()[..] else {
        panic!("two commands: {block}");
    };
    let directory = PrivateDirectory::new("by-hand").unwrap();
    let store = directory.join("store").display().to_string();
    let start = |line: &str| {
        let (name, arguments) = line.split_once(' ').unwrap();
        let (program, _) = programs().into_iter().find(|(_, one)| *one == name).unwrap();
        let mut command = Command::new(program);
        // In the place of the port that it has without a word.
        command
            .args(arguments.split(' '))
            .env("ESCAPEMENT_LISTEN", "127.0.0.1:0");
        command.env("ESCAPEMENT_LOG_FORMAT", "json");
        ChildProcess::start(name, &mut command, &directory.join(name)).unwrap()
    };
    let here = first
        .replace("/var/lib/escapement", &store)
        .replace(":7401", ":0");
    let orchestrator = Orchestrator::of(start(&here)).await.unwrap();
    metrics_address(&orchestrator.process).await;
    let mut worker = start(&second.replace("http://127.0.0.1:7400", &orchestrator.url()));
    worker.announcement("connected", LIMIT).await.unwrap();
    serves_a_plan_and_a_run(orchestrator.channel()).await;
    assert_eq!(worker.terminate(LIMIT).await.unwrap().code(), Some(0));
    orchestrator.stop().await.unwrap();
}
