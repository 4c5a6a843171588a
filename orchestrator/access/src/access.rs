//! Who a caller is by its credentials, and whether it may make a call at all.
//! Keeps nothing between two calls.

use crate::certificate::CertificateIdentity;
use crate::denial::Denial;
use crate::grant::Grant;
use crate::jwt::{KeySet, KeySource, TOKEN_BYTES_MAX, Unverified};
use crate::matrix::{Row, row};
use crate::policy::{NamespaceLimits, Policy};
use crate::principal::{Principal, PrincipalKind};
use crate::token::StaticToken;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use escapement_model::encoder::sha256;
use escapement_model::{AttemptSeal, AttemptToken, Namespace, bearer as attempt_bearer};

/// What decides: a policy, or that there is none. Cheap to share, and never changed: another policy is another one of these.
#[derive(Debug)]
pub struct Access {
    policy: Option<Arc<Policy>>,
    /// Of the issuers, as far as they are there.
    keys: BTreeMap<KeySource, Arc<KeySet>>,
    anonymous: Arc<Principal>,
    some_attempt: Arc<Principal>,
}

/// How much there is of what, for logs; nothing of who it is about.
impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.policy {
            None => f.write_str("no policy"),
            Some(policy) => write!(
                f,
                "{} tokens, {} issuers of tokens, {} rules for certificates, {} namespaces",
                policy.tokens.len(),
                policy.issuers.len(),
                policy.certificates.len(),
                policy.namespaces.len()
            ),
        }
    }
}

/// What a caller shows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Credentials<'a> {
    /// The value of the metadata `authorization`, if there is one.
    pub authorization: Option<&'a [u8]>,
    /// The certificate of its connection, if that was asked for and verified.
    pub certificate: Option<&'a CertificateIdentity>,
    /// What made the tokens of attempts. `None`: there are no attempts, and nothing is the token of one.
    pub attempts: Option<&'a AttemptSeal>,
}

impl Access {
    /// No policy: everybody may do everything, and only a certificate tells one from another.
    pub fn without_policy() -> Self {
        Self {
            policy: None,
            keys: BTreeMap::new(),
            anonymous: Arc::new(Principal::without_policy()),
            some_attempt: Arc::new(Principal::of_some_attempt()),
        }
    }

    /// What the policy gives, and nothing else. No key of an issuer is known.
    pub fn new(policy: Policy) -> Self {
        Self {
            anonymous: Arc::new(Principal::anonymous(policy.anonymous.clone())),
            policy: Some(Arc::new(policy)),
            keys: BTreeMap::new(),
            some_attempt: Arc::new(Principal::of_some_attempt()),
        }
    }

    /// The same with these sets of keys beside those that it has, or in the place of those that it has.
    #[must_use]
    pub fn with_keys(&self, keys: impl IntoIterator<Item = (KeySource, Arc<KeySet>)>) -> Self {
        Self {
            policy: self.policy.clone(),
            keys: self.keys.clone().into_iter().chain(keys).collect(),
            anonymous: Arc::clone(&self.anonymous),
            some_attempt: Arc::clone(&self.some_attempt),
        }
    }

    /// Where the keys of its issuers come from; a source may be that of several.
    pub fn key_sources(&self) -> impl Iterator<Item = &KeySource> {
        self.issuers().map(|(_, keys)| keys)
    }

    /// Returns the issuers of tokens by name, and where their keys come from.
    pub fn issuers(&self) -> impl Iterator<Item = (&str, &KeySource)> {
        let issuers = self.policy.iter().flat_map(|policy| &policy.issuers);
        issuers.map(|issuer| (&*issuer.name, &issuer.keys))
    }

    /// Where the keys of this issuer come from.
    pub fn key_source_of(&self, issuer: &str) -> Option<&KeySource> {
        self.issuers()
            .find(|(name, _)| *name == issuer)
            .map(|(_, keys)| keys)
    }

    /// Returns the SHA-256 of a JSON Web Token that this `authorization` shows, by which [`JwtCache`](crate::JwtCache) keeps what
    /// became of it. `None` if it shows none that could be right.
    pub fn digest_of_jwt(&self, authorization: &[u8]) -> Option<[u8; 32]> {
        let has_issuers = self
            .policy
            .as_ref()
            .is_some_and(|policy| !policy.issuers.is_empty());
        let token = bearer_of(authorization)?;
        let is_one = has_issuers && token.len() <= TOKEN_BYTES_MAX && token.contains('.');
        is_one.then(|| sha256(token.as_bytes()))
    }

    /// Returns true if a policy decides.
    pub fn has_policy(&self) -> bool {
        self.policy.is_some()
    }

    /// Returns the limits of a namespace.
    pub fn limits(&self, namespace: &Namespace) -> NamespaceLimits {
        let policy = self.policy.as_deref();
        let limits = policy.and_then(|policy| policy.namespaces.get(namespace));
        limits.copied().unwrap_or_default()
    }

    /// Returns the policy, if there is one.
    pub fn policy(&self) -> Option<&Policy> {
        self.policy.as_deref()
    }

    /// Says who shows these credentials. `authorization` wins over the certificate, and what is wrong in it falls back to
    /// nothing. Without a policy only the token of an attempt is looked at there.
    ///
    /// Of the token of an attempt nothing is known here but that this process made it: the engine knows which are under way.
    ///
    /// # Errors
    /// [`Denial::CredentialsInvalid`], [`Denial::CredentialsExpired`], or [`Denial::KeysUnavailable`] for a token whose key is not
    /// known and may become known.
    pub fn authenticate(&self, shown: Credentials<'_>, now_ms: i64) -> Result<Arc<Principal>, Denial> {
        let bearer = shown.authorization.map(bearer_of);
        if let Some(Some(bearer)) = bearer
            && bearer.starts_with(attempt_bearer::PREFIX)
        {
            let token = attempt_bearer::read(bearer).zip(shown.attempts);
            let is_one = token.is_some_and(|(token, attempts)| attempts.made(token));
            let some_attempt = is_one.then(|| Arc::clone(&self.some_attempt));
            return some_attempt.ok_or(Denial::CredentialsInvalid);
        }
        let principal = match (&self.policy, bearer, shown.certificate) {
            (Some(policy), Some(bearer), _) => {
                let bearer = bearer.ok_or(Denial::CredentialsInvalid)?;
                self.of_bearer(policy, bearer, now_ms)?
            }
            (Some(policy), None, Some(certificate)) => of_certificate(policy, certificate),
            (Some(_), None, None) | (None, _, None) => Arc::clone(&self.anonymous),
            (None, _, Some(certificate)) => Arc::new(certified(
                certificate,
                first_name(certificate),
                vec![Grant::everything()],
            )),
        };
        match principal.valid_until_ms {
            Some(end_ms) if end_ms <= now_ms => Err(Denial::CredentialsExpired),
            _ => Ok(principal),
        }
    }

    fn of_bearer(&self, policy: &Policy, bearer: &str, now_ms: i64) -> Result<Arc<Principal>, Denial> {
        if let Ok(token) = StaticToken::parse(bearer) {
            let principal = policy.tokens.get(&token.sha256());
            return principal.cloned().ok_or(Denial::CredentialsInvalid);
        }
        let token = Unverified::parse(bearer).ok_or(Denial::CredentialsInvalid)?;
        // What the token says of its issuer decides only whose keys it is held against.
        let issuer = policy
            .issuers
            .iter()
            .find(|issuer| token.text("iss") == Some(&issuer.name));
        let issuer = issuer.ok_or(Denial::CredentialsInvalid)?;
        let none_yet = KeySet::default();
        let keys = self.keys.get(&issuer.keys).map_or(&none_yet, Arc::as_ref);
        issuer.judge(&token, keys, now_ms).map(Arc::new)
    }

    /// Says whether the principal may make the call of this path, `/SERVICE/METHOD`, as far as the call alone says.
    /// Without a policy everybody may, also what is no call; but for attempts, which may the same with and without one.
    ///
    /// # Errors
    /// Why not.
    pub fn permit(&self, principal: &Principal, path: &str) -> Result<(), Denial> {
        if self.policy.is_none() && principal.kind != PrincipalKind::Attempt {
            return Ok(());
        }
        // A call that the matrix does not know is not made, also if a service has it.
        let row: Row = row(path).ok_or(Denial::UnknownCall)?;
        if principal.has_proven_nothing()
            && self
                .policy
                .as_ref()
                .is_some_and(|policy| !policy.anonymous_reflection)
            && path.starts_with(REFLECTION)
        {
            return Err(Denial::CredentialsMissing);
        }
        principal.permits(path, &row)
    }
}

/// Returns the token of an attempt among these values of `authorization`, if it is the only one.
pub fn shown_attempt<'a>(mut authorization: impl Iterator<Item = &'a [u8]>) -> Option<AttemptToken> {
    let only = authorization.next().filter(|_| authorization.next().is_none());
    attempt_bearer::read(only.and_then(bearer_of)?)
}

fn bearer_of(authorization: &[u8]) -> Option<&str> {
    core::str::from_utf8(authorization).ok().and_then(bearer)
}

/// Returns the token of `Bearer TOKEN`; the word in any letter case, as HTTP has it.
fn bearer(authorization: &str) -> Option<&str> {
    let (scheme, token) = authorization.split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then(|| token.trim_matches(' '))
}

/// A certificate that no rule means is still somebody: who has no right, rather than nobody.
fn of_certificate(policy: &Policy, certificate: &CertificateIdentity) -> Arc<Principal> {
    let matching = policy.certificates.iter();
    let matching: Vec<(&str, &Grant)> = matching
        .filter_map(|rule| Some((rule.name_of(certificate)?, &rule.grant)))
        .collect();
    let name = matching.first().map_or(first_name(certificate), |(name, _)| name);
    let grants = matching.iter().map(|(_, grant)| (*grant).clone()).collect();
    Arc::new(certified(certificate, name, grants))
}

fn certified(certificate: &CertificateIdentity, name: &str, grants: Vec<Grant>) -> Principal {
    Principal {
        name: name.into(),
        kind: PrincipalKind::Certificate,
        issuer: "".into(),
        valid_until_ms: Some(certificate.not_after_ms),
        grants,
    }
}

fn first_name(certificate: &CertificateIdentity) -> &str {
    let dns_name = || certificate.dns_names.first().map(|name| name.as_str());
    certificate
        .spiffe_id
        .as_deref()
        .or_else(dns_name)
        .unwrap_or("certificate without a name")
}

/// What the paths of both services of reflection begin with.
const REFLECTION: &str = "/grpc.reflection.";

#[cfg(test)]
mod tests;
