//! Names of namespaces.

use alloc::boxed::Box;
use core::fmt;

/// The name of a namespace: 1 to 63 of `a` to `z`, `0` to `9` and `-`, neither beginning nor ending with `-`.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Namespace(Box<str>);

impl Namespace {
    /// What a request belongs to that names none, and everything that was stored before there were namespaces.
    pub const DEFAULT: &str = "default";

    /// Most bytes of a name.
    pub const BYTES_MAX: usize = 63;

    /// Returns the namespace of that name, or `None` if the name is none of a namespace.
    pub fn parse(name: &str) -> Option<Self> {
        let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let holds = !name.is_empty()
            && name.len() <= Self::BYTES_MAX
            && name.bytes().all(is_allowed)
            && !name.starts_with('-')
            && !name.ends_with('-');
        holds.then(|| Self(name.into()))
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Namespace {
    fn default() -> Self {
        Self(Self::DEFAULT.into())
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
