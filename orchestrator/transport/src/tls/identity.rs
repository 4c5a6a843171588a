//! Names in a certificate, read from its bytes without verification.

use escapement_access::CertificateIdentity;
use sha2::{Digest, Sha256};
use std::fmt;
use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

/// Reason why a certificate has no usable name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum InvalidIdentity {
    /// The bytes are not a certificate.
    Malformed,
    /// The certificate has a SPIFFE id and another URI: the standard allows exactly one.
    SeveralUris,
    /// The only URI begins like a SPIFFE id, but is invalid.
    InvalidSpiffeId,
}

impl fmt::Display for InvalidIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "the certificate cannot be read",
            Self::SeveralUris => "the certificate has a SPIFFE id and another URI",
            Self::InvalidSpiffeId => "the certificate has an URI that begins like a SPIFFE id and is none",
        })
    }
}

impl std::error::Error for InvalidIdentity {}

/// Reads the names of a certificate, in DER, and how long it is valid.
///
/// A name with a wildcard cannot be the name of a client and is left out.
///
/// # Errors
/// [`InvalidIdentity`]: it has no name that can be trusted.
pub fn names_of(der: &[u8]) -> Result<CertificateIdentity, InvalidIdentity> {
    let certificate = Certificate::from_der(der).map_err(|_| InvalidIdentity::Malformed)?;
    let certificate = certificate.tbs_certificate();
    let names = certificate
        .get_extension::<SubjectAltName>()
        .map_err(|_| InvalidIdentity::Malformed)?
        .map_or_else(Vec::new, |(_is_critical, SubjectAltName(names))| names);
    let (mut uris, mut dns_names) = (Vec::new(), Vec::new());
    for name in &names {
        match name {
            GeneralName::UniformResourceIdentifier(uri) => uris.push(uri.as_str()),
            GeneralName::DnsName(name) if is_host_name(name.as_str()) => {
                dns_names.push(name.as_str().to_ascii_lowercase());
            }
            // No caller is identified by these.
            GeneralName::DnsName(_)
            | GeneralName::OtherName(_)
            | GeneralName::Rfc822Name(_)
            | GeneralName::DirectoryName(_)
            | GeneralName::EdiPartyName(_)
            | GeneralName::IpAddress(_)
            | GeneralName::RegisteredId(_) => {}
        }
    }
    let spiffe_id = spiffe_id(&uris)?;
    if spiffe_id.is_some() {
        dns_names.clear();
    }
    let not_after = certificate.validity().not_after.to_unix_duration();
    Ok(CertificateIdentity {
        spiffe_id,
        dns_names,
        not_after_ms: i64::try_from(not_after.as_millis()).unwrap_or(i64::MAX),
        fingerprint: Sha256::digest(der).into(),
    })
}

/// Returns the SPIFFE id among these, if any.
fn spiffe_id(uris: &[&str]) -> Result<Option<String>, InvalidIdentity> {
    let looks_like_one = |uri: &&&str| {
        uri.get(..SCHEME.len())
            .is_some_and(|scheme| scheme.eq_ignore_ascii_case(SCHEME))
    };
    match (uris.iter().find(looks_like_one), uris.len()) {
        (None, _) => Ok(None),
        (Some(id), 1) if trust_domain(id).is_some() => Ok(Some((*id).to_owned())),
        (Some(_), 1) => Err(InvalidIdentity::InvalidSpiffeId),
        (Some(_), _) => Err(InvalidIdentity::SeveralUris),
    }
}

/// Returns the trust domain of a SPIFFE id; `None` for any other text.
pub(crate) fn trust_domain(id: &str) -> Option<&str> {
    let rest = id.strip_prefix(SCHEME)?.strip_prefix("//")?;
    let (domain, path) = rest.split_once('/')?;
    let is_segment = |segment: &str| {
        !matches!(segment, "" | "." | "..")
            && segment
                .bytes()
                .all(|byte| is_of_name(byte) || byte.is_ascii_uppercase())
    };
    let is_valid =
        id.len() <= SPIFFE_ID_BYTES_MAX && is_trust_domain(domain) && path.split('/').all(is_segment);
    is_valid.then_some(domain)
}

/// Returns true for the name of a trust domain: 1 to 255 of `a-z 0-9 . - _`.
pub(crate) fn is_trust_domain(text: &str) -> bool {
    (1..=TRUST_DOMAIN_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_of_name)
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-_".contains(&byte)
}

fn is_host_name(text: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty()
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    text.len() <= HOST_NAME_BYTES_MAX && text.split('.').all(is_label)
}

const SCHEME: &str = "spiffe:";
/// Bytes of a SPIFFE id, by its standard.
const SPIFFE_ID_BYTES_MAX: usize = 2_048;
/// Bytes of a trust domain, by the same.
const TRUST_DOMAIN_BYTES_MAX: usize = 255;
/// Bytes of a DNS name.
const HOST_NAME_BYTES_MAX: usize = 253;

#[cfg(test)]
mod tests;
