//! The three parts of a token. Believes none of them: whether they are signed is judged by [`Key`](super::keys::Key).

use super::TOKEN_BYTES_MAX;
use super::algorithm::Algorithm;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

/// A token that nobody has verified yet.
#[derive(Debug)]
pub(crate) struct Unverified<'a> {
    pub(crate) algorithm: Algorithm,
    pub(crate) kid: String,
    pub(crate) claims: Map<String, Value>,
    /// What is signed.
    pub(crate) message: &'a [u8],
    pub(crate) signature: Vec<u8>,
}

impl<'a> Unverified<'a> {
    /// Takes a token apart. `None` if it is none, or one that cannot be judged here: its algorithm is not known, it names no key,
    /// or it demands that something be understood (`crit`) that is not.
    pub(crate) fn parse(token: &'a str) -> Option<Self> {
        if token.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let (message, signature) = token.rsplit_once('.')?;
        let (header, claims) = message.split_once('.')?;
        let header = object(header)?;
        if header.contains_key("crit") {
            return None;
        }
        let text = |name: &str| header.get(name).and_then(Value::as_str);
        Some(Self {
            algorithm: Algorithm::parse(text("alg")?)?,
            kid: text("kid")?.to_string(),
            claims: object(claims)?,
            message: message.as_bytes(),
            signature: URL_SAFE_NO_PAD.decode(signature).ok()?,
        })
    }

    /// Returns a claim that is a text.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.claims.get(name).and_then(Value::as_str)
    }
}

/// One part: base64url without padding, of one spelling only, of a JSON object. Of a name that is there twice the last value
/// counts.
fn object(part: &str) -> Option<Map<String, Value>> {
    let bytes = URL_SAFE_NO_PAD.decode(part).ok()?;
    serde_json::from_slice(&bytes).ok()
}
