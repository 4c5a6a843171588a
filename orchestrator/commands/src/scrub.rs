//! Looks through the whole store in the background, so that damage is found before somebody asks for what is damaged.
//! Repairs nothing and takes a small, bounded share of one core.

use escapement_store::StoreFault;
use escapement_store::embedded::{Examination, Examiner, Finding};
use escapement_store::runs::{RunExamination, RunExaminer, RunFinding};
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
        executions: Examiner,
        runs: Option<RunExaminer>,
        interval: Duration,
        told: impl Fn(u64) + Send + 'static,
    ) -> std::io::Result<Self> {
        let looking = Looking {
            executions,
            of_executions: Examination::default(),
            runs,
            of_runs: RunExamination::default(),
            is_in_runs: false,
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

/// The executions, and behind them the runs.
struct Looking {
    executions: Examiner,
    of_executions: Examination,
    runs: Option<RunExaminer>,
    of_runs: RunExamination,
    is_in_runs: bool,
}

impl Looking {
    /// Looks at one page; returns true if it was the last of the whole store.
    fn step(&mut self) -> Result<bool, StoreFault> {
        match &mut self.runs {
            Some(runs) if self.is_in_runs => {
                let page = runs.step()?;
                self.of_runs.n_runs += page.n_runs;
                page.findings
                    .iter()
                    .for_each(|finding| self.of_runs.count(finding));
                page.findings.iter().for_each(tell_of_runs);
                self.is_in_runs = !page.is_last;
                Ok(page.is_last)
            }
            runs => {
                let page = self.executions.step()?;
                self.of_executions.n_executions += page.n_executions;
                page.findings
                    .iter()
                    .for_each(|finding| self.of_executions.count(finding));
                page.findings.iter().for_each(tell);
                self.is_in_runs = page.is_last && runs.is_some();
                Ok(page.is_last && runs.is_none())
            }
        }
    }

    /// What was found since the last time, and how many findings that is.
    fn say(&mut self) -> u64 {
        let Examination {
            n_executions,
            n_damaged,
            n_store_findings,
            ..
        } = std::mem::take(&mut self.of_executions);
        let RunExamination {
            n_runs,
            n_damaged: n_runs_damaged,
            n_store_findings: n_runs_store_findings,
            ..
        } = std::mem::take(&mut self.of_runs);
        info!(
            n_executions,
            n_damaged, n_runs, n_runs_damaged, "looked through the whole store"
        );
        n_damaged + n_store_findings + n_runs_damaged + n_runs_store_findings
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
            Err(fault) => {
                error!(
                    error = &fault as &dyn std::error::Error,
                    "cannot look through the store"
                );
                // What cannot be read at all must not keep the other part from being looked at.
                looking.is_in_runs = !looking.is_in_runs;
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
        Finding::Store(said) => error!(
            said,
            "store damaged; stop it and run `orchestrator check --repair`, or restore a backup"
        ),
    }
}

fn tell_of_runs(finding: &RunFinding) {
    match finding {
        RunFinding::Run {
            number,
            run_id,
            parts,
        } => error!(
            number,
            run_id = run_id.map(tracing::field::display),
            parts = parts.join(", "),
            "run damaged; restore a backup, or give it up with `orchestrator drop --run-number`"
        ),
        RunFinding::Content {
            runs, definitions, ..
        } => error!(
            ?runs,
            ?definitions,
            "content of runs or of saved plans damaged; restore a backup"
        ),
        RunFinding::Definition { number } => error!(
            number,
            "saved plan, action profile or session damaged; restore a backup, or delete it and write it again"
        ),
        RunFinding::Notice { number } => error!(number, "notice damaged; it is not told any more"),
        RunFinding::Removed { number } => error!(number, "ids of a removed run damaged"),
        RunFinding::Store(said) => error!(
            said,
            "store of runs damaged; stop it and run `orchestrator check --repair`, or restore a backup"
        ),
    }
}

/// Pause between two pages, at least.
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// And so many times what the page took: half a percent of one core.
const SHARE: u32 = 200;
