//! The five roles, and sets of them.

use core::fmt;

/// What kind of thing a credential is good for.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Role {
    /// Reads.
    Viewer,
    /// Reads, and hands in plans and runs.
    Submitter,
    /// Has worker sessions.
    Worker,
    /// Reads all namespaces, and takes workers out of service.
    Operator,
    /// May do everything but serve as a worker.
    Admin,
}

impl Role {
    /// All of them, each at the place of its discriminant.
    pub const ALL: [Self; 5] = [
        Self::Viewer,
        Self::Submitter,
        Self::Worker,
        Self::Operator,
        Self::Admin,
    ];

    /// Those that let their holders know of what lies in a namespace.
    pub(crate) const READING: [Self; 4] = [Self::Viewer, Self::Submitter, Self::Operator, Self::Admin];

    /// Returns true if it holds in the namespaces of its grant alone; the others hold everywhere.
    pub(crate) const fn is_bound(self) -> bool {
        matches!(self, Role::Viewer | Role::Submitter)
    }

    /// Returns the name that the policy has for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::Submitter => "submitter",
            Role::Worker => "worker",
            Role::Operator => "operator",
            Role::Admin => "admin",
        }
    }

    /// Returns the role of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == name)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A set of roles.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Roles(u8);

impl Roles {
    /// Returns every role.
    pub fn all() -> Self {
        Role::ALL.into_iter().collect()
    }

    /// Returns true if the role is in it.
    pub fn contains(self, role: Role) -> bool {
        self.0 & (1 << role as u8) != 0
    }

    /// Returns true if it holds none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Its roles, in the order of [`Role::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Role> {
        Role::ALL.into_iter().filter(move |role| self.contains(*role))
    }
}

impl FromIterator<Role> for Roles {
    fn from_iter<I: IntoIterator<Item = Role>>(roles: I) -> Self {
        Self(roles.into_iter().fold(0, |set, role| set | 1 << role as u8))
    }
}
