//! How a test is the collector of what the programs export. Reads nothing of it.

use tokio::net::TcpListener;
use tonic::service::Routes;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

/// Serves what a collector takes on a free port; its address.
pub(crate) async fn served(collector: Routes) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let server = Server::builder().add_routes(collector);
    tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
    address
}
