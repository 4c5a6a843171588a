//! Reason why a call is not permitted, as a reason and a sentence. Knows no gRPC.

use crate::role::Role;
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

/// Reason why a call is not permitted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Denial {
    /// There are no credentials, and the call needs some.
    CredentialsMissing,
    /// The call shows credentials that the policy does not know. Other credentials of the call are not tried.
    CredentialsInvalid,
    /// They were good once.
    CredentialsExpired,
    /// The key of a token is not known, and its issuer is being asked for keys: the same call may succeed in a second.
    KeysUnavailable {
        /// The issuer, as the policy and the token name it.
        issuer: Box<str>,
    },
    /// No role of the principal permits the call.
    RoleMissing {
        /// The path of the call.
        rpc: Box<str>,
        /// The roles that permit it, in the order of [`Role::ALL`].
        needed: Vec<Role>,
    },
    /// A plan names an action, or a worker offers one, that is outside of the principal's patterns.
    ActionNotPermitted {
        /// The path of the field, such as `plan.steps[3].action`.
        field: String,
        /// The action.
        action: String,
    },
    /// The request is for a namespace that is not the principal's.
    NamespaceNotPermitted {
        /// Name, as requested.
        namespace: String,
    },
    /// An answer is in another name than the principal's.
    ResponderNotPermitted {
        /// The path of the field.
        field: &'static str,
    },
    /// The request is in the name of a user who is not the principal.
    UserNotPermitted {
        /// The path of the field.
        field: &'static str,
    },
    /// The plan that an attempt hands in is not to be a child of its own execution.
    ParentNotPermitted,
    /// A worker has an id that is outside of the principal's patterns.
    WorkerIdNotPermitted {
        /// The id.
        worker_id: String,
    },
    /// The instance is that of a worker of another principal.
    InstanceOfAnother,
    /// The principal has as many worker sessions as it may.
    TooManySessions {
        /// How many that are.
        max: u32,
    },
    /// No call has this path.
    UnknownCall,
}

impl Denial {
    /// Returns the reason, for programs; it never changes.
    pub fn reason(&self) -> &'static str {
        match self {
            Denial::CredentialsMissing => "CREDENTIALS_MISSING",
            Denial::CredentialsInvalid => "CREDENTIALS_INVALID",
            Denial::CredentialsExpired => "CREDENTIALS_EXPIRED",
            Denial::KeysUnavailable { .. } => "KEYS_UNAVAILABLE",
            Denial::RoleMissing { .. } => "ROLE_MISSING",
            Denial::ActionNotPermitted { .. } => "ACTION_NOT_PERMITTED",
            Denial::NamespaceNotPermitted { .. } => "NAMESPACE_NOT_PERMITTED",
            Denial::ResponderNotPermitted { .. } => "RESPONDER_NOT_PERMITTED",
            Denial::UserNotPermitted { .. } => "USER_NOT_PERMITTED",
            Denial::ParentNotPermitted => "PARENT_NOT_PERMITTED",
            Denial::WorkerIdNotPermitted { .. } => "WORKER_ID_NOT_PERMITTED",
            Denial::InstanceOfAnother => "INSTANCE_OF_ANOTHER",
            Denial::TooManySessions { .. } => "TOO_MANY_SESSIONS",
            Denial::UnknownCall => "CALL_UNKNOWN",
        }
    }

    /// Returns true if it says who the caller is not, and false if it says what it may not.
    pub fn is_of_credentials(&self) -> bool {
        matches!(
            self,
            Denial::CredentialsMissing | Denial::CredentialsInvalid | Denial::CredentialsExpired
        )
    }

    /// Facts for programs.
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        match self {
            Denial::RoleMissing { rpc, needed } => {
                Vec::from([("rpc", rpc.to_string()), ("role", names(needed, ","))])
            }
            Denial::ActionNotPermitted { field, action } => {
                Vec::from([("field", field.clone()), ("action", action.clone())])
            }
            Denial::NamespaceNotPermitted { namespace } => Vec::from([("namespace", namespace.clone())]),
            Denial::ResponderNotPermitted { field } | Denial::UserNotPermitted { field } => {
                Vec::from([("field", (*field).to_owned())])
            }
            Denial::ParentNotPermitted => Vec::from([("field", "parent_execution_id".to_owned())]),
            Denial::WorkerIdNotPermitted { worker_id } => Vec::from([("worker_id", worker_id.clone())]),
            Denial::CredentialsMissing
            | Denial::CredentialsInvalid
            | Denial::CredentialsExpired
            | Denial::KeysUnavailable { .. }
            | Denial::InstanceOfAnother
            | Denial::UnknownCall => Vec::new(),
            Denial::TooManySessions { max } => Vec::from([("max_sessions", max.to_string())]),
        }
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sentence = match self {
            Denial::CredentialsMissing => {
                "The call needs credentials: a token in the metadata `authorization`, or a client certificate.".to_owned()
            }
            Denial::CredentialsInvalid => "The credentials are not those of anybody whom the policy names.".to_owned(),
            Denial::CredentialsExpired => "The credentials have expired.".to_owned(),
            Denial::KeysUnavailable { .. } => "The keys of the token's issuer are being fetched; ask again.".to_owned(),
            Denial::RoleMissing { rpc, needed } => {
                format!("{rpc} needs one of the roles {}.", names(needed, ", "))
            }
            Denial::ActionNotPermitted { field, action } => {
                format!("{field}: the action {action:?} is not one of those that the policy permits.")
            }
            Denial::NamespaceNotPermitted { namespace } => {
                format!("The namespace {namespace:?} is not one of those that the policy permits.")
            }
            Denial::ResponderNotPermitted { field } => {
                format!("{field}: must be the caller's own name, or be left out.")
            }
            Denial::UserNotPermitted { field } => {
                format!("{field}: must be the caller's own name, or be left out.")
            }
            Denial::ParentNotPermitted => {
                "parent_execution_id: must be the execution of the attempt whose token is shown.".to_owned()
            }
            Denial::WorkerIdNotPermitted { worker_id } => {
                format!("The worker id {worker_id:?} is not one of those that the policy permits.")
            }
            Denial::InstanceOfAnother => "The instance is that of a worker with other credentials.".to_owned(),
            Denial::TooManySessions { max } => {
                format!("These credentials are for {max} worker sessions at a time, and there are as many.")
            }
            Denial::UnknownCall => "There is no such call.".to_owned(),
        };
        f.write_str(&sentence)
    }
}

impl core::error::Error for Denial {}

fn names(roles: &[Role], between: &str) -> String {
    let names: Vec<&str> = roles.iter().map(|role| role.as_str()).collect();
    names.join(between)
}
