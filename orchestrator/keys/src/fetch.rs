//! A question to one issuer. Follows no redirect, and believes no answer but one with status 200.

use bytes::Bytes;
use escapement_access::{KeySet, KeySource};
use escapement_credentials::{ClientTls, connect};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::header::{ACCEPT, AUTHORIZATION, HOST, HeaderValue};
use hyper::{Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Where to ask, and how.
struct Place {
    uri: Uri,
    tls: ClientTls,
    /// The value of `authorization`, if a token is to be shown.
    authorization: Option<HeaderValue>,
}

/// Reads the files that asking a source needs, and keeps nothing. Asks nobody.
///
/// # Errors
/// The text says which file cannot be used, and why.
pub fn check(source: &KeySource) -> Result<(), String> {
    match source {
        KeySource::File(_) => Ok(()),
        KeySource::Url { .. } => {
            let place = Place::of(source)?;
            match place.is_encrypted() {
                true => place.tls.handshakes().map(drop),
                false => Ok(()),
            }
        }
    }
}

/// Asks for the keys, and waits at most that long.
///
/// # Errors
/// Why there are none, for the log.
pub(crate) async fn fetch(source: &KeySource, limit: Duration) -> Result<KeySet, String> {
    let place = Place::of(source)?;
    let body = timeout(limit, place.get());
    let body = body
        .await
        .map_err(|_| format!("there was no whole answer within {} ms", limit.as_millis()))??;
    KeySet::parse(&body).map_err(|error| format!("the answer {error}"))
}

impl Place {
    fn of(source: &KeySource) -> Result<Self, String> {
        let KeySource::Url {
            url,
            ca_file,
            token_file,
        } = source
        else {
            return Err("a file is not asked".to_owned());
        };
        let uri: Uri = url.parse().map_err(|error| format!("{url} is no URL: {error}"))?;
        let token = |file: &String| {
            let text = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
            let mut value = HeaderValue::try_from(format!("Bearer {}", text.trim()))
                .map_err(|_| format!("{file}: holds what is no token"))?;
            value.set_sensitive(true);
            Ok::<_, String>(value)
        };
        let trusted = ca_file
            .iter()
            .fold(ClientTls::new(), |tls, file| tls.ca_file(file));
        Ok(Self {
            uri,
            tls: trusted,
            authorization: token_file.as_ref().map(token).transpose()?,
        })
    }

    fn is_encrypted(&self) -> bool {
        self.uri.scheme_str() == Some("https")
    }

    async fn get(self) -> Result<Bytes, String> {
        let host = self.uri.host().unwrap_or_default().to_owned();
        if self.is_encrypted() {
            let port = self.uri.port_u16().unwrap_or(443);
            let stream = connect(&self.tls, &host, port, b"http/1.1").await?;
            return self.ask(stream).await;
        }
        let port = self.uri.port_u16().unwrap_or(80);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let stream = TcpStream::connect((host, port)).await;
        self.ask(stream.map_err(|error| error.to_string())?).await
    }

    async fn ask(
        self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) -> Result<Bytes, String> {
        let failed = |error: hyper::Error| format!("the connection failed: {error}");
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(failed)?;
        // Ends with the answer, however that ends.
        let mut driving = JoinSet::new();
        driving.spawn(connection);
        let path = self.uri.path_and_query().map_or("/", |path| path.as_str());
        let authority = self.uri.authority().map_or("", |authority| authority.as_str());
        let mut request = Request::get(path)
            .header(HOST, authority)
            .header(ACCEPT, "application/json");
        if let Some(value) = self.authorization {
            request = request.header(AUTHORIZATION, value);
        }
        let request = request
            .body(Empty::<Bytes>::new())
            .map_err(|error| error.to_string())?;
        let answer = sender.send_request(request).await.map_err(failed)?;
        if answer.status() != StatusCode::OK {
            return Err(format!("the answer has the status {}", answer.status()));
        }
        let body = Limited::new(answer.into_body(), KeySet::BYTES_MAX)
            .collect()
            .await;
        let body = body.map_err(|error| format!("the answer cannot be taken: {error}"))?;
        Ok(body.to_bytes())
    }
}

#[cfg(test)]
mod tests;
