//! Evaluations that wait until there is room for what their expressions are about. Evaluates nothing.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use escapement_model::RunId;

use crate::limits::EVALUATED_BYTES;

/// An expression whose value a run waits for.
#[derive(Debug)]
pub(crate) struct Evaluation {
    pub(crate) run_id: RunId,
    pub(crate) evaluation: u32,
    pub(crate) expression: String,
}

/// Those that have not left, in their order, and how much those hold that have.
#[derive(Debug, Default)]
pub(crate) struct Evaluations {
    waiting: VecDeque<Evaluation>,
    held: Arc<AtomicUsize>,
}

/// The bytes that an evaluation holds until it is over.
#[derive(Debug)]
pub struct HeldBytes {
    bytes: usize,
    held: Arc<AtomicUsize>,
}

impl Evaluations {
    pub(crate) fn push(&mut self, evaluation: Evaluation) {
        self.waiting.push_back(evaluation);
    }

    // RUN-9.8
    /// The next one, if there is room.
    pub(crate) fn pop(&mut self) -> Option<Evaluation> {
        let has_room = self.held.load(Ordering::Acquire) < EVALUATED_BYTES;
        if has_room { self.waiting.pop_front() } else { None }
    }

    pub(crate) fn hold(&self, bytes: usize) -> HeldBytes {
        self.held.fetch_add(bytes, Ordering::AcqRel);
        HeldBytes {
            bytes,
            held: Arc::clone(&self.held),
        }
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.held.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}
