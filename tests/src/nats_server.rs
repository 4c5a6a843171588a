//! A real server of NATS with JetStream on a free port, and a client of it that asks and reads. Knows no event.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::{Fault, NatsAccounts, wait_for};

/// A server, killed on drop.
#[derive(Debug)]
pub struct NatsServer {
    process: Child,
    program: PathBuf,
    directory: PathBuf,
    port: u16,
}

impl NatsServer {
    /// Starts the program with this configuration, which is written to `nats.conf` in the directory, beside its streams and its log,
    /// and waits until it listens.
    ///
    /// # Errors
    /// It cannot be started, or does not listen within 30 s.
    pub async fn start(program: &Path, directory: &Path, configuration: &str) -> Result<Self, Fault> {
        let streams = directory.join("nats").display().to_string();
        let configuration = format!("jetstream {{ store_dir: {streams:?} }}\n{configuration}\n");
        std::fs::write(directory.join("nats.conf"), configuration)?;
        let process = launch(program, directory, "-1")?;
        let mut started = Self {
            process,
            program: program.to_owned(),
            directory: directory.to_owned(),
            port: 0,
        };
        started.port = started.listens().await?;
        Ok(started)
    }

    /// Where it listens on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Kills it by SIGKILL.
    ///
    /// # Errors
    /// The operating system cannot.
    pub fn kill(&mut self) -> Result<(), Fault> {
        self.process.kill()?;
        self.process.wait()?;
        Ok(())
    }

    /// Starts it again after a kill, on the same port and the same streams.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn restart(&mut self) -> Result<(), Fault> {
        self.process = launch(&self.program, &self.directory, &self.port.to_string())?;
        self.listens().await?;
        Ok(())
    }

    async fn listens(&self) -> Result<u16, Fault> {
        let file = self
            .directory
            .join(format!("nats-server_{}.ports", self.process.id()));
        let port = async || {
            let ports: Value = serde_json::from_slice(&std::fs::read(&file).ok()?).ok()?;
            let (_, port) = ports["nats"][0].as_str()?.rsplit_once(':')?;
            port.parse().ok()
        };
        wait_for("the server of NATS to listen", START_LIMIT, port).await
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

fn launch(program: &Path, directory: &Path, port: &str) -> Result<Child, Fault> {
    let log = File::options()
        .create(true)
        .append(true)
        .open(directory.join("nats.stderr"))?;
    let mut command = Command::new(program);
    command
        .args(["--addr", "127.0.0.1", "--port", port])
        .arg("--config")
        .arg(directory.join("nats.conf"))
        .arg("--ports_file_dir")
        .arg(directory);
    Ok(command.stderr(log).spawn()?)
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A client that asks one thing after the other.
pub struct NatsClient {
    stream: BufReader<Box<dyn Stream>>,
    n_asked: u64,
}

impl NatsClient {
    /// Connects as a user of these accounts, or as the user `admin` with the password `admin`, if there are users.
    /// `roots`: a certificate in PEM, if it speaks TLS.
    ///
    /// # Errors
    /// There is no connection.
    pub async fn connect(
        port: u16,
        roots: Option<&str>,
        accounts: Option<&NatsAccounts>,
    ) -> Result<Self, Fault> {
        let mut plain = BufReader::new(TcpStream::connect(("127.0.0.1", port)).await?);
        let mut info = String::new();
        plain.read_line(&mut info).await?;
        let info: Value = serde_json::from_str(info.trim_start_matches("INFO "))?;
        let stream: Box<dyn Stream> = match roots {
            None => Box::new(plain.into_inner()),
            Some(pem) => {
                let mut store = RootCertStore::empty();
                store.add(CertificateDer::from_pem_slice(pem.as_bytes())?)?;
                let provider = Arc::new(rustls::crypto::ring::default_provider());
                let config = ClientConfig::builder_with_provider(provider)
                    .with_safe_default_protocol_versions()?
                    .with_root_certificates(store)
                    .with_no_client_auth();
                let name = ServerName::try_from("localhost")?;
                let connector = TlsConnector::from(Arc::new(config));
                Box::new(connector.connect(name, plain.into_inner()).await?)
            }
        };
        let mut client = Self {
            stream: BufReader::new(stream),
            n_asked: 0,
        };
        let mut hello = match accounts {
            Some(accounts) => accounts.answer(info["nonce"].as_str().unwrap_or_default()),
            None => json!({"user": "admin", "pass": "admin"}),
        };
        for (name, value) in [("verbose", false), ("headers", true), ("no_responders", true)] {
            hello[name] = value.into();
        }
        client
            .write(&format!("CONNECT {hello}\r\nSUB answers.* 1\r\n"))
            .await?;
        Ok(client)
    }

    /// Asks the API of JetStream, without its prefix `$JS.API.`.
    ///
    /// # Errors
    /// The connection ends, or what answers is no JSON.
    pub async fn ask(&mut self, subject: &str, question: &Value) -> Result<Value, Fault> {
        let (_, body) = self.exchange(subject, question).await?;
        Ok(serde_json::from_slice(&body)?)
    }

    /// Returns all messages of a stream that lets itself be read directly, in their order: the headers as they are written, and the body.
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub async fn messages(&mut self, stream: &str) -> Result<Vec<(String, Value)>, Fault> {
        let mut messages = Vec::new();
        loop {
            let next = json!({"next_by_subj": ">", "seq": messages.len() + 1});
            let (headers, body) = self.exchange(&format!("DIRECT.GET.{stream}"), &next).await?;
            if headers.starts_with("NATS/1.0 404") {
                return Ok(messages);
            }
            messages.push((headers, serde_json::from_slice(&body)?));
        }
    }

    async fn exchange(&mut self, subject: &str, question: &Value) -> Result<(String, Vec<u8>), Fault> {
        self.n_asked += 1;
        let (answer_to, body) = (format!("answers.{}", self.n_asked), question.to_string());
        let bytes = body.len();
        self.write(&format!(
            "PUB $JS.API.{subject} {answer_to} {bytes}\r\n{body}\r\n"
        ))
        .await?;
        loop {
            let mut line = String::new();
            if self.stream.read_line(&mut line).await? == 0 {
                return Err("the server closed the connection".into());
            }
            let words: Vec<&str> = line.split_whitespace().collect();
            let (n_headers, bytes): (usize, usize) = match words.as_slice() {
                ["PING"] => {
                    self.write("PONG\r\n").await?;
                    continue;
                }
                ["MSG", .., bytes] => (0, bytes.parse()?),
                ["HMSG", .., headers, bytes] => (headers.parse()?, bytes.parse()?),
                ["-ERR", ..] => return Err(line.into()),
                _ => continue,
            };
            let mut message = vec![0; bytes + 2];
            self.stream.read_exact(&mut message).await?;
            message.truncate(bytes);
            if words[1] == answer_to {
                let body = message.split_off(n_headers);
                return Ok((String::from_utf8(message)?, body));
            }
        }
    }

    async fn write(&mut self, text: &str) -> Result<(), Fault> {
        self.stream.write_all(text.as_bytes()).await?;
        Ok(self.stream.flush().await?)
    }
}

const START_LIMIT: Duration = Duration::from_secs(30);
