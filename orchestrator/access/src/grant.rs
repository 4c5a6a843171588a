//! What one entry of the policy gives.

use crate::matrix::{Permission, Row};
use crate::pattern::Pattern;
use crate::role::{Role, Roles};
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;
use escapement_model::Namespace;

/// The namespaces that a grant is for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum NamespaceScope {
    /// Every one, also those that the policy does not name.
    All,
    /// These.
    Named(BTreeSet<Namespace>),
}

impl NamespaceScope {
    /// Those that it names; none if it is for every one.
    pub fn named(&self) -> impl Iterator<Item = &Namespace> {
        let names = match self {
            NamespaceScope::All => None,
            NamespaceScope::Named(names) => Some(names),
        };
        names.into_iter().flatten()
    }

    /// Returns true if the namespace is one of them.
    pub fn contains(&self, namespace: &Namespace) -> bool {
        match self {
            NamespaceScope::All => true,
            NamespaceScope::Named(names) => names.contains(namespace),
        }
    }
}

/// The users in whose names the holder acts, and whose things it finds.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum UserScope {
    /// In its own name; it finds the things of every user of its namespaces.
    Free,
    /// In its own name; it finds the things of that user alone.
    Own,
    /// In this name; it finds the things of that user alone.
    Named(Box<str>),
    /// In every name: it acts for users whom it knows itself.
    Any,
}

/// What one entry of the policy gives to those that it matches. Several are united; nothing is ever taken away.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Grant {
    /// The roles.
    pub roles: Roles,
    /// Where `viewer` and `submitter` hold. The other roles hold everywhere.
    pub namespaces: NamespaceScope,
    /// The actions that a submitter's plans may name, and that a worker may offer.
    pub actions: Vec<Pattern>,
    /// The ids that a worker may have.
    pub worker_ids: Vec<Pattern>,
    /// Most steps in flight of one session. `None`: the server's limit.
    pub max_in_flight: Option<u32>,
    /// Most sessions of the principal at a time. `None`: any number.
    pub max_sessions: Option<u32>,
    /// True if an operator may export records, which hold payloads.
    pub payloads: bool,
    /// True if the holder is a program that decides by itself: it never approves.
    pub is_agent: bool,
    /// In whose name it acts.
    pub user: UserScope,
}

impl UserScope {
    /// Returns the user that it names.
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            UserScope::Named(name) => Some(name),
            UserScope::Free | UserScope::Own | UserScope::Any => None,
        }
    }

    /// Returns true if the holder finds the things of every user.
    pub(crate) fn is_free(&self) -> bool {
        matches!(self, UserScope::Free | UserScope::Any)
    }
}

impl Grant {
    /// Creates a grant of these roles in these namespaces, for every action and every worker id, without limits.
    pub fn new(roles: Roles, namespaces: NamespaceScope) -> Self {
        Self {
            roles,
            namespaces,
            actions: vec![Pattern::any()],
            worker_ids: vec![Pattern::any()],
            max_in_flight: None,
            max_sessions: None,
            payloads: false,
            is_agent: false,
            user: UserScope::Free,
        }
    }

    /// Returns everything: what every caller has where there is no policy.
    pub fn everything() -> Self {
        Self {
            payloads: true,
            user: UserScope::Any,
            ..Self::new(Roles::all(), NamespaceScope::All)
        }
    }

    /// True if one of its roles, of those that hold, permits the call.
    pub(crate) fn permits(&self, row: &Row, holds: impl Fn(Role) -> bool) -> bool {
        self.roles.iter().any(|role| match row.of(role) {
            Permission::Never => false,
            Permission::WithPayloads => self.payloads,
            _ => holds(role),
        })
    }

    /// Returns true if it gives the role in the namespace.
    pub(crate) fn gives(&self, role: Role, namespace: &Namespace) -> bool {
        self.roles.contains(role) && (!role.is_bound() || self.namespaces.contains(namespace))
    }

    /// Returns true if it gives the role in every namespace.
    pub(crate) fn holds_everywhere(&self, role: Role) -> bool {
        self.roles.contains(role) && (!role.is_bound() || self.namespaces == NamespaceScope::All)
    }

    /// Returns true if it lets its holder know of what lies in the namespace.
    pub(crate) fn reads(&self, namespace: &Namespace) -> bool {
        Role::READING.into_iter().any(|role| self.gives(role, namespace))
    }

    /// Returns true if it lets its holder know of what lies in some namespace.
    pub(crate) fn reads_somewhere(&self) -> bool {
        Role::READING.into_iter().any(|role| self.roles.contains(role))
    }

    /// Returns true if it lets its holder know of everything in every namespace.
    pub(crate) fn reads_all(&self) -> bool {
        self.roles.contains(Role::Operator) || self.roles.contains(Role::Admin)
    }

    /// Returns true if its holder, of that name, finds what is that user's, or nobody's in particular.
    pub(crate) fn finds(&self, holder: &str, owner: Option<&str>) -> bool {
        match &self.user {
            _ if self.reads_all() => true,
            UserScope::Free | UserScope::Any => true,
            UserScope::Own => owner == Some(holder),
            UserScope::Named(name) => owner == Some(&**name),
        }
    }

    /// Returns true if it lets a plan name the action, or a worker offer it.
    pub(crate) fn names(&self, action: &str) -> bool {
        self.actions.iter().any(|pattern| pattern.matches(action))
    }
}
