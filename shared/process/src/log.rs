//! Queues of lines to stderr and stdout, each with a thread, so that no caller waits for a reader. A log that is slow,
//! full or gone harms no caller.
//!
//! A line that does not fit into the queue, or that is not taken, is dropped and counted.
//! A line of the log gives their number once stderr takes lines again.

mod plain;

pub(crate) use plain::Controls;

use std::io::{ErrorKind, Write};
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tracing::{Metadata, warn};
use tracing_subscriber::fmt::MakeWriter;

static LOG: OnceLock<Arc<Queue>> = OnceLock::new();
static ANNOUNCEMENTS: OnceLock<Arc<Queue>> = OnceLock::new();
static AT_END: Mutex<Vec<Box<dyn FnOnce() + Send>>> = Mutex::new(Vec::new());

/// Starts the thread of the log, unless it was started.
///
/// # Errors
/// The operating system gives no thread.
pub(crate) fn start() -> std::io::Result<Lines> {
    let queue = queue_of(&LOG, "log", std::io::stderr())?;
    Ok(Lines {
        queue,
        controls: Controls::None,
    })
}

/// Says something on stderr that no filter hides.
pub(crate) fn say(text: &str) {
    match start() {
        Ok(Lines { queue, .. }) => queue.push(format!("{text}\n").as_bytes(), QUEUE_BYTES_MAX),
        // There is nowhere to say that stderr cannot be written.
        Err(_) => drop(writeln!(std::io::stderr(), "{text}")),
    }
}

/// Says something on stdout.
pub(crate) fn announce(text: &str) {
    match queue_of(&ANNOUNCEMENTS, "stdout", std::io::stdout()) {
        Ok(queue) => queue.push(format!("{text}\n").as_bytes(), QUEUE_BYTES_MAX),
        Err(error) => warn!(%error, "no thread for stdout"),
    }
}

/// Sets the functions to call at the end.
pub(crate) fn at_end(acts: Vec<Box<dyn FnOnce() + Send>>) {
    *AT_END.lock().unwrap_or_else(PoisonError::into_inner) = acts;
}

/// Calls the functions set by [`at_end`].
pub(crate) fn end() {
    let acts = std::mem::take(&mut *AT_END.lock().unwrap_or_else(PoisonError::into_inner));
    acts.into_iter().for_each(|act| act());
}

/// Waits until everything that was said is written, for a second at most.
pub(crate) fn flush() {
    let until = Instant::now() + FLUSH_MAX;
    for queue in [LOG.get(), ANNOUNCEMENTS.get()].into_iter().flatten() {
        queue.flush(until);
    }
}

/// Returns the queue, with a thread that writes to `out`.
fn queue_of(
    started: &OnceLock<Arc<Queue>>,
    thread: &str,
    out: impl AsFd + Write + Send + 'static,
) -> std::io::Result<Arc<Queue>> {
    if let Some(queue) = started.get() {
        return Ok(Arc::clone(queue));
    }
    let queue = Arc::new(Queue::default());
    // A handle of its own, so that a write that blocks does not hold the lock of the standard library's.
    match out.as_fd().try_clone_to_owned() {
        Ok(own) => write_from(Arc::clone(&queue), thread, std::fs::File::from(own))?,
        Err(_) => write_from(Arc::clone(&queue), thread, out)?,
    }
    // Only a queue with a thread is kept. Of two at once the second idles.
    Ok(Arc::clone(started.get_or_init(|| queue)))
}

/// Takes lines for the log, whole ones with each write.
#[derive(Clone, Debug)]
pub(crate) struct Lines {
    queue: Arc<Queue>,
    controls: Controls,
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        self.line(QUEUE_BYTES_MAX)
    }

    fn make_writer_for(&'a self, event: &Metadata<'_>) -> Line {
        let is_notice = event.target() == NOTICE_TARGET;
        self.line(if is_notice { usize::MAX } else { QUEUE_BYTES_MAX })
    }
}

impl Lines {
    /// Returns the same for a formatter that writes these control characters.
    pub(crate) fn written_with(self, controls: Controls) -> Self {
        Self { controls, ..self }
    }

    fn line(&self, bytes_max: usize) -> Line {
        Line {
            queue: Arc::clone(&self.queue),
            controls: self.controls,
            bytes_max,
        }
    }
}

/// Takes one line. Never waits and never fails.
#[derive(Debug)]
pub(crate) struct Line {
    queue: Arc<Queue>,
    controls: Controls,
    bytes_max: usize,
}

impl Write for Line {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        // The formatter gives a whole event at once.
        self.queue
            .push(&plain::one_line(line, self.controls), self.bytes_max);
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[derive(Debug, Default)]
struct Queue {
    state: Mutex<State>,
    line_came: Condvar,
    all_written: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<u8>,
    /// Dropped lines that were not reported.
    n_lost: u64,
    /// True while the thread writes what it has taken.
    is_writing: bool,
}

impl Queue {
    /// Takes the line if it fits into `bytes_max` with those that wait.
    fn push(&self, line: &[u8], bytes_max: usize) {
        let mut state = self.state();
        if state.waiting.len().saturating_add(line.len()) > bytes_max {
            state.n_lost += 1;
            return;
        }
        state.waiting.extend_from_slice(line);
        let must_wake = !state.is_writing;
        drop(state);
        if must_wake {
            self.line_came.notify_one();
        }
    }

    /// Waits for lines and takes all of them, into `lines`, which is empty.
    fn take(&self, lines: &mut Vec<u8>) {
        let mut state = self.state();
        state.is_writing = false;
        if state.waiting.is_empty() {
            self.all_written.notify_all();
        }
        let mut state = self
            .line_came
            .wait_while(state, |state| state.waiting.is_empty())
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(&mut state.waiting, lines);
        state.is_writing = true;
    }

    fn lose(&self, n_lines: u64) {
        self.state().n_lost += n_lines;
    }

    fn take_lost(&self) -> u64 {
        std::mem::take(&mut self.state().n_lost)
    }

    fn flush(&self, until: Instant) {
        let mut state = self.state();
        while state.is_writing || !state.waiting.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            (state, _) = self
                .all_written
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held, so what it guards is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts the thread that writes what comes. It ends with the process.
fn write_from(queue: Arc<Queue>, thread: &str, out: impl Write + Send + 'static) -> std::io::Result<()> {
    std::thread::Builder::new()
        .name(thread.to_owned())
        .spawn(move || {
            let mut out = Out {
                out,
                is_within_line: false,
            };
            let mut lines = Vec::new();
            loop {
                queue.take(&mut lines);
                let n_lost = out.put(&lines);
                lines.clear();
                if n_lost > 0 {
                    queue.lose(n_lost);
                    continue;
                }
                // It is written after the lines that came in between; if it cannot be, it counts for one line.
                match queue.take_lost() {
                    0 => {}
                    lost => warn!(target: NOTICE_TARGET, lost, "log lines were lost"),
                }
            }
        })?;
    Ok(())
}

struct Out<W> {
    out: W,
    /// True if the last line was cut, as by a full disk.
    is_within_line: bool,
}

impl<W: Write> Out<W> {
    /// Gives the number of lines that were not written whole.
    fn put(&mut self, lines: &[u8]) -> u64 {
        if self.is_within_line && self.write(b"\n") > 0 {
            return n_lines(lines);
        }
        let n_left = self.write(lines);
        n_lines(&lines[lines.len() - n_left..])
    }

    /// Gives the number of bytes that were not written.
    fn write(&mut self, bytes: &[u8]) -> usize {
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.out.write(rest) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(n) if n > 0 => {
                    self.is_within_line = rest[n - 1] != b'\n';
                    rest = &rest[n..];
                }
                Ok(_) | Err(_) => break,
            }
        }
        rest.len()
    }
}

fn n_lines(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

/// Bytes of lines that wait to be written; those that are being written are as many at most.
const QUEUE_BYTES_MAX: usize = 1 << 20;
/// Time for the last lines at the end of the process.
const FLUSH_MAX: Duration = Duration::from_secs(1);
/// The target of the line about lost lines. The queue always takes it.
const NOTICE_TARGET: &str = "escapement_process::log";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use std::sync::mpsc;

    /// Takes a write only after a command, for a number of bytes or as a failure.
    struct Gate {
        answers: mpsc::Receiver<std::io::Result<usize>>,
        written: mpsc::Sender<Vec<u8>>,
    }

    impl Write for Gate {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            // The test has ended.
            let n = self.answers.recv().unwrap_or(Ok(bytes.len()))?.min(bytes.len());
            let _ended = self.written.send(bytes[..n].to_vec());
            Ok(n)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_that_nobody_takes_are_dropped_and_counted_and_told_of_later() {
        let (answers, answers_rx) = mpsc::channel();
        let (written_tx, written) = mpsc::channel();
        let gate = Gate {
            answers: answers_rx,
            written: written_tx,
        };
        let queue = Arc::new(Queue::default());
        write_from(Arc::clone(&queue), "log", gate).unwrap();
        let lines = Lines {
            queue: Arc::clone(&queue),
            controls: Controls::None,
        };
        let subscriber = tracing_subscriber::fmt()
            .with_writer(lines)
            .with_ansi(false)
            .without_time()
            .finish();
        // The line comes from the thread of the log, so the subscriber must be global.
        tracing::subscriber::set_global_default(subscriber).unwrap();

        let patience = Duration::from_secs(20);
        tracing::info!("first");
        answers.send(Ok(usize::MAX)).unwrap();
        let first = written.recv_timeout(patience).unwrap();
        assert_eq!(first, b" INFO escapement_process::log::tests: first\n");

        // A pipe without a reader: the thread waits in a write, and all others continue.
        let text = "x".repeat(10_000);
        for _ in 0..1_000 {
            tracing::info!("{text}");
        }
        // A disk that is full in the middle of a line.
        answers.send(Ok(5)).unwrap();
        answers.send(Err(ErrorKind::StorageFull.into())).unwrap();
        assert_eq!(written.recv_timeout(patience).unwrap(), b" INFO");
        drop(answers);

        // The cut line ends first; the number of lost lines is exact.
        let mut said = Vec::new();
        let notice = "log lines were lost lost=";
        let limit = Instant::now() + patience;
        let told = loop {
            assert!(Instant::now() < limit, "the loss is told of");
            if let Ok(more) = written.recv_timeout(Duration::from_millis(10)) {
                said.extend(more);
            } else {
                tracing::info!("last");
            }
            let text = String::from_utf8_lossy(&said).into_owned();
            if let Some((_, rest)) = text.split_once(notice)
                && let Some((lost, _)) = rest.split_once('\n')
            {
                break lost.parse::<u64>().unwrap();
            }
        };
        assert!(said.starts_with(b"\n"), "the cut line ends");
        let whole = String::from_utf8(said).unwrap().matches(&text).count() as u64;
        assert_eq!(told + whole, 1_000);
    }
}
