//! Threads for handlers that block, apart from those of any runtime. Bounded by the slots of the worker, not here.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Starts threads as they are needed and keeps them for a while.
#[derive(Clone, Default)]
pub(super) struct Threads(Arc<Pool>);

pub(super) type Work = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Pool {
    state: Mutex<State>,
    work_came: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Work>,
    idle: usize,
    started: u64,
}

impl Threads {
    /// Runs `work` at once: on an idle thread, or else on a new one. `work` does not panic.
    ///
    /// # Errors
    /// The system gives no thread; then nothing is run.
    pub(super) fn run(&self, work: Work) -> io::Result<()> {
        let mut state = self.0.state();
        // Idle threads that are about to be woken for earlier work do not count.
        if state.idle > state.waiting.len() {
            state.waiting.push_back(work);
            drop(state);
            self.0.work_came.notify_one();
            return Ok(());
        }
        state.started += 1;
        let name = format!("escapement-handler-{}", state.started);
        drop(state);
        let pool = self.0.clone();
        std::thread::Builder::new().name(name).spawn(move || {
            work();
            pool.serve();
        })?;
        Ok(())
    }
}

impl Pool {
    /// Runs jobs until none has come for a while.
    fn serve(&self) {
        while let Some(work) = self.next() {
            work();
        }
    }

    fn next(&self) -> Option<Work> {
        let mut state = self.state();
        state.idle += 1;
        let (mut state, _) = self
            .work_came
            .wait_timeout_while(state, IDLE_MAX, |state| state.waiting.is_empty())
            .unwrap_or_else(PoisonError::into_inner);
        state.idle -= 1;
        state.waiting.pop_front()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held, so what it guards is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Time for which a thread waits for more work.
const IDLE_MAX: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use std::sync::mpsc;
    use std::time::Instant;

    const PATIENCE: Duration = Duration::from_secs(20);

    fn wait_for_idle(threads: &Threads, idle: usize) {
        let limit = Instant::now() + PATIENCE;
        while threads.0.state().idle != idle {
            assert!(Instant::now() < limit, "{idle} threads become idle");
            std::thread::yield_now();
        }
    }

    #[test]
    fn all_work_runs_at_once_and_threads_are_used_again() {
        let threads = Threads::default();
        for _ in 0..3 {
            let (here_tx, here) = mpsc::channel();
            let releases: Vec<_> = (0..4)
                .map(|_| {
                    let (release, released) = mpsc::channel::<()>();
                    let here_tx = here_tx.clone();
                    let work = move || {
                        here_tx
                            .send(std::thread::current().name().unwrap().to_owned())
                            .unwrap();
                        let _ = released.recv();
                    };
                    threads.run(Box::new(work)).unwrap();
                    release
                })
                .collect();
            let mut names: Vec<String> = (0..4).map(|_| here.recv_timeout(PATIENCE).unwrap()).collect();
            names.sort();
            let expected: Vec<String> = (1..=4).map(|n| format!("escapement-handler-{n}")).collect();
            assert_eq!(names, expected);
            drop(releases);
            wait_for_idle(&threads, 4);
        }
    }
}
