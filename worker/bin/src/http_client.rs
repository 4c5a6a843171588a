//! One HTTP/1.1 request on a connection of its own, within limits of time and size.
//! Follows no redirect, keeps no connection and no cookie, and does not decide which hosts may be asked.
//!
//! It is hyper's own client: the crate is in the tree already,
//! and a pool would save little beside a step's cost.

mod tls;

use crate::limits::CONNECT_TIME_MAX;
use bytes::Bytes;
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use std::fmt;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// With or without TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Without.
    Http,
    /// With.
    Https,
}

impl Scheme {
    /// 80 or 443.
    pub fn default_port(self) -> u16 {
        match self {
            Scheme::Http => 80,
            Scheme::Https => 443,
        }
    }
}

/// Where a URL leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// With or without TLS.
    pub scheme: Scheme,
    /// Lower case; an IPv6 address in brackets.
    pub host: String,
    /// The one that the URL names, or the scheme's default.
    pub port: u16,
}

impl Target {
    /// Reads it from a URL.
    ///
    /// # Errors
    /// What is wrong with the URL, as the end of a sentence about it.
    pub fn of(uri: &Uri) -> Result<Self, &'static str> {
        let scheme = match uri.scheme_str() {
            Some("http") => Scheme::Http,
            Some("https") => Scheme::Https,
            _ => return Err("must begin with http:// or https://"),
        };
        let authority = uri.authority().ok_or("names no host")?;
        if authority.as_str().contains('@') {
            return Err("must not hold a user or a password; use a header");
        }
        let port = port_of(authority).ok_or("has no valid host and port")?;
        let port = port.unwrap_or(scheme.default_port());
        Ok(Self {
            scheme,
            host: authority.host().to_ascii_lowercase(),
            port,
        })
    }
}

/// Returns the port that an authority names, if it names one;
/// `None` if it is more or less than `HOST` or `HOST:PORT`.
pub(crate) fn port_of(authority: &Authority) -> Option<Option<u16>> {
    let host = authority.host();
    match authority
        .as_str()
        .strip_prefix(host)
        .filter(|_| !host.is_empty())?
    {
        "" => Some(None),
        rest => rest
            .strip_prefix(':')?
            .parse()
            .ok()
            .filter(|port| *port != 0)
            .map(Some),
    }
}

/// What to ask.
#[derive(Debug)]
pub struct Ask {
    /// The method.
    pub method: Method,
    /// The whole URL.
    pub uri: Uri,
    /// Headers beyond `host` and `content-length`, which are set here.
    pub headers: HeaderMap,
    /// The body; empty for none.
    pub body: Bytes,
    /// The limit of everything together.
    pub time_max: Duration,
    /// Bytes that the answer's body may have.
    pub answer_bytes_max: usize,
}

/// A whole answer.
#[derive(Debug)]
pub struct Answer {
    /// Status.
    pub status: StatusCode,
    /// Headers.
    pub headers: HeaderMap,
    /// Body.
    pub body: Bytes,
}

/// Why there is no whole answer.
#[derive(Debug, PartialEq, Eq)]
pub enum HttpFault {
    /// The URL leads nowhere; the text is the end of a sentence about it.
    WrongUrl(&'static str),
    /// No connection, or no TLS session; the request was not sent.
    Connect(String),
    /// The connection broke; whether the request had an effect is unknown.
    Broken(String),
    /// The time was up; whether the request had an effect is unknown.
    TimeUp(Duration),
    /// The answer's body has more bytes than allowed.
    TooLarge(usize),
}

impl fmt::Display for HttpFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HttpFault::WrongUrl(why) => write!(f, "the URL {why}"),
            HttpFault::Connect(why) => write!(f, "no connection: {why}"),
            HttpFault::Broken(why) => write!(f, "the connection broke: {why}"),
            HttpFault::TimeUp(limit) => write!(f, "no whole answer within {} ms", limit.as_millis()),
            HttpFault::TooLarge(limit) => write!(f, "the answer has more than {limit} bytes"),
        }
    }
}

/// Sends the request and reads the whole answer.
///
/// # Errors
/// [`HttpFault`]; an answer of any status is no fault.
pub async fn send(ask: Ask) -> Result<Answer, HttpFault> {
    let time_max = ask.time_max;
    tokio::time::timeout(time_max, send_unbounded(ask))
        .await
        .unwrap_or(Err(HttpFault::TimeUp(time_max)))
}

async fn send_unbounded(ask: Ask) -> Result<Answer, HttpFault> {
    let target = Target::of(&ask.uri).map_err(HttpFault::WrongUrl)?;
    let address = (
        target.host.trim_start_matches('[').trim_end_matches(']'),
        target.port,
    );
    let connecting = tokio::time::timeout(CONNECT_TIME_MAX, TcpStream::connect(address));
    let stream = connecting
        .await
        .map_err(|_| HttpFault::Connect("no answer".to_owned()))?
        .map_err(|error| HttpFault::Connect(error.to_string()))?;
    stream
        .set_nodelay(true)
        .map_err(|error| HttpFault::Connect(error.to_string()))?;
    match target.scheme {
        Scheme::Http => exchange(stream, ask).await,
        Scheme::Https => {
            let stream = tls::wrap(stream, &target.host).await;
            exchange(stream.map_err(HttpFault::Connect)?, ask).await
        }
    }
}

async fn exchange<S>(stream: S, ask: Ask) -> Result<Answer, HttpFault>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let answer_bytes_max = ask.answer_bytes_max;
    let request = request_of(ask)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| HttpFault::Connect(error.to_string()))?;
    let mut exchange = std::pin::pin!(async move {
        let response = sender.send_request(request).await.map_err(broken)?;
        let (head, body) = response.into_parts();
        let body = read_body(body, answer_bytes_max).await?;
        Ok(Answer {
            status: head.status,
            headers: head.headers,
            body,
        })
    });
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        // The answer first: a server may close the connection right behind it.
        biased;
        answer = &mut exchange => answer,
        // The connection ends when it has handed everything over; its fault shows in the exchange as well.
        _ = &mut connection => exchange.await,
    }
}

fn request_of(ask: Ask) -> Result<Request<Full<Bytes>>, HttpFault> {
    let authority = ask.uri.authority().ok_or(HttpFault::WrongUrl("names no host"))?;
    let host =
        HeaderValue::from_str(authority.as_str()).map_err(|_| HttpFault::WrongUrl("has no valid host"))?;
    let path = ask.uri.path_and_query().map_or("/", |path| path.as_str());
    let mut request = Request::new(Full::new(ask.body));
    *request.method_mut() = ask.method;
    *request.uri_mut() = path
        .parse()
        .map_err(|_| HttpFault::WrongUrl("has no valid path"))?;
    *request.headers_mut() = ask.headers;
    request.headers_mut().insert(header::HOST, host);
    Ok(request)
}

async fn read_body(mut body: Incoming, bytes_max: usize) -> Result<Bytes, HttpFault> {
    let mut whole = Vec::new();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame.map_err(broken)?.into_data() {
            if whole.len() + data.len() > bytes_max {
                return Err(HttpFault::TooLarge(bytes_max));
            }
            whole.extend_from_slice(&data);
        }
    }
    Ok(whole.into())
}

fn broken(error: hyper::Error) -> HttpFault {
    HttpFault::Broken(error.to_string())
}
