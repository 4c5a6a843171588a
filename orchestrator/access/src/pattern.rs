//! Patterns of names: `*` stands for any run of characters, also for none, and everything else for itself.
//! Knows no names.

use alloc::boxed::Box;
use core::fmt;

/// A pattern of names. Equal characters match, in the same letter case; there is no escape, and no other wildcard than `*`.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Pattern {
    text: Box<str>,
    /// What `*` never stands for.
    separator: Option<char>,
}

/// Reason why a text is no pattern.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PatternError {
    /// It has no character, and would match nothing.
    Empty,
    /// It has more than [`Pattern::BYTES_MAX`] bytes.
    TooLong,
    /// It holds a character that no name has: a space, a control character, or one beyond ASCII in a name of ASCII.
    NeverMatches,
}

impl Pattern {
    /// Most bytes of a pattern.
    pub const BYTES_MAX: usize = 2_048;

    /// Matches every name.
    pub fn any() -> Self {
        Self {
            text: "*".into(),
            separator: None,
        }
    }

    /// Creates a pattern whose `*` stands for any characters.
    ///
    /// # Errors
    /// [`PatternError`] if it can match nothing.
    pub fn new(text: &str) -> Result<Self, PatternError> {
        Self::with_separator(text, None)
    }

    /// Creates a pattern whose `*` never stands for the separator: a slash in a SPIFFE id, a dot in a DNS name.
    ///
    /// # Errors
    /// [`PatternError`] if it can match nothing.
    pub fn within(text: &str, separator: char) -> Result<Self, PatternError> {
        Self::with_separator(text, Some(separator))
    }

    fn with_separator(text: &str, separator: Option<char>) -> Result<Self, PatternError> {
        if text.is_empty() {
            return Err(PatternError::Empty);
        }
        if text.len() > Self::BYTES_MAX {
            return Err(PatternError::TooLong);
        }
        if text.chars().any(char::is_control) {
            return Err(PatternError::NeverMatches);
        }
        Ok(Self {
            text: text.into(),
            separator,
        })
    }

    /// Returns the pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns true if the pattern matches every name.
    pub fn is_any(&self) -> bool {
        self.separator.is_none() && self.text.bytes().all(|byte| byte == b'*')
    }

    /// Returns true if the name matches.
    pub fn matches(&self, name: &str) -> bool {
        let Some(separator) = self.separator else {
            return part_matches(&self.text, name);
        };
        // Part by part: so no `*` can reach over a separator.
        let mut patterns = self.text.split(separator);
        let mut parts = name.split(separator);
        loop {
            match (patterns.next(), parts.next()) {
                (None, None) => return true,
                (Some(pattern), Some(part)) if part_matches(pattern, part) => {}
                _ => return false,
            }
        }
    }
}

/// Matches from left to right. What lies between two stars is taken where it comes first, which leaves the most to the rest, so
/// no earlier choice ever has to be taken back.
fn part_matches(pattern: &str, name: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(mut left) = name.strip_prefix(head) else {
        return false;
    };
    let mut pieces = rest.split('*').peekable();
    while let Some(piece) = pieces.next() {
        if pieces.peek().is_none() {
            return left.ends_with(piece);
        }
        match left.find(piece) {
            Some(at) => left = &left[at + piece.len()..],
            None => return false,
        }
    }
    true
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PatternError::Empty => f.write_str("must not be empty"),
            PatternError::TooLong => write!(f, "must not have more than {} bytes", Pattern::BYTES_MAX),
            PatternError::NeverMatches => {
                f.write_str("holds a character that no name has, so it matches nothing")
            }
        }
    }
}

impl core::error::Error for PatternError {}

#[cfg(test)]
mod tests;
