//! Refusals of writes that are too large. Ends no process.

use std::fmt;

/// A part of a write that is beyond its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge {
    /// The part, as `an entry`.
    pub part: &'static str,
    /// The number of its bytes or items if it were written.
    pub size: u64,
    /// The bound.
    pub max: u64,
}

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { part, size, max } = self;
        write!(f, "{part} has {size}, and the store holds at most {max}")
    }
}

/// Checks that each of the parts has at most so many bytes.
///
/// # Errors
/// [`TooLarge`] about the first that has more.
pub(super) fn check_bytes<B: AsRef<[u8]>>(
    part: &'static str,
    bytes_max: usize,
    parts: impl IntoIterator<Item = B>,
) -> Result<(), TooLarge> {
    let too_large = |size: usize| (size > bytes_max).then_some(size as u64);
    let mut sizes = parts.into_iter().map(|bytes| bytes.as_ref().len());
    match sizes.find_map(too_large) {
        None => Ok(()),
        Some(size) => Err(TooLarge {
            part,
            size,
            max: bytes_max as u64,
        }),
    }
}
