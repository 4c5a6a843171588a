//! Runs a child process with its input, captures what it writes within limits,
//! and leaves none of its children behind.
//! Does not decide which programs may run or what an exit code means.
//!
//! The child leads a process group of its own. When the future is dropped, and when the child has ended,
//! the whole group is killed. A descendant that leaves the group on purpose (`setsid`) escapes that.

use rustix::process::{Pid, Signal, kill_process_group};
use std::io;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, Command};

/// A child that has ended.
#[derive(Debug)]
pub struct Finished {
    /// How it ended.
    pub status: ExitStatus,
    /// The beginning of what it wrote to stdout.
    pub stdout: Captured,
    /// The beginning of what it wrote to stderr.
    pub stderr: Captured,
}

/// The beginning of a stream.
#[derive(Debug)]
pub struct Captured {
    /// At most the limit.
    pub bytes: Vec<u8>,
    /// True if the stream had more.
    pub truncated: bool,
    bytes_max: usize,
}

/// Runs the command to its end. Dropping the future kills the child and its process group.
///
/// What goes beyond a limit is read and thrown away, so that the child never stalls.
///
/// # Errors
/// The program cannot be started or waited for.
pub async fn run(
    mut command: Command,
    stdin: Vec<u8>,
    stdout_max: usize,
    stderr_max: usize,
) -> io::Result<Finished> {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.process_group(0).kill_on_drop(true);
    let mut child = command.spawn()?;
    // Declared after the child, so dropped before it: the leader still holds the group's number then.
    let mut group = Group::of(&child);
    let mut stdout = Captured::new(stdout_max);
    let mut stderr = Captured::new(stderr_max);
    let status = {
        let (input, output, errors) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let mut streams = pin!(async {
            tokio::join!(feed(input, stdin), stdout.fill(output), stderr.fill(errors));
        });
        let mut streams_ended = false;
        let status = loop {
            tokio::select! {
                // The end of the child first: a grandchild may keep the streams open for ever.
                biased;
                status = child.wait() => break status?,
                () = &mut streams, if !streams_ended => streams_ended = true,
            }
        };
        group.kill();
        if !streams_ended {
            // Whatever is in the pipes is there already; only an escaped descendant can still hold them open.
            let _ = tokio::time::timeout(STREAM_END_MAX, streams).await;
        }
        status
    };
    Ok(Finished {
        status,
        stdout,
        stderr,
    })
}

async fn feed(stream: Option<ChildStdin>, bytes: Vec<u8>) {
    if let Some(mut stream) = stream {
        // A child that does not read its input is no fault.
        let _ = stream.write_all(&bytes).await;
    }
}

impl Captured {
    fn new(bytes_max: usize) -> Self {
        Self {
            bytes: Vec::new(),
            truncated: false,
            bytes_max,
        }
    }

    async fn fill(&mut self, stream: Option<impl AsyncRead + Unpin>) {
        let Some(mut stream) = stream else { return };
        let mut chunk = vec![0; 16 << 10];
        while let Ok(n) = stream.read(&mut chunk).await {
            if n == 0 {
                return;
            }
            let kept = n.min(self.bytes_max - self.bytes.len());
            self.bytes.extend_from_slice(&chunk[..kept]);
            self.truncated |= kept < n;
        }
    }

    /// As text; bytes that are no UTF-8 become replacement characters.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    /// The end as text of at most `n` bytes.
    pub fn tail(&self, n: usize) -> String {
        let from = self.bytes.len().saturating_sub(n);
        let text = String::from_utf8_lossy(&self.bytes[from..]);
        // A byte that is no UTF-8 has become three.
        text[text.ceil_char_boundary(text.len().saturating_sub(n))..].to_owned()
    }
}

/// Kills a process group once: on command, or when it is dropped.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        Self(
            child
                .id()
                .and_then(|id| i32::try_from(id).ok())
                .and_then(Pid::from_raw),
        )
    }

    fn kill(&mut self) {
        if let Some(leader) = self.0.take() {
            // Fails if nothing of the group is left, which is what is wanted.
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

const STREAM_END_MAX: Duration = Duration::from_secs(1);
