//! Who started a run, and what belongs to the namespace of one. Proves nobody's identity, and judges no action.

use super::Spec;
use crate::responder::Responder;
use alloc::borrow::Cow;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use escapement_model::Namespace;
use prost::{Enumeration, Message};

/// Who started a run, or made what starts runs, as the orchestrator verified it.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Author {
    /// The name of the token, the `sub` of the JSON Web Token, the name of the certificate; empty if nothing was proved.
    #[prost(string, tag = "1")]
    pub name: String,
    /// How it was proved.
    #[prost(enumeration = "AuthorKind", tag = "2")]
    pub kind: i32,
    /// The issuer of a JSON Web Token; empty for every other kind.
    #[prost(string, tag = "3")]
    pub issuer: String,
    /// What its plans might call at that time; absent for every action.
    #[prost(message, optional, tag = "4")]
    pub actions: Option<ActionPatterns>,
}

/// How an author proved who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub enum AuthorKind {
    /// By nothing.
    Anonymous = 0,
    /// By a static token of the policy.
    Token = 1,
    /// By a JSON Web Token.
    Jwt = 2,
    /// By a client certificate.
    Certificate = 3,
    /// By the token of an attempt that was under way.
    Attempt = 4,
}

/// Names of actions, with `*` for any run of characters. Without any, no action.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ActionPatterns {
    /// The patterns.
    #[prost(string, repeated, tag = "1")]
    pub patterns: Vec<String>,
}

impl Author {
    /// The name that was proved; `None` if nothing was.
    pub fn verified_name(&self) -> Option<&str> {
        (self.kind() != AuthorKind::Anonymous).then_some(self.name.as_str())
    }
}

impl Spec {
    /// Returns the name that the user who started it has proved.
    pub fn verified_author(&self) -> Option<&str> {
        self.author.as_ref()?.verified_name()
    }

    // RUN-6.8
    /// Returns true if the user with that name started the run or fired its trigger. `verified`: if the name
    /// was proved.
    pub fn is_started_by(&self, name: &str, verified: bool) -> bool {
        let fired = self.fired_by.as_deref();
        name == self.user_id
            || (verified && self.verified_author() == Some(name))
            || fired.is_some_and(|fired| fired.names().any(|it| it == name))
    }

    // RUN-6.8
    /// Returns the responder that events of the run have, with the names of its starters. It is the one that fired the run's
    /// trigger, else the author, else the user; `None` without any of them.
    pub fn fires(&self) -> Option<Responder> {
        let author = self.verified_author();
        let user = Some(self.user_id.as_str()).filter(|user| *user != DEFAULT_USER);
        let mut fires = match self.fired_by.as_deref() {
            Some(fired_by) => fired_by.clone(),
            None => Responder {
                id: author.or(user)?.to_string(),
                verified: author.is_some(),
                ..Responder::default()
            },
        };
        for name in [author, user].into_iter().flatten() {
            fires.add_name(name);
        }
        Some(fires)
    }
}

/// The user of a run that has no particular one.
pub const DEFAULT_USER: &str = "default";

/// The namespace of that name; the default one has none in what is stored.
pub fn namespace_named(name: &str) -> Namespace {
    Namespace::parse(name).unwrap_or_default()
}

/// What is stored of a namespace: nothing of the default one, so that what was stored before there was another is as it was.
pub fn stored_name(namespace: &Namespace) -> String {
    match namespace.as_str() {
        Namespace::DEFAULT => String::new(),
        name => String::from(name),
    }
}

/// What a session of that id and namespace is kept as; empty without an id. Ids of sessions do not have [`SEPARATOR`].
pub fn session_key<'a>(namespace: &str, session_id: &'a str) -> Cow<'a, str> {
    match (namespace, session_id) {
        ("" | Namespace::DEFAULT, _) | (_, "") => Cow::Borrowed(session_id),
        (namespace, session_id) => Cow::Owned(format!("{namespace}{SEPARATOR}{session_id}")),
    }
}

/// The namespace of a session that is kept as this.
pub fn namespace_of_session(key: &str) -> Namespace {
    key.split_once(SEPARATOR)
        .map_or_else(Namespace::default, |(namespace, _)| namespace_named(namespace))
}

/// Stands between the namespace of a session and its id.
pub const SEPARATOR: char = '\u{1f}';
