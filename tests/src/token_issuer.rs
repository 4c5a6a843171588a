//! An issuer of JSON Web Tokens on loopback: signs what a test says, and answers with its keys, or wrongly. Judges nothing.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::{Request, Response};
use rcgen::{KeyPair, PKCS_ED25519, PublicKeyData, SigningKey};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;

use crate::Fault;
use crate::authority::Issued;
use crate::http::serve;

/// A running issuer. Stops on drop.
pub struct TokenIssuer {
    key: KeyPair,
    kid: String,
    url: String,
    served: Arc<Mutex<Served>>,
    accepting: AbortHandle,
}

/// What it answers, and what it was asked.
#[derive(Debug, Default)]
struct Served {
    key_set: String,
    /// The value of `authorization` of each question.
    questions: Vec<Option<String>>,
}

impl TokenIssuer {
    /// Listens on a free port of loopback, without encryption; its key has this name.
    ///
    /// # Errors
    /// No key can be drawn, or the operating system's.
    pub async fn start(kid: &str) -> Result<Self, Fault> {
        Self::start_as(kid, None).await
    }

    /// The same by TLS, with this certificate, which is for `localhost`.
    ///
    /// # Errors
    /// As [`TokenIssuer::start`], or the certificate is none.
    pub async fn start_encrypted(kid: &str, own: &Issued) -> Result<Self, Fault> {
        Self::start_as(kid, Some(own.acceptor()?)).await
    }

    async fn start_as(kid: &str, tls: Option<TlsAcceptor>) -> Result<Self, Fault> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address: SocketAddr = listener.local_addr()?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        let key = KeyPair::generate_for(&PKCS_ED25519)?;
        let served = Arc::new(Mutex::new(Served::default()));
        let asked = Arc::clone(&served);
        let answer = move |request| answer(request, Arc::clone(&asked));
        let accepting = tokio::spawn(serve(listener, tls, answer)).abort_handle();
        let issuer = Self {
            key,
            kid: kid.to_owned(),
            url: format!("{scheme}://localhost:{}/keys", address.port()),
            served,
            accepting,
        };
        issuer.served().key_set = issuer.key_set();
        Ok(issuer)
    }

    /// Where its keys are.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its keys, as it answers at first.
    pub fn key_set(&self) -> String {
        let x = base64url(self.key.der_bytes());
        json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "use": "sig", "kid": self.kid, "x": x}]}).to_string()
    }

    /// Answers with this set from now on.
    pub fn answer_with(&self, key_set: String) {
        self.served().key_set = key_set;
    }

    /// Returns a token with these claims.
    ///
    /// # Panics
    /// The key cannot sign, which it can.
    pub fn token(&self, claims: &Value) -> String {
        self.token_of(&self.kid, claims)
    }

    /// The same with another name of a key in its header.
    ///
    /// # Panics
    /// As [`TokenIssuer::token`].
    pub fn token_of(&self, kid: &str, claims: &Value) -> String {
        let header = json!({"alg": "EdDSA", "kid": kid, "typ": "JWT"});
        let part = |value: &Value| base64url(value.to_string().as_bytes());
        let message = format!("{}.{}", part(&header), part(claims));
        let signature = self.key.sign(message.as_bytes()).expect("the key was made here");
        format!("{message}.{}", base64url(&signature))
    }

    /// Returns the value of `authorization` of each question that it was asked so far.
    pub fn questions(&self) -> Vec<Option<String>> {
        self.served().questions.clone()
    }

    fn served(&self) -> std::sync::MutexGuard<'_, Served> {
        self.served.lock().expect("nobody panics while holding it")
    }
}

impl Drop for TokenIssuer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn answer(
    request: Request<Incoming>,
    served: Arc<Mutex<Served>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let shown = request.headers().get("authorization");
    let shown = shown.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let mut served = served.lock().expect("nobody panics while holding it");
    served.questions.push(shown);
    Ok(Response::new(Full::new(Bytes::from(served.key_set.clone()))))
}

/// Base64url without padding.
pub(crate) fn base64url(bytes: &[u8]) -> String {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let byte = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for index in 0..=chunk.len() {
            let six = bits >> (18 - 6 * index) & 63;
            text.push(char::from(alphabet[six as usize]));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::base64url;

    #[test]
    fn base64url_is_that_of_rfc_4648() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg"),
            ("fo", "Zm8"),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg"),
        ] {
            assert_eq!(base64url(bytes.as_bytes()), text);
        }
        assert_eq!(base64url(&[0xfb, 0xff]), "-_8");
    }
}
