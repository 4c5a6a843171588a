//! Attempt tokens that show by themselves that this process made them. Knows no attempt: whether one is under way is for the engine to say.

use crate::encoder::Encoder;
use crate::ids::AttemptToken;
use core::fmt;

/// Makes attempt tokens and recognizes them, by a key that no other process has.
///
/// A token is eight bytes that no other one of the key has, and eight of a keyed hash of them. To workers it is sixteen bytes without
/// a meaning. Somebody without the key finds one in 2^64 guesses, and each wrong guess is an authentication that failed.
#[derive(Clone)]
pub struct AttemptSeal {
    key: [u8; 32],
    /// Where the numbers begin, so that tokens of different keys differ in their first half, too.
    first: u64,
}

impl AttemptSeal {
    /// Returns the seal of this key: 32 secret random bytes.
    pub fn new(key: [u8; 32]) -> Self {
        let start = Encoder::named("escapement attempt token start 1", |encoder| encoder.bytes(&key));
        Self {
            key,
            first: u64::from_be_bytes(first_eight(&start)),
        }
    }

    /// Returns the token of this number. Another number has another token.
    pub fn token(&self, number: u64) -> AttemptToken {
        let name = self.first.wrapping_add(number).to_be_bytes();
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&name);
        bytes[8..].copy_from_slice(&self.proof_of(&name));
        AttemptToken::new(bytes)
    }

    /// Returns true if a seal of the same key made the token.
    pub fn made(&self, token: AttemptToken) -> bool {
        let (name, proof) = token.as_bytes().split_at(8);
        let expected = self.proof_of(name);
        // Every byte is looked at: the time says nothing about where the first wrong one is.
        let difference = proof
            .iter()
            .zip(expected)
            .fold(0, |sum, (one, other)| sum | (one ^ other));
        difference == 0
    }

    /// The hash is over a key and a name of fixed lengths, and cut: nobody can extend it.
    fn proof_of(&self, name: &[u8]) -> [u8; 8] {
        first_eight(&Encoder::named("escapement attempt token 1", |encoder| {
            encoder.bytes(&self.key);
            encoder.bytes(name);
        }))
    }
}

/// Says nothing of the key.
impl fmt::Debug for AttemptSeal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AttemptSeal").finish_non_exhaustive()
    }
}

fn first_eight(hash: &[u8; 32]) -> [u8; 8] {
    let mut eight = [0; 8];
    eight.copy_from_slice(&hash[..8]);
    eight
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use alloc::format;

    #[test]
    fn a_token_is_recognized_by_the_key_that_made_it_and_by_no_other_one() {
        let (seal, other) = (AttemptSeal::new([1; 32]), AttemptSeal::new([2; 32]));
        let tokens: BTreeSet<AttemptToken> = (0..1_000).map(|number| seal.token(number)).collect();
        assert_eq!(tokens.len(), 1_000);
        for token in tokens {
            assert!(seal.made(token) && AttemptSeal::new([1; 32]).made(token));
            assert!(!other.made(token));
        }
    }

    #[test]
    fn a_token_with_one_bit_changed_is_of_nobody() {
        let seal = AttemptSeal::new([7; 32]);
        let token = seal.token(u64::MAX);
        for bit in 0..128 {
            let mut bytes = *token.as_bytes();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(!seal.made(AttemptToken::new(bytes)), "bit {bit}");
        }
        assert!(!seal.made(AttemptToken::new([0; 16])));
    }

    #[test]
    fn nothing_shows_the_key() {
        let seal = AttemptSeal::new([0xab; 32]);
        assert_eq!(format!("{seal:?}"), "AttemptSeal { .. }");
    }
}
