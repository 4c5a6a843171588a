//! Notification of a call that its credentials were revoked, or lost a right that it needs. Ends no call.

use crate::call_access::ConnectionAccess;
use escapement_access::{Access, Denial, Principal};
use escapement_model::Namespace;
use std::sync::Arc;
use tokio::sync::watch;

/// End of the credentials of one call, in the extensions of the request that begins a session of a worker. Cheap to clone.
#[derive(Clone, Debug)]
pub struct CredentialsEnd {
    access: Arc<ConnectionAccess>,
    principal: Arc<Principal>,
    path: Arc<str>,
    rules: watch::Receiver<Arc<Access>>,
    /// False once calls of the connection were to end, and this was none of them.
    may_end: bool,
    may_change: bool,
}

/// Rights that an open call depends on: it ends once other rules revoke them. In the extensions of the request.
/// Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct CallScopes(Arc<watch::Sender<Vec<Scope>>>);

/// Namespace and user of the objects; `None`: any.
type Scope = (Option<Namespace>, Option<String>);

impl CallScopes {
    /// Binds the call to the objects of the user in the namespace; `None` stands for any.
    pub fn hold(&self, namespace: Option<&Namespace>, user: Option<&str>) {
        let scope = (namespace.cloned(), user.map(str::to_owned));
        self.0.send_modify(|held| held.push(scope));
    }

    /// Binds the call to all objects that the principal finds in the namespace; `None`: in any.
    pub fn hold_found(&self, principal: &Principal, namespace: Option<&Namespace>) {
        for (of, user) in principal.scopes() {
            if of.is_none() || namespace.is_none() || of == namespace {
                self.hold(namespace.or(of), user);
            }
        }
    }
}

impl CredentialsEnd {
    pub(crate) fn new(access: &Arc<ConnectionAccess>, principal: &Arc<Principal>, path: &str) -> Self {
        Self {
            access: Arc::clone(access),
            principal: Arc::clone(principal),
            path: path.into(),
            rules: access.rules(),
            may_end: true,
            may_change: true,
        }
    }

    /// Returns who the caller is by other rules, once there are some. Losing the future loses nothing.
    ///
    /// # Errors
    /// [`Denial::CredentialsExpired`] once the credentials have expired, are revoked, or have left the policy;
    /// [`Denial::RoleMissing`] once the caller has lost the right to this call.
    pub async fn judged_again(&mut self) -> Result<Arc<Principal>, Denial> {
        loop {
            // Biased: a caller without rights needs no other answer.
            tokio::select! {
                biased;
                () = self.access.ended(), if self.may_end => {
                    self.may_end = false;
                    // Others call on the connection too, and what they lose is theirs.
                    if self.access.is_void(&self.principal) {
                        return Err(Denial::CredentialsExpired);
                    }
                }
                changed = self.rules.changed(), if self.may_change => {
                    self.may_change = changed.is_ok();
                    // For a caller without rights the connection reports that.
                    if let Some(judged) = self.access.judged(&self.principal, &self.path) {
                        return judged;
                    }
                }
                else => std::future::pending().await,
            }
        }
    }

    /// Returns why the call must end, once it must.
    pub(crate) async fn taken_away(mut self, scopes: CallScopes) -> Denial {
        let mut held = scopes.0.subscribe();
        let mut principal = Arc::clone(&self.principal);
        loop {
            let check =
                |(namespace, user): &Scope| principal.check_scope(namespace.as_ref(), user.as_deref());
            let taken = held
                .borrow_and_update()
                .iter()
                .find_map(|scope| check(scope).err());
            if let Some(denial) = taken {
                return denial;
            }
            // Biased: what is held is held against the newest rules.
            tokio::select! {
                biased;
                judged = self.judged_again() => match judged {
                    Ok(now) => principal = now,
                    Err(denial) => return denial,
                },
                changed = held.changed() => changed.expect("the sender is one of the arguments"),
            }
        }
    }
}
