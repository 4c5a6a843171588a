//! One request over plain HTTP, for figures and probes. Follows nothing and keeps no connection.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Asks for a path of what listens at `IP:PORT`, taking this media type: the status and the body. `None` if nobody answers.
pub async fn get(address: &str, path: &str, accept: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    let head = format!("GET {path} HTTP/1.0\r\nhost: {address}\r\naccept: {accept}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.ok()?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}
