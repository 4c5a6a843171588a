//! A way to an orchestrator that speaks TLS for those who do not: they connect here unencrypted, and their bytes go on
//! encrypted, with a client certificate. With it every suite that speaks to an orchestrator by bytes, by frames or by proxies
//! attacks the one that serves TLS. Decides nothing by what it carries.

use std::fmt;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::Fault;
use crate::authority::{Authority, Issued, replace};

/// A tunnel on loopback and the authorities of both of its ends. On drop it closes every connection and its port.
pub struct TlsTunnel {
    address: SocketAddr,
    target: Arc<Mutex<Option<SocketAddr>>>,
    flags: Vec<String>,
    connector: TlsConnector,
    _until_dropped: oneshot::Sender<()>,
}

impl TlsTunnel {
    /// Opens the port, and writes the files of a server to the directory. Who connects before there is a target is reset.
    ///
    /// # Errors
    /// A file cannot be written, or there is no free port.
    pub fn open(directory: &Path) -> Result<Self, Fault> {
        let (servers, clients) = (Authority::new("servers")?, Authority::new("clients")?);
        let own = servers.issue(&["localhost"])?.write(directory, "tunnel")?;
        let client_ca = directory.join("tunnel-client-ca.pem");
        replace(&client_ca, &clients.pem())?;
        let flags = [
            ("--tls-cert", &own.cert),
            ("--tls-key", &own.key),
            ("--tls-client-ca", &client_ca),
        ];
        let flags = flags.map(|(flag, file)| [flag.to_owned(), file.display().to_string()]);
        let connector = connector(&servers, &clients.issue(&["tunnel"])?)?;
        let shakes = connector.clone();

        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let target = Arc::new(Mutex::new(None));
        let (until_dropped, dropped) = oneshot::channel();
        let seen = Arc::clone(&target);
        // A thread of its own: tests may block theirs.
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime can be made");
            runtime.block_on(async {
                tokio::select! {
                    _ = dropped => {}
                    () = accept(listener, shakes, seen) => {}
                }
            });
        });
        Ok(Self {
            address,
            target,
            flags: flags.concat(),
            connector,
            _until_dropped: until_dropped,
        })
    }

    /// Where to connect, unencrypted.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The flags of the orchestrator at the other end.
    pub fn flags(&self) -> &[String] {
        &self.flags
    }

    /// Where new connections go from now on.
    pub fn lead_to(&self, target: SocketAddr) {
        *self.target.lock().unwrap_or_else(PoisonError::into_inner) = Some(target);
    }

    /// A connection to the other end, past the tunnel.
    ///
    /// # Errors
    /// Nobody listens there.
    pub async fn connect(&self) -> std::io::Result<TcpStream> {
        let target = *self.target.lock().unwrap_or_else(PoisonError::into_inner);
        TcpStream::connect(target.ok_or(ErrorKind::NotConnected)?).await
    }

    /// Shakes hands on such a connection, with the certificate of the tunnel.
    ///
    /// # Errors
    /// The handshake failed.
    pub async fn shake(&self, connection: TcpStream) -> std::io::Result<TlsStream<TcpStream>> {
        self.connector.connect(name(), connection).await
    }

    /// Returns the first message of a handshake, as bytes.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn client_hello(&self) -> Result<Vec<u8>, Fault> {
        let mut bytes = Vec::new();
        ClientConnection::new(Arc::clone(self.connector.config()), name())?.write_tls(&mut bytes)?;
        Ok(bytes)
    }
}

impl fmt::Debug for TlsTunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsTunnel")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

fn connector(servers: &Authority, shown: &Issued) -> Result<TlsConnector, Fault> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(servers.pem().as_bytes())?)?;
    let cert = CertificateDer::from_pem_slice(shown.cert.as_bytes())?;
    let key = PrivateKeyDer::from_pem_slice(shown.key.as_bytes())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![cert], key)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

async fn accept(
    listener: std::net::TcpListener,
    connector: TlsConnector,
    target: Arc<Mutex<Option<SocketAddr>>>,
) {
    let listener = TcpListener::from_std(listener).expect("the listener is open and does not block");
    loop {
        // Out of descriptors, say: the next one may be accepted.
        let Ok((client, _)) = listener.accept().await else {
            continue;
        };
        let target = *target.lock().unwrap_or_else(PoisonError::into_inner);
        let connector = connector.clone();
        tokio::spawn(async move {
            let mut client = client;
            if carry(&mut client, target, connector).await.is_none() {
                // The end at which it broke is seen as a break at the other end too.
                drop(client.set_zero_linger());
            }
        });
    }
}

/// Carries both directions until both have ended; `None` if one broke.
async fn carry(client: &mut TcpStream, target: Option<SocketAddr>, connector: TlsConnector) -> Option<()> {
    let server = TcpStream::connect(target?).await.ok()?;
    client.set_nodelay(true).ok()?;
    server.set_nodelay(true).ok()?;
    let mut server = connector.connect(name(), server).await.ok()?;
    let carried = copy_bidirectional(client, &mut server).await;
    if carried.is_err() {
        drop(server.get_ref().0.set_zero_linger());
    }
    carried.ok().map(drop)
}

fn name() -> ServerName<'static> {
    ServerName::try_from("localhost").expect("this is a name")
}
