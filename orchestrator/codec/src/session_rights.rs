//! What a session of a worker may say by the rights of its principal. Takes away what it may not, before the engine hears of it.

use escapement_access::{Denial, Principal};
use escapement_model::limits::{LABEL_CHARS_MAX, SESSION_ACTIONS_MAX};
use escapement_wire::worker::v1;
use escapement_wire::worker::v1::session_request::Message;
use std::sync::Arc;

/// The rights of one session, and what it has made of them.
#[derive(Clone, Debug)]
pub struct SessionRights {
    principal: Arc<Principal>,
    /// Empty before the hello.
    worker_id: String,
    /// The actions that it was last let offer.
    actions: Vec<String>,
}

impl SessionRights {
    /// Those of a session that has said nothing.
    pub fn new(principal: Arc<Principal>) -> Self {
        Self {
            principal,
            worker_id: String::new(),
            actions: Vec::new(),
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
        let lost = self.actions.iter().find(|action| !principal.may_offer(action));
        if let Some(action) = lost {
            return Err(Denial::ActionNotPermitted {
                field: "actions".to_owned(),
                action: action.clone(),
            });
        }
        self.principal = principal;
        Ok(())
    }

    /// Takes the actions out that the principal's workers may not offer, and lowers what they may have in flight.
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
                Ok(self.take_out(&mut hello.actions))
            }
            Some(Message::RegisterActions(message)) => {
                self.take_out(&mut message.actions);
                Ok(Vec::new())
            }
            Some(Message::Capacity(message)) => {
                message.max_in_flight = message.max_in_flight.min(in_flight_max);
                Ok(Vec::new())
            }
            _ => Ok(Vec::new()),
        }
    }

    fn take_out(&mut self, actions: &mut Vec<v1::ActionSpec>) -> Vec<v1::ActionRefusal> {
        // With more the message is refused as a whole.
        if actions.len() > SESSION_ACTIONS_MAX {
            return Vec::new();
        }
        let mut refused = Vec::new();
        actions.retain(|action| {
            let may_offer = self.principal.may_offer(&action.name);
            if !may_offer {
                refused.push(v1::ActionRefusal {
                    // A name of any length would make an answer of any length.
                    name: action.name.chars().take(LABEL_CHARS_MAX).collect(),
                    reason: NOT_PERMITTED.to_owned(),
                });
            }
            may_offer
        });
        self.actions = actions.iter().map(|action| action.name.clone()).collect();
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

#[cfg(test)]
mod tests;
