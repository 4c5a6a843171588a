//! Looks through the whole store in the background, so that damage is found before somebody asks for what is damaged.
//! Repairs nothing and takes a small, bounded share of one core.

use crate::limits::{SCRUB_PAUSE_MIN, SCRUB_SHARE};
use escapement_store::embedded::{Examination, Examiner, Finding};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tracing::{error, info};

/// The running thread; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Scrub {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Scrub {
    /// Starts the thread; it begins at once, and again so long after it came through.
    ///
    /// # Errors
    /// Where the operating system gives no thread.
    pub(crate) fn start(examiner: Examiner, interval: Duration) -> std::io::Result<Self> {
        let (stop, stopped) = channel();
        let thread = std::thread::Builder::new()
            .name("scrub".to_owned())
            .spawn(move || run(examiner, interval, &stopped))?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Scrub {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // A panic there has been printed there, and nothing depends on the thread.
            let _panicked = thread.join();
        }
    }
}

fn run(mut examiner: Examiner, interval: Duration, stopped: &Receiver<()>) {
    let mut sum = Examination::default();
    loop {
        let begun = Instant::now();
        let mut pause = SCRUB_PAUSE_MIN;
        match examiner.step() {
            Ok(page) => {
                sum.n_executions += page.n_executions;
                sum.n_removed += page.n_removed;
                page.findings.iter().for_each(|finding| sum.count(finding));
                page.findings.iter().for_each(tell);
                if page.is_last {
                    let Examination {
                        n_executions,
                        n_damaged,
                        ..
                    } = std::mem::take(&mut sum);
                    info!(n_executions, n_damaged, "looked through the whole store");
                    pause = interval;
                }
            }
            Err(fault) => {
                error!(
                    error = &fault as &dyn std::error::Error,
                    "cannot look through the store"
                );
                pause = interval;
            }
        }
        let pause = pause.max(begun.elapsed() * SCRUB_SHARE);
        // Nothing is ever sent: the end of the other side is the signal.
        if stopped.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}

fn tell(finding: &Finding) {
    match finding {
        Finding::Execution {
            number,
            execution_id,
            parts,
        } => error!(
            number,
            execution_id = execution_id.map(tracing::field::display),
            parts = parts.join(", "),
            "execution damaged; restore a backup, or give it up with `orchestrator drop`"
        ),
        Finding::Removed { number } => error!(number, "ids of a removed execution damaged"),
        Finding::Store(said) => error!(
            said,
            "store damaged; stop it and run `orchestrator check --repair`, or restore a backup"
        ),
    }
}
