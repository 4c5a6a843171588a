//! Attempts that a worker may not do and another one may: which workers have refused a step, and when that is the end.
//! Does not judge whether a worker refuses with reason.

use super::Fleet;
use super::action::RefusedBy;
use super::attempt::Attempt;
use crate::keys::ActionKey;
use crate::limits::REFUSALS_MAX;

impl Fleet {
    //
    /// Notes that a worker refused an attempt. Returns true if the step is for a worker that has not refused it, and false if
    /// there is none: then the attempt ends with the refusal's error.
    pub(super) fn is_for_another(&mut self, attempt: &Attempt) -> bool {
        let step = (attempt.execution, attempt.step);
        let mut refused_by = self.refused.remove(&step).unwrap_or_default();
        let session = self.sessions.get(&attempt.session);
        if let Some(identity) = session.and_then(|session| session.identity.as_ref()) {
            refused_by.insert(identity.instance_id);
        }
        let is_for_another =
            refused_by.len() < REFUSALS_MAX && self.has_another_worker(attempt.action, &refused_by);
        if is_for_another {
            self.refused.insert(step, refused_by);
        }
        is_for_another
    }

    /// Returns true if a live session of another process offers the action, be it busy or without its stream.
    fn has_another_worker(&self, action: ActionKey, refused_by: &RefusedBy) -> bool {
        let refused = refused_by.iter().filter(|instance_id| {
            let session = self.instances.get(instance_id).map(|key| &self.sessions[key]);
            session.is_some_and(|session| !session.draining && session.actions.contains_key(&action))
        });
        self.action(action).n_staying > refused.count()
    }
}
