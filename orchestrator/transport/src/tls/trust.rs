//! Verification of certificates, by roots. The rights of their holders are decided elsewhere.
//!
//! The roots of a trust domain vouch for its SPIFFE ids and for nothing else; the other roots for certificates without one.
//! So a root that signs for one domain cannot make members of another.

use super::identity::{self, InvalidIdentity};
use escapement_access::CertificateIdentity;
use rustls::RootCertStore;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, SignatureScheme,
};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The roots of all clients.
#[derive(Debug)]
pub(crate) struct ClientTrust {
    /// Verifiers by trust domain; `None` for certificates without a SPIFFE id.
    verifiers: BTreeMap<Option<String>, Arc<dyn ClientCertVerifier>>,
    hints: Vec<DistinguishedName>,
    is_required: bool,
}

/// No root vouches for ids of this trust domain, or for certificates without one.
#[derive(Clone, Debug, Eq, PartialEq)]
struct NobodyVouches(Option<String>);

impl fmt::Display for NobodyVouches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(domain) => write!(
                f,
                "no --tls-client-ca {domain}=FILE vouches for the trust domain {domain}"
            ),
            None => f.write_str(
                "no --tls-client-ca without a trust domain vouches for certificates without a SPIFFE id",
            ),
        }
    }
}

impl std::error::Error for NobodyVouches {}

impl ClientTrust {
    /// Trusts the roots of each trust domain for that domain alone.
    ///
    /// # Errors
    /// A revocation list cannot be used, or a domain has no root.
    pub(crate) fn new(
        roots: BTreeMap<Option<String>, RootCertStore>,
        crls: &[CertificateRevocationListDer<'static>],
        is_required: bool,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Self, String> {
        let mut verifiers: BTreeMap<Option<String>, Arc<dyn ClientCertVerifier>> = BTreeMap::new();
        let mut hints = Vec::new();
        for (domain, roots) in roots {
            hints.extend(roots.subjects());
            let mut builder =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
            if !crls.is_empty() {
                // The whole chain is checked, except the root. A CA without a list revokes nothing; one whose list is
                // out of date is not trusted.
                builder = builder
                    .with_crls(crls.iter().cloned())
                    .allow_unknown_revocation_status()
                    .enforce_revocation_expiration();
            }
            verifiers.insert(domain, builder.build().map_err(|error| error.to_string())?);
        }
        Ok(Self {
            verifiers,
            hints,
            is_required,
        })
    }

    /// Verifies a chain, the client's own certificate first; returns the holder's names.
    ///
    /// # Errors
    /// Reason why the chain is not trusted.
    pub(crate) fn judge(
        &self,
        chain: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<CertificateIdentity, Error> {
        let [own, between @ ..] = chain else {
            return Err(Error::NoCertificatesPresented);
        };
        let identity = identity::names_of(own).map_err(invalid)?;
        let domain = identity.spiffe_id.as_deref().and_then(identity::trust_domain);
        let verifier = self.verifiers.get(&domain.map(str::to_owned)).ok_or_else(|| {
            let nobody = NobodyVouches(domain.map(str::to_owned));
            Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(nobody))))
        })?;
        verifier.verify_client_cert(own, between, now)?;
        Ok(identity)
    }

    /// Returns any verifier: the check of signatures does not depend on the roots.
    fn any(&self) -> &Arc<dyn ClientCertVerifier> {
        self.verifiers.values().next().expect("there is a client CA")
    }
}

fn invalid(why: InvalidIdentity) -> Error {
    match why {
        InvalidIdentity::Malformed => Error::InvalidCertificate(CertificateError::BadEncoding),
        InvalidIdentity::SeveralUris | InvalidIdentity::InvalidSpiffeId => {
            Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(why))))
        }
    }
}

/// Returns the reason, for people. The texts of our own reasons are inside of the library's.
pub(crate) fn reason(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(CertificateError::Other(OtherError(own))) => own.to_string(),
        other => other.to_string(),
    }
}

impl ClientCertVerifier for ClientTrust {
    fn offer_client_auth(&self) -> bool {
        true
    }

    fn client_auth_mandatory(&self) -> bool {
        self.is_required
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let chain: Vec<CertificateDer<'_>> = std::iter::once(end_entity)
            .chain(intermediates)
            .cloned()
            .collect();
        self.judge(&chain, now).map(|_| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.any().verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.any().verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.any().supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests;
