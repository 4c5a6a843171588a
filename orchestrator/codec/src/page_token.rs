//! Page tokens of lists: a position and a fingerprint of the filters that it was made for.
//! Not secret and not signed: a forged token shows nothing that its sender could not list anyway.

use escapement_model::hex;
use sha2::{Digest, Sha256};
use std::fmt::Debug;

/// A token that is not ours, or was made for other filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidPageToken;

/// Returns the token of the page that continues below `before`.
pub fn encode(before: u64, filter: &impl Debug) -> String {
    let bytes = [&[VERSION][..], &before.to_be_bytes(), &fingerprint(filter)].concat();
    hex::text(&bytes)
}

/// Returns the position in a token.
///
/// # Errors
/// [`InvalidPageToken`] if the token is not ours, or was made for other filters.
pub fn decode(token: &str, filter: &impl Debug) -> Result<u64, InvalidPageToken> {
    // Before anything is kept of a text that may be long.
    let is_one = token.len() == TOKEN_CHARS;
    let bytes = is_one.then(|| hex::bytes(token)).flatten();
    let bytes = bytes.ok_or(InvalidPageToken)?;
    let (version, rest) = bytes.split_first().ok_or(InvalidPageToken)?;
    let (before, made_for) = rest.split_at_checked(8).ok_or(InvalidPageToken)?;
    if *version != VERSION || made_for != fingerprint(filter) {
        return Err(InvalidPageToken);
    }
    Ok(u64::from_be_bytes(
        before.try_into().expect("split after eight bytes"),
    ))
}

/// `Debug` of a filter, which names its type, is injective: texts in it are quoted and escaped.
fn fingerprint(filter: &impl Debug) -> [u8; FINGERPRINT_BYTES] {
    let digest = Sha256::digest(format!("{filter:?}").as_bytes());
    let mut fingerprint = [0; FINGERPRINT_BYTES];
    fingerprint.copy_from_slice(&digest[..FINGERPRINT_BYTES]);
    fingerprint
}

const VERSION: u8 = 1;
const FINGERPRINT_BYTES: usize = 8;
const TOKEN_CHARS: usize = 2 * (1 + 8 + FINGERPRINT_BYTES);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use escapement_store::ListFilter;

    fn filter(tag: &str) -> ListFilter {
        ListFilter {
            tag: Some(tag.to_owned()),
            ..ListFilter::default()
        }
    }

    #[test]
    fn a_token_brings_its_position_back() {
        for before in [1, 255, 1 << 40, u64::MAX] {
            assert_eq!(decode(&encode(before, &filter("a")), &filter("a")), Ok(before));
        }
    }

    #[test]
    fn a_token_for_other_filters_is_refused() {
        let token = encode(7, &filter("a"));
        assert_eq!(decode(&token, &filter("b")), Err(InvalidPageToken));
        assert_eq!(decode(&token, &ListFilter::default()), Err(InvalidPageToken));
    }

    #[test]
    fn a_token_that_is_not_ours_is_refused() {
        let token = encode(7, &filter("a"));
        let cut = &token[..token.len() - 2];
        let other_version = format!("02{}", &token[2..]);
        for foreign in ["", "7", "zz", "é", cut, &other_version, &"é".repeat(17)] {
            assert_eq!(
                decode(foreign, &filter("a")),
                Err(InvalidPageToken),
                "{foreign:?}"
            );
        }
    }
}
