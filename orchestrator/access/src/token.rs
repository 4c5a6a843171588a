//! Static tokens: `esc_`, 43 characters of base64url for 256 random bits, and 6 for the CRC-32 of what stands before.
//! Draws no random bits, and keeps no token: the policy knows their SHA-256 alone.

use alloc::string::String;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use core::fmt;
use escapement_model::encoder::sha256;

/// A static token. Its text is a secret: it is shown once, when it is made, and never by `Debug`.
#[derive(Clone, Eq, PartialEq)]
pub struct StaticToken(String);

/// The text is no static token: it was cut, mistyped, or is something else.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NotAToken;

impl StaticToken {
    /// What every static token begins with, so that scanners of secrets find it.
    pub const PREFIX: &str = "esc_";
    /// Bytes of a token.
    pub const BYTES: usize = 4 + 43 + 6;

    /// Returns the token of these random bits.
    pub fn from_random(bits: [u8; 32]) -> Self {
        let mut text = String::from(Self::PREFIX);
        URL_SAFE_NO_PAD.encode_string(bits, &mut text);
        let check = crc32fast::hash(text.as_bytes());
        URL_SAFE_NO_PAD.encode_string(check.to_be_bytes(), &mut text);
        Self(text)
    }

    /// Reads a token. The check makes a typo known without a look into the policy.
    ///
    /// # Errors
    /// [`NotAToken`] if the text was never made by [`StaticToken::from_random`].
    pub fn parse(text: &str) -> Result<Self, NotAToken> {
        if text.len() != Self::BYTES || !text.is_ascii() || !text.starts_with(Self::PREFIX) {
            return Err(NotAToken);
        }
        let (token, check) = text.split_at(Self::BYTES - 6);
        let bits = URL_SAFE_NO_PAD
            .decode(&token[Self::PREFIX.len()..])
            .map_err(|_| NotAToken)?;
        let check = URL_SAFE_NO_PAD.decode(check).map_err(|_| NotAToken)?;
        if bits.len() != 32 || check != crc32fast::hash(token.as_bytes()).to_be_bytes() {
            return Err(NotAToken);
        }
        Ok(Self(text.into()))
    }

    /// Returns the text, which is the secret.
    pub fn secret(&self) -> &str {
        &self.0
    }

    /// What the policy holds of it.
    pub fn sha256(&self) -> [u8; 32] {
        sha256(self.0.as_bytes())
    }
}

impl fmt::Debug for StaticToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StaticToken(…)")
    }
}

impl fmt::Display for NotAToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "is no token of this orchestrator: esc_ and 49 characters, the last 6 of which are a check",
        )
    }
}

impl core::error::Error for NotAToken {}

#[cfg(test)]
mod tests;
