//! Makes the TLS configuration of handshakes from the contents of files, which [`reload`](crate::reload) reads.

use super::settings::{ClientAuth, MinVersion, TlsSettings};
use super::trust::ClientTrust;
use crate::reload::{Contents, Reloadable};
use escapement_model::hex;
use rustls::crypto::ring;
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, UnixTime};
use rustls::server::NoServerSessionStorage;
use rustls::{RootCertStore, ServerConfig, version};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use x509_cert::Certificate;
use x509_cert::der::Decode;

/// TLS configuration from one generation of the files. Shows the certificate's subject, its SHA-256 and the end
/// of its validity.
#[derive(Debug)]
pub struct TlsServer {
    pub(crate) config: Arc<ServerConfig>,
    /// `None`: clients are not asked.
    pub(crate) trust: Option<Arc<ClientTrust>>,
    certificate: String,
    end_seconds: u64,
}

impl fmt::Display for TlsServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.certificate)
    }
}

impl TlsServer {
    /// Reads the files of the settings, now and again later.
    ///
    /// # Errors
    /// As [`TlsServer::new`], or the text begins with the file that cannot be read.
    pub fn reloadable(settings: TlsSettings) -> Result<Reloadable<Self>, String> {
        let files = settings.files();
        let parse = move |contents: &Contents| Self::new(&settings, contents, UnixTime::now());
        Reloadable::load("certificates", files, parse)
    }

    /// Returns the time at which the certificate ends, in seconds since 1970.
    pub fn end_seconds(&self) -> u64 {
        self.end_seconds
    }

    /// Makes it of what the files of the settings hold, at this time.
    ///
    /// # Errors
    /// The text begins with the flag whose file cannot be used, and says why.
    pub fn new(settings: &TlsSettings, contents: &Contents, now: UnixTime) -> Result<Self, String> {
        let provider = Arc::new(ring::default_provider());
        let versions: &[_] = match settings.min_version {
            MinVersion::Tls12 => &[&version::TLS13, &version::TLS12],
            MinVersion::Tls13 => &[&version::TLS13],
        };
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)
            .map_err(|error| format!("--tls-min-version cannot be kept: {error}"))?;
        let trust = match settings.client_auth {
            ClientAuth::None => None,
            asked @ (ClientAuth::Optional | ClientAuth::Required) => {
                let roots = client_roots(settings, contents, now)?;
                let crls = revocation_lists(settings, contents)?;
                let is_required = asked == ClientAuth::Required;
                let trust = ClientTrust::new(roots, &crls, is_required, &provider)
                    .map_err(|error| format!("--tls-client-crl cannot be used: {error}"))?;
                Some(Arc::new(trust))
            }
        };
        let builder = match &trust {
            None => builder.with_no_client_auth(),
            Some(trust) => builder.with_client_cert_verifier(Arc::clone(trust) as _),
        };
        let chain = certificates("--tls-cert", &settings.cert, contents)?;
        let (certificate, end_seconds) = valid_certificate(settings, &chain[0], now)?;
        let key = private_key(settings, contents)?;
        let mut config = builder
            .with_single_cert(chain, key)
            .map_err(|error| wrong_pair(settings, &error))?;
        config.alpn_protocols = vec![ALPN.to_vec()];
        // A resumed session would outlive the trust in its certificate, and saves a fraction of a millisecond.
        config.send_tls13_tickets = 0;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        Ok(Self {
            config: Arc::new(config),
            trust,
            certificate,
            end_seconds,
        })
    }
}

fn wrong_pair(settings: &TlsSettings, error: &rustls::Error) -> String {
    let (key, cert) = (settings.key.display(), settings.cert.display());
    match error {
        rustls::Error::InconsistentKeys(_) => format!(
            "--tls-key {key} is not the key of the first certificate in --tls-cert {cert}; the server's own \
             certificate comes first there"
        ),
        other => format!("--tls-cert {cert} cannot be used with --tls-key {key}: {other}"),
    }
}

/// Returns all certificates of a file, at least one.
fn certificates(
    flag: &str,
    file: &Path,
    contents: &Contents,
) -> Result<Vec<CertificateDer<'static>>, String> {
    let shown = file.display();
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(contents.of(file))
        .collect::<Result<_, _>>()
        .map_err(|error| format!("{flag} {shown} is no PEM: {error}"))?;
    if certificates.is_empty() {
        return Err(format!("{flag} {shown} holds no certificate"));
    }
    Ok(certificates)
}

fn private_key(settings: &TlsSettings, contents: &Contents) -> Result<PrivateKeyDer<'static>, String> {
    let shown = settings.key.display();
    PrivateKeyDer::from_pem_slice(contents.of(&settings.key)).map_err(|error| match error {
        PemError::NoItemsFound => format!("--tls-key {shown} holds no private key"),
        other => format!("--tls-key {shown} is no PEM: {other}"),
    })
}

/// Refuses one that is not valid now; says which it is, and when it ends, in seconds since 1970.
fn valid_certificate(
    settings: &TlsSettings,
    own: &CertificateDer<'_>,
    now: UnixTime,
) -> Result<(String, u64), String> {
    let shown = settings.cert.display();
    let certificate = Certificate::from_der(own)
        .map_err(|error| format!("--tls-cert {shown} holds a certificate that cannot be read: {error}"))?;
    let certificate = certificate.tbs_certificate();
    let validity = certificate.validity();
    let (begin, end) = (
        validity.not_before.to_date_time(),
        validity.not_after.to_date_time(),
    );
    if now.as_secs() < begin.unix_duration().as_secs() {
        return Err(format!("--tls-cert {shown} is not valid before {begin}"));
    }
    if now.as_secs() > end.unix_duration().as_secs() {
        return Err(format!("--tls-cert {shown} has expired at {end}"));
    }
    let fingerprint = hex::text(&Sha256::digest(own));
    let shown = format!(
        "{} (SHA-256 {fingerprint}, valid until {end})",
        certificate.subject()
    );
    Ok((shown, end.unix_duration().as_secs()))
}

/// Returns the roots that are valid now, by trust domain.
fn client_roots(
    settings: &TlsSettings,
    contents: &Contents,
    now: UnixTime,
) -> Result<BTreeMap<Option<String>, RootCertStore>, String> {
    let mut by_domain: BTreeMap<Option<String>, RootCertStore> = BTreeMap::new();
    for ca in &settings.client_cas {
        let roots = by_domain
            .entry(ca.trust_domain.clone())
            .or_insert_with(RootCertStore::empty);
        let mut n_valid = 0;
        for root in certificates("--tls-client-ca", &ca.file, contents)? {
            let shown = ca.file.display();
            let read = Certificate::from_der(&root).map_err(|error| {
                format!("--tls-client-ca {shown} holds a certificate that cannot be read: {error}")
            })?;
            // Bundles keep roots for a while after their end.
            let end = read.tbs_certificate().validity().not_after.to_unix_duration();
            if end.as_secs() < now.as_secs() {
                continue;
            }
            roots.add(root).map_err(|error| {
                format!("--tls-client-ca {shown} holds a certificate that is no root: {error}")
            })?;
            n_valid += 1;
        }
        if n_valid == 0 {
            let shown = ca.file.display();
            return Err(format!("--tls-client-ca {shown} holds expired certificates only"));
        }
    }
    Ok(by_domain)
}

fn revocation_lists(
    settings: &TlsSettings,
    contents: &Contents,
) -> Result<Vec<CertificateRevocationListDer<'static>>, String> {
    let mut lists = Vec::new();
    for file in &settings.crls {
        let shown = file.display();
        let of_file: Vec<_> = CertificateRevocationListDer::pem_slice_iter(contents.of(file))
            .collect::<Result<_, _>>()
            .map_err(|error| format!("--tls-client-crl {shown} is no PEM: {error}"))?;
        if of_file.is_empty() {
            return Err(format!("--tls-client-crl {shown} holds no revocation list"));
        }
        lists.extend(of_file);
    }
    Ok(lists)
}

/// HTTP/2. Clients that do not ask for it by name are refused.
pub(crate) const ALPN: &[u8] = b"h2";

#[cfg(test)]
mod tests;
