//! What a message of a worker may say by the rights of its principal. Takes away what it may not, before the engine hears of it.

use escapement_access::{Denial, Principal};
use escapement_model::limits::{LABEL_CHARS_MAX, SESSION_ACTIONS_MAX};
use escapement_wire::worker::v1;
use escapement_wire::worker::v1::session_request::Message;

/// Takes the actions out that the principal's workers may not offer, and lowers what they may have in flight.
/// Returns the actions of a hello that were taken out; those of `RegisterActions` are left out without a word, as all others are
/// that are not valid.
///
/// # Errors
/// [`Denial::WorkerIdNotPermitted`]: the session must end.
pub fn restrict(
    request: &mut v1::SessionRequest,
    principal: &Principal,
) -> Result<Vec<v1::ActionRefusal>, Denial> {
    let in_flight_max = principal.max_in_flight().unwrap_or(u32::MAX);
    match &mut request.message {
        Some(Message::Hello(hello)) => {
            if !principal.may_be_worker(&hello.worker_id) {
                let worker_id = hello.worker_id.chars().take(LABEL_CHARS_MAX).collect();
                return Err(Denial::WorkerIdNotPermitted { worker_id });
            }
            hello.max_in_flight = hello.max_in_flight.min(in_flight_max);
            Ok(take_out(&mut hello.actions, principal))
        }
        Some(Message::RegisterActions(message)) => {
            take_out(&mut message.actions, principal);
            Ok(Vec::new())
        }
        Some(Message::Capacity(message)) => {
            message.max_in_flight = message.max_in_flight.min(in_flight_max);
            Ok(Vec::new())
        }
        _ => Ok(Vec::new()),
    }
}

fn take_out(actions: &mut Vec<v1::ActionSpec>, principal: &Principal) -> Vec<v1::ActionRefusal> {
    // With more the message is refused as a whole.
    if actions.len() > SESSION_ACTIONS_MAX {
        return Vec::new();
    }
    let mut refused = Vec::new();
    actions.retain(|action| {
        let may_offer = principal.may_offer(&action.name);
        if !may_offer {
            refused.push(v1::ActionRefusal {
                // A name of any length would make an answer of any length.
                name: action.name.chars().take(LABEL_CHARS_MAX).collect(),
                reason: NOT_PERMITTED.to_owned(),
            });
        }
        may_offer
    });
    refused
}

/// For people, with the reason of a program before it.
const NOT_PERMITTED: &str = "ACTION_NOT_PERMITTED: the credentials do not allow the action";

#[cfg(test)]
mod tests;
