//! The keys of an issuer: a JSON Web Key Set, RFC 7517.

use super::algorithm::{Algorithm, PublicKey};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use core::fmt;
use serde_json::{Map, Value};

/// The keys of one issuer, by the `kid` under which tokens name them.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct KeySet {
    keys: BTreeMap<String, Key>,
}

/// A key.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Key {
    key: PublicKey,
    /// The only algorithm that it is for, if the set says so.
    algorithm: Option<Algorithm>,
}

/// Reason why a text is no set of keys that can be used. One sentence without a full stop, for operators.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UnusableKeys(String);

impl KeySet {
    /// Most bytes of a set.
    pub const BYTES_MAX: usize = 256 << 10;
    /// Most keys of a set.
    pub const KEYS_MAX: usize = 64;

    /// Reads a set. Keys that sign nothing here are left out: those of other kinds, those for encryption, those without `kid`.
    ///
    /// # Errors
    /// [`UnusableKeys`] if it is none, is too large, says of a key what is no key, has two keys of one `kid`, or none at all
    /// that can be used.
    pub fn parse(bytes: &[u8]) -> Result<Self, UnusableKeys> {
        if bytes.len() > Self::BYTES_MAX {
            return Err(UnusableKeys(format!("has more than {} bytes", Self::BYTES_MAX)));
        }
        let set: Value =
            serde_json::from_slice(bytes).map_err(|error| UnusableKeys(format!("is no JSON: {error}")))?;
        let listed = set.get("keys").and_then(Value::as_array);
        let listed = listed.ok_or_else(|| UnusableKeys("has no list `keys`".into()))?;
        if listed.len() > Self::KEYS_MAX {
            return Err(UnusableKeys(format!("has more than {} keys", Self::KEYS_MAX)));
        }
        let mut keys = BTreeMap::new();
        for (index, listed) in listed.iter().enumerate() {
            let wrong = |what: &str| UnusableKeys(format!("has in keys[{index}] {what}"));
            let listed = listed.as_object().ok_or_else(|| wrong("what is no object"))?;
            let Some(kid) = listed.get("kid").and_then(Value::as_str) else {
                continue;
            };
            let Some(key) = Key::of(listed).map_err(wrong)? else {
                continue;
            };
            if keys.insert(kid.into(), key).is_some() {
                return Err(wrong("the kid of another key"));
            }
        }
        match keys.is_empty() {
            true => Err(UnusableKeys("has no key by which tokens can be verified".into())),
            false => Ok(Self { keys }),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns true if there is none, as before the first set is there.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    pub(crate) fn get(&self, kid: &str) -> Option<&Key> {
        self.keys.get(kid)
    }
}

impl Key {
    /// `None` for a key that is not for signatures that are known here.
    fn of(listed: &Map<String, Value>) -> Result<Option<Self>, &'static str> {
        let text = |name: &str| listed.get(name).and_then(Value::as_str);
        if text("use").is_some_and(|used| used != "sig") {
            return Ok(None);
        }
        let algorithm = match text("alg") {
            None => None,
            Some(name) => match Algorithm::parse(name) {
                None => return Ok(None),
                known => known,
            },
        };
        let part = |name: &str| {
            let bytes = text(name).and_then(|part| URL_SAFE_NO_PAD.decode(part).ok());
            bytes.ok_or("a part that is missing or no base64url")
        };
        let key = match (text("kty"), text("crv")) {
            (Some("EC"), Some("P-256")) => PublicKey::P256(point(&part("x")?, &part("y")?, 32)?),
            (Some("EC"), Some("P-384")) => PublicKey::P384(point(&part("x")?, &part("y")?, 48)?),
            (Some("OKP"), Some("Ed25519")) => match part("x")? {
                x if x.len() == 32 => PublicKey::Ed25519(x),
                _ => return Err("a point that has not the length of its curve"),
            },
            (Some("RSA"), _) => PublicKey::Rsa {
                n: part("n")?,
                e: part("e")?,
            },
            _ => return Ok(None),
        };
        match algorithm {
            Some(algorithm) if !key.is_for(algorithm) => Err("an algorithm that is not of its kind"),
            algorithm => Ok(Some(Self { key, algorithm })),
        }
    }

    /// Returns true if the key is for the algorithm and signed the message so. What a token says of its algorithm is never enough: the
    /// kind of the key decides.
    pub(crate) fn verifies(&self, algorithm: Algorithm, message: &[u8], signed: &[u8]) -> bool {
        self.algorithm.is_none_or(|only| only == algorithm) && self.key.verifies(algorithm, message, signed)
    }
}

/// Returns a point of a curve, without compression.
fn point(x: &[u8], y: &[u8], length: usize) -> Result<Vec<u8>, &'static str> {
    match (x.len(), y.len()) == (length, length) {
        true => Ok([&[4], x, y].concat()),
        false => Err("a point that has not the length of its curve"),
    }
}

impl fmt::Display for UnusableKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for UnusableKeys {}

#[cfg(test)]
mod tests;
