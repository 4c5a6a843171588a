//! TLS by rustls with ring, trusting what the machine trusts.

use std::sync::{Arc, OnceLock};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// Shakes hands and checks that the certificate is for `host`. The error is a text for people.
pub(super) async fn wrap(stream: TcpStream, host: &str) -> Result<TlsStream<TcpStream>, String> {
    let name = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let name = ServerName::try_from(name).map_err(|error| error.to_string())?;
    let connector = TlsConnector::from(config()?);
    connector
        .connect(name, stream)
        .await
        .map_err(|error| format!("TLS: {error}"))
}

/// Read once: the machine's certificates take some milliseconds to load.
fn config() -> Result<Arc<ClientConfig>, String> {
    static CONFIG: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    if let Some(config) = CONFIG.get() {
        return Ok(config.clone());
    }
    let mut roots = RootCertStore::empty();
    let (n_added, _) = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if n_added == 0 {
        return Err("TLS: this machine has no trusted certificates".to_owned());
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS: {error}"))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(CONFIG.get_or_init(|| Arc::new(config)).clone())
}
