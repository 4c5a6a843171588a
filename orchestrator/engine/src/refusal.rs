//! Attempts that a worker may not do and another one may: which workers have refused a step, and when that is the end.
//! Does not judge whether a worker refuses with reason.

use crate::engine::Engine;
use crate::fleet::{ActionKey, Attempt, RefusedBy, Session};
use crate::limits::REFUSALS_MAX;
use escapement_contract::{Evidence, Outcome, Refused, Reported};

impl Engine {
    //
    /// Hands the step to a worker that has not refused it. If there is none, the attempt ends with the refusal's error.
    pub(crate) fn attempt_refused(&mut self, attempt: &Attempt, error: Reported) -> Result<(), Refused> {
        let live = self.live.at_mut(attempt.execution);
        let mut refused_by = live.refused.remove(&attempt.step).unwrap_or_default();
        let session = self.fleet.sessions.get(&attempt.session);
        if let Some(identity) = session.and_then(|session| session.identity.as_ref()) {
            refused_by.insert(identity.instance_id);
        }
        if refused_by.len() >= REFUSALS_MAX || !self.has_another_worker(attempt.action, &refused_by) {
            return self.end_attempt(attempt, Outcome::Failed(error));
        }
        self.live
            .at_mut(attempt.execution)
            .refused
            .insert(attempt.step, refused_by);
        self.hand_out_again(attempt, Evidence::Refused)
    }

    /// True if a live session of another process offers the action, be it busy or without its stream.
    fn has_another_worker(&self, action: ActionKey, refused_by: &RefusedBy) -> bool {
        let may_do = |session: &Session| !session.draining && refused_by.admits(session);
        let offering = &self.fleet.action(action).sessions;
        offering.iter().any(|key| may_do(&self.fleet.sessions[key]))
            || self
                .fleet
                .sessions
                .values()
                .any(|session| session.actions.contains_key(&action) && may_do(session))
    }
}
