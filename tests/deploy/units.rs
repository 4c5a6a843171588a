//! The units of systemd: what systemd itself says of them, and what it is told by the program that it starts.

use crate::stage::LIMIT;
use escapement_tests::{
    Binaries, ChildProcess, Orchestrator, PrivateDirectory, checkout, let_pass, tool, wait_for,
};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// A unit as it is shipped.
pub(crate) fn unit(program: &str) -> String {
    let file = format!("deploy/systemd/escapement-{program}.service");
    std::fs::read_to_string(checkout::root().join(file)).unwrap()
}

/// The values of a setting that may stand there several times.
pub(crate) fn values<'a>(unit: &'a str, setting: &str) -> Vec<&'a str> {
    let lines = unit.lines().filter_map(|line| line.split_once('='));
    lines
        .filter(|(name, _)| *name == setting)
        .map(|(_, value)| value)
        .collect()
}

fn programs() -> [(&'static str, String); 2] {
    let binaries = Binaries::build().unwrap();
    [
        ("orchestrator", binaries.orchestrator),
        ("worker", binaries.worker),
    ]
    .map(|(name, path)| (name, path.display().to_string()))
}

#[test]
fn systemd_understands_the_units_and_finds_them_sealed_off() {
    let Some(analyze) = tool("systemd-analyze", "install Debian's package systemd") else {
        return;
    };
    let directory = PrivateDirectory::new("units").unwrap();
    for (name, program) in programs() {
        let file = directory.join(format!("escapement-{name}.service"));
        // It looks for the program.
        let text = unit(name).replace(&format!("/usr/local/bin/{name}"), &program);
        std::fs::write(&file, text).unwrap();
        let verified = Command::new(&analyze).arg("verify").arg(&file).output().unwrap();
        let said = String::from_utf8_lossy(&verified.stderr);
        let ours: Vec<&str> = said.lines().filter(|line| line.contains("escapement")).collect();
        assert!(verified.status.success() && ours.is_empty(), "{name}: {said}");
        let exposed = Command::new(&analyze)
            .args(["security", "--offline=true", "--no-pager", EXPOSURE_MAX])
            .arg(&file)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&exposed.stdout);
        assert!(exposed.status.success(), "{name}: {said}");
    }
}

#[test]
fn threads_of_the_orchestrator_may_lower_their_priority() {
    let unit = unit("orchestrator");
    let filters = values(&unit, "SystemCallFilter");
    assert_eq!(filters.last(), Some(&"setpriority"), "{filters:?}");
}

#[test]
fn each_unit_has_a_user_of_its_own() {
    let Some(sysusers) = tool("systemd-sysusers", "install Debian's package systemd") else {
        return;
    };
    let directory = PrivateDirectory::new("sysusers").unwrap();
    let file = checkout::root().join("deploy/systemd/sysusers.conf");
    std::fs::create_dir(directory.join("etc")).unwrap();
    let root = format!("--root={}", directory.path().display());
    let output = Command::new(sysusers).arg(root).arg(file).output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let made = std::fs::read_to_string(directory.join("etc/passwd")).unwrap();
    for (name, _) in programs() {
        let unit = unit(name);
        let [user] = values(&unit, "User")[..] else {
            panic!("{name} has one user");
        };
        assert!(
            made.lines().any(|line| line.split(':').next() == Some(user)),
            "{user}: {made}"
        );
    }
}

/// What a service manager gives a program of `Type=notify`, and what it hears of it.
struct Manager {
    socket: UnixDatagram,
    address: String,
}

impl Manager {
    fn at_path(directory: &Path) -> Self {
        let path = directory.join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        Self::of(socket, path.display().to_string())
    }

    fn at_name(name: &str) -> Self {
        let address = SocketAddr::from_abstract_name(name).unwrap();
        Self::of(UnixDatagram::bind_addr(&address).unwrap(), format!("@{name}"))
    }

    fn of(socket: UnixDatagram, address: String) -> Self {
        socket.set_nonblocking(true).unwrap();
        Self { socket, address }
    }

    /// All messages that wait.
    fn waiting(&self) -> usize {
        let mut bytes = [0; 256];
        let mut n_waiting = 0;
        while self.socket.recv(&mut bytes).is_ok() {
            n_waiting += 1;
        }
        n_waiting
    }

    /// The next message.
    async fn told(&self) -> String {
        let next = async || {
            let mut bytes = [0; 256];
            let n_bytes = self.socket.recv(&mut bytes).ok()?;
            Some(String::from_utf8_lossy(&bytes[..n_bytes]).into_owned())
        };
        wait_for("a message to the service manager", LIMIT, next)
            .await
            .unwrap()
    }

    /// Starts the orchestrator as its unit says, but for its folder, its ports and the period of its watchdog.
    fn start(&self, directory: &Path, watchdog_us: &str) -> ChildProcess {
        self.start_with(directory, watchdog_us, &[])
    }

    /// The same with what stands in the file of its settings.
    fn start_with(&self, directory: &Path, watchdog_us: &str, settings: &[(&str, String)]) -> ChildProcess {
        let unit = unit("orchestrator");
        assert_eq!(values(&unit, "Type"), ["notify"]);
        assert_eq!(values(&unit, "ExecStart"), ["/usr/local/bin/orchestrator"]);
        let mut command = Command::new(Binaries::build().unwrap().orchestrator);
        for variable in values(&unit, "Environment") {
            let (name, value) = variable.split_once('=').unwrap();
            let value = value.replace(
                "/var/lib/escapement",
                &directory.join("store").display().to_string(),
            );
            command.env(name, value.replace(":7401", ":0"));
        }
        command
            .env("ESCAPEMENT_LISTEN", "127.0.0.1:0")
            .env("NOTIFY_SOCKET", &self.address)
            .env("WATCHDOG_USEC", watchdog_us)
            .envs(settings.iter().map(|(name, value)| (name, value)));
        ChildProcess::start("orchestrator", &mut command, &directory.join("stderr")).unwrap()
    }
}

#[tokio::test]
async fn systemd_hears_when_it_serves_that_it_lives_and_that_it_stops() {
    let directory = PrivateDirectory::new("notify").unwrap();
    let manager = Manager::at_path(directory.path());
    let mut process = manager.start(directory.path(), "300000");
    assert_eq!(manager.told().await, "READY=1");
    // It was told behind the announcement, which waits already.
    let address = Orchestrator::announced(&mut process).await.unwrap();
    assert!(std::net::TcpStream::connect(address).is_ok());
    for _ in 0..4 {
        assert_eq!(manager.told().await, "WATCHDOG=1");
    }
    let log = process.stderr();
    assert!(
        !log.contains("ESCAPEMENT_"),
        "a variable of the unit is not known: {log}"
    );
    process.signal(rustix::process::Signal::TERM).unwrap();
    let mut last = manager.told().await;
    while last == "WATCHDOG=1" {
        last = manager.told().await;
    }
    assert_eq!(last, "STOPPING=1");
    assert_eq!(process.exit(LIMIT).await.unwrap().code(), Some(0));
}

#[tokio::test]
async fn a_manager_may_listen_without_a_path_and_without_a_watchdog() {
    let directory = PrivateDirectory::new("notify").unwrap();
    let manager = Manager::at_name(&format!("escapement-test-{}", std::process::id()));
    let mut process = manager.start(directory.path(), "0");
    assert_eq!(manager.told().await, "READY=1");
    process.signal(rustix::process::Signal::TERM).unwrap();
    assert_eq!(manager.told().await, "STOPPING=1");
    assert_eq!(process.exit(LIMIT).await.unwrap().code(), Some(0));
}

#[tokio::test]
async fn a_manager_that_is_gone_holds_up_nothing() {
    let directory = PrivateDirectory::new("notify").unwrap();
    let manager = Manager::at_path(directory.path());
    std::fs::remove_file(&manager.address).unwrap();
    let process = manager.start(directory.path(), "300000");
    let served = Orchestrator::of(process).await.unwrap();
    crate::stage::answers(&served).await;
    // The log is written by a thread of its own.
    let says = async || {
        let stderr = served.process.stderr();
        stderr
            .contains("the service manager is not reached")
            .then_some(())
    };
    wait_for("the warning", LIMIT, says).await.unwrap();
    served.stop().await.unwrap();
}

/// Carries out `systemctl reload` as the unit says.
fn reload(process: &ChildProcess) {
    let unit = unit("orchestrator");
    let [reload] = values(&unit, "ExecReload")[..] else {
        panic!("it reloads by one command");
    };
    let status = Command::new("sh")
        .args(["-ec", reload])
        .env("MAINPID", process.id().to_string())
        .status();
    assert!(status.unwrap().success());
}

#[tokio::test]
async fn a_reload_has_the_policy_read_again() {
    let directory = PrivateDirectory::new("reload").unwrap();
    let manager = Manager::at_path(directory.path());
    let file = directory.join("policy.toml");
    let policy = |name| {
        let sha256 = "0".repeat(64);
        format!("version = 1\n[[token]]\nname = \"{name}\"\nroles = [\"viewer\"]\nsha256 = \"{sha256}\"\n")
    };
    std::fs::write(&file, policy("one")).unwrap();
    // Only at SIGHUP.
    let settings = [
        ("ESCAPEMENT_ACCESS_POLICY", file.display().to_string()),
        ("ESCAPEMENT_TLS_RELOAD_INTERVAL_MS", "0".to_owned()),
    ];
    let mut process = manager.start_with(directory.path(), "0", &settings);
    assert_eq!(manager.told().await, "READY=1");
    std::fs::write(&file, policy("another")).unwrap();
    reload(&process);
    let read = async || process.stderr().contains("files read again").then_some(());
    wait_for("the reload", LIMIT, read).await.unwrap();
    process.signal(rustix::process::Signal::TERM).unwrap();
    assert_eq!(manager.told().await, "STOPPING=1", "and not before");
    assert_eq!(process.exit(LIMIT).await.unwrap().code(), Some(0));
}

#[tokio::test]
async fn a_reload_with_nothing_to_read_again_stops_nothing() {
    let directory = PrivateDirectory::new("reload").unwrap();
    let manager = Manager::at_path(directory.path());
    let process = manager.start(directory.path(), "0");
    let served = Orchestrator::of(process).await.unwrap();
    assert_eq!(manager.told().await, "READY=1");
    reload(&served.process);
    let seen = async || served.process.stderr().contains("SIGHUP").then_some(());
    wait_for("the signal", LIMIT, seen).await.unwrap();
    crate::stage::answers(&served).await;
    assert_eq!(manager.waiting(), 0, "it does not say that it stops");
    served.stop().await.unwrap();
}

/// Holds a thread of a process until it is dropped itself; the rest of the process goes on.
async fn held(python: &Path, process: &ChildProcess, thread: &str, directory: &Path) -> ChildProcess {
    let is_it = |task: &std::path::PathBuf| {
        std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim_end() == thread)
    };
    let tasks = std::fs::read_dir(format!("/proc/{}/task", process.id())).unwrap();
    let mut tasks = tasks.map(|task| task.unwrap().path());
    let task = tasks.find(is_it).unwrap_or_else(|| panic!("no thread {thread}"));
    let mut command = Command::new(python);
    command.args(["-c", HOLD]).arg(task.file_name().unwrap());
    let mut holder = ChildProcess::start("holder", &mut command, &directory.join("holder")).unwrap();
    holder.announcement("held", LIMIT).await.unwrap();
    holder
}

#[tokio::test]
async fn an_engine_that_stands_still_starves_the_watchdog_and_a_disk_that_does_so_does_not() {
    let Some(python) = tool("python/bin/python", "`cargo verify` installs it") else {
        return;
    };
    let directory = PrivateDirectory::new("starved").unwrap();
    let manager = Manager::at_path(directory.path());
    let process = manager.start(directory.path(), "300000");
    assert_eq!(manager.told().await, "READY=1");

    // A start anew would not make a disk answer.
    let holder = held(&python, &process, "writer", directory.path()).await;
    manager.waiting();
    for _ in 0..4 {
        assert_eq!(manager.told().await, "WATCHDOG=1");
    }
    drop(holder);

    let holder = held(&python, &process, "engine", directory.path()).await;
    manager.waiting();
    let_pass(SEVERAL_PERIODS).await;
    let n_fed = manager.waiting();
    assert!(n_fed <= 1, "fed {n_fed} times, once on its way may be");
    drop(holder);
    assert_eq!(manager.told().await, "WATCHDOG=1");
}

/// Three of the watchdog, which is fed nine times in it if all is well.
const SEVERAL_PERIODS: Duration = Duration::from_millis(900);
/// PTRACE_SEIZE and PTRACE_INTERRUPT; the thread goes on when this process is gone.
const HOLD: &str = r#"
import ctypes, os, signal, sys
thread = int(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long
for request in 0x4206, 0x4207:
    if libc.ptrace(request, thread, None, None) != 0:
        sys.exit(os.strerror(ctypes.get_errno()))
os.waitpid(thread, 0x40000000)
print('{"event":"held"}', flush=True)
signal.pause()
"#;
/// In tenths.
const EXPOSURE_MAX: &str = "--threshold=15";
