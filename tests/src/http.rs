//! HTTP/1 as tests need it: one request, for figures and probes, and servers on loopback. Follows nothing, and knows no path.

use std::error::Error;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

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

/// Answers every request on every connection, with or without TLS, for as long as it is polled.
pub(crate) async fn serve<Answering, Fault>(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    answer: impl Fn(Request<Incoming>) -> Answering + Clone + Send + 'static,
) where
    Answering: Future<Output = Result<Response<Full<Bytes>>, Fault>> + Send + 'static,
    Fault: Into<Box<dyn Error + Send + Sync>> + 'static,
{
    while let Ok((stream, _)) = listener.accept().await {
        let (service, tls) = (service_fn(answer.clone()), tls.clone());
        tokio::spawn(async move {
            let http = http1::Builder::new();
            // A caller that breaks off is not the server's fault.
            match tls {
                None => drop(http.serve_connection(TokioIo::new(stream), service).await),
                Some(tls) => {
                    if let Ok(stream) = tls.accept(stream).await {
                        drop(http.serve_connection(TokioIo::new(stream), service).await);
                    }
                }
            }
        });
    }
}
