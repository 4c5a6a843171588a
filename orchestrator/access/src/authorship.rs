//! What goes on in the name of who began it: runs, and what starts runs. Judges no call.

use crate::access::Access;
use crate::denial::Denial;
use crate::grant::{Grant, NamespaceScope, UserScope};
use crate::matrix::{Permission, Row};
use crate::pattern::Pattern;
use crate::policy::CertificateNames;
use crate::principal::{Principal, PrincipalKind};
use crate::role::Role;
use alloc::borrow::ToOwned;
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec;
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
    /// Returns true if it lets plans in the namespace name the action.
    pub(crate) fn submits(&self, namespace: &Namespace, action: &str) -> bool {
        self.roles.contains(Role::Admin) || (self.gives(Role::Submitter, namespace) && self.names(action))
    }
}

impl Principal {
    /// Refuses a call that no role of the principal permits in the namespace, whatever another role or grant lets it see there.
    /// `None`: no policy has judged the call.
    ///
    /// # Errors
    /// [`Denial::NamespaceNotPermitted`].
    pub fn check_within(&self, row: Option<&Row>, namespace: &Namespace) -> Result<(), Denial> {
        self.check(row, namespace, |_| true)
    }

    /// As [`Principal::check_within`], for what is that user's, or nobody's in particular.
    ///
    /// # Errors
    /// [`Denial::NamespaceNotPermitted`].
    pub fn check_within_of(
        &self,
        row: Option<&Row>,
        namespace: &Namespace,
        owner: Option<&str>,
    ) -> Result<(), Denial> {
        self.check(row, namespace, |grant| grant.finds(&self.name, owner))
    }

    fn check(
        &self,
        row: Option<&Row>,
        namespace: &Namespace,
        finds: impl Fn(&Grant) -> bool,
    ) -> Result<(), Denial> {
        let permits = |row: &Row| {
            let mut grants = self.grants.iter();
            grants.any(|grant| {
                grant.permits(row, |role| {
                    grant.gives(role, namespace) && (!role.is_bound() || finds(grant))
                })
            })
        };
        match row.is_none_or(permits) {
            true => Ok(()),
            false => Err(Denial::NamespaceNotPermitted {
                namespace: namespace.as_str().to_owned(),
            }),
        }
    }

    /// Returns true if the row permits the call whatever it is about. `None`: no policy has judged the call.
    pub fn permits_everywhere(&self, row: Option<&Row>) -> bool {
        row.is_none_or(|row| {
            let mut grants = self.grants.iter();
            grants.any(|grant| {
                grant.permits(row, |role| {
                    grant.holds_everywhere(role) && (!role.is_bound() || grant.user.is_free())
                })
            })
        })
    }

    /// Returns true if the plans that it hands in with this call are held to its patterns of actions in the namespace: those of a role that
    /// the row lets look at every plan there are not.
    pub fn is_held_to_actions(&self, row: &Row, namespace: &Namespace) -> bool {
        let is_free = |grant: &Grant| {
            grant.permits(row, |role| {
                row.of(role) != Permission::NamespacesAndActions && grant.gives(role, namespace)
            })
        };
        !self.grants.iter().any(is_free)
    }

    /// Returns the patterns of the actions that its plans in the namespace may name; `None` if they may name every one.
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

    /// Returns the user in whose name a request makes something in the namespace: the one that it names, else the principal's own one
    /// there. `None`: there is none. Only what lets the principal make this call there says for whom; `row` of `None`: no policy has
    /// judged the call.
    ///
    /// # Errors
    /// [`Denial::UserNotPermitted`] if the request names a user that the principal may not name there.
    pub fn user<'a>(
        &'a self,
        row: Option<&Row>,
        namespace: &Namespace,
        field: &'static str,
        requested: &'a str,
    ) -> Result<Option<&'a str>, Denial> {
        let said = (!requested.is_empty()).then_some(requested);
        let permits = |grant: &&Grant| match row {
            Some(row) => grant.permits(row, |role| grant.gives(role, namespace)),
            None => grant.reads(namespace),
        };
        let here = || self.grants.iter().filter(permits);
        let names_any = |grant: &Grant| grant.user == UserScope::Any || grant.roles.contains(Role::Admin);
        if self.has_proven_nothing() || here().any(names_any) {
            return Ok(said);
        }
        let mut named = here().filter_map(|grant| grant.user.name());
        match said {
            None => Ok(Some(named.next().unwrap_or(&self.name))),
            Some(said) if said == &*self.name || named.any(|name| name == said) => Ok(Some(said)),
            Some(_) => Err(Denial::UserNotPermitted { field }),
        }
    }

    /// Returns true if there is nothing that it may not know of.
    pub fn finds_all(&self) -> bool {
        self.grants.iter().any(|grant| {
            let is_everywhere = grant.reads_somewhere() && grant.namespaces == NamespaceScope::All;
            grant.reads_all() || (is_everywhere && grant.user.is_free())
        })
    }

    /// Returns true if in some namespace it finds the things of one user or some, and not those of every user there.
    pub fn is_held_somewhere(&self) -> bool {
        self.scopes().iter().any(|(_, user)| user.is_some())
    }

    /// Returns the users besides itself in whose names the policy says that it acts in the namespace.
    pub fn named_users(&self, namespace: &Namespace) -> impl Iterator<Item = &str> {
        let here = self.grants.iter().filter(|grant| grant.reads(namespace));
        here.filter_map(|grant| grant.user.name())
    }

    /// Returns true if it may know of what lies in the namespace and is that user's, or nobody's in particular.
    pub fn sees_of(&self, namespace: &Namespace, owner: Option<&str>) -> bool {
        let mut grants = self.grants.iter();
        grants.any(|grant| grant.reads(namespace) && grant.finds(&self.name, owner))
    }

    /// Refuses a call that goes on about what lies in the namespace and is that user's, if the principal does not find it any more.
    /// `None` stands for every namespace, and for what is every user's.
    ///
    /// # Errors
    /// [`Denial::NamespaceNotPermitted`]; [`Denial::UserNotPermitted`] if it finds only what is of others there.
    pub fn check_scope(&self, namespace: Option<&Namespace>, user: Option<&str>) -> Result<(), Denial> {
        let reads = |grant: &&Grant| match namespace {
            Some(namespace) => grant.reads(namespace),
            None => grant.reads_all() || (grant.reads_somewhere() && grant.namespaces == NamespaceScope::All),
        };
        let mut reading = self.grants.iter().filter(reads).peekable();
        if reading.peek().is_none() {
            return Err(Denial::NamespaceNotPermitted {
                namespace: namespace.map_or("*", Namespace::as_str).to_owned(),
            });
        }
        match reading.any(|grant| grant.finds(&self.name, user)) {
            true => Ok(()),
            false => Err(Denial::UserNotPermitted { field: "user_id" }),
        }
    }

    /// Returns all that it finds: what lies in one of these namespaces and is that user's. `None`: every namespace, every user.
    ///
    /// Each is what one grant gives: a user of one namespace is nobody in another.
    pub fn scopes(&self) -> Vec<(Option<&Namespace>, Option<&str>)> {
        let mut scopes: Vec<(Option<&Namespace>, Option<&str>)> = Vec::new();
        for grant in self.grants.iter().filter(|grant| grant.reads_somewhere()) {
            if grant.reads_all() {
                return vec![(None, None)];
            }
            let user = match &grant.user {
                UserScope::Free | UserScope::Any => None,
                UserScope::Own => Some(&*self.name),
                UserScope::Named(name) => Some(&**name),
            };
            match &grant.namespaces {
                NamespaceScope::All => scopes.push((None, user)),
                NamespaceScope::Named(names) => scopes.extend(names.iter().map(|name| (Some(name), user))),
            }
        }
        // What lies in a wider one needs none of its own.
        let covers = |wide: &(Option<&Namespace>, Option<&str>),
                      narrow: &(Option<&Namespace>, Option<&str>)| {
            wide != narrow
                && (wide.0.is_none() || wide.0 == narrow.0)
                && (wide.1.is_none() || wide.1 == narrow.1)
        };
        let all = scopes.clone();
        scopes.retain(|narrow| !all.iter().any(|wide| covers(wide, narrow)));
        scopes
    }
}

#[cfg(test)]
mod tests;
