//! Threads for work that takes long. They have a lower priority than all others, and each owner has one piece in its turn.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use escapement_process::priority::yield_to_others;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tracing::warn;

use crate::error::CallError;
use crate::turns::Turns;

/// The user in a namespace for whom work is done.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct WorkOwner {
    namespace: String,
    user_id: String,
}

impl WorkOwner {
    /// Creates an owner.
    pub fn new(namespace: &str, user_id: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            user_id: user_id.to_owned(),
        }
    }
}

/// The threads. Cheap to clone; they end once the last clone is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Aside(Arc<Owned>);

#[derive(Debug)]
struct Owned(Arc<Queue>);

#[derive(Debug)]
struct Queue {
    name: &'static str,
    n_threads_max: usize,
    state: Mutex<State>,
    added: Condvar,
}

struct State {
    waiting: Turns<WorkOwner, Job>,
    n_waiting: usize,
    n_threads: usize,
    n_idle: usize,
    is_closed: bool,
}

type Job = Box<dyn FnOnce() + Send>;

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").finish_non_exhaustive()
    }
}

impl Aside {
    /// Creates a queue for at most that many threads. Each begins when it is needed first.
    pub(crate) fn new(name: &'static str, n_threads_max: usize) -> Self {
        let state = State {
            waiting: Turns::new(),
            n_waiting: 0,
            n_threads: 0,
            n_idle: 0,
            is_closed: false,
        };
        Self(Arc::new(Owned(Arc::new(Queue {
            name,
            n_threads_max,
            state: Mutex::new(state),
            added: Condvar::new(),
        }))))
    }

    /// Runs the work once a thread is free and its owner has its turn. Work whose caller has stopped waiting is not begun.
    /// Returns the panic of work that panics.
    ///
    /// # Errors
    /// [`CallError::Overloaded`] if it does not begin in time, [`CallError::Stopping`] while the process stops.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        owner: WorkOwner,
        patience: Option<Duration>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<std::thread::Result<T>, CallError> {
        let (begin, begun) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let job = move || {
            if begin.send(()).is_ok() {
                let _gave_up = end.send(catch_unwind(AssertUnwindSafe(work)));
            }
        };
        self.0.0.push(owner, Box::new(job))?;
        let begun = match patience {
            Some(patience) => timeout(patience, begun)
                .await
                .map_err(|_| CallError::Overloaded)?,
            None => begun.await,
        };
        begun.map_err(|_| CallError::Stopping)?;
        ended.await.map_err(|_| CallError::Stopping)
    }
}

impl Queue {
    fn push(self: &Arc<Self>, owner: WorkOwner, job: Job) -> Result<(), CallError> {
        let mut state = self.state();
        state.waiting.push(owner, job);
        state.n_waiting += 1;
        if state.n_waiting <= state.n_idle || state.n_threads == self.n_threads_max {
            self.added.notify_one();
            return Ok(());
        }
        let queue = Arc::clone(self);
        let started = std::thread::Builder::new()
            .name(self.name.to_owned())
            .spawn(move || queue.work());
        match started {
            Ok(_) => state.n_threads += 1,
            // The threads that run do it later.
            Err(error) if state.n_threads > 0 => warn!(%error, name = self.name, "thread does not start"),
            Err(_) => return Err(CallError::Overloaded),
        }
        Ok(())
    }

    fn work(&self) {
        // RUN-9.14
        if let Err(error) = yield_to_others(NICENESS) {
            warn!(%error, name = self.name, "thread keeps its priority");
        }
        while let Some(job) = self.next() {
            job();
        }
    }

    fn next(&self) -> Option<Job> {
        let mut state = self.state();
        loop {
            if state.is_closed {
                return None;
            }
            // RUN-9.14
            if let Some((_, job)) = state.waiting.pop() {
                state.n_waiting -= 1;
                return Some(job);
            }
            state.n_idle += 1;
            state = self.added.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.n_idle -= 1;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        let waiting = {
            let mut state = self.0.state();
            state.is_closed = true;
            std::mem::replace(&mut state.waiting, Turns::new())
        };
        self.0.added.notify_all();
        drop(waiting);
    }
}

const NICENESS: i32 = 10;

#[cfg(test)]
mod tests {
    use super::{Aside, WorkOwner};
    use crate::error::CallError;
    use std::sync::{Arc, Mutex, mpsc};
    use std::time::Duration;
    use tokio::task::JoinHandle;

    fn tenant(user_id: &str) -> WorkOwner {
        WorkOwner::new("default", user_id)
    }

    /// Holds the only thread until something is sent.
    async fn held(aside: &Aside) -> (mpsc::Sender<()>, JoinHandle<()>) {
        let (go, wait) = mpsc::channel();
        let (begin, begun) = tokio::sync::oneshot::channel();
        let aside = aside.clone();
        let held = tokio::spawn(async move {
            let work = move || {
                begin.send(()).unwrap();
                wait.recv().unwrap();
            };
            aside.run(tenant("first"), None, work).await.unwrap().unwrap();
        });
        begun.await.unwrap();
        (go, held)
    }

    // RUN-9.14
    #[tokio::test]
    async fn each_owner_has_one_piece_of_work_in_its_turn() {
        let (aside, done) = (Aside::new("aside", 1), Arc::new(Mutex::new(Vec::new())));
        let (go, held) = held(&aside).await;
        let mut all = Vec::new();
        for name in ["many", "many", "many", "one"] {
            let (aside, done) = (aside.clone(), done.clone());
            all.push(tokio::spawn(async move {
                let work = move || done.lock().unwrap().push(name);
                aside.run(tenant(name), None, work).await.unwrap().unwrap();
            }));
            // It waits before the next one comes.
            tokio::task::yield_now().await;
        }
        go.send(()).unwrap();
        held.await.unwrap();
        for one in all {
            one.await.unwrap();
        }
        assert_eq!(*done.lock().unwrap(), ["many", "one", "many", "many"]);
    }

    #[tokio::test]
    async fn abandoned_work_does_not_begin() {
        let aside = Aside::new("aside", 1);
        let (go, held) = held(&aside).await;
        let never = || panic!("it is not begun");
        let late = aside.run(tenant("late"), Some(Duration::from_millis(1)), never);
        assert_eq!(late.await.unwrap_err(), CallError::Overloaded);
        go.send(()).unwrap();
        held.await.unwrap();
        let panicked = aside
            .run(tenant("late"), None, || panic!("a defect"))
            .await
            .unwrap();
        assert!(panicked.is_err(), "the thread lives");
        assert_eq!(aside.run(tenant("late"), None, || 7).await.unwrap().unwrap(), 7);
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn its_threads_yield_to_all_others() {
        let niceness = || {
            let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
            let (_, fields) = stat.rsplit_once(") ").unwrap();
            fields.split(' ').nth(16).unwrap().parse::<i32>().unwrap()
        };
        let before = niceness();
        let aside = Aside::new("aside", 1)
            .run(WorkOwner::default(), None, niceness)
            .await;
        assert_eq!((aside.unwrap().unwrap(), niceness()), (before + 10, before));
    }
}
