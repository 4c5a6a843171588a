//! Authorities that a client trusts, and its certificate.

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tonic::transport::{Certificate, ClientTlsConfig, Identity};

/// Trust and certificate of a client for addresses that begin with `https://`.
///
/// Without anything it trusts what the machine trusts, and shows no certificate.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ClientTls {
    ca: Option<PathBuf>,
    identity: Option<(PathBuf, PathBuf)>,
    server_name: Option<String>,
}

impl ClientTls {
    /// Trusts what the machine trusts, and shows no certificate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Trusts the certificates in this file, in PEM, and no others.
    #[must_use]
    pub fn ca_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.ca = Some(file.into());
        self
    }

    /// Shows the certificate in the first file, followed by those between it and a root; the second holds its private key.
    /// Both in PEM.
    #[must_use]
    pub fn identity_files(mut self, cert: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.identity = Some((cert.into(), key.into()));
        self
    }

    /// Expects this name in the server's certificate, instead of the host of the address.
    #[must_use]
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }

    /// Returns the name to expect instead of the host of the address, if any.
    pub(crate) fn name_expected(&self) -> Option<&str> {
        self.server_name.as_deref()
    }

    /// Reads the files, for the transport of tonic.
    pub(crate) fn config(&self) -> Result<ClientTlsConfig, String> {
        let mut config = match &self.ca {
            Some(file) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read(file)?)),
            None => ClientTlsConfig::new().with_native_roots(),
        };
        if let Some((cert, key)) = &self.identity {
            config = config.identity(Identity::from_pem(read(cert)?, read(key)?));
        }
        Ok(match &self.server_name {
            Some(name) => config.domain_name(name.clone()),
            None => config,
        })
    }

    /// Reads the files, for handshakes of our own. Names no protocol.
    ///
    /// # Errors
    /// What is wrong with a file; the text begins with its path.
    pub fn handshakes(&self) -> Result<ClientConfig, String> {
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(self.roots()?);
        let Some((cert, key)) = &self.identity else {
            return Ok(builder.with_no_client_auth());
        };
        let chain = certificates(cert)?;
        let shown = key.display();
        let private =
            PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|error| format!("{shown}: {error}"))?;
        builder
            .with_client_auth_cert(chain, private)
            .map_err(|error| format!("{shown}: {error}"))
    }

    fn roots(&self) -> Result<RootCertStore, String> {
        let mut roots = RootCertStore::empty();
        match &self.ca {
            Some(file) => {
                for root in certificates(file)? {
                    let added = roots.add(root);
                    added.map_err(|error| format!("{}: {error}", file.display()))?;
                }
            }
            None => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
        }
        match (roots.is_empty(), &self.ca) {
            (false, _) => Ok(roots),
            (true, Some(file)) => Err(format!("{}: holds no certificate", file.display())),
            (true, None) => Err("this machine trusts no certificates".to_owned()),
        }
    }
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    CertificateDer::pem_slice_iter(&read(file)?)
        .collect::<Result<_, _>>()
        .map_err(|error| format!("{}: {error}", file.display()))
}

pub(crate) fn read(file: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()))
}
