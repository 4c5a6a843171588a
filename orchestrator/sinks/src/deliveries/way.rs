//! How a sink is reached: a webhook or a stream of NATS, as its file says. Reaches nothing.

use super::nats::{Credentials, NatsTarget, Subject};
use escapement_credentials::{ClientTls, keeps_secrets};
use escapement_triggers::Secret;
use hyper::Uri;
use std::path::{Path, PathBuf};

/// What the file says of it.
#[derive(Debug)]
pub(crate) struct WrittenWay {
    pub(crate) kind: String,
    pub(crate) url: String,
    pub(crate) secret_file: Option<PathBuf>,
    pub(crate) subject: Option<String>,
    pub(crate) credentials_file: Option<PathBuf>,
    pub(crate) ca_file: Option<PathBuf>,
    pub(crate) allow_plaintext: bool,
}

/// How one sink is reached.
#[derive(Clone, Debug)]
pub(crate) enum Way {
    /// By a POST.
    Webhook(WebhookTarget),
    /// Through a stream of JetStream.
    Nats(NatsTarget),
}

/// A webhook.
#[derive(Clone, Debug)]
pub(crate) struct WebhookTarget {
    pub(crate) uri: Uri,
    pub(crate) tls: ClientTls,
    /// One or two; all sign.
    pub(crate) secrets: Vec<Secret>,
}

/// Reads how a sink is reached. The problem begins with the key.
pub(crate) fn way<'c>(written: &WrittenWay, read: &impl Fn(&Path) -> &'c [u8]) -> Result<Way, String> {
    match written.kind.as_str() {
        "webhook" => webhook(written, read).map(Way::Webhook),
        "nats" => nats(written, read).map(Way::Nats),
        other => Err(format!("kind {other:?} is not known; webhook and nats are")),
    }
}

fn webhook<'c>(written: &WrittenWay, read: &impl Fn(&Path) -> &'c [u8]) -> Result<WebhookTarget, String> {
    not_for(
        "webhook",
        &[
            ("subject", written.subject.is_some()),
            ("credentials_file", written.credentials_file.is_some()),
        ],
    )?;
    let uri = uri(written, "https", "http")?;
    let tls = tls(written, uri.scheme_str() == Some("https"))?;
    let file = written
        .secret_file
        .as_ref()
        .ok_or("secret_file is missing: a webhook believes events by their signature")?;
    let secrets = secrets(read(file));
    let secrets = secrets.map_err(|problem| format!("secret_file {} {problem}", file.display()))?;
    Ok(WebhookTarget { uri, tls, secrets })
}

fn nats<'c>(written: &WrittenWay, read: &impl Fn(&Path) -> &'c [u8]) -> Result<NatsTarget, String> {
    not_for("nats", &[("secret_file", written.secret_file.is_some())])?;
    let uri = uri(written, "tls", "nats")?;
    if uri.path_and_query().is_some_and(|path| path.as_str() != "/") {
        return Err("url must end behind the port".to_owned());
    }
    let is_encrypted = uri.scheme_str() == Some("tls");
    let tls = tls(written, is_encrypted)?;
    let subject = written.subject.as_deref().ok_or("subject is missing")?;
    let subject = Subject::parse(subject).map_err(|problem| format!("subject {problem}"))?;
    let credentials = |file: &PathBuf| {
        Credentials::parse(read(file))
            .map_err(|problem| format!("credentials_file {} {problem}", file.display()))
    };
    Ok(NatsTarget {
        host: uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned(),
        port: uri.port_u16().unwrap_or(NATS_PORT),
        tls: is_encrypted.then_some(tls),
        subject,
        credentials: written.credentials_file.as_ref().map(credentials).transpose()?,
    })
}

fn not_for(kind: &str, keys: &[(&str, bool)]) -> Result<(), String> {
    match keys.iter().find(|(_, is_given)| *is_given) {
        Some((key, _)) => Err(format!("{key} is not for a sink of kind {kind}")),
        None => Ok(()),
    }
}

fn tls(written: &WrittenWay, is_encrypted: bool) -> Result<ClientTls, String> {
    let tls = written
        .ca_file
        .iter()
        .fold(ClientTls::new(), |tls, file| tls.ca_file(file));
    if is_encrypted {
        tls.handshakes().map_err(|problem| format!("ca_file {problem}"))?;
    }
    Ok(tls)
}

/// `encrypted` and `plaintext` are the schemes that there are.
fn uri(written: &WrittenWay, encrypted: &str, plaintext: &str) -> Result<Uri, String> {
    let uri: Uri = written
        .url
        .parse()
        .map_err(|error| format!("url is no URL: {error}"))?;
    let host = uri.host().unwrap_or_default();
    if host.is_empty() {
        return Err("url names no host".to_owned());
    }
    if uri
        .authority()
        .is_some_and(|authority| authority.as_str().contains('@'))
    {
        return Err("url must not hold a user or a password".to_owned());
    }
    match uri.scheme_str() {
        Some(scheme) if scheme == encrypted => Ok(uri),
        Some(scheme) if scheme == plaintext && (written.allow_plaintext || keeps_secrets(&uri)) => Ok(uri),
        Some(scheme) if scheme == plaintext => Err(format!(
            "url is not encrypted and leads to another machine; give {encrypted}://, or allow_plaintext = true if \
             the network itself is trusted"
        )),
        _ => Err(format!("url must begin with {encrypted}:// or {plaintext}://")),
    }
}

/// One or two lines. A problem tells nothing of them.
fn secrets(text: &[u8]) -> Result<Vec<Secret>, &'static str> {
    let text = std::str::from_utf8(text).map_err(|_| "holds no text")?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let secrets: Option<Vec<Secret>> = lines.map(Secret::read).collect();
    let secrets = secrets.filter(|secrets| (1..=SECRETS_MAX).contains(&secrets.len()));
    secrets.ok_or("must hold one or two lines of whsec_ and 24 to 64 bytes in base64")
}

/// So that one takes the place of the other without a gap.
const SECRETS_MAX: usize = 2;
/// What servers of NATS listen on unless they are told otherwise.
const NATS_PORT: u16 = 4222;
