//! Port at which nobody answers. Listens to nothing.

use std::net::SocketAddr;

use tokio::net::TcpSocket;

use crate::Fault;

/// Port of loopback that refuses every connection, for as long as this lives.
///
/// Bound, so that no other process gets it: a port that was bound and let go soon belongs to another test.
#[derive(Debug)]
pub struct ClosedPort {
    address: SocketAddr,
    _bound: TcpSocket,
}

impl ClosedPort {
    /// Binds a free port.
    ///
    /// # Errors
    /// The operating system's.
    pub fn bind() -> Result<Self, Fault> {
        let bound = TcpSocket::new_v4()?;
        bound.bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        Ok(Self {
            address: bound.local_addr()?,
            _bound: bound,
        })
    }

    /// Returns its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

#[cfg(test)]
mod tests {
    use super::ClosedPort;
    use std::io::ErrorKind;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn it_refuses_and_nobody_else_gets_it() {
        let port = ClosedPort::bind().unwrap();
        let refused = TcpStream::connect(port.address()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        let taken = TcpListener::bind(port.address()).unwrap_err();
        assert_eq!(taken.kind(), ErrorKind::AddrInUse);
    }
}
