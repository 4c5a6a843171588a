//! Writes of definitions that are decided on a reader. The thread of runs reads nothing for them: it judges whether the decision
//! still holds.

use std::sync::Arc;

use escapement_runs_host::{Basis, Deciding, RunsHost};
use escapement_store::StoreFault;

use super::RunsHandle;
use crate::aside::WorkOwner;
use crate::error::CallError;
use crate::limits::DECISIONS_MAX;

/// Outcome of a decision on a reader.
pub enum Decided<T> {
    /// The answer, without a write.
    Answer(T),
    /// A write, if the decision still holds.
    Write(Writing<T>),
}

/// A write in a turn of the thread of runs, which gives the answer.
pub struct Writing<T> {
    bytes: usize,
    write: Write<T>,
}

/// Is given the time, Unix milliseconds.
type Write<T> = Box<dyn FnOnce(&mut RunsHost, i64) -> T + Send>;

impl<T> Decided<T> {
    /// Decides for a write; `bytes`: about what it holds.
    pub fn write(bytes: usize, write: impl FnOnce(&mut RunsHost, i64) -> T + Send + 'static) -> Self {
        Self::Write(Writing {
            bytes,
            write: Box::new(write),
        })
    }
}

impl RunsHandle {
    // RUN-9.15
    /// Decides on a reader, and writes what was decided in a turn of the thread of runs. If one of the definitions that the
    /// decision rests on has changed since, it is decided again. What is written is durable when this answers.
    ///
    /// `owner`: of a decision that reads many documents, as for [`RunReaders::read_long`](crate::RunReaders::read_long).
    ///
    /// # Errors
    /// [`CallError::Contended`] if it changed each time, and as [`RunsHandle::change`] and [`RunReaders::read`](crate::RunReaders::read).
    pub async fn decide<T: Send + 'static>(
        &self,
        owner: Option<WorkOwner>,
        decide: impl Fn(&Deciding<'_>) -> Result<Decided<T>, StoreFault> + Send + Sync + 'static,
    ) -> Result<T, CallError> {
        let decide = Arc::new(decide);
        for n_left in (0..DECISIONS_MAX).rev() {
            let decide = Arc::clone(&decide);
            let decided = self.readers().decide(owner.clone(), move |reader| decide(reader));
            let (decision, basis) = match decided.await {
                // A content that was replaced during the reading seems to be lost.
                Err(CallError::Damaged(_)) if n_left > 0 => continue,
                decided => decided?,
            };
            let writing = match decision {
                Decided::Answer(answer) => return Ok(answer),
                Decided::Write(writing) => writing,
            };
            if let Some(answer) = self.write_on(basis, writing).await? {
                return Ok(answer);
            }
        }
        Err(CallError::Contended)
    }

    /// Returns `None` if the decision no longer holds: nothing changed.
    async fn write_on<T: Send + 'static>(
        &self,
        basis: Basis,
        Writing { bytes, write }: Writing<T>,
    ) -> Result<Option<T>, CallError> {
        let change = move |host: &mut RunsHost, now| Ok(host.holds(&basis).then(|| write(host, now)));
        self.change(bytes, change).await
    }
}
