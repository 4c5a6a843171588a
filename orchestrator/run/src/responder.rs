//! Responders: callers that answer, start or change something. Proves no identity.

use alloc::string::String;
use alloc::vec::Vec;
use prost::{Enumeration, Message};

/// Caller that says or does something.
#[derive(Clone, PartialEq, Message)]
pub struct Responder {
    /// The name.
    #[prost(string, tag = "1")]
    pub id: String,
    /// Kind of being.
    #[prost(enumeration = "ResponderKind", tag = "2")]
    pub kind: i32,
    /// True once the name comes from a verified identity.
    #[prost(bool, tag = "3")]
    pub verified: bool,
    /// The users in whose names a verified identity acts besides its own.
    #[prost(string, repeated, tag = "4")]
    pub users: Vec<String>,
}

impl Responder {
    /// Returns every name under which the responder acts. Two responders that share one are one person.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let users = self.users.iter().map(String::as_str);
        core::iter::once(self.id.as_str()).chain(users)
    }

    /// Adds a name under which the responder acts, unless it has it.
    pub fn add_name(&mut self, name: &str) {
        if !self.names().any(|known| known == name) {
            self.users.push(String::from(name));
        }
    }
}

/// Kind of being that says or does something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub enum ResponderKind {
    /// A person.
    Person = 0,
    /// A service.
    Service = 1,
    /// An agent: never approves.
    Agent = 2,
}
