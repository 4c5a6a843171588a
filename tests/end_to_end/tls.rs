//! TLS between real processes: who is let in, by what, and who is not.

pub(crate) mod connecting;
mod identities;
mod page;
mod reloading;

use crate::world::World;
use escapement_tests::authority::{Authority, Issued, IssuedFiles, replace};
use escapement_tests::{OrchestratorSettings, PrivateDirectory, Worker, WorkerSettings};
use std::path::PathBuf;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

/// An orchestrator that speaks TLS, and the two authorities: its own, and that of its clients.
pub(crate) struct SecureWorld {
    pub(crate) world: World,
    pub(crate) servers: Authority,
    pub(crate) clients: Authority,
    /// The files of the server.
    pub(crate) own: IssuedFiles,
    /// The roots of the clients, and of the server.
    pub(crate) client_ca: PathBuf,
    pub(crate) server_ca: PathBuf,
    pub(crate) crl: PathBuf,
}

impl SecureWorld {
    /// With the defaults: who has a certificate needs a right one.
    pub(crate) async fn start() -> Self {
        Self::start_with(|settings| settings).await
    }

    /// With more flags. It looks at its files every second.
    pub(crate) async fn start_with(
        change: impl FnOnce(OrchestratorSettings) -> OrchestratorSettings,
    ) -> Self {
        let soon = |settings: OrchestratorSettings| settings.flag("--tls-reload-interval-ms", 1_000);
        Self::start_that_looks_as_told(|settings| change(soon(settings))).await
    }

    /// With more flags. It looks at its files as often as they say, or else as often as it does by itself.
    pub(crate) async fn start_that_looks_as_told(
        change: impl FnOnce(OrchestratorSettings) -> OrchestratorSettings,
    ) -> Self {
        let directory = PrivateDirectory::new("tls").unwrap();
        let (servers, clients) = (
            Authority::new("servers").unwrap(),
            Authority::new("clients").unwrap(),
        );
        let own = servers.issue(&["localhost"]).unwrap();
        let own = own.write(directory.path(), "server").unwrap();
        let file = |name: &str, text: &str| {
            let file = directory.join(name);
            replace(&file, text).unwrap();
            file
        };
        let client_ca = file("client-ca.pem", &clients.pem());
        let server_ca = file("server-ca.pem", &servers.pem());
        let crl = file("crl.pem", &clients.revocation_list(&[]).unwrap());
        let caller = clients.issue(&["caller"]).unwrap();
        let tls = client_tls(&servers, Some(&caller));
        let world = World::start_in(directory, |settings| {
            let settings = settings
                .flag("--tls-cert", own.cert.display())
                .flag("--tls-key", own.key.display())
                .flag("--tls-client-ca", client_ca.display())
                .flag("--tls-client-crl", crl.display())
                .called_by_tls(tls);
            change(settings)
        })
        .await;
        Self {
            world,
            servers,
            clients,
            own,
            client_ca,
            server_ca,
            crl,
        }
    }

    /// Returns a connection that shows this certificate.
    pub(crate) async fn connect(&self, shown: Option<&Issued>) -> Result<Channel, tonic::transport::Error> {
        let tls = client_tls(&self.servers, shown);
        Endpoint::from_shared(self.world.orchestrator.url())
            .unwrap()
            .tls_config(tls)
            .unwrap()
            .connect()
            .await
    }

    /// Returns a stock worker that shows the certificate in these files and has a session.
    pub(crate) async fn worker(&self, worker_id: &str, shown: &IssuedFiles) -> Worker {
        self.world
            .stock_worker(worker_id, |settings| self.showing(settings, shown))
            .await
    }

    /// Has a worker trust the server and show this.
    pub(crate) fn showing(&self, settings: WorkerSettings, shown: &IssuedFiles) -> WorkerSettings {
        settings
            .flag("--tls-ca", self.server_ca.display())
            .flag("--tls-cert", shown.cert.display())
            .flag("--tls-key", shown.key.display())
            .flag("--tls-server-name", "localhost")
    }

    /// Returns a certificate of the clients' authority, in files.
    pub(crate) fn issue(&self, name: &str) -> (Issued, IssuedFiles) {
        let issued = self.clients.issue(&[name]).unwrap();
        let files = issued.write(self.world.directory.path(), name).unwrap();
        (issued, files)
    }
}

/// Trusts this authority, and shows this certificate.
pub(crate) fn client_tls(servers: &Authority, shown: Option<&Issued>) -> ClientTlsConfig {
    let tls = ClientTlsConfig::new()
        .ca_certificate(Certificate::from_pem(servers.pem()))
        .domain_name("localhost");
    match shown {
        Some(shown) => tls.identity(Identity::from_pem(&shown.cert, &shown.key)),
        None => tls,
    }
}
