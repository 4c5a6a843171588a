//! Who we are to a server of NATS: a user's key, with the token that its account signed or without. Shows neither.

use data_encoding::{BASE32_NOPAD, BASE64URL_NOPAD};
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Map, Value};
use std::fmt;
use std::sync::Arc;

/// What a file of credentials holds.
#[derive(Clone)]
pub(crate) struct Credentials {
    /// What an account signed; without it the server knows the key itself.
    token: Option<String>,
    key: Arc<Ed25519KeyPair>,
}

/// Shows nothing of them.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials")
    }
}

impl Credentials {
    /// Reads a file as `nsc` writes it, with a token and a seed, or a seed alone. A problem tells nothing of them.
    ///
    /// # Errors
    /// It holds no seed of a user.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, &'static str> {
        let text = std::str::from_utf8(text).map_err(|_| "holds no text")?;
        let mut lines = text.lines().map(str::trim);
        let token = lines.clone().find(|line| line.starts_with("eyJ"));
        let seed = lines.find(|line| line.starts_with("SU")).and_then(seed);
        let seed =
            seed.ok_or("must hold the seed of a user, which begins with SU, and may hold its token")?;
        let key = Ed25519KeyPair::from_seed_unchecked(&seed).map_err(|_| "holds a seed that is none")?;
        Ok(Self {
            token: token.map(str::to_owned),
            key: Arc::new(key),
        })
    }

    /// What a connection has to say of itself to a server that sent this challenge.
    pub(crate) fn answer(&self, challenge: &str) -> Map<String, Value> {
        let signature = BASE64URL_NOPAD.encode(self.key.sign(challenge.as_bytes()).as_ref());
        let mut said = Map::new();
        said.insert("sig".to_owned(), signature.into());
        match &self.token {
            Some(token) => said.insert("jwt".to_owned(), token.as_str().into()),
            None => said.insert("nkey".to_owned(), self.public_key().into()),
        };
        said
    }

    /// `U` and the public key, with its checksum.
    fn public_key(&self) -> String {
        let mut bytes = vec![USER];
        bytes.extend(self.key.public_key().as_ref());
        let sum = checksum(&bytes);
        bytes.extend(sum.to_le_bytes());
        BASE32_NOPAD.encode(&bytes)
    }
}

/// Returns the 32 bytes behind the kind of a seed of a user, before its checksum.
fn seed(text: &str) -> Option<[u8; 32]> {
    let bytes = BASE32_NOPAD.decode(text.as_bytes()).ok()?;
    let (signed, sum) = bytes.split_last_chunk()?;
    let (kind, seed) = signed.split_first_chunk()?;
    let is_whole = *kind == USER_SEED && checksum(signed) == u16::from_le_bytes(*sum);
    is_whole.then(|| seed.try_into().ok()).flatten()
}

/// CRC-16 as XMODEM has it.
fn checksum(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |sum, byte| {
        (0..8).fold(sum ^ u16::from(*byte) << 8, |sum, _| {
            let is_high = sum & 0x8000 != 0;
            (sum << 1) ^ if is_high { 0x1021 } else { 0 }
        })
    })
}

/// The kind of a key of a user: `U` in base 32.
const USER: u8 = 20 << 3;
/// The kinds `S` and `U`, five bits each.
const USER_SEED: [u8; 2] = [(18 << 3) | (USER >> 5), USER << 3];
