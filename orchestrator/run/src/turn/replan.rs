//! What follows from a revision that failed: an alternative action, another plan, or the end. One place for all of it.

use super::Turn;
use crate::journal::{Decision, Failure};

impl Turn<'_> {
    // RUN-12.2
    /// Nothing of the revision is in flight any more, and it failed.
    pub(super) fn revision_failed(&mut self, cause: Failure) {
        if self.substitutes(&cause) {
            return;
        }
        // RUN-11.8
        if self.has_generations_left() {
            return self.replan(Some(cause), "");
        }
        self.fail_with_fallback(cause);
    }

    /// What comes before the first step of a revision that took the place of another one.
    pub(super) fn begin_revision(&mut self) {
        let subject = self.plan_subject_digest(&self.state.revision);
        let is_approved = self.state.requests.iter().any(|request| {
            request.unit.is_none()
                && request.answer.as_ref().is_some_and(|answer| {
                    // What was sent back is not approved because it comes again.
                    let approves =
                        matches!(answer.decision(), Decision::Approve | Decision::ApproveWithEdits);
                    approves && answer.subject_digest[..] == subject[..]
                })
        });
        if !is_approved {
            self.ask_for_plan();
        }
    }
}
