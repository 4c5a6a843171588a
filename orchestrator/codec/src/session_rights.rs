//! What a session of a worker may say by the rights of its principal. Takes away what it may not, before the engine hears of it.

use escapement_access::{Denial, Principal};
use escapement_model::limits::{LABEL_CHARS_MAX, SESSION_ACTIONS_MAX};
use escapement_wire::worker::v1;
use escapement_wire::worker::v1::session_request::Message;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The rights of one session, and what it has made of them.
#[derive(Clone, Debug)]
pub struct SessionRights {
    principal: Arc<Principal>,
    /// Empty before the hello.
    worker_id: String,
    /// The revision of the actions that it was last let offer; the engine passes older ones over, too.
    actions_revision: u64,
    /// These actions. Of one that waits, how many of its attempts it was let have at a time.
    actions: BTreeMap<String, Option<u32>>,
}

impl SessionRights {
    /// Those of a session that has said nothing.
    pub fn new(principal: Arc<Principal>) -> Self {
        Self {
            principal,
            worker_id: String::new(),
            actions_revision: 0,
            actions: BTreeMap::new(),
        }
    }

    /// Who has the session.
    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    /// Goes on with what the principal may by other rules.
    ///
    /// # Errors
    /// [`Denial::WorkerIdNotPermitted`] or [`Denial::ActionNotPermitted`] for what the session has and may not have any more: it must
    /// end.
    pub fn judge_again(&mut self, principal: Arc<Principal>) -> Result<(), Denial> {
        check_worker_id(&principal, &self.worker_id)?;
        let lost = self.actions.keys().find(|action| !principal.may_offer(action));
        if let Some(action) = lost {
            return Err(Denial::ActionNotPermitted {
                field: "actions".to_owned(),
                action: action.clone(),
            });
        }
        self.principal = principal;
        Ok(())
    }

    /// Takes the actions out that the principal's workers may not offer, and lowers what they may have in flight: all that do not wait
    /// together, and all that wait together, at each depth of nesting.
    /// Returns the actions of a hello that were taken out; those of `RegisterActions` are left out without a word, as all others are
    /// that are not valid.
    ///
    /// # Errors
    /// [`Denial::WorkerIdNotPermitted`]: the session must end.
    pub fn restrict(&mut self, request: &mut v1::SessionRequest) -> Result<Vec<v1::ActionRefusal>, Denial> {
        let in_flight_max = self.principal.max_in_flight().unwrap_or(u32::MAX);
        match &mut request.message {
            Some(Message::Hello(hello)) => {
                check_worker_id(&self.principal, &hello.worker_id)?;
                self.worker_id.clone_from(&hello.worker_id);
                hello.max_in_flight = hello.max_in_flight.min(in_flight_max);
                Ok(self.take_out(&mut hello.actions, 0))
            }
            Some(Message::RegisterActions(message)) => {
                self.take_out(&mut message.actions, message.revision);
                Ok(Vec::new())
            }
            Some(Message::Capacity(message)) => {
                message.max_in_flight = message.max_in_flight.min(in_flight_max);
                for (action, level) in &mut message.per_action {
                    // None of those that wait gets more than at first, or together they would have more than the limit.
                    let level_max = self.actions.get(action).copied().flatten();
                    *level = (*level).min(level_max.unwrap_or(in_flight_max));
                }
                Ok(Vec::new())
            }
            _ => Ok(Vec::new()),
        }
    }

    fn take_out(&mut self, actions: &mut Vec<v1::ActionSpec>, revision: u64) -> Vec<v1::ActionRefusal> {
        // With more the message is refused as a whole.
        if actions.len() > SESSION_ACTIONS_MAX {
            return Vec::new();
        }
        let mut waiting_left = self.principal.max_in_flight().unwrap_or(u32::MAX);
        let mut refused = Vec::new();
        actions.retain_mut(|action| {
            let reason = if !self.principal.may_offer(&action.name) {
                NOT_PERMITTED
            } else if action.waits && action.max_in_flight > 0 && waiting_left == 0 {
                NO_ROOM
            } else {
                if action.waits {
                    action.max_in_flight = action.max_in_flight.min(waiting_left);
                    waiting_left -= action.max_in_flight;
                }
                return true;
            };
            refused.push(v1::ActionRefusal {
                // A name of any length would make an answer of any length.
                name: action.name.chars().take(LABEL_CHARS_MAX).collect(),
                reason: reason.to_owned(),
            });
            false
        });
        if revision >= self.actions_revision {
            let level = |action: &v1::ActionSpec| action.waits.then_some(action.max_in_flight);
            let actions = actions.iter().map(|action| (action.name.clone(), level(action)));
            (self.actions, self.actions_revision) = (actions.collect(), revision);
        }
        refused
    }
}

fn check_worker_id(principal: &Principal, worker_id: &str) -> Result<(), Denial> {
    if principal.may_be_worker(worker_id) {
        return Ok(());
    }
    let worker_id = worker_id.chars().take(LABEL_CHARS_MAX).collect();
    Err(Denial::WorkerIdNotPermitted { worker_id })
}

/// For people, with the reason of a program before it.
const NOT_PERMITTED: &str = "ACTION_NOT_PERMITTED: the credentials do not allow the action";
/// The same for an action that waits.
const NO_ROOM: &str =
    "LIMIT_EXCEEDED: the credentials allow no more in flight than other actions that wait take";

#[cfg(test)]
mod tests;
