//! A child process: its announcements on stdout, its stderr in a file, signals, and the promise that it ends with us.
//! Does not know which program it runs.

use escapement_model::planted;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::{Fault, wait_for};

/// A running program that writes one JSON object per line to stdout. Killed on drop.
#[derive(Debug)]
pub struct ChildProcess {
    name: String,
    child: Child,
    announcements: mpsc::Receiver<Value>,
    stderr: PathBuf,
}

/// Time that the threads of a process have to stand still.
const STAND_LIMIT: Duration = Duration::from_secs(10);

impl ChildProcess {
    /// Starts the program. Its stderr goes to `stderr`, after what stands there already.
    ///
    /// Variables of this process that begin with `ESCAPEMENT_` are kept from it, so that only its flags count; a planted fault is
    /// passed on.
    ///
    /// # Errors
    /// The program cannot be started, or the file cannot be written.
    pub fn start(name: &str, command: &mut Command, stderr: &Path) -> Result<Self, Fault> {
        for (variable, _) in std::env::vars_os() {
            let set_on_purpose = command.get_envs().any(|(name, _)| name == variable);
            let is_ours = variable.to_string_lossy().starts_with("ESCAPEMENT_");
            if is_ours && variable != planted::VARIABLE && !set_on_purpose {
                command.env_remove(variable);
            }
        }
        let log = File::options().create(true).append(true).open(stderr)?;
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .map_err(|fault| format!("cannot start {name}: {fault}"))?;
        let stdout = child.stdout.take().expect("stdout is piped");
        let (tx, announcements) = mpsc::channel(ANNOUNCEMENTS_MAX);
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                // Reading goes on when nobody listens: a program must not block on its own stdout.
                if let Ok(announcement) = serde_json::from_str(&line) {
                    let _ = tx.try_send(announcement);
                }
            }
        });
        Ok(Self {
            name: name.to_owned(),
            child,
            announcements,
            stderr: stderr.to_owned(),
        })
    }

    /// Waits for the announcement whose `event` is the one given, and leaves out what comes before it.
    ///
    /// # Errors
    /// The program ended, or the limit passed; the text holds the end of its stderr.
    pub async fn announcement(&mut self, event: &str, limit: Duration) -> Result<Value, Fault> {
        let wait = async {
            while let Some(announcement) = self.announcements.recv().await {
                if announcement["event"] == event {
                    return Some(announcement);
                }
            }
            None
        };
        let why = match tokio::time::timeout(limit, wait).await {
            Ok(Some(announcement)) => return Ok(announcement),
            Ok(None) => "ended without announcing".to_owned(),
            Err(_) => format!("did not within {limit:?} announce"),
        };
        Err(format!(
            "{} {why} `{event}`; its stderr ends with:\n{}",
            self.name,
            self.stderr_end()
        )
        .into())
    }

    /// Sends a signal. To a process that has ended it does nothing.
    ///
    /// # Errors
    /// The operating system's.
    pub fn signal(&mut self, signal: Signal) -> Result<(), Fault> {
        if self.child.try_wait()?.is_none() {
            // Not reaped, so the id is still its own.
            kill_process(Pid::from_child(&self.child), signal)?;
            if signal == Signal::STOP {
                self.wait_until_it_stands()?;
            }
        }
        Ok(())
    }

    /// On a busy machine a thread of it may run on for a moment after it was told to stop.
    fn wait_until_it_stands(&self) -> Result<(), Fault> {
        let began = Instant::now();
        let stands = |task: &Path| {
            let stat = std::fs::read_to_string(task.join("stat")).unwrap_or_default();
            // The state follows the name, which may hold anything but ends with the last parenthesis; a task that is
            // gone has none.
            let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
            state.is_none_or(|state| matches!(state, 'T' | 't'))
        };
        while began.elapsed() < STAND_LIMIT {
            let mut tasks = std::fs::read_dir(format!("/proc/{}/task", self.child.id()))?;
            if tasks.all(|task| task.is_ok_and(|task| stands(&task.path()))) {
                return Ok(());
            }
            std::thread::yield_now();
        }
        Err(format!("{} runs on although it was told to stand still", self.name).into())
    }

    /// Asks it to stop (SIGTERM) and waits until it has.
    ///
    /// # Errors
    /// It still runs after the limit.
    pub async fn terminate(&mut self, limit: Duration) -> Result<ExitStatus, Fault> {
        self.signal(Signal::TERM)?;
        self.exit(limit).await
    }

    /// Ends it at once (SIGKILL), as a crash would.
    ///
    /// # Errors
    /// The operating system's.
    pub fn kill(&mut self) -> Result<ExitStatus, Fault> {
        self.signal(Signal::KILL)?;
        Ok(self.child.wait()?)
    }

    /// Waits until it has ended by itself.
    ///
    /// # Errors
    /// It still runs after the limit.
    pub async fn exit(&mut self, limit: Duration) -> Result<ExitStatus, Fault> {
        let what = format!("the end of {}", self.name);
        let child = std::sync::Mutex::new(&mut self.child);
        let ended = || {
            let mut child = child.lock().expect("nobody panics while holding it");
            std::future::ready(child.try_wait().transpose())
        };
        wait_for(&what, limit, ended).await?.map_err(Fault::from)
    }

    /// Returns true while it runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Returns the process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns all that it wrote to stderr so far.
    pub fn stderr(&self) -> String {
        std::fs::read(&self.stderr)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    fn stderr_end(&self) -> String {
        let text = self.stderr();
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(STDERR_LINES_SHOWN)..].join("\n")
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "---- stderr of {}, its end ----\n{}\n----",
                self.name,
                self.stderr_end()
            );
        }
        // An error here means that it is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Announcements that wait to be read; more are dropped.
const ANNOUNCEMENTS_MAX: usize = 1024;
const STDERR_LINES_SHOWN: usize = 40;

#[cfg(test)]
mod tests {
    use super::ChildProcess;
    use crate::PrivateDirectory;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;
    use std::time::Duration;

    const LIMIT: Duration = Duration::from_secs(10);

    fn shell(script: &str, directory: &PrivateDirectory) -> ChildProcess {
        let mut command = Command::new("sh");
        ChildProcess::start("shell", command.args(["-c", script]), &directory.join("stderr")).unwrap()
    }

    #[tokio::test]
    async fn an_announcement_is_found_behind_others() {
        let directory = PrivateDirectory::new("unit").unwrap();
        let script =
            r#"echo noise; echo '{"event":"first"}'; echo '{"event":"serving","address":"a:1"}'; sleep 60"#;
        let mut child = shell(script, &directory);
        assert_eq!(
            child.announcement("serving", LIMIT).await.unwrap()["address"],
            "a:1"
        );
        assert!(child.is_running());
    }

    #[tokio::test]
    async fn a_program_that_ends_early_is_reported_with_its_stderr() {
        let directory = PrivateDirectory::new("unit").unwrap();
        let mut child = shell("echo 'the port is taken' >&2; exit 64", &directory);
        let fault = child
            .announcement("serving", LIMIT)
            .await
            .unwrap_err()
            .to_string();
        assert!(fault.contains("ended without announcing `serving`"), "{fault}");
        assert_eq!(child.exit(LIMIT).await.unwrap().code(), Some(64));
        assert!(child.stderr().contains("the port is taken"));
    }

    #[tokio::test]
    async fn a_terminated_program_may_choose_its_exit_code() {
        let directory = PrivateDirectory::new("unit").unwrap();
        let script = r#"trap 'exit 7' TERM; echo '{"event":"ready"}'; while :; do sleep 0.01; done"#;
        let mut child = shell(script, &directory);
        child.announcement("ready", LIMIT).await.unwrap();
        assert_eq!(child.terminate(LIMIT).await.unwrap().code(), Some(7));
    }

    #[tokio::test]
    async fn a_killed_program_ends_by_the_signal() {
        let directory = PrivateDirectory::new("unit").unwrap();
        let mut child = shell("exec sleep 60", &directory);
        assert_eq!(child.kill().unwrap().signal(), Some(9));
        assert!(!child.is_running());
    }

    #[test]
    fn a_dropped_child_is_gone() {
        let directory = PrivateDirectory::new("unit").unwrap();
        let child = shell("exec sleep 60", &directory);
        let id = rustix::process::Pid::from_child(&child.child);
        drop(child);
        assert!(rustix::process::test_kill_process(id).is_err());
    }
}
