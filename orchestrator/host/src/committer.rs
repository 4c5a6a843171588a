//! A commit with everything that may go wrong with it. Starts no thread, ends no process and waits for nothing.

use crate::write_queue::{Commit, StoredBatch};
use escapement_codec::store_write::outcome;
use escapement_engine::{WriteFailure, WriteOutcome};
use escapement_model::planted::{self, Bug};
use escapement_store::runs::{BatchOutcome, RunBatch, RunStore};
use escapement_store::{ActionMemory, JointStore, Store, StoreFault, Together, Write};
use tracing::{info, warn};

/// A store, and what was said of its state.
#[derive(Debug)]
pub struct Committer<S> {
    store: S,
    /// True after a commit that failed and may be tried again.
    is_refusing: bool,
}

impl<S: Store> Committer<S> {
    /// Creates a committer for an open store.
    pub fn new(store: S) -> Self {
        Self {
            store,
            is_refusing: false,
        }
    }

    /// Returns false after a commit that failed and may be tried again, until one succeeds.
    pub fn takes_writes(&self) -> bool {
        !self.is_refusing
    }

    /// Checks the store while no write waits: a removed store is noticed before the next write. A store that took no
    /// writes gets a small one, which changes nothing.
    ///
    /// # Errors
    /// As [`Committer::handle_commit`].
    pub fn look(&mut self) -> Result<(), StoreFault> {
        let trial = if self.is_refusing { trial() } else { Vec::new() };
        self.commit_writes(&trial).map(drop)
    }

    /// Returns the store, for changes that are not writes of the engine.
    pub fn store_mut(&mut self) -> &mut S {
        &mut self.store
    }

    /// Gives the store back.
    pub fn into_store(self) -> S {
        self.store
    }

    /// Commits these writes in their order; one outcome for each of them, in the same order.
    ///
    /// A write with the outcome `Durable` is durable; any other outcome has changed nothing.
    /// Starts and ends take precedence: if not all writes fit, the accepts are left out.
    ///
    /// # Errors
    /// If nothing more may be acknowledged, not even what this batch may have committed already: end the process.
    pub fn handle_commit(&mut self, commit: &Commit) -> Result<StoredBatch, StoreFault> {
        let outcomes = self.commit_writes(&commit.writes)?;
        Ok(stored(commit, outcomes))
    }

    fn commit_writes(&mut self, writes: &[Write]) -> Result<Vec<WriteOutcome>, StoreFault> {
        match Store::commit(&mut self.store, writes) {
            Ok(outcomes) => {
                if !writes.is_empty() {
                    self.note_success();
                }
                Ok(outcomes.into_iter().map(outcome).collect())
            }
            Err(fault @ StoreFault::Full(_)) => {
                self.note_refusal(&fault);
                self.commit_what_fits(writes)
            }
            Err(fault @ StoreFault::Busy(_)) => {
                self.note_refusal(&fault);
                Ok(vec![WriteOutcome::Failed(WriteFailure::Busy); writes.len()])
            }
            // Nothing was written, and the batch goes through without the write that met the damage.
            Err(StoreFault::Corrupt { .. }) if writes.len() > 1 => self.commit_halves(writes),
            Err(fault @ StoreFault::Corrupt { .. }) if matches!(writes, [Write::Accept(_)]) => {
                warn!(
                    error = &fault as &dyn std::error::Error,
                    "execution not accepted: what it is in conflict with is damaged"
                );
                Ok(vec![WriteOutcome::Failed(WriteFailure::Busy)])
            }
            // Damage included: an accepted execution whose start or end cannot be recorded cannot go on.
            Err(fault) => Err(fault),
        }
    }

    /// Finds the one write that is in the way with few commits, and keeps the order.
    fn commit_halves(&mut self, writes: &[Write]) -> Result<Vec<WriteOutcome>, StoreFault> {
        let (first, second) = writes.split_at(writes.len() / 2);
        let mut outcomes = self.commit_writes(first)?;
        outcomes.extend(self.commit_writes(second)?);
        Ok(outcomes)
    }

    //
    /// Commits what fits on a full disk. Accepts are refused together, and memories of actions with them: earlier
    /// accepts need the rest.
    ///
    /// No start and no end belongs to an accept of its own batch, so the order of what is left says the same.
    fn commit_what_fits(&mut self, writes: &[Write]) -> Result<Vec<WriteOutcome>, StoreFault> {
        const FULL: WriteOutcome = WriteOutcome::Failed(WriteFailure::Full);
        if planted::is_on(Bug::FullIsDurable) {
            return Ok(vec![WriteOutcome::Durable; writes.len()]);
        }
        let is_accept = |write: &Write| matches!(write, Write::Accept(_) | Write::RememberActions(_));
        let n_accepts = writes.iter().filter(|write| is_accept(write)).count();
        if n_accepts == writes.len() || writes.len() == 1 {
            return Ok(vec![FULL; writes.len()]);
        }
        if n_accepts == 0 {
            return self.commit_halves(writes);
        }
        let others: Vec<Write> = writes.iter().filter(|write| !is_accept(write)).cloned().collect();
        let mut outcomes = self.commit_writes(&others)?.into_iter();
        let outcome_of = |write: &Write| match is_accept(write) {
            true => FULL,
            false => outcomes.next().expect("one outcome for each write"),
        };
        Ok(writes.iter().map(outcome_of).collect())
    }

    fn note_success(&mut self) {
        if std::mem::take(&mut self.is_refusing) {
            info!("store takes writes again");
        }
    }

    /// Says it once, until a commit goes through.
    fn note_refusal(&mut self, fault: &StoreFault) {
        if !std::mem::replace(&mut self.is_refusing, true) {
            warn!(
                error = fault as &dyn std::error::Error,
                "store takes no writes now"
            );
        }
    }
}

impl<S: JointStore> Committer<S> {
    /// Commits these writes, and a batch of runs with them: one sync makes both durable. If that cannot be, each has a commit of its
    /// own. A fault of the runs that ends nothing is theirs to handle.
    ///
    /// The batch may build on ends among the writes. If one of them cannot be written, the batch is not written. The last writes of the
    /// commit need the batch, see [`Commit::n_dependent`].
    ///
    /// # Errors
    /// As [`Committer::handle_commit`].
    pub fn handle_together(
        &mut self,
        commit: &Commit,
        batch: &RunBatch,
    ) -> Result<(StoredBatch, Result<BatchOutcome, StoreFault>), StoreFault> {
        let (before, dependent) = commit.writes.split_at(commit.writes.len() - commit.n_dependent);
        let (mut outcomes, of_runs) = match self.store.commit_together(before, batch, dependent) {
            Ok(together) => {
                self.note_success();
                let Together {
                    outcomes,
                    of_runs,
                    dependent,
                } = together;
                (
                    outcomes.into_iter().chain(dependent).map(outcome).collect(),
                    of_runs,
                )
            }
            Err(StoreFault::Full(_) | StoreFault::Busy(_) | StoreFault::Corrupt { .. }) => {
                self.commit_in_turn(before, batch, dependent)?
            }
            Err(fault) => return Err(fault),
        };
        // A refused attempt is submitted again.
        let refused = match &of_runs {
            Err(StoreFault::Full(_)) => WriteFailure::Full,
            _ => WriteFailure::Busy,
        };
        outcomes.resize(commit.writes.len(), WriteOutcome::Failed(refused));
        let stored = stored(commit, outcomes);
        match of_runs {
            Err(fault @ (StoreFault::Full(_) | StoreFault::Busy(_) | StoreFault::CorruptRun { .. })) => {
                Ok((stored, Err(fault)))
            }
            of_runs => Ok((stored, Ok(of_runs?))),
        }
    }

    /// Commits the writes, the batch, and the writes that need it, each separately. A refusal ends the sequence.
    fn commit_in_turn(
        &mut self,
        before: &[Write],
        batch: &RunBatch,
        dependent: &[Write],
    ) -> Result<(Vec<WriteOutcome>, Result<BatchOutcome, StoreFault>), StoreFault> {
        let mut outcomes = match before {
            [] => Vec::new(),
            before => self.commit_writes(before)?,
        };
        let failed = before.iter().zip(&outcomes).find_map(|pair| match pair {
            (Write::Settle { .. }, WriteOutcome::Failed(failure)) => Some(*failure),
            _ => None,
        });
        if let Some(failure) = failed {
            return Ok((outcomes, Err(refusal(failure))));
        }
        let of_runs = RunStore::commit(&mut self.store, batch);
        if matches!(of_runs, Ok(BatchOutcome::Done)) && !dependent.is_empty() {
            outcomes.extend(self.commit_writes(dependent)?);
        }
        Ok((outcomes, of_runs))
    }
}

/// Returns the refusal of a batch of runs that builds on an end that could not be written.
pub fn refusal(failure: WriteFailure) -> StoreFault {
    let source = "an end that the batch builds on could not be written".into();
    match failure {
        WriteFailure::Full => StoreFault::Full(source),
        WriteFailure::Busy => StoreFault::Busy(source),
    }
}

/// Returns the writes of a commit, each with its outcome.
fn stored(commit: &Commit, outcomes: Vec<WriteOutcome>) -> StoredBatch {
    commit.jobs.iter().map(|job| job.write).zip(outcomes).collect()
}

/// Remembers an action that has no name, and forgets it: both in one commit.
fn trial() -> Vec<Write> {
    let memory = |left_ms| {
        let name = String::new();
        Write::RememberActions(vec![ActionMemory { name, left_ms }])
    };
    vec![memory(Some(0)), memory(None)]
}

#[cfg(test)]
mod tests;
