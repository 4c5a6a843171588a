//! Evaluates expressions that tenants write, for runs and for triggers. Each runs on a blocking thread, few
//! concurrently, and is bounded by its own budget.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread::available_parallelism;

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::error::CallError;

/// The permits of all evaluations of the process. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Evaluator {
    places: Arc<Semaphore>,
}

impl Default for Evaluator {
    /// Creates an evaluator whose permits leave half of the processors to others, with one permit at least.
    fn default() -> Self {
        let n_processors = available_parallelism().map_or(1, NonZero::get);
        Self::new((n_processors / 2).max(1))
    }
}

impl Evaluator {
    /// Creates an evaluator for that many concurrent evaluations.
    pub fn new(n_places: usize) -> Self {
        Self {
            places: Arc::new(Semaphore::new(n_places)),
        }
    }

    // RUN-9.14
    /// Evaluates on a blocking thread once a permit is free, in the order of arrival. An evaluation that has
    /// begun keeps its permit until it ends, even if its caller has stopped waiting.
    ///
    /// # Errors
    /// [`CallError::Stopping`] while the process stops.
    pub async fn evaluate<T: Send + 'static>(
        &self,
        evaluation: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, CallError> {
        let place = Arc::clone(&self.places).acquire_owned().await;
        let place = place.map_err(|_| CallError::Stopping)?;
        let evaluated = spawn_blocking(move || {
            let value = evaluation();
            drop(place);
            value
        });
        match evaluated.await {
            Ok(value) => Ok(value),
            Err(defect) if defect.is_panic() => resume_unwind(defect.into_panic()),
            Err(_) => Err(CallError::Stopping),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Evaluator;
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
                    evaluator.evaluate(evaluation).await.unwrap()
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
