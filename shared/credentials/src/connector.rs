//! Connections that are made when they are used, with what the files of [`ClientTls`] hold then. Shows no token.

use crate::tls::ClientTls;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::codegen::{Service, StdError};
use tonic::transport::Uri;

/// An encrypted connection to one host.
#[derive(Clone, Debug)]
pub(crate) struct EncryptedTo {
    pub(crate) tls: ClientTls,
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Service<Uri> for EncryptedTo {
    type Response = TokioIo<TlsStream<TcpStream>>;
    type Error = StdError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, StdError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), StdError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let Self { tls, host, port } = self.clone();
        Box::pin(async move { Ok(TokioIo::new(connect(&tls, &host, port, HTTP_2).await?)) })
    }
}

/// Connects to a host and shakes hands with it, for a protocol that ALPN names. The files are read now.
///
/// # Errors
/// What is wrong with a file, the connection or the certificate of the server.
pub async fn connect(
    tls: &ClientTls,
    host: &str,
    port: u16,
    alpn: &[u8],
) -> Result<TlsStream<TcpStream>, String> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let tcp = TcpStream::connect((bare, port))
        .await
        .map_err(|error| error.to_string())?;
    tcp.set_nodelay(true).map_err(|error| error.to_string())?;
    secured(tls, bare, tcp, &[alpn]).await
}

/// Shakes hands with a host over a connection to it. `alpn`: the protocols that are offered by name, if any.
///
/// # Errors
/// What is wrong with a file, the connection or the certificate of the server.
pub async fn secured(
    tls: &ClientTls,
    host: &str,
    tcp: TcpStream,
    alpn: &[&[u8]],
) -> Result<TlsStream<TcpStream>, String> {
    let mut config = tls.handshakes()?;
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    let expected = tls.name_expected().unwrap_or(host).to_owned();
    let expected = ServerName::try_from(expected).map_err(|error| error.to_string())?;
    let connector = TlsConnector::from(Arc::new(config));
    let stream = connector.connect(expected, tcp).await;
    stream.map_err(|error| format!("TLS: {error}"))
}

/// HTTP/2, as ALPN names it.
const HTTP_2: &[u8] = b"h2";
