//! Asks a program on this machine whether it is ready.

use std::fmt;
use std::io::{Error, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Where a program serves figures and probes. Flatten it into the arguments of a command with `#[command(flatten)]`.
#[derive(clap::Args, Clone, Debug)]
pub struct Probe {
    /// Where it serves figures and probes, IP:PORT, as it was told itself; an address that stands for all of the machine is asked on
    /// loopback.
    #[arg(long, env = "ESCAPEMENT_METRICS_LISTEN", value_name = "ADDRESS")]
    metrics_listen: SocketAddr,
}

/// The program is not ready, or no program answers.
#[derive(Debug)]
pub struct NotReady {
    /// Address of the probe.
    pub address: SocketAddr,
    /// Answer of the program.
    pub why: String,
}

impl fmt::Display for NotReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not ready: {}", self.address, self.why)
    }
}

impl std::error::Error for NotReady {}

impl Probe {
    /// Asks `/readyz`.
    ///
    /// # Errors
    /// [`NotReady`].
    pub fn run(&self) -> Result<(), NotReady> {
        let address = reachable(self.metrics_listen);
        let not_ready = |why: String| NotReady { address, why };
        let answer = ask(address).map_err(|error| not_ready(error.to_string()))?;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        match head.split(' ').nth(1) {
            Some("200") => Ok(()),
            Some(_) => Err(not_ready(body.trim().to_owned())),
            None => Err(not_ready("what answers there speaks no HTTP".to_owned())),
        }
    }
}

/// Returns the head and the body of the answer.
fn ask(address: SocketAddr) -> std::io::Result<String> {
    let until = Instant::now() + PATIENCE;
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let head = format!("GET /readyz HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    let (mut answer, mut piece) = (Vec::new(), [0; 1_024]);
    while answer.len() < ANSWER_BYTES_MAX {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Error::from(ErrorKind::TimedOut));
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(n) => answer.extend_from_slice(&piece[..n]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

fn reachable(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(all) if all.ip().is_unspecified() => (Ipv4Addr::LOCALHOST, all.port()).into(),
        SocketAddr::V6(all) if all.ip().is_unspecified() => (Ipv6Addr::LOCALHOST, all.port()).into(),
        one => one,
    }
}

/// An orchestrator needs up to 5 s to report that its engine does not answer.
const PATIENCE: Duration = Duration::from_secs(6);
const ANSWER_BYTES_MAX: usize = 16 << 10;
