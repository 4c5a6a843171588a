//! The policy: who there is, and what each may. Read from one text, as a whole or not at all.
//! Opens no file.

mod certificates;
mod grants;
mod instant;
mod issuers;
mod reading;
mod section;
mod tokens;
mod violation;

pub use self::violation::PolicyViolation;

use crate::certificate::CertificateIdentity;
use crate::grant::Grant;
use crate::jwt::Issuer;
use crate::pattern::Pattern;
use crate::principal::Principal;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use escapement_model::Namespace;

/// A policy that holds: every name that it uses is declared, and every pattern can match.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Policy {
    /// What is given to who has no credentials.
    pub(crate) anonymous: Vec<Grant>,
    /// True if who has no credentials may ask for the API itself.
    pub(crate) anonymous_reflection: bool,
    pub(crate) namespaces: BTreeMap<Namespace, NamespaceLimits>,
    /// By the SHA-256 of the token's text.
    pub(crate) tokens: BTreeMap<[u8; 32], Arc<Principal>>,
    pub(crate) certificates: Vec<CertificateRule>,
    /// Who issues JSON Web Tokens, each once.
    pub(crate) issuers: Vec<Issuer>,
}

/// What one namespace may take.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NamespaceLimits {
    /// Share of admission while others wait too, 1 to 1000.
    pub weight: u32,
    /// Most executions that are accepted and not settled. `None`: the server's limit.
    pub max_live_executions: Option<u32>,
    /// Most executions that run. `None`: the server's limit.
    pub max_running_executions: Option<u32>,
}

impl Default for NamespaceLimits {
    fn default() -> Self {
        Self {
            weight: 1,
            max_live_executions: None,
            max_running_executions: None,
        }
    }
}

/// Certificates that are given something.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct CertificateRule {
    pub(crate) names: CertificateNames,
    pub(crate) grant: Grant,
}

/// Which certificates.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum CertificateNames {
    /// Those with a SPIFFE id that matches.
    Spiffe(Pattern),
    /// Those with a DNS name that matches, and no SPIFFE id.
    Dns(Pattern),
}

impl Policy {
    /// Most bytes of a policy.
    pub const BYTES_MAX: usize = 4 << 20;

    /// Reads a policy: TOML with the keys that `deploy/AUTHORIZATION.md` names, and no others.
    ///
    /// # Errors
    /// All violations, in the order of their lines; at least one.
    pub fn parse(text: &str) -> Result<Self, Vec<PolicyViolation>> {
        reading::read(text)
    }

    /// Returns the namespaces that it declares, with their limits. `default` is always among them.
    pub fn namespaces(&self) -> impl Iterator<Item = (&Namespace, NamespaceLimits)> {
        self.namespaces.iter().map(|(name, limits)| (name, *limits))
    }

    /// Returns the principals of its static tokens.
    pub fn token_principals(&self) -> impl Iterator<Item = &Arc<Principal>> {
        self.tokens.values()
    }
}

impl CertificateRule {
    /// Returns the name by which the certificate is one of those meant.
    pub(crate) fn name_of<'a>(&self, certificate: &'a CertificateIdentity) -> Option<&'a str> {
        match (&self.names, &certificate.spiffe_id) {
            (CertificateNames::Spiffe(pattern), Some(id)) => pattern.matches(id).then_some(id),
            (CertificateNames::Dns(pattern), None) => {
                let mut names = certificate.dns_names.iter().map(|name| name.as_str());
                names.find(|name| pattern.matches(name))
            }
            (CertificateNames::Spiffe(_), None) | (CertificateNames::Dns(_), Some(_)) => None,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
