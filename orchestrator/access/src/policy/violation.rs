//! What is wrong with a policy.

use alloc::string::String;
use core::fmt;

/// A thing that is wrong with a policy.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PolicyViolation {
    /// The line, counted from 1.
    pub line: usize,
    /// The path of the key, such as `token[2].roles[0]`; empty where the text is no TOML.
    pub path: String,
    /// A sentence without a full stop, with the path as its subject.
    pub message: String,
}

impl fmt::Display for PolicyViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => write!(f, "line {}: {}", self.line, self.message),
            path => write!(f, "line {}: {path} {}", self.line, self.message),
        }
    }
}

impl core::error::Error for PolicyViolation {}
