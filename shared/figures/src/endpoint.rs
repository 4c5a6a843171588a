//! The address of scrapes and probes, which the process before this one may still have.

use std::io::{ErrorKind, Result};
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;
use tracing::{info, warn};

/// An address to listen on. An address that another process has is taken once it is free.
/// So the successor of a process that drains may start while it drains.
#[derive(Debug)]
pub struct Endpoint {
    address: SocketAddr,
    /// `None` as long as another process has it.
    listener: Option<TcpListener>,
}

impl Endpoint {
    /// Takes the address if it is free.
    ///
    /// # Errors
    /// If this machine does not have the address, or this process may not take it.
    pub fn take(address: SocketAddr) -> Result<Self> {
        let listener = match TcpListener::bind(address) {
            Ok(listener) => Some(listener),
            Err(error) if error.kind() == ErrorKind::AddrInUse => None,
            Err(error) => return Err(error),
        };
        Ok(Self { address, listener })
    }

    /// Waits until the address is free, and listens on it.
    pub(crate) async fn listen(self) -> Result<tokio::net::TcpListener> {
        let listener = match self.listener {
            Some(listener) => {
                listener.set_nonblocking(true)?;
                tokio::net::TcpListener::from_std(listener)?
            }
            None => when_free(self.address).await?,
        };
        info!(address = %listener.local_addr()?, "metrics served");
        Ok(listener)
    }
}

async fn when_free(address: SocketAddr) -> Result<tokio::net::TcpListener> {
    warn!(%address, "metrics address in use");
    loop {
        match tokio::net::TcpListener::bind(address).await {
            Err(error) if error.kind() == ErrorKind::AddrInUse => tokio::time::sleep(INTERVAL).await,
            listening => return listening,
        }
    }
}

/// Time between two tries.
const INTERVAL: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests {
    //! An address that changes hands.

    use super::Endpoint;
    use crate::{Answers, serve};
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::time::{Duration, Instant};

    struct Alive;

    impl Answers for Alive {
        async fn figures(&self) -> String {
            String::new()
        }

        async fn unlive(&self) -> Option<&'static str> {
            None
        }

        async fn unready(&self) -> Option<&'static str> {
            None
        }
    }

    #[test]
    fn an_address_that_a_predecessor_still_has_is_served_once_it_is_free() {
        let predecessor = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = predecessor.local_addr().unwrap();
        serve(Some(Endpoint::take(address).unwrap()), None, Alive).unwrap();
        drop(predecessor);
        let began = Instant::now();
        let mut stream = loop {
            match TcpStream::connect(address) {
                Ok(stream) => break stream,
                Err(_) if began.elapsed() < Duration::from_secs(30) => std::thread::yield_now(),
                Err(error) => panic!("the address is not served: {error}"),
            }
        };
        stream
            .write_all(b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n")
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }

    #[test]
    fn an_address_of_another_machine_is_refused_at_once() {
        assert!(Endpoint::take("192.0.2.1:0".parse().unwrap()).is_err());
    }
}
