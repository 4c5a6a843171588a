//! SHA-256 as text, and ids that follow from what they are for. Draws no random number.

use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::io::{self, Read};

/// 64 hexadecimal digits, lower case.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(64), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a String cannot fail");
        text
    })
}

/// The same of all that a reader gives, without keeping it.
///
/// # Errors
/// As the reader fails.
pub fn sha256_hex_of(mut reader: impl Read) -> io::Result<String> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => return Ok(hex(&hasher.finalize())),
            Ok(n) => hasher.update(&buffer[..n]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Returns a UUID v4 in form whose bits are the digest of `parts`: the same parts always give the same id.
pub fn derived_uuid(parts: &[&str]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        // With its length in front, no part can pose as the end of the one before.
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part.as_bytes());
    }
    let mut bytes: [u8; 16] = hasher.finalize()[..16].try_into().expect("a digest has 32 bytes");
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!(
        "{}-{}-{}-{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..]
    )
}

#[cfg(test)]
mod tests {
    use super::{derived_uuid, sha256_hex};

    #[test]
    fn a_derived_id_is_a_uuid_v4_and_depends_on_every_part() {
        let id = derived_uuid(&["a", "b", "1"]);
        assert_eq!(id.len(), 36);
        assert_eq!(&id[14..15], "4");
        assert!(matches!(&id[19..20], "8" | "9" | "a" | "b"));
        assert_eq!(id, derived_uuid(&["a", "b", "1"]));
        assert_ne!(id, derived_uuid(&["a", "b", "2"]));
        assert_ne!(id, derived_uuid(&["ab", "", "1"]));
    }

    #[test]
    fn the_digest_of_nothing_is_the_known_one() {
        assert!(sha256_hex(b"").starts_with("e3b0c44298fc1c14"));
    }
}
