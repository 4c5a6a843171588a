//! Bytes as hexadecimal digits. Knows no id and no digest.

use alloc::string::String;
use alloc::vec::Vec;

/// Two digits for each byte, lower case.
pub fn text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    push(&mut text, bytes);
    text
}

/// The same behind a text.
pub fn push(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
}

/// Returns the bytes of digits of either case, two for each; `None` for any other text.
pub fn bytes(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks();
    rest.is_empty()
        .then(|| pairs.iter().map(byte).collect())
        .flatten()
}

/// The same, if they are so many bytes.
pub fn array<const N: usize>(text: &str) -> Option<[u8; N]> {
    let (pairs, rest) = text.as_bytes().as_chunks();
    let is_so_long = pairs.len() == N && rest.is_empty();
    let mut bytes = [0; N];
    for (place, pair) in bytes.iter_mut().zip(pairs) {
        *place = byte(pair)?;
    }
    is_so_long.then_some(bytes)
}

fn byte([high, low]: &[u8; 2]) -> Option<u8> {
    let digit = |ascii: u8| char::from(ascii).to_digit(16);
    u8::try_from(16 * digit(*high)? + digit(*low)?).ok()
}

const DIGITS: &[u8; 16] = b"0123456789abcdef";

#[cfg(test)]
mod tests {
    use super::{array, bytes, text};
    use alloc::format;
    use alloc::string::String;
    use alloc::vec::Vec;

    #[test]
    fn every_byte_comes_back_from_its_digits_in_either_case() {
        let all: Vec<u8> = (0..=u8::MAX).collect();
        let digits: String = all.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(text(&all), digits);
        assert_eq!(bytes(&digits), Some(all.clone()));
        assert_eq!(bytes(&digits.to_uppercase()), Some(all));
        assert_eq!((text(&[]), bytes("")), (String::new(), Some(Vec::new())));
        assert_eq!((array("00fF"), array("")), (Some([0, 255]), Some([])));
    }

    #[test]
    fn what_is_no_pair_of_digits_has_no_bytes() {
        for other in ["0", "000", "0g", "+1", " 1", "\u{e9}", "0x10", "\u{ff11}1"] {
            assert_eq!(bytes(other), None, "{other:?}");
            assert_eq!(array::<1>(other), None, "{other:?}");
        }
        assert_eq!(array::<1>("0000"), None);
    }
}
