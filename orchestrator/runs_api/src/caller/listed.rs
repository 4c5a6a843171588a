//! Selects the scopes that lists show to a caller.

use super::Caller;
use crate::errors::Rejection;
use escapement_access::Denial;
use escapement_model::Namespace;
use escapement_store::runs::Scope;

impl Caller {
    /// Returns the scopes that a list covers, among those visible to the caller. They lie in the requested
    /// namespace and belong to the requested user. `None`: everything.
    ///
    /// # Errors
    /// As [`Caller::namespace`], and if it finds others there and not the user that is asked for.
    pub(crate) fn listed(&self, namespace: &str, user: &str) -> Result<Option<Vec<Scope>>, Rejection> {
        let found = match namespace.is_empty() {
            true => {
                self.hold_found(None);
                self.scopes()
            }
            false => self.scopes_in(&self.namespace(namespace)?),
        };
        let listed = of_user(found, user)?;
        Ok((!listed.contains(&Scope::EVERYTHING)).then_some(listed))
    }

    /// Returns the user that a request about one namespace concerns: the requested one, else the first with
    /// definitions or runs visible to the caller there. `None`: every user.
    ///
    /// # Errors
    /// As [`Caller::listed`].
    pub(crate) fn listed_user(
        &self,
        namespace: &Namespace,
        requested: &str,
    ) -> Result<Option<String>, Rejection> {
        let found = of_user(self.scopes_in(namespace), requested)?;
        let is_free = found.iter().any(|scope| scope.owner.is_none());
        let mut users = found.into_iter().filter_map(|scope| scope.owner);
        Ok(if is_free { None } else { users.next() })
    }
}

/// Returns the scopes among these that belong to the requested user.
///
/// # Errors
/// [`Denial::UserNotPermitted`] if scopes were found and none belongs to that user.
fn of_user(found: Vec<Scope>, requested: &str) -> Result<Vec<Scope>, Rejection> {
    if requested.is_empty() || found.is_empty() {
        return Ok(found);
    }
    let is_of = |scope: &Scope| scope.owner.as_deref().is_none_or(|owner| owner == requested);
    let of_user = found.into_iter().filter(is_of).map(|scope| Scope {
        owner: Some(requested.to_owned()),
        ..scope
    });
    let of_user: Vec<Scope> = of_user.collect();
    match of_user.is_empty() {
        true => Err(Denial::UserNotPermitted { field: "user_id" }.into()),
        false => Ok(of_user),
    }
}
