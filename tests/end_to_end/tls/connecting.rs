//! What a connection must speak, and plans that real workers execute over it.

use super::SecureWorld;
use crate::grpcurl::INSTALL;
use crate::metrics::{address, counts, scrape};
use crate::plans::{StepWords, echo, plan, request, step};
use crate::world::{LIMIT, World};
use escapement_tests::authority::replace;
use escapement_tests::{Binaries, ChildProcess, PrivateDirectory, checkout, tool, wait_for};
use escapement_wire::v1::plan_result::Status;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ProtocolVersion, RootCertStore, SupportedProtocolVersion};
use serde_json::json;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

#[tokio::test]
async fn plans_are_executed_over_mutual_tls_nested_ones_too() {
    let secure = SecureWorld::start_with(|settings| settings.flag("--tls-client-auth", "required")).await;
    let (_, files) = secure.issue("worker");
    let _worker = secure.worker("worker", &files).await;
    let child = json!({
        "plan": { "version": 1, "name": "child", "context_requirements": ["region"], "steps": [
            { "id": "0b9e7a34-51c2-4d8e-8f60-1a2b3c4d5e01", "action": "echo", "payload": { "n": 1 } },
        ]},
    });
    let parent = plan([step(0, "execute_plan").payload(child), echo(1, json!({ "a": 1 }))]);
    let result = secure.world.execute(request(parent)).await;
    assert_eq!(
        (result.status(), result.steps_executed),
        (Status::Success, 2),
        "{result:?}"
    );
}

#[tokio::test]
async fn connections_are_counted_by_what_carries_them() {
    let secure = SecureWorld::start_with(|settings| {
        let settings = settings.flag("--tls-client-auth", "required");
        settings.flag("--metrics-listen", "127.0.0.1:0")
    });
    let secure = secure.await;
    let figures = address(&secure.world).await;
    let before = scrape(&figures).await;
    let known = secure.clients.issue(&["another"]).unwrap();
    let connection = secure.connect(Some(&known)).await.unwrap();
    let mutual = r#"escapement_connections{transport="mtls"}"#;
    counts(&figures, mutual, before[mutual] + 1.0).await;
    let made = "escapement_handshake_seconds_count";
    counts(&figures, made, before[made] + 1.0).await;
    drop(connection);
    counts(&figures, mutual, before[mutual]).await;

    let url = secure.world.orchestrator.url();
    let port = url.rsplit_once(':').unwrap().1.trim_end_matches('/');
    let mut plain = TcpStream::connect(format!("127.0.0.1:{port}")).await.unwrap();
    plain.write_all(b"PRI * HTTP/2.0").await.unwrap();
    let failed = r#"escapement_handshake_failures_total{reason="plaintext_on_tls"}"#;
    counts(&figures, failed, 1.0).await;

    let end = before["escapement_tls_certificate_expiry_timestamp_seconds"];
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs_f64();
    assert!(end > now, "{end} is behind {now}");
}

#[tokio::test]
async fn without_encryption_nothing_listens_where_other_machines_reach_it() {
    let directory = PrivateDirectory::new("tls").unwrap();
    let mut command = Command::new(Binaries::build().unwrap().orchestrator);
    command
        .args(["--listen", "0.0.0.0:0"])
        .current_dir(directory.path());
    let stderr = directory.join("stderr");
    let mut process = ChildProcess::start("orchestrator", &mut command, &stderr).unwrap();
    assert_eq!(process.exit(LIMIT).await.unwrap().code(), Some(64));
    let said = process.stderr();
    assert!(
        said.contains("--listen 0.0.0.0:0 can be reached from other machines and nothing is encrypted"),
        "{said}"
    );
    assert!(!directory.join("escapement-data").exists(), "nothing was opened");
}

#[tokio::test]
async fn with_encryption_it_listens_everywhere() {
    let everywhere = "0.0.0.0:0".parse().unwrap();
    let secure =
        SecureWorld::start_with(|settings| settings.listen(everywhere).switch("--allow-anonymous")).await;
    assert!(secure.world.orchestrator.address().ip().is_unspecified());
}

/// Returns a client that speaks this version only, and asks for these protocols by ALPN.
fn client(secure: &SecureWorld, version: &'static SupportedProtocolVersion, alpn: &[&str]) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    let root = CertificateDer::from_pem_slice(secure.servers.pem().as_bytes()).unwrap();
    roots.add(root).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    TlsConnector::from(Arc::new(config))
}

/// The version that was agreed upon, once the server has spoken HTTP/2; or how that failed.
async fn agreed(
    secure: &SecureWorld,
    version: &'static SupportedProtocolVersion,
    alpn: &[&str],
) -> Result<Option<ProtocolVersion>, String> {
    let tcp = TcpStream::connect(secure.world.orchestrator.address())
        .await
        .unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let spoken = async {
        let mut stream = client(secure, version, alpn).connect(name, tcp).await?;
        stream
            .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
            .await?;
        let mut frame = [0; 9];
        stream.read_exact(&mut frame).await?;
        Ok(stream.get_ref().1.protocol_version())
    };
    let spoken: std::io::Result<_> = timeout(LIMIT, spoken).await.expect("it is refused at once");
    spoken.map_err(|error| error.to_string())
}

/// A handshake that asks for no protocol. It fails.
pub(crate) async fn shake_hands_without_alpn(secure: &SecureWorld) {
    agreed(secure, &TLS13, &[]).await.unwrap_err();
}

#[tokio::test]
async fn only_tls_1_3_is_spoken_unless_the_operator_allows_1_2() {
    let strict = SecureWorld::start().await;
    assert_eq!(
        agreed(&strict, &TLS13, &["h2"]).await,
        Ok(Some(ProtocolVersion::TLSv1_3))
    );
    let refused = agreed(&strict, &TLS12, &["h2"]).await.unwrap_err();
    assert!(refused.contains("ProtocolVersion"), "{refused}");
    let lax = SecureWorld::start_with(|settings| settings.flag("--tls-min-version", "1.2")).await;
    assert_eq!(
        agreed(&lax, &TLS12, &["h2"]).await,
        Ok(Some(ProtocolVersion::TLSv1_2))
    );
    assert_eq!(
        agreed(&lax, &TLS13, &["h2"]).await,
        Ok(Some(ProtocolVersion::TLSv1_3))
    );
}

#[tokio::test]
async fn who_does_not_ask_for_http_2_by_alpn_is_refused() {
    let secure = SecureWorld::start().await;
    let nothing = agreed(&secure, &TLS13, &[]).await;
    assert!(nothing.is_err(), "{nothing:?}");
    let other = agreed(&secure, &TLS13, &["http/1.1"]).await.unwrap_err();
    assert!(other.contains("NoApplicationProtocol"), "{other}");
    assert!(agreed(&secure, &TLS13, &["http/1.1", "h2"]).await.is_ok());
}

#[tokio::test]
async fn who_speaks_the_wrong_thing_to_a_port_is_told_off_at_once_and_the_log_says_so_once() {
    let secure = SecureWorld::start().await;
    let plain = World::start().await;
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice();
    for (world, said) in [
        (&secure.world, preface),
        (&plain, b"\x16\x03\x01\x02\x00".as_slice()),
    ] {
        for _ in 0..3 {
            let mut tcp = TcpStream::connect(world.orchestrator.address()).await.unwrap();
            tcp.write_all(said).await.unwrap();
            let mut answer = Vec::new();
            // Closed at once; what it had not read makes it a reset.
            let ended = timeout(LIMIT, tcp.read_to_end(&mut answer)).await.unwrap();
            assert!(answer.is_empty() || ended.is_err(), "{answer:?}");
        }
    }
    for (world, notice) in [
        (&secure.world, "a client did not begin with TLS"),
        (&plain, "a client began with TLS"),
    ] {
        let said = async || world.orchestrator.process.stderr().contains(notice).then_some(());
        wait_for("the notice", LIMIT, said).await.unwrap();
        assert_eq!(world.orchestrator.process.stderr().matches(notice).count(), 1);
    }
}

#[tokio::test]
async fn grpcurl_calls_with_a_certificate() {
    let Some(program) = tool("grpcurl", INSTALL) else {
        return;
    };
    let secure = SecureWorld::start_with(|settings| settings.flag("--tls-client-auth", "required")).await;
    let (_, files) = secure.issue("operator");
    let address = secure.world.orchestrator.address().to_string();
    let list = |with_certificate: bool| {
        let mut command = Command::new(&program);
        command.arg("-cacert").arg(&secure.server_ca);
        if with_certificate {
            command.arg("-cert").arg(&files.cert).arg("-key").arg(&files.key);
        }
        command
            .args(["-authority", "localhost", &address, "list"])
            .output()
            .unwrap()
    };
    let listed = list(true);
    let services = String::from_utf8_lossy(&listed.stdout);
    assert!(
        services.contains("escapement.v1.PlanExecutionService"),
        "{services}{}",
        String::from_utf8_lossy(&listed.stderr)
    );
    assert!(!list(false).status.success());
}

#[tokio::test]
async fn the_worker_in_python_works_over_mutual_tls_and_shows_what_its_files_hold_next() {
    let Some(python) = tool("python/bin/python", "`cargo verify` installs it") else {
        return;
    };
    let secure = SecureWorld::start_with(|settings| settings.flag("--tls-client-auth", "required")).await;
    let (first, files) = secure.issue("python");
    let start = |token: &str, url: &str| {
        let mut command = Command::new(&python);
        command
            .arg(checkout::root().join("worker/python/escapement_worker.py"))
            .env("ESCAPEMENT_ORCHESTRATOR", url)
            .env("ESCAPEMENT_TOKEN", token);
        if url.starts_with("https://") {
            command
                .env("ESCAPEMENT_TLS_CA", &secure.server_ca)
                .env("ESCAPEMENT_TLS_CERT", &files.cert)
                .env("ESCAPEMENT_TLS_KEY", &files.key)
                .env("ESCAPEMENT_TLS_SERVER_NAME", "localhost");
        }
        let stderr = secure.world.directory.join("python.stderr");
        ChildProcess::start("python", &mut command, &stderr).unwrap()
    };
    let mut refused = start("secret", "http://192.0.2.1:7400");
    assert_eq!(
        refused.exit(LIMIT).await.unwrap().code(),
        Some(64),
        "{}",
        refused.stderr()
    );
    let mut worker = start("secret", &secure.world.orchestrator.url());
    let result = secure
        .world
        .execute(request(plan([echo(0, json!({ "a": 1 }))])))
        .await;
    assert_eq!(result.status(), Status::Success, "{}", worker.stderr());

    // Its certificate is replaced, and then revoked: its session ends, and the next one shows the other.
    let (_, next) = secure.issue("python");
    assert_eq!(next.cert, files.cert);
    let revoked = secure.clients.revocation_list(&[first.number]).unwrap();
    replace(&secure.crl, &revoked).unwrap();
    let process = &secure.world.orchestrator.process;
    let is_back = async || {
        let log = process.stderr();
        let n_sessions = log.matches("worker session begins").count();
        (log.contains("worker session ended") && n_sessions == 2).then_some(())
    };
    wait_for("another session", LIMIT, is_back).await.unwrap();
    let result = secure
        .world
        .execute(request(plan([echo(0, json!({ "a": 2 }))])))
        .await;
    assert_eq!(result.status(), Status::Success, "{}", worker.stderr());
    assert_eq!(worker.terminate(LIMIT).await.unwrap().code(), Some(0));
}

#[tokio::test]
async fn many_who_only_shake_hands_keep_nobody_from_work() {
    let secure = SecureWorld::start().await;
    let (_, files) = secure.issue("worker");
    let _worker = secure.worker("worker", &files).await;
    let address = secure.world.orchestrator.address();
    let storm = tokio::spawn({
        let connector = client(&secure, &TLS13, &["h2"]);
        async move {
            let mut n_shaken = 0_u32;
            let mut shaking = tokio::task::JoinSet::new();
            loop {
                let (connector, name) = (connector.clone(), ServerName::try_from("localhost").unwrap());
                shaking.spawn(async move {
                    let tcp = TcpStream::connect(address).await?;
                    connector.connect(name, tcp).await.map(drop)
                });
                if shaking.len() >= 32 {
                    n_shaken += u32::from(shaking.join_next().await.unwrap().unwrap().is_ok());
                    if n_shaken >= 2_000 {
                        return n_shaken;
                    }
                }
            }
        }
    });
    for _ in 0..20 {
        let result = timeout(LIMIT, secure.world.execute(request(plan([echo(0, json!({}))])))).await;
        assert_eq!(result.unwrap().status(), Status::Success);
    }
    assert_eq!(timeout(3 * LIMIT, storm).await.unwrap().unwrap(), 2_000);
    assert_eq!(
        secure
            .world
            .execute(request(plan([echo(0, json!({}))])))
            .await
            .status(),
        Status::Success
    );
}

#[tokio::test]
async fn a_hello_that_never_ends_is_refused_before_it_costs_anything() {
    let secure = SecureWorld::start().await;
    let mut tcp = TcpStream::connect(secure.world.orchestrator.address())
        .await
        .unwrap();
    // A ClientHello of 16 MiB, in records of the largest size.
    let mut record = vec![0x16, 3, 1, 0x40, 0];
    record.extend([1, 0xff, 0xff, 0xff]);
    record.resize(5 + (1 << 14), 0);
    let sent = async {
        for _ in 0..1_024 {
            tcp.write_all(&record).await?;
        }
        Ok::<_, std::io::Error>(())
    };
    let sent = timeout(Duration::from_secs(10), sent)
        .await
        .expect("it is cut before the deadline");
    assert!(sent.is_err(), "it was cut, not read");
}
