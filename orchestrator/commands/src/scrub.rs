//! Looks through the whole store in the background, so that damage is found before somebody asks for what is damaged.
//! Repairs nothing and takes a small, bounded share of one core.

use escapement_store::StoreFault;
use escapement_store::embedded::{Examination, Examiner, Finding};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tracing::{error, info};

/// The running thread; it ends when this is dropped.
#[derive(Debug)]
pub struct Scrub {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Scrub {
    /// Starts the thread; it begins at once, and again so long after it came through. `told` is given how many findings there were whenever
    /// it has come through.
    ///
    /// # Errors
    /// If the operating system gives no thread.
    pub fn start(
        examiner: Examiner,
        interval: Duration,
        told: impl Fn(u64) + Send + 'static,
    ) -> std::io::Result<Self> {
        let looking = Looking {
            examiner,
            found: Examination::default(),
            n_unread: 0,
        };
        let (stop, stopped) = channel();
        let thread = std::thread::Builder::new()
            .name("scrub".to_owned())
            .spawn(move || run(looking, interval, &stopped, told))?;
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

/// Progress of the scrub, and its findings.
struct Looking {
    examiner: Examiner,
    found: Examination,
    /// Pages that could not be read.
    n_unread: u64,
}

impl Looking {
    /// Looks at one page; returns true if it was the last of the whole store.
    fn step(&mut self) -> Result<bool, StoreFault> {
        let page = self.examiner.step()?;
        self.found.add(&page);
        page.findings.iter().for_each(tell);
        Ok(page.is_last)
    }

    /// Skips the page that could not be read, and says so once in each pass. Returns true if it was the last one.
    fn skip(&mut self, fault: &StoreFault) -> bool {
        if self.n_unread == 0 {
            error!(
                error = fault as &dyn std::error::Error,
                "cannot look through a part of the store; the scrub continues with the next one"
            );
        }
        self.n_unread += 1;
        self.examiner.skip_page()
    }

    /// Says what was found since the last time; returns how many findings that is, pages that could not be read included.
    fn say(&mut self) -> u64 {
        let Examination {
            n_executions,
            n_runs,
            n_damaged,
            n_store_findings,
            ..
        } = std::mem::take(&mut self.found);
        let n_unread = std::mem::take(&mut self.n_unread);
        info!(
            n_executions,
            n_runs, n_damaged, n_unread, "looked through the whole store"
        );
        n_damaged + n_store_findings + n_unread
    }
}

fn run(mut looking: Looking, interval: Duration, stopped: &Receiver<()>, told: impl Fn(u64)) {
    loop {
        let begun = Instant::now();
        let mut pause = PAUSE_MIN;
        match looking.step() {
            Ok(true) => {
                told(looking.say());
                pause = interval;
            }
            Ok(false) => {}
            // The same page can be read once the lock is free.
            Err(StoreFault::Busy(_)) => {}
            Err(fault) => {
                if looking.skip(&fault) {
                    told(looking.say());
                }
                pause = interval;
            }
        }
        let pause = pause.max(begun.elapsed() * SHARE);
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
        Finding::Operators { number } => {
            error!(
                number,
                "entry of operators damaged, or not the one that followed the one before"
            );
        }
        Finding::Run {
            number,
            run_id,
            parts,
        } => error!(
            number,
            run_id = run_id.map(tracing::field::display),
            parts = parts.join(", "),
            "run damaged; restore a backup, or give it up with `orchestrator drop --run-number`"
        ),
        Finding::Content {
            runs, definitions, ..
        } => error!(
            ?runs,
            ?definitions,
            "content of runs or of saved plans damaged; restore a backup"
        ),
        Finding::Definition { number } => error!(
            number,
            "saved plan, action profile or session damaged; restore a backup, or delete it and write it again"
        ),
        Finding::Notice { number } => error!(number, "notice damaged; it is not told any more"),
        Finding::RemovedRun { number } => error!(number, "ids of a removed run damaged"),
        Finding::Store(said) => error!(
            said,
            "store damaged; stop it and run `orchestrator check --repair`, or restore a backup"
        ),
    }
}

/// Pause between two pages, at least.
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// And so many times what the page took: half a percent of one core.
const SHARE: u32 = 200;
