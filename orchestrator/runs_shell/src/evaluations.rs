//! Evaluations that wait until there is room for what their expressions are about. Evaluates nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use escapement_model::RunId;

use crate::aside::WorkOwner;
use crate::limits::EVALUATED_BYTES;
use crate::turns::Turns;

/// An expression whose value a run waits for.
#[derive(Debug)]
pub(crate) struct Evaluation {
    pub(crate) run_id: RunId,
    pub(crate) owner: WorkOwner,
    pub(crate) evaluation: u32,
    pub(crate) expression: String,
}

/// Those that have not left, owner by owner in turn, and how much those hold that have.
#[derive(Debug)]
pub(crate) struct Evaluations {
    waiting: Turns<WorkOwner, Evaluation>,
    held: Arc<AtomicUsize>,
}

/// The bytes that an evaluation holds until it is over.
#[derive(Debug)]
pub struct HeldBytes {
    bytes: usize,
    held: Arc<AtomicUsize>,
}

impl Evaluations {
    pub(crate) fn new() -> Self {
        Self {
            waiting: Turns::new(),
            held: Arc::default(),
        }
    }

    pub(crate) fn push(&mut self, evaluation: Evaluation) {
        self.waiting.push(evaluation.owner.clone(), evaluation);
    }

    // RUN-9.8
    /// Returns the next one, if there is room.
    pub(crate) fn pop(&mut self) -> Option<Evaluation> {
        let has_room = self.held.load(Ordering::Acquire) < EVALUATED_BYTES;
        let next = if has_room { self.waiting.pop() } else { None };
        next.map(|(_, evaluation)| evaluation)
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
