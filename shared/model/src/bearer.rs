//! The token of an attempt as a credential: `esa_`, 22 characters of base64url for its 16 bytes, and 6 for the CRC-32 of what stands
//! before. Says nothing about whether the attempt is under way.

use crate::ids::AttemptToken;
use alloc::string::String;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// What every such credential begins with, so that it is told from others, and scanners of secrets find it.
pub const PREFIX: &str = "esa_";
/// Bytes of such a credential.
pub const BYTES: usize = PREFIX.len() + 22 + CHECK_BYTES;

/// Returns the credential of an attempt. It is a secret.
pub fn of_attempt(token: AttemptToken) -> String {
    let mut text = String::from(PREFIX);
    URL_SAFE_NO_PAD.encode_string(token.as_bytes(), &mut text);
    let check = crc32fast::hash(text.as_bytes());
    URL_SAFE_NO_PAD.encode_string(check.to_be_bytes(), &mut text);
    text
}

/// Reads what [`of_attempt`] made; `None` for any other text, also if a character of it was changed.
pub fn read(text: &str) -> Option<AttemptToken> {
    if text.len() != BYTES || !text.is_ascii() {
        return None;
    }
    let (before, check) = text.split_at(BYTES - CHECK_BYTES);
    let token = URL_SAFE_NO_PAD.decode(before.strip_prefix(PREFIX)?).ok()?;
    let check = URL_SAFE_NO_PAD.decode(check).ok()?;
    let holds = check == crc32fast::hash(before.as_bytes()).to_be_bytes();
    holds.then(|| AttemptToken::from_slice(&token)).flatten()
}

const CHECK_BYTES: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_nothing_else() {
        let token = AttemptToken::new(core::array::from_fn(|at| u8::try_from(at * 16 + 1).unwrap()));
        let text = of_attempt(token);
        assert_eq!((text.len(), text.starts_with("esa_")), (BYTES, true));
        assert_eq!(read(&text), Some(token));
        for at in 0..text.len() {
            for bit in 0..7 {
                let mut bytes = text.clone().into_bytes();
                bytes[at] ^= 1 << bit;
                let flipped = String::from_utf8(bytes).unwrap();
                assert_eq!(read(&flipped), None, "{flipped}");
            }
        }
        for other in ["", "esa_", "esc_", &text[1..], &(text.clone() + "A")] {
            assert_eq!(read(other), None, "{other}");
        }
    }
}
