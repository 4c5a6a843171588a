//! What a token says of its holder, and what a policy asks of that. Verifies no signature.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use serde_json::{Map, Value};

/// What one claim must be.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct ClaimCondition {
    /// The names from the claims down to the value, at least one.
    pub(crate) path: Vec<Box<str>>,
    pub(crate) value: ClaimValue,
}

/// What a claim is compared with.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum ClaimValue {
    Text(Box<str>),
    Boolean(bool),
}

impl ClaimCondition {
    /// Returns true if the claim is equal, or is a list with a member that is.
    pub(crate) fn holds(&self, claims: &Map<String, Value>) -> bool {
        let Some((last, above)) = self.path.split_last() else {
            return false;
        };
        let mut object = claims;
        for name in above {
            match object.get(&**name).and_then(Value::as_object) {
                Some(below) => object = below,
                None => return false,
            }
        }
        match object.get(&**last) {
            None => false,
            Some(Value::Array(members)) => members.iter().any(|member| self.value.is(member)),
            Some(claim) => self.value.is(claim),
        }
    }
}

impl ClaimValue {
    fn is(&self, claim: &Value) -> bool {
        match self {
            ClaimValue::Text(text) => claim.as_str() == Some(text),
            ClaimValue::Boolean(boolean) => claim.as_bool() == Some(*boolean),
        }
    }
}

/// Returns true if the audience is that of the token, or one of those.
pub(crate) fn is_for(claims: &Map<String, Value>, audience: &str) -> bool {
    let condition = ClaimCondition {
        path: Vec::from(["aud".into()]),
        value: ClaimValue::Text(audience.into()),
    };
    condition.holds(claims)
}

/// Returns a time of a claim, in milliseconds since 1970: a number of seconds, perhaps with a fraction. `None` for anything else.
pub(crate) fn time_ms(claim: &Value) -> Option<i64> {
    if let Some(seconds) = claim.as_i64() {
        return Some(seconds.saturating_mul(1_000));
    }
    let seconds = claim.as_f64()?;
    // `as` ends at the ends of the type, which is as good as for ever.
    Some((seconds * 1_000.0) as i64)
}
