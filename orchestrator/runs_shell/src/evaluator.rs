//! Evaluates expressions that tenants write, for runs and for triggers. Few run concurrently, on threads of their own with a
//! low priority, and each is bounded by its own budget.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::thread::available_parallelism;

use crate::aside::{Aside, WorkOwner};
use crate::error::CallError;

/// The threads of all evaluations of the process. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Evaluator(Aside);

impl Default for Evaluator {
    /// Creates an evaluator whose threads leave half of the processors to others, with one thread at least.
    fn default() -> Self {
        let n_processors = available_parallelism().map_or(1, NonZero::get);
        Self::new((n_processors / 2).max(1))
    }
}

impl Evaluator {
    /// Creates an evaluator for that many concurrent evaluations.
    pub fn new(n_places: usize) -> Self {
        Self(Aside::new("evaluations", n_places))
    }

    // RUN-9.14
    /// Evaluates once a thread is free and the owner has its turn. An evaluation that has begun is finished, even if its
    /// caller has stopped waiting.
    ///
    /// # Errors
    /// [`CallError::Stopping`] while the process stops.
    pub async fn evaluate<T: Send + 'static>(
        &self,
        owner: WorkOwner,
        evaluation: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, CallError> {
        let evaluated = self.0.run(owner, None, evaluation).await?;
        evaluated.map_err(|panic| resume_unwind(panic))
    }
}

#[cfg(test)]
mod tests {
    use super::{Evaluator, WorkOwner};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    // RUN-9.14
    #[tokio::test]
    async fn no_more_are_evaluated_than_there_are_places_and_never_on_the_thread_that_asks() {
        let evaluator = Evaluator::new(2);
        let (begun, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let asking = std::thread::current().id();
        let (go, wait) = mpsc::channel::<()>();
        let wait = Arc::new(std::sync::Mutex::new(wait));
        let evaluations: Vec<_> = (0..8)
            .map(|n| {
                let (evaluator, begun, most, wait) =
                    (evaluator.clone(), begun.clone(), most.clone(), wait.clone());
                tokio::spawn(async move {
                    let evaluation = move || {
                        assert_ne!(std::thread::current().id(), asking);
                        let now = begun.fetch_add(1, Ordering::SeqCst) + 1;
                        most.fetch_max(now, Ordering::SeqCst);
                        wait.lock().unwrap().recv().unwrap();
                        begun.fetch_sub(1, Ordering::SeqCst);
                        n
                    };
                    evaluator
                        .evaluate(WorkOwner::default(), evaluation)
                        .await
                        .unwrap()
                })
            })
            .collect();
        for _ in 0..8 {
            go.send(()).unwrap();
        }
        for (n, evaluation) in evaluations.into_iter().enumerate() {
            assert_eq!(evaluation.await.unwrap(), n);
        }
        assert!(most.load(Ordering::SeqCst) <= 2);
    }
}
