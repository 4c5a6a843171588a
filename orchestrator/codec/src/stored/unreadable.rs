//! Reason why a stored or exported blob cannot be read. Reads none.

use std::fmt;

/// A record that cannot be read.
#[derive(Debug)]
pub enum Unreadable {
    /// The bytes do not decode.
    Wire(prost::DecodeError),
    /// The request in it is not valid; holds the violations as text.
    Invalid(String),
    /// The bytes decode and make no sense; holds why.
    Meaningless(String),
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unreadable::Wire(_) => f.write_str("the record does not decode"),
            Unreadable::Invalid(violations) => write!(f, "the recorded request is not valid: {violations}"),
            Unreadable::Meaningless(why) => write!(f, "the record makes no sense: {why}"),
        }
    }
}

impl std::error::Error for Unreadable {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Unreadable::Wire(error) => Some(error),
            Unreadable::Invalid(_) | Unreadable::Meaningless(_) => None,
        }
    }
}
