//! Identifiers as the journal writes them. Does not say what they name.

use std::fmt;

use serde::{Deserialize, Deserializer, de::Error};

/// Bytes in hex: a token, an instance, a session, a boot or a hash. Of 16 bytes, unless a worker sent something else.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hex {
    value: u128,
    n_bytes: usize,
}

impl Hex {
    /// Sixteen bytes.
    pub const fn sixteen(value: u128) -> Self {
        Self { value, n_bytes: 16 }
    }

    /// Any bytes; of more than 16 only a digest is kept, and it does not print as it was.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        let fold = |value: u128, byte: &u8| (value.rotate_left(8)) ^ u128::from(*byte);
        let digest = |value: u128, byte: &u8| (value ^ u128::from(*byte)).wrapping_mul(DIGEST_PRIME);
        let value = match bytes.len() {
            0..=16 => bytes.iter().fold(0, fold),
            _ => bytes.iter().fold(DIGEST_START, digest),
        };
        Self {
            value,
            n_bytes: bytes.len(),
        }
    }

    /// Sets both differ by the bits that differ: the way in which hashes of sets are made.
    #[must_use]
    pub fn xor(self, other: Self) -> Self {
        Self::sixteen(self.value ^ other.value)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not in hex");
        if !text.is_ascii() || !text.len().is_multiple_of(2) {
            return Err(wrong());
        }
        let pair = |at| u8::from_str_radix(&text[at..at + 2], 16).map_err(|_| wrong());
        let bytes: Result<Vec<u8>, _> = (0..text.len()).step_by(2).map(pair).collect();
        Ok(Self::of_bytes(&bytes?))
    }
}

impl fmt::Display for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = (self.n_bytes * 2).min(32);
        if digits == 0 {
            return f.write_str("(empty)");
        }
        write!(f, "{:0digits$x}", self.value)
    }
}

impl fmt::Debug for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// The id of an execution, a plan or a step.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid(u128);

impl Uuid {
    /// From its 128 bits.
    pub const fn new(value: u128) -> Self {
        Self(value)
    }

    /// From canonical form.
    ///
    /// # Errors
    /// It is not in canonical form.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no UUID");
        let dashes = |(at, byte): (usize, u8)| (byte == b'-') == matches!(at, 8 | 13 | 18 | 23);
        if text.len() != 36 || !text.bytes().enumerate().all(dashes) {
            return Err(wrong());
        }
        u128::from_str_radix(&text.replace('-', ""), 16)
            .map(Self)
            .map_err(|_| wrong())
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = format!("{:032x}", self.0);
        let (a, b, c) = (&digits[..8], &digits[8..12], &digits[12..16]);
        write!(f, "{a}-{b}-{c}-{}-{}", &digits[16..20], &digits[20..])
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl<'de> Deserialize<'de> for Uuid {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// Of FNV-1a.
const DIGEST_START: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const DIGEST_PRIME: u128 = 0x0100_0000_0000_0000_0000_013b;
