//! A certificate authority of a test's own, and what it signs. Serves nobody.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DistinguishedName,
    DnType, IsCa, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SanType, SerialNumber,
    date_time_ymd,
};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use crate::Fault;

/// A certificate authority.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    next: AtomicU64,
}

/// A certificate with its key, in PEM.
#[derive(Clone, Debug)]
pub struct Issued {
    /// The certificate.
    pub cert: String,
    /// Private key.
    pub key: String,
    /// The number under which it can be revoked.
    pub number: u64,
}

/// The files of a certificate and its key.
#[derive(Clone, Debug)]
pub struct IssuedFiles {
    /// The certificate's.
    pub cert: PathBuf,
    /// The key's.
    pub key: PathBuf,
}

impl Authority {
    /// Creates a new one, known by this name.
    ///
    /// # Errors
    /// No key can be drawn.
    pub fn new(name: &str) -> Result<Self, Fault> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name = named(name);
        Ok(Self {
            issuer: CertifiedIssuer::self_signed(params, KeyPair::generate()?)?,
            next: AtomicU64::new(1),
        })
    }

    /// Its own certificate, in PEM.
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// Signs a certificate with these names: DNS names, and URIs such as SPIFFE ids.
    ///
    /// # Errors
    /// A name is neither.
    pub fn issue(&self, names: &[&str]) -> Result<Issued, Fault> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut params = CertificateParams::default();
        params.distinguished_name = named(names.first().unwrap_or(&"nobody"));
        params.serial_number = Some(SerialNumber::from(number));
        for name in names {
            let text = (*name).try_into()?;
            params.subject_alt_names.push(match name.contains(':') {
                true => SanType::URI(text),
                false => SanType::DnsName(text),
            });
        }
        let key = KeyPair::generate()?;
        let cert = params.signed_by(&key, &self.issuer)?.pem();
        let key = key.serialize_pem();
        Ok(Issued { cert, key, number })
    }

    /// Returns a list that revokes the certificates of these numbers, in PEM.
    ///
    /// # Errors
    /// It cannot be signed.
    pub fn revocation_list(&self, numbers: &[u64]) -> Result<String, Fault> {
        let params = CertificateRevocationListParams {
            this_update: date_time_ymd(2020, 1, 1),
            next_update: date_time_ymd(2400, 1, 1),
            crl_number: SerialNumber::from(numbers.len() as u64),
            issuing_distribution_point: None,
            revoked_certs: numbers.iter().map(|number| revoked(*number)).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        Ok(params.signed_by(&self.issuer)?.pem()?)
    }
}

impl Issued {
    /// What shakes hands as a server that shows it, and asks for no certificate.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn acceptor(&self) -> Result<TlsAcceptor, Fault> {
        let chain = CertificateDer::pem_slice_iter(self.cert.as_bytes()).collect::<Result<_, _>>()?;
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes())?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        Ok(TlsAcceptor::from(Arc::new(config)))
    }

    /// Writes both to `NAME.pem` and `NAME.key` in a directory, each in one step.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn write(&self, directory: &Path, name: &str) -> Result<IssuedFiles, Fault> {
        let files = IssuedFiles {
            cert: directory.join(format!("{name}.pem")),
            key: directory.join(format!("{name}.key")),
        };
        replace(&files.key, &self.key)?;
        replace(&files.cert, &self.cert)?;
        Ok(files)
    }
}

/// Replaces a file in one step.
///
/// # Errors
/// The directory cannot be written.
pub fn replace(file: &Path, text: &str) -> Result<(), Fault> {
    let next = file.with_extension("next");
    std::fs::write(&next, text)?;
    Ok(std::fs::rename(next, file)?)
}

fn revoked(number: u64) -> RevokedCertParams {
    RevokedCertParams {
        serial_number: SerialNumber::from(number),
        revocation_time: date_time_ymd(2020, 1, 1),
        reason_code: None,
        invalidity_date: None,
    }
}

fn named(name: &str) -> DistinguishedName {
    let mut named = DistinguishedName::new();
    named.push(DnType::CommonName, name);
    named
}
