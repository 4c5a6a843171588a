//! Signatures of webhooks, as Standard Webhooks 1.0 have them: HMAC-SHA256 over id, time and body. Draws no secret.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use sha2::{Digest, Sha256};

/// What sender and receiver share. Shown by nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl core::fmt::Debug for Secret {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Secret")
    }
}

impl Secret {
    /// Of 24 to 64 bytes; `None` for fewer or more.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        (24..=64).contains(&bytes.len()).then(|| Self(bytes.to_vec()))
    }

    /// Reads `whsec_` and the bytes in base64.
    pub fn read(text: &str) -> Option<Self> {
        Self::new(&from_base64(text.strip_prefix(PREFIX)?)?)
    }

    /// As it is read.
    pub fn text(&self) -> String {
        format!("{PREFIX}{}", to_base64(&self.0))
    }
}

/// Why a delivery is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureFault {
    /// Its time is missing, or more than five minutes away.
    Time,
    /// None of its signatures is that of the secret.
    Signature,
}

/// The signature of a delivery: `v1,` and base64. `timestamp`: Unix seconds, in digits.
pub fn sign(secret: &Secret, id: &str, timestamp: &str, body: &[u8]) -> String {
    format!("v1,{}", to_base64(&mac(secret, id, timestamp, body)))
}

// TRIG-5.1
/// Checks a delivery. `signatures`: several, with spaces between. `now_ms`: Unix milliseconds.
///
/// # Errors
/// [`SignatureFault`].
pub fn verify(
    secret: &Secret,
    id: &str,
    timestamp: &str,
    body: &[u8],
    signatures: &str,
    now_ms: i64,
) -> Result<(), SignatureFault> {
    let is_number =
        (1..=12).contains(&timestamp.len()) && timestamp.bytes().all(|byte| byte.is_ascii_digit());
    let at: Option<i64> = timestamp.parse().ok().filter(|_| is_number);
    let is_near = |at: i64| (now_ms - at * 1_000).abs() <= SKEW_MS;
    if !at.is_some_and(is_near) {
        return Err(SignatureFault::Time);
    }
    let expected = mac(secret, id, timestamp, body);
    let versions = signatures.split(' ').take(SIGNATURES_MAX);
    let mut given = versions.filter_map(|one| from_base64(one.strip_prefix("v1,")?));
    match given.any(|given| is_equal(&given, &expected)) {
        true => Ok(()),
        false => Err(SignatureFault::Signature),
    }
}

fn mac(secret: &Secret, id: &str, timestamp: &str, body: &[u8]) -> [u8; 32] {
    hmac(
        &secret.0,
        &[id.as_bytes(), b".", timestamp.as_bytes(), b".", body],
    )
}

/// HMAC-SHA256 as RFC 2104 has it, for keys of at most one block.
fn hmac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    assert!(key.len() <= BLOCK_BYTES, "a longer key is hashed first");
    let pad = |with: u8| {
        let mut block = [with; BLOCK_BYTES];
        block.iter_mut().zip(key).for_each(|(byte, key)| *byte ^= key);
        block
    };
    let inner = parts
        .iter()
        .fold(Sha256::new().chain_update(pad(0x36)), |digest, part| {
            digest.chain_update(part)
        });
    let outer = Sha256::new()
        .chain_update(pad(0x5c))
        .chain_update(inner.finalize());
    outer.finalize().into()
}

/// Takes the same time wherever two texts of 32 bytes differ.
fn is_equal(given: &[u8], expected: &[u8; 32]) -> bool {
    let differences = given
        .iter()
        .zip(expected)
        .fold(0, |seen, (one, other)| seen | (one ^ other));
    given.len() == expected.len() && core::hint::black_box(differences) == 0
}

fn to_base64(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let number = (0..3).fold(0, |number, at| {
            number << 8 | u32::from(chunk.get(at).copied().unwrap_or(0))
        });
        for place in 0..4 {
            let digit = DIGITS[(number >> (18 - 6 * place) & 0x3f) as usize];
            text.push(if place <= chunk.len() {
                char::from(digit)
            } else {
                '='
            });
        }
    }
    text
}

/// Reads base64 with or without the padding; `None` if it is none.
fn from_base64(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_suffix("==").or(text.strip_suffix('=')).unwrap_or(text);
    if digits.len() % 4 == 1 || text.len() > BASE64_CHARS_MAX {
        return None;
    }
    let (mut number, mut n_bits, mut bytes) = (0_u32, 0, Vec::new());
    for digit in digits.bytes() {
        let value = DIGITS.iter().position(|known| *known == digit)?;
        number = (number << 6 | u32::try_from(value).ok()?) & 0xffff;
        n_bits += 6;
        if n_bits >= 8 {
            n_bits -= 8;
            bytes.push(u8::try_from(number >> n_bits & 0xff).ok()?);
        }
    }
    Some(bytes)
}

const PREFIX: &str = "whsec_";
const BLOCK_BYTES: usize = 64;
/// Five minutes.
const SKEW_MS: i64 = 300_000;
/// Signatures of one delivery that are looked at: a sender that changes its secret sends two.
const SIGNATURES_MAX: usize = 8;
/// Digits of a signature or a secret.
const BASE64_CHARS_MAX: usize = 128;
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

#[cfg(test)]
mod tests {
    use super::{Secret, SignatureFault, from_base64, hmac, sign, to_base64, verify};
    use alloc::format;
    use escapement_model::hex;

    #[test]
    fn the_mac_is_that_of_rfc_4231() {
        let found = hmac(&[0x0b; 20], &[b"Hi ", b"There"]);
        let expected = "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7";
        assert_eq!(hex::text(&found), expected);
        let found = hmac(b"Jefe", &[b"what do ya want for nothing?"]);
        let expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(hex::text(&found), expected);
    }

    #[test]
    fn base64_is_that_of_rfc_4648() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
        ] {
            assert_eq!(to_base64(bytes.as_bytes()), text);
            assert_eq!(from_base64(text).as_deref(), Some(bytes.as_bytes()));
            assert_eq!(
                from_base64(text.trim_end_matches('=')).as_deref(),
                Some(bytes.as_bytes())
            );
        }
        for wrong in ["A", "Z g=", "Zg===", "Z\u{e9}=", "=Zg="] {
            assert_eq!(from_base64(wrong), None, "{wrong}");
        }
    }

    // Made with the hmac of Python.
    #[test]
    fn the_signature_is_that_of_another_library() {
        let secret = Secret::read("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=").unwrap();
        let body = br#"{"event_type":"ping","data":{"success":true}}"#;
        let found = sign(&secret, "msg_1", "1731705121", body);
        assert_eq!(found, "v1,fTsz3x4M623Nw/HqqK3GbLjw+CLDyVb8PDuWmCEgwk4=");
        assert_eq!(
            secret.text(),
            "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
        );
        assert_eq!(format!("{secret:?}"), "Secret");
    }

    // TRIG-5.1
    #[test]
    fn a_delivery_is_believed_if_its_time_is_near_and_a_signature_is_right() {
        let secret = Secret::new(&[7; 32]).unwrap();
        let now = 1_700_000_000_000;
        let right = sign(&secret, "id", "1700000000", b"body");
        let check = |id, at, body: &[u8], signatures: &str| verify(&secret, id, at, body, signatures, now);
        assert_eq!(check("id", "1700000000", b"body", &right), Ok(()));
        assert_eq!(
            check("id", "1700000000", b"body", &format!("v1,AAAA v2,x {right}")),
            Ok(())
        );
        for (id, body, signatures) in [
            ("other", &b"body"[..], right.as_str()),
            ("id", b"other", &right),
            ("id", b"body", ""),
            ("id", b"body", "v1,"),
            ("id", b"body", &right[3..]),
            ("id", b"body", &right.replace("v1,", "v2,")),
        ] {
            let found = check(id, "1700000000", body, signatures);
            assert_eq!(found, Err(SignatureFault::Signature), "{id} {signatures}");
        }
        for (at, is_near) in [
            ("1699999700", true),
            ("1699999699", false),
            ("1700000300", true),
            ("1700000301", false),
            ("", false),
            ("+1700000000", false),
            ("99999999999999999999", false),
        ] {
            let signed = sign(&secret, "id", at, b"body");
            assert_eq!(check("id", at, b"body", &signed).is_ok(), is_near, "{at}");
        }
        let other = Secret::new(&[8; 32]).unwrap();
        let found = verify(&other, "id", "1700000000", b"body", &right, now);
        assert_eq!(found, Err(SignatureFault::Signature));
    }

    #[test]
    fn a_secret_has_24_to_64_bytes() {
        assert!(Secret::new(&[1; 23]).is_none());
        assert!(Secret::new(&[1; 65]).is_none());
        assert!(Secret::read("plJ3nmyCDGBKInavdOK15jsl").is_none(), "no prefix");
        assert!(Secret::read("whsec_AAAA").is_none());
    }
}
