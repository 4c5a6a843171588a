//! What goes on in the name of who began it: runs, and what starts runs. Judges no call.

use crate::access::Access;
use crate::denial::Denial;
use crate::grant::{Grant, UserScope};
use crate::matrix::Row;
use crate::pattern::Pattern;
use crate::policy::CertificateNames;
use crate::principal::{Principal, PrincipalKind};
use crate::role::Role;
use alloc::borrow::ToOwned;
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use escapement_model::Namespace;

/// Who began something, as it was recorded.
#[derive(Clone, Copy, Debug)]
pub struct Recorded<'a> {
    /// How it was proved.
    pub kind: PrincipalKind,
    /// The name that was proved.
    pub name: &'a str,
    /// The issuer of a JSON Web Token; empty for every other kind.
    pub issuer: &'a str,
}

impl Access {
    /// True if plans of the principal that began something in that namespace may call the action by the policy as it is now. Without a
    /// policy they may, and so may what was begun without credentials: there is no entry to ask.
    ///
    /// The end of a credential does not end what it began; its leaving the policy does.
    pub fn still_permits(&self, recorded: Recorded<'_>, namespace: &Namespace, action: &str) -> bool {
        let Some(policy) = self.policy() else {
            return true;
        };
        let gives = |grant: &Grant| grant.submits(namespace, action);
        match recorded.kind {
            PrincipalKind::Anonymous => true,
            PrincipalKind::Token => policy
                .token_principals()
                .filter(|principal| &*principal.name == recorded.name)
                .any(|principal| principal.grants.iter().any(gives)),
            PrincipalKind::Certificate => policy
                .certificates
                .iter()
                .filter(|rule| match &rule.names {
                    CertificateNames::Spiffe(pattern) | CertificateNames::Dns(pattern) => {
                        pattern.matches(recorded.name)
                    }
                })
                .any(|rule| gives(&rule.grant)),
            // Which of an issuer's grants a token had depends on claims that are not kept; what was recorded holds it to those.
            PrincipalKind::Jwt => {
                let issuers = policy.issuers.iter();
                let mut grants = issuers
                    .filter(|issuer| &*issuer.name == recorded.issuer)
                    .flat_map(|issuer| &issuer.grants);
                grants.any(|of_claims| gives(&of_claims.grant))
            }
            // An attempt starts nothing that outlives it.
            PrincipalKind::Attempt => false,
        }
    }
}

impl Grant {
    /// True if it lets plans in the namespace name the action.
    pub(crate) fn submits(&self, namespace: &Namespace, action: &str) -> bool {
        self.roles.contains(Role::Admin) || (self.gives(Role::Submitter, namespace) && self.names(action))
    }
}

impl Principal {
    /// True if the row permits the call for what lies in the namespace.
    pub fn permits_within(&self, row: &Row, namespace: &Namespace) -> bool {
        let mut grants = self.grants.iter();
        grants.any(|grant| grant.permits(row, |role| grant.gives(role, namespace)))
    }

    /// Why the row does not permit the call for what lies in the namespace. `None`: it does.
    pub fn denial_within(&self, row: &Row, namespace: &Namespace) -> Option<Denial> {
        let denial = || Denial::NamespaceNotPermitted {
            namespace: namespace.as_str().to_owned(),
        };
        (!self.permits_within(row, namespace)).then(denial)
    }

    /// True if the row permits the call whatever it is about.
    pub fn permits_everywhere(&self, row: &Row) -> bool {
        let mut grants = self.grants.iter();
        grants.any(|grant| grant.permits(row, |role| grant.holds_everywhere(role)))
    }

    /// The patterns of the actions that its plans in the namespace may name; `None` if they may name every one.
    pub fn submitted_actions(&self, namespace: &Namespace) -> Option<Vec<String>> {
        let mut patterns: BTreeSet<&str> = BTreeSet::new();
        for grant in &self.grants {
            if grant.roles.contains(Role::Admin) {
                return None;
            }
            if grant.gives(Role::Submitter, namespace) {
                if grant.actions.iter().any(Pattern::is_any) {
                    return None;
                }
                patterns.extend(grant.actions.iter().map(Pattern::as_str));
            }
        }
        Some(patterns.into_iter().map(str::to_owned).collect())
    }

    /// Returns the user in whose name a request is: the one that it names, else its own one. `None`: there is none.
    ///
    /// # Errors
    /// [`Denial::UserNotPermitted`] if the request names a user that the principal may not name.
    pub fn user<'a>(&'a self, field: &'static str, requested: &'a str) -> Result<Option<&'a str>, Denial> {
        let said = (!requested.is_empty()).then_some(requested);
        if self.names_any_user() {
            return Ok(said);
        }
        let mut named = self.grants.iter().filter_map(|grant| match &grant.user {
            UserScope::Named(name) => Some(&**name),
            _ => None,
        });
        match said {
            None => Ok(Some(named.next().unwrap_or(&self.name))),
            Some(said) if said == &*self.name || named.any(|name| name == said) => Ok(Some(said)),
            Some(_) => Err(Denial::UserNotPermitted { field }),
        }
    }

    fn names_any_user(&self) -> bool {
        self.kind == PrincipalKind::Anonymous
            || self
                .grants
                .iter()
                .any(|grant| grant.user == UserScope::Any || grant.roles.contains(Role::Admin))
    }

    /// The users whose things are all that it finds; `None` if it finds those of every user of its namespaces.
    pub fn own_users(&self) -> Option<BTreeSet<&str>> {
        let mut users = BTreeSet::new();
        for grant in &self.grants {
            let reads_all = grant.roles.contains(Role::Operator) || grant.roles.contains(Role::Admin);
            match &grant.user {
                _ if reads_all => return None,
                UserScope::Own => users.insert(&*self.name),
                UserScope::Named(name) => users.insert(&**name),
                UserScope::Free | UserScope::Any => return None,
            };
        }
        // Without a grant there is nothing to find.
        (!users.is_empty()).then_some(users)
    }
}

#[cfg(test)]
mod tests;
