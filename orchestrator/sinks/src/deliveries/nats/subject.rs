//! The subject that a message goes to: a text with places for its namespace and its type.

use crate::deliveries::message::Message;

/// A subject that was checked.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Subject(String);

impl Subject {
    /// Reads `orders.{namespace}.{type}`: words with dots between, of which none is empty or matches others.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        if text.len() > SUBJECT_BYTES_MAX {
            return Err("is longer than 256 bytes");
        }
        let plain = text.replace(NAMESPACE, "n").replace(TYPE, "t");
        if plain.contains(['{', '}']) {
            return Err("has a place that is neither {namespace} nor {type}");
        }
        if plain.contains(['*', '>']) {
            return Err("must not hold * or >");
        }
        if !plain.chars().all(|c| c.is_ascii_graphic()) {
            return Err("must hold printable ASCII without spaces");
        }
        if plain.split('.').any(str::is_empty) {
            return Err("has an empty word");
        }
        if plain.starts_with('$') {
            return Err("must not begin with $, which is the server's own");
        }
        Ok(Self(text.to_owned()))
    }

    /// That of a message. One about the sink itself has `_` for its namespace, which no namespace is called.
    pub(crate) fn of(&self, message: &Message) -> String {
        let namespace = message.namespace.as_ref().map(ToString::to_string);
        self.0
            .replace(NAMESPACE, namespace.as_deref().unwrap_or("_"))
            .replace(TYPE, &message.kind)
    }
}

const NAMESPACE: &str = "{namespace}";
const TYPE: &str = "{type}";
const SUBJECT_BYTES_MAX: usize = 256;
