//! Page tokens: a place and a fingerprint of the filters that it was made for, and of some lists their total.
//! Not secret and not signed: a forged token shows nothing that its sender could not list anyway.

use crate::errors::Rejection;
use escapement_model::hex;
use escapement_store::runs::limits::{NAME_BYTES_MAX, PAGE_BYTES_MAX};
use escapement_store::runs::{DefinitionKey, DefinitionPage, ListCount};
use sha2::{Digest, Sha256};
use std::fmt::Debug;

/// A place in a list, as up to three numbers.
pub(crate) type Place = [u64; 3];

/// The token of the page that begins behind `place`. `Debug` of the filters must be injective.
pub(crate) fn token(place: Place, filters: &impl Debug) -> String {
    let numbers = place.map(u64::to_be_bytes).concat();
    hex::text(&[&[VERSION][..], &numbers, &fingerprint(filters)].concat())
}

/// Returns a [`token`] of a list that has a total.
pub(crate) fn token_with(place: Place, total: ListCount, filters: &impl Debug) -> String {
    let flag = if total.is_at_least { AT_LEAST } else { 0 };
    let [first, second, third] = place;
    let numbers = [first, second, third, total.n | flag]
        .map(u64::to_be_bytes)
        .concat();
    hex::text(&[&[VERSION_OF_TOTALS][..], &numbers, &fingerprint(filters)].concat())
}

/// Returns the token of the next page; empty on the last one.
pub(crate) fn next_token(page: &DefinitionPage, total: ListCount, filters: &impl Debug) -> String {
    page.next()
        .map_or_else(String::new, |next| token_with(place_of(next), total, filters))
}

/// Returns the [`place`] in a token, and the total that the first page counted. Tokens of earlier versions have none.
///
/// # Errors
/// As [`place`].
pub(crate) fn place_and_total(
    token: &str,
    filters: &impl Debug,
) -> Result<(Option<Place>, Option<ListCount>), Rejection> {
    if token.len() != TOTAL_TOKEN_CHARS {
        return Ok((place(token, filters)?, None));
    }
    let [first, second, third, total] = numbers(token, VERSION_OF_TOTALS, filters)?;
    let total = ListCount {
        n: total & !AT_LEAST,
        is_at_least: total & AT_LEAST != 0,
    };
    Ok((Some([first, second, third]), Some(total)))
}

/// The place in a token; `None` for the empty one, which asks for the first page.
///
/// # Errors
/// [`Rejection::PageTokenInvalid`] if it is not ours, or was made for other filters.
pub(crate) fn place(token: &str, filters: &impl Debug) -> Result<Option<Place>, Rejection> {
    if token.is_empty() {
        return Ok(None);
    }
    numbers(token, VERSION, filters).map(Some)
}

/// Returns the numbers in a token of that version.
fn numbers<const N: usize>(token: &str, version: u8, filters: &impl Debug) -> Result<[u64; N], Rejection> {
    // Before anything is kept of a text that may be long.
    let is_one = token.len() == 2 * (1 + N * 8 + FINGERPRINT_BYTES);
    let bytes = is_one.then(|| hex::bytes(token)).flatten();
    let bytes = bytes.ok_or(Rejection::PageTokenInvalid)?;
    let (head, made_for) = bytes.split_at(bytes.len() - FINGERPRINT_BYTES);
    if head[0] != version || made_for != fingerprint(filters) {
        return Err(Rejection::PageTokenInvalid);
    }
    let mut numbers = [0; N];
    for (number, bytes) in numbers.iter_mut().zip(head[1..].chunks_exact(8)) {
        *number = u64::from_be_bytes(bytes.try_into().expect("a chunk has eight bytes"));
    }
    Ok(numbers)
}

/// As [`place`], for lists that need one number.
///
/// # Errors
/// As [`place`].
pub(crate) fn number(token: &str, filters: &impl Debug) -> Result<Option<u64>, Rejection> {
    Ok(place(token, filters)?.map(|[number, _, _]| number))
}

/// The token of the page that begins behind a name.
pub(crate) fn token_of_name(name: &str, filters: &impl Debug) -> String {
    hex::text(&[&[VERSION_OF_NAMES][..], &fingerprint(filters), name.as_bytes()].concat())
}

/// The name in a token; `None` for the empty one, which asks for the first page.
///
/// # Errors
/// [`Rejection::PageTokenInvalid`] if it is not ours, or was made for other filters.
pub(crate) fn name(token: &str, filters: &impl Debug) -> Result<Option<String>, Rejection> {
    if token.is_empty() {
        return Ok(None);
    }
    let is_one = token.len() <= NAME_TOKEN_CHARS_MAX;
    let bytes = is_one.then(|| hex::bytes(token)).flatten().unwrap_or_default();
    let head = [&[VERSION_OF_NAMES][..], &fingerprint(filters)].concat();
    let name = bytes.strip_prefix(&head[..]).map(|name| name.to_vec());
    let name = name.and_then(|name| String::from_utf8(name).ok());
    name.map(Some).ok_or(Rejection::PageTokenInvalid)
}

/// The place of a definition.
pub(crate) fn place_of(key: DefinitionKey) -> Place {
    let priority = i64::from(key.priority).cast_unsigned();
    [priority, key.created_at.cast_unsigned(), key.number]
}

/// The definition at a place.
pub(crate) fn key_of([priority, created_at, number]: Place) -> DefinitionKey {
    DefinitionKey {
        priority: i32::try_from(priority.cast_signed()).unwrap_or(i32::MAX),
        created_at: created_at.cast_signed(),
        number,
    }
}

/// What is left of the bytes that a page may have.
pub(crate) struct Room {
    left: usize,
    is_first: bool,
}

impl Default for Room {
    fn default() -> Self {
        Self {
            left: PAGE_BYTES_MAX,
            is_first: true,
        }
    }
}

impl Room {
    /// Takes the room of one more entry; false if there is none. The first one always has room.
    pub(crate) fn takes(&mut self, n_bytes: usize) -> bool {
        let fits = self.is_first || n_bytes <= self.left;
        self.is_first = false;
        self.left = self.left.saturating_sub(n_bytes);
        fits
    }
}

fn fingerprint(filters: &impl Debug) -> [u8; FINGERPRINT_BYTES] {
    let digest = Sha256::digest(format!("{filters:?}").as_bytes());
    let mut fingerprint = [0; FINGERPRINT_BYTES];
    fingerprint.copy_from_slice(&digest[..FINGERPRINT_BYTES]);
    fingerprint
}

const VERSION: u8 = 1;
const VERSION_OF_NAMES: u8 = 2;
const VERSION_OF_TOTALS: u8 = 3;
/// Bit of a total that is a lower bound.
const AT_LEAST: u64 = 1 << 63;
const FINGERPRINT_BYTES: usize = 8;
const TOTAL_TOKEN_CHARS: usize = 2 * (1 + 4 * 8 + FINGERPRINT_BYTES);
const NAME_TOKEN_CHARS_MAX: usize = 2 * (1 + FINGERPRINT_BYTES + NAME_BYTES_MAX);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn a_token_brings_its_place_back_for_the_same_filters_alone() {
        for before in [[0, 0, 1], [1, u64::MAX, 3]] {
            let made = token(before, &("runs", "a"));
            assert_eq!(place(&made, &("runs", "a")), Ok(Some(before)));
            assert_eq!(place(&made, &("runs", "b")), Err(Rejection::PageTokenInvalid));
        }
        assert_eq!(place("", &"a"), Ok(None));
        for behind in ["file.read", "é", &"é".repeat(NAME_BYTES_MAX / 2)] {
            let made = token_of_name(behind, &("runs", "a"));
            assert_eq!(name(&made, &("runs", "a")), Ok(Some(behind.to_owned())));
            assert_eq!(name(&made, &("runs", "b")), Err(Rejection::PageTokenInvalid));
        }
        assert_eq!(name("", &"a"), Ok(None));
    }

    #[test]
    fn a_token_brings_the_total_of_the_first_page_back() {
        for (n, is_at_least) in [(0, false), (10_000, true)] {
            let total = ListCount { n, is_at_least };
            let made = token_with([1, u64::MAX, 3], total, &"a");
            let found = place_and_total(&made, &"a");
            assert_eq!(found, Ok((Some([1, u64::MAX, 3]), Some(total))));
            assert_eq!(place_and_total(&made, &"b"), Err(Rejection::PageTokenInvalid));
            assert_eq!(place(&made, &"a"), Err(Rejection::PageTokenInvalid));
        }
        let from_before = token([1, 2, 3], &"a");
        assert_eq!(place_and_total(&from_before, &"a"), Ok((Some([1, 2, 3]), None)));
        assert_eq!(place_and_total("", &"a"), Ok((None, None)));
        for foreign in ["7", &"é".repeat(41), &"z".repeat(82)] {
            let found = place_and_total(foreign, &"a");
            assert_eq!(found, Err(Rejection::PageTokenInvalid), "{foreign:?}");
        }
    }

    #[test]
    fn a_token_that_is_not_ours_is_refused() {
        let made = token([1, 2, 3], &"a");
        let other_version = format!("02{}", &made[2..]);
        for foreign in [
            "7",
            "zz",
            "é",
            &made[..made.len() - 2],
            &other_version,
            &"é".repeat(33),
        ] {
            assert_eq!(
                place(foreign, &"a"),
                Err(Rejection::PageTokenInvalid),
                "{foreign:?}"
            );
            assert_eq!(
                name(foreign, &"a"),
                Err(Rejection::PageTokenInvalid),
                "{foreign:?}"
            );
        }
        let of_no_text = hex::text(&[&[VERSION_OF_NAMES][..], &fingerprint(&"a"), &[0xff]].concat());
        assert_eq!(name(&of_no_text, &"a"), Err(Rejection::PageTokenInvalid));
    }
}
