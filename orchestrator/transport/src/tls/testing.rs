//! Certificates for the tests of this crate.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, IsCa, KeyPair, SanType,
};
use rustls::pki_types::{CertificateDer, UnixTime};
use std::time::Duration;

/// A certificate authority.
pub(crate) type Authority = CertifiedIssuer<'static, KeyPair>;

pub(crate) fn authority(name: &str) -> Authority {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name = named(name);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A certificate with these names, `spiffe://` and other URIs among them, and its key.
pub(crate) struct Leaf {
    pub(crate) der: CertificateDer<'static>,
    pub(crate) cert_pem: String,
    pub(crate) key_pem: String,
}

pub(crate) fn leaf(authority: &Authority, names: &[&str]) -> Leaf {
    leaf_with(authority, names, |_| {})
}

pub(crate) fn leaf_with(
    authority: &Authority,
    names: &[&str],
    change: impl FnOnce(&mut CertificateParams),
) -> Leaf {
    let mut params = CertificateParams::default();
    params.distinguished_name = named("leaf");
    params.subject_alt_names = names.iter().map(|name| san(name)).collect();
    change(&mut params);
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, authority).unwrap();
    Leaf {
        der: certificate.der().clone(),
        cert_pem: certificate.pem(),
        key_pem: key.serialize_pem(),
    }
}

fn san(name: &str) -> SanType {
    let text = name.try_into().unwrap();
    if name.contains(':') {
        SanType::URI(text)
    } else {
        SanType::DnsName(text)
    }
}

fn named(name: &str) -> DistinguishedName {
    let mut named = DistinguishedName::new();
    named.push(DnType::CommonName, name);
    named
}

/// Returns the beginning of a day.
pub(crate) fn at(year: u64) -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_secs((year - 1970) * 31_556_952))
}
