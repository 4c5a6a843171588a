//! Secret that a client shows to orchestrators only.

use std::fmt;
use tonic::metadata::{Ascii, MetadataValue};

/// The value of `authorization`.
#[derive(Clone)]
pub struct BearerToken(MetadataValue<Ascii>);

impl BearerToken {
    /// Creates a token; `None` if it is empty, or has other than visible ASCII characters.
    pub fn new(token: &str) -> Option<Self> {
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return None;
        }
        let mut value = MetadataValue::try_from(format!("Bearer {token}")).ok()?;
        value.set_sensitive(true);
        Some(Self(value))
    }

    /// Returns the token as it is sent in the metadata of a call.
    pub fn to_metadata(&self) -> MetadataValue<Ascii> {
        self.0.clone()
    }
}

impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BearerToken(..)")
    }
}
