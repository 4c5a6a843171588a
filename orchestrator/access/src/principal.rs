//! Who calls, and what it may.

use crate::denial::Denial;
use crate::grant::{Grant, NamespaceScope};
use crate::matrix::{Permission, Row};
use crate::pattern::Pattern;
use crate::role::{Role, Roles};
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;
use escapement_model::Namespace;

/// How a principal proved who it is.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum PrincipalKind {
    /// By nothing.
    Anonymous,
    /// By a static token of the policy.
    Token,
    /// By a JSON Web Token of an issuer of the policy.
    Jwt,
    /// By a client certificate.
    Certificate,
    /// By the token of an attempt that is under way.
    Attempt,
}

/// Who calls, as verified. Stands among the extensions of each request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Principal {
    /// What records and logs call it: the name of the token, the `sub` of a JSON Web Token, the SPIFFE id or DNS name of a
    /// certificate, `anonymous`.
    pub name: Box<str>,
    /// How it proved who it is.
    pub kind: PrincipalKind,
    /// The issuer of a JSON Web Token; empty for every other kind.
    pub issuer: Box<str>,
    /// Milliseconds since 1970 after which its credential is void. `None`: never.
    pub valid_until_ms: Option<i64>,
    /// What it may: whatever one of these gives.
    pub grants: Vec<Grant>,
}

/// Who somebody is, whatever they may: kind, name and issuer.
pub(crate) type Identity = (PrincipalKind, Box<str>, Box<str>);

impl Principal {
    /// What records and logs call who has no credentials.
    pub const ANONYMOUS: &str = "anonymous";

    /// Who has no credentials, with what the policy gives to such.
    pub fn anonymous(grants: Vec<Grant>) -> Self {
        Self {
            name: Self::ANONYMOUS.into(),
            kind: PrincipalKind::Anonymous,
            issuer: "".into(),
            valid_until_ms: None,
            grants,
        }
    }

    /// Everybody, where there is no policy: everything is permitted.
    pub fn without_policy() -> Self {
        Self::anonymous(vec![Grant::everything()])
    }

    /// An attempt that is under way, in the name of who handed in its execution. It hands in plans with these actions to this namespace.
    pub fn attempt(name: &str, issuer: &str, namespace: Namespace, actions: Vec<Pattern>) -> Self {
        let roles = [Role::Submitter].into_iter().collect();
        let grant = Grant {
            actions,
            ..Grant::new(roles, NamespaceScope::Named(BTreeSet::from([namespace])))
        };
        Self {
            name: name.into(),
            kind: PrincipalKind::Attempt,
            issuer: issuer.into(),
            valid_until_ms: None,
            grants: vec![grant],
        }
    }

    /// Who shows the token of an attempt, before it is known of which: it may nothing that is judged by what a request is about.
    pub(crate) fn of_some_attempt() -> Self {
        Self {
            name: "attempt".into(),
            kind: PrincipalKind::Attempt,
            ..Self::anonymous(Vec::new())
        }
    }

    /// Returns true if it has shown nothing that says who it is.
    pub fn has_proven_nothing(&self) -> bool {
        self.kind == PrincipalKind::Anonymous
    }

    /// Returns true if it is the same principal, perhaps with other rights.
    pub fn is_same_as(&self, other: &Principal) -> bool {
        self.identity() == other.identity()
    }

    /// What makes two principals one: what one began, the other may go on with, also after its credential was renewed.
    pub(crate) fn identity(&self) -> Identity {
        (self.kind, self.name.clone(), self.issuer.clone())
    }

    /// Returns the roles that any grant gives it anywhere.
    pub fn roles(&self) -> Roles {
        self.grants.iter().flat_map(|grant| grant.roles.iter()).collect()
    }

    /// Returns true if it has the role in the namespace.
    pub fn has(&self, role: Role, namespace: &Namespace) -> bool {
        self.grants.iter().any(|grant| grant.gives(role, namespace))
    }

    /// Returns true if it may know of what lies in the namespace. What it may not know of is not found, and never refused.
    pub fn sees(&self, namespace: &Namespace) -> bool {
        self.grants.iter().any(|grant| grant.reads(namespace))
    }

    /// Returns true if it reads everything in every namespace, also in those that the policy does not name.
    pub fn sees_all(&self) -> bool {
        self.grants.iter().any(|grant| {
            grant.reads_all() || (grant.reads_somewhere() && grant.namespaces == NamespaceScope::All)
        })
    }

    /// Returns the namespaces in which it reads or hands in, in order; `None`: every one.
    pub fn visible(&self) -> Option<BTreeSet<&Namespace>> {
        if self.sees_all() {
            return None;
        }
        let named = self.grants.iter().flat_map(|grant| grant.namespaces.named());
        Some(named.filter(|namespace| self.sees(namespace)).collect())
    }

    /// Returns the only namespace in which it reads or hands in, if there is exactly one.
    pub fn only_namespace(&self) -> Option<&Namespace> {
        let mut names = self.visible()?;
        let only = names.pop_first()?;
        names.is_empty().then_some(only)
    }

    /// Returns the namespace that a request is for: the one that it names, else the principal's only one, else `default`.
    ///
    /// # Errors
    /// [`Denial::NamespaceNotPermitted`] if the principal has no business there, or the text is no name of a namespace.
    pub fn namespace(&self, requested: &str) -> Result<Namespace, Denial> {
        let not_permitted = || Denial::NamespaceNotPermitted {
            namespace: requested.to_owned(),
        };
        let namespace = match requested {
            "" => self.only_namespace().cloned().unwrap_or_default(),
            name => Namespace::parse(name).ok_or_else(not_permitted)?,
        };
        match self.sees(&namespace) {
            true => Ok(namespace),
            false => Err(not_permitted()),
        }
    }

    /// True if it may make this call at all; what the request is about is judged once it is read.
    ///
    /// # Errors
    /// [`Denial::CredentialsMissing`] for who has none, [`Denial::RoleMissing`] for who has others.
    pub fn permits(&self, rpc: &str, row: &Row) -> Result<(), Denial> {
        let is_permitted = match self.kind {
            PrincipalKind::Attempt => row.attempt != Permission::Never,
            _ if row.anonymous != Permission::Never => true,
            _ => self.grants.iter().any(|grant| grant.permits(row, |_| true)),
        };
        if is_permitted {
            return Ok(());
        }
        if self.kind == PrincipalKind::Anonymous {
            return Err(Denial::CredentialsMissing);
        }
        let needed = Role::ALL
            .into_iter()
            .filter(|role| row.of(*role) != Permission::Never);
        Err(Denial::RoleMissing {
            rpc: rpc.trim_start_matches('/').into(),
            needed: needed.collect(),
        })
    }

    /// Returns true if its plans in the namespace may name the action.
    pub fn may_submit(&self, namespace: &Namespace, action: &str) -> bool {
        self.grants.iter().any(|grant| grant.submits(namespace, action))
    }

    /// Holds the actions of a plan's steps, in their order, against what it may submit to the namespace.
    ///
    /// # Errors
    /// [`Denial::NamespaceNotPermitted`] if it may not submit there, [`Denial::ActionNotPermitted`] for the first action that it
    /// may not name.
    pub fn check_plan<'a>(
        &self,
        namespace: &Namespace,
        actions: impl IntoIterator<Item = &'a str>,
    ) -> Result<(), Denial> {
        if !self.has(Role::Submitter, namespace) && !self.has(Role::Admin, namespace) {
            return Err(Denial::NamespaceNotPermitted {
                namespace: namespace.as_str().to_owned(),
            });
        }
        for (index, action) in actions.into_iter().enumerate() {
            if !self.may_submit(namespace, action) {
                return Err(Denial::ActionNotPermitted {
                    field: alloc::format!("plan.steps[{index}].action"),
                    action: action.to_owned(),
                });
            }
        }
        Ok(())
    }

    /// Returns true if it may know that workers offer the action.
    pub fn may_list(&self, action: &str) -> bool {
        self.grants.iter().any(|grant| {
            let lists_all = [Role::Viewer, Role::Operator, Role::Admin];
            let lists_some = [Role::Submitter, Role::Worker];
            lists_all.into_iter().any(|role| grant.roles.contains(role))
                || (lists_some.into_iter().any(|role| grant.roles.contains(role)) && grant.names(action))
        })
    }

    /// Returns true if its workers may offer the action.
    pub fn may_offer(&self, action: &str) -> bool {
        self.of_workers().any(|grant| grant.names(action))
    }

    /// Returns true if its workers may have the id.
    pub fn may_be_worker(&self, worker_id: &str) -> bool {
        let matches = |pattern: &Pattern| pattern.matches(worker_id);
        self.of_workers()
            .any(|grant| grant.worker_ids.iter().any(matches))
    }

    /// Most steps in flight of one of its sessions. `None`: the server's limit.
    pub fn max_in_flight(&self) -> Option<u32> {
        widest(self.of_workers().map(|grant| grant.max_in_flight))
    }

    /// Most of its sessions at a time. `None`: any number.
    pub fn max_sessions(&self) -> Option<u32> {
        widest(self.of_workers().map(|grant| grant.max_sessions))
    }

    /// Returns true if it is a program that decides by itself, which never approves.
    pub fn is_agent(&self) -> bool {
        self.grants.iter().any(|grant| grant.is_agent)
    }

    /// Its name, if it proved who it is: the one under which it answers what runs ask. `None` for who has no credentials.
    pub fn verified_name(&self) -> Option<&str> {
        (self.kind != PrincipalKind::Anonymous).then_some(&*self.name)
    }

    /// Returns the name under which it answers; `None` if it has not proved any.
    ///
    /// # Errors
    /// [`Denial::ResponderNotPermitted`] if the request names another one.
    pub fn responder(&self, field: &'static str, requested: &str) -> Result<Option<&str>, Denial> {
        match self.verified_name() {
            Some(name) if !requested.is_empty() && requested != name => {
                Err(Denial::ResponderNotPermitted { field })
            }
            name => Ok(name),
        }
    }

    fn of_workers(&self) -> impl Iterator<Item = &Grant> {
        self.grants
            .iter()
            .filter(|grant| grant.roles.contains(Role::Worker))
    }
}

/// Returns the union of limits: none if one of them is none.
fn widest(limits: impl Iterator<Item = Option<u32>>) -> Option<u32> {
    limits.reduce(|one, other| Some(one?.max(other?))).flatten()
}

#[cfg(test)]
mod tests;
