//! The worker under test: a process in a group of its own, its output in a file, signals, memory, and its end.
//! Knows no language and no flag of it.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use escapement_tests::{Fault, wait_for};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// A running worker. It and all that it started are killed on drop.
#[derive(Debug)]
pub(crate) struct Subject {
    child: Mutex<Child>,
    pid: Pid,
}

impl Subject {
    /// Starts the command with what a worker needs to know; its output goes to the end of `output`.
    pub(crate) fn start(command: &[OsString], url: &str, token: &str, output: &Path) -> Result<Self, Fault> {
        let (program, arguments) = command.split_first().ok_or("there is no command")?;
        let file = File::options().create(true).append(true).open(output)?;
        let child = Command::new(program)
            .args(arguments)
            .env("ESCAPEMENT_ORCHESTRATOR", url)
            .env("ESCAPEMENT_TOKEN", token)
            .env("ESCAPEMENT_DRAIN_GRACE_MS", DRAIN_GRACE.as_millis().to_string())
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .process_group(0)
            .spawn()
            .map_err(|fault| format!("cannot start {}: {fault}", PathBuf::from(program).display()))?;
        let pid = Pid::from_child(&child);
        Ok(Self {
            child: Mutex::new(child),
            pid,
        })
    }

    /// Asks it to stop.
    pub(crate) fn terminate(&self) -> Result<(), Fault> {
        match self.exited()? {
            // Not reaped, so the id is still its own.
            None => Ok(kill_process(self.pid, Signal::TERM)?),
            Some(status) => Err(format!("the worker had ended before it was asked to: {status}").into()),
        }
    }

    /// Lets no time pass for it (SIGSTOP).
    pub(crate) fn pause(&self) -> Result<(), Fault> {
        Ok(kill_process_group(self.pid, Signal::STOP)?)
    }

    /// Lets time pass again (SIGCONT).
    pub(crate) fn resume(&self) -> Result<(), Fault> {
        Ok(kill_process_group(self.pid, Signal::CONT)?)
    }

    /// How it ended, where it has.
    pub(crate) fn exited(&self) -> Result<Option<ExitStatus>, Fault> {
        Ok(self
            .child
            .lock()
            .expect("nobody panics while holding it")
            .try_wait()?)
    }

    /// Waits until it has ended.
    pub(crate) async fn exit(&self, limit: Duration) -> Result<ExitStatus, Fault> {
        let exited = wait_for("the end of the worker", limit, async || self.exited().transpose());
        exited.await?
    }

    /// Fails where it has ended.
    pub(crate) fn must_live(&self) -> Result<(), Fault> {
        match self.exited()? {
            None => Ok(()),
            Some(status) => Err(format!("the worker must go on, but it ended: {status}").into()),
        }
    }

    /// Returns the bytes of memory that its group occupies; `None` if the system does not tell.
    pub(crate) fn memory_bytes(&self) -> Option<u64> {
        let own = self.pid.as_raw_nonzero().get();
        let processes = std::fs::read_dir("/proc").ok()?.flatten();
        let sizes = processes.filter_map(|process| resident_bytes(&process.path(), own));
        let total = sizes.sum();
        (total > 0).then_some(total)
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        // An error here means that it is gone already.
        let _ = kill_process_group(self.pid, Signal::KILL);
        let child = self.child.get_mut().expect("nobody panics while holding it");
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Returns the resident memory of a process of this group.
fn resident_bytes(process: &Path, group: i32) -> Option<u64> {
    let stat = std::fs::read_to_string(process.join("stat")).ok()?;
    // The name in brackets may hold anything; behind it stand state, parent, group.
    let (_, fields) = stat.rsplit_once(')')?;
    let of_group: i32 = fields.split_whitespace().nth(2)?.parse().ok()?;
    let status = std::fs::read_to_string(process.join("status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    (of_group == group).then_some(kibibytes << 10)
}

/// Returns the last lines of a worker's output.
pub(crate) fn tail(output: &Path, n_lines: usize) -> String {
    let bytes = std::fs::read(output).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(n_lines)..].join("\n")
}

/// What every worker is told of the time that it has after SIGTERM.
pub(crate) const DRAIN_GRACE: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    use super::{Subject, tail};
    use escapement_tests::{PrivateDirectory, wait_for};
    use std::ffi::OsString;
    use std::time::Duration;

    const LIMIT: Duration = Duration::from_secs(10);

    fn shell(script: &str, directory: &PrivateDirectory) -> Subject {
        let command: Vec<OsString> = ["sh", "-c", script].map(OsString::from).into();
        Subject::start(
            &command,
            "http://127.0.0.1:1",
            "secret",
            &directory.join("output"),
        )
        .unwrap()
    }

    #[tokio::test]
    async fn a_worker_is_told_where_to_dial_and_how_long_it_may_drain() {
        let directory = PrivateDirectory::new("unit").unwrap();
        let script = r#"echo "$ESCAPEMENT_ORCHESTRATOR $ESCAPEMENT_TOKEN $ESCAPEMENT_DRAIN_GRACE_MS""#;
        assert!(shell(script, &directory).exit(LIMIT).await.unwrap().success());
        assert_eq!(
            tail(&directory.join("output"), 1),
            "http://127.0.0.1:1 secret 3000"
        );
    }

    #[tokio::test]
    async fn what_a_worker_started_ends_with_it() {
        let directory = PrivateDirectory::new("unit").unwrap();
        let subject = shell("sleep 600 & echo $!; wait", &directory);
        let output = directory.join("output");
        let pid = wait_for("the id", LIMIT, async || tail(&output, 1).parse::<i32>().ok());
        let pid = rustix::process::Pid::from_raw(pid.await.unwrap()).unwrap();
        assert!(subject.memory_bytes().unwrap() > 0);
        drop(subject);
        let gone = async || rustix::process::test_kill_process(pid).is_err().then_some(());
        // Without a process that reaps orphans it stays as a zombie, which the system shows as state Z.
        let stat = format!("/proc/{}/stat", pid.as_raw_nonzero());
        let zombie = || std::fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") Z "));
        let ended = async || gone().await.or_else(|| zombie().then_some(()));
        wait_for("the end of the child", LIMIT, ended).await.unwrap();
    }
}
