//! An issuer that the policy knows, and who the holder of one of its tokens is.

use super::algorithm::Algorithm;
use super::claims::{ClaimCondition, is_for, time_ms};
use super::keys::KeySet;
use super::token::Unverified;
use crate::denial::Denial;
use crate::grant::Grant;
use crate::principal::{Principal, PrincipalKind};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use escapement_model::limits::LABEL_CHARS_MAX;

/// Where the keys of an issuer come from.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum KeySource {
    /// A file that holds the set.
    File(String),
    /// An address that answers with the set.
    Url {
        /// `https://…`, or `http://` on loopback.
        url: String,
        /// The file of the certificates to trust there, in PEM. `None`: those that the machine trusts.
        ca_file: Option<String>,
        /// The file of a token to show there.
        token_file: Option<String>,
    },
}

/// What a policy knows of one issuer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Issuer {
    pub(crate) name: Box<str>,
    pub(crate) audience: Box<str>,
    pub(crate) keys: KeySource,
    pub(crate) algorithms: Vec<Algorithm>,
    pub(crate) leeway_ms: i64,
    pub(crate) grants: Vec<JwtGrant>,
}

/// What is given to those of whom a token says so.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct JwtGrant {
    /// All of them must hold.
    pub(crate) when: Vec<ClaimCondition>,
    pub(crate) grant: Grant,
}

impl Issuer {
    /// Says who the holder of the token is, which names this issuer. Who no grant is for is still somebody, without a right.
    ///
    /// # Errors
    /// [`Denial::KeysUnavailable`] if a set of keys by URL lacks the key: another set may have it. [`Denial::CredentialsInvalid`].
    pub(crate) fn judge(
        &self,
        token: &Unverified<'_>,
        keys: &KeySet,
        now_ms: i64,
    ) -> Result<Principal, Denial> {
        if !is_for(&token.claims, &self.audience) || !self.algorithms.contains(&token.algorithm) {
            return Err(Denial::CredentialsInvalid);
        }
        let Some(key) = keys.get(&token.kid) else {
            return Err(match self.keys {
                KeySource::File(_) => Denial::CredentialsInvalid,
                KeySource::Url { .. } => Denial::KeysUnavailable {
                    issuer: self.name.clone(),
                },
            });
        };
        if !key.verifies(token.algorithm, token.message, &token.signature) {
            return Err(Denial::CredentialsInvalid);
        }
        self.holder(token, now_ms).ok_or(Denial::CredentialsInvalid)
    }

    /// Of a token whose signature is right. `None` if it does not say what it must, or is not valid yet.
    fn holder(&self, token: &Unverified<'_>, now_ms: i64) -> Option<Principal> {
        let end_ms = time_ms(token.claims.get("exp")?)?;
        let begins = match token.claims.get("nbf") {
            Some(begin) => now_ms.saturating_add(self.leeway_ms) >= time_ms(begin)?,
            None => true,
        };
        let name = token.text("sub")?;
        let is_name =
            (1..=LABEL_CHARS_MAX).contains(&name.chars().count()) && !name.chars().any(char::is_control);
        if !begins || !is_name {
            return None;
        }
        let given = self.grants.iter();
        let given = given.filter(|given| given.when.iter().all(|claim| claim.holds(&token.claims)));
        Some(Principal {
            name: name.into(),
            kind: PrincipalKind::Jwt,
            issuer: self.name.clone(),
            valid_until_ms: Some(end_ms.saturating_add(self.leeway_ms)),
            grants: given.map(|given| given.grant.clone()).collect(),
        })
    }
}
