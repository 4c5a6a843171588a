//! Whose certificates are believed.

use super::{SecureWorld, client_tls};
use crate::plans::{echo, plan, request};
use crate::world::{LIMIT, World};
use escapement_tests::authority::Authority;
use escapement_tests::{Binaries, OrchestratorSettings, WorkerSettings};
use escapement_wire::v1::ListWorkersRequest;
use escapement_wire::v1::fleet_service_client::FleetServiceClient;
use escapement_wire::v1::plan_result::Status;
use serde_json::json;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use tonic::transport::Channel;

/// Returns true if a call over it is answered. With TLS 1.3 a client hears of its refusal only after its handshake.
async fn is_answered(channel: Result<Channel, tonic::transport::Error>) -> bool {
    let Ok(channel) = channel else { return false };
    FleetServiceClient::new(channel)
        .list_workers(ListWorkersRequest::default())
        .await
        .is_ok()
}

#[tokio::test]
async fn a_certificate_is_optional_unless_it_is_required_and_never_a_wrong_one() {
    let lax = SecureWorld::start().await;
    let strict = SecureWorld::start_with(|settings| settings.flag("--tls-client-auth", "required")).await;
    let stranger = Authority::new("clients").unwrap().issue(&["caller"]).unwrap();
    for (secure, without) in [(&lax, true), (&strict, false)] {
        assert_eq!(is_answered(secure.connect(None).await).await, without);
        let right = secure.clients.issue(&["caller"]).unwrap();
        assert!(is_answered(secure.connect(Some(&right)).await).await);
        assert!(
            !is_answered(secure.connect(Some(&stranger)).await).await,
            "same name, other authority"
        );
        let spiffe = secure.clients.issue(&["spiffe://prod.example/worker"]).unwrap();
        assert!(
            !is_answered(secure.connect(Some(&spiffe)).await).await,
            "no root of its trust domain"
        );
    }
}

#[tokio::test]
async fn the_roots_of_a_trust_domain_vouch_for_it_alone() {
    let (prod, test) = (Authority::new("prod").unwrap(), Authority::new("test").unwrap());
    let directory = escapement_tests::PrivateDirectory::new("tls").unwrap();
    let ca = |name: &str, authority: &Authority| {
        let file = directory.join(format!("{name}.pem"));
        std::fs::write(&file, authority.pem()).unwrap();
        format!("{name}.example={}", file.display())
    };
    let (prod_ca, test_ca) = (ca("prod", &prod), ca("test", &test));
    let secure = SecureWorld::start_with(|settings: OrchestratorSettings| {
        settings
            .flag("--tls-client-ca", prod_ca)
            .flag("--tls-client-ca", test_ca)
    })
    .await;
    let of = |authority: &Authority, names: &[&str]| authority.issue(names).unwrap();
    let worker = "spiffe://prod.example/worker";
    for (shown, is_believed) in [
        (of(&prod, &[worker]), true),
        (of(&test, &["spiffe://test.example/worker"]), true),
        (of(&test, &[worker]), false),
        (of(&secure.clients, &[worker]), false),
        (of(&prod, &["caller"]), false),
        (of(&prod, &[worker, "spiffe://prod.example/other"]), false),
    ] {
        let answered = is_answered(secure.connect(Some(&shown)).await).await;
        assert_eq!(answered, is_believed, "{}", shown.cert);
    }
}

#[tokio::test]
async fn a_worker_trusts_only_the_server_that_it_was_told_to() {
    let secure = SecureWorld::start().await;
    let (_, files) = secure.issue("worker");
    let directory = &secure.world.directory;
    let settings = |id: &str| {
        let url = secure.world.orchestrator.url();
        WorkerSettings::new(&url, id, directory.path(), directory.path())
    };
    let other_ca = directory.join("other-ca.pem");
    std::fs::write(&other_ca, Authority::new("servers").unwrap().pem()).unwrap();
    let others = settings("trusts-others")
        .flag("--tls-ca", other_ca.display())
        .flag("--tls-server-name", "localhost");
    let other_name = settings("expects-another-name")
        .flag("--tls-ca", secure.server_ca.display())
        .flag("--tls-server-name", "example.com");
    for settings in [others, other_name] {
        let worker = settings.start().unwrap();
        let said = async || worker.process.stderr().contains("no session").then_some(());
        escapement_tests::wait_for("the refusal", LIMIT, said)
            .await
            .unwrap();
        let said = worker.process.stderr();
        assert!(said.contains("invalid peer certificate"), "{said}");
    }
    let _right = secure.showing(settings("right"), &files).connect().await.unwrap();
}

#[tokio::test]
async fn a_worker_that_cannot_come_as_it_is_told_exits_with_64() {
    let world = World::start().await;
    let here = world.orchestrator.url();
    let directory = &world.directory;
    let token = directory.join("token");
    std::fs::write(&token, "secret\n").unwrap();
    let settings = |url: &str| WorkerSettings::new(url, "wrong", directory.path(), directory.path());
    let far = "http://192.0.2.1:7400";
    for (settings, said) in [
        (
            settings(far).flag("--token", "secret"),
            "a token is not sent unencrypted",
        ),
        (
            settings(far).flag("--token-file", token.display()),
            "a token is not sent unencrypted",
        ),
        (settings(&here).flag("--token-file", "/nowhere"), "/nowhere"),
        (
            settings(&here).flag("--tls-ca", token.display()),
            "--tls-ca is for https://",
        ),
        (
            settings("https://localhost:1").flag("--tls-ca", "/nowhere"),
            "/nowhere",
        ),
        (
            settings("https://localhost:1").flag("--tls-cert", token.display()),
            "--tls-cert needs --tls-key",
        ),
        (settings("ftp://localhost:1"), "is no URL"),
    ] {
        let mut worker = settings.start().unwrap();
        let code = worker.process.exit(LIMIT).await.unwrap().code();
        let stderr = worker.process.stderr();
        assert_eq!(code, Some(64), "{stderr}");
        assert!(stderr.contains(said), "{said}: {stderr}");
        assert!(!stderr.contains("secret"), "{stderr}");
    }
    let allowed = settings(far)
        .flag("--token", "secret")
        .switch("--allow-plaintext");
    let mut worker = allowed.start().unwrap();
    let tries = async || worker.process.stderr().contains("starting").then_some(());
    escapement_tests::wait_for("the start", LIMIT, tries)
        .await
        .unwrap();
    worker.process.kill().unwrap();
}

#[tokio::test]
async fn two_orchestrators_share_a_worker_over_tls_and_a_plaintext_peer_is_left_out() {
    let plain = World::start().await;
    let first = SecureWorld::start().await;
    // The second is known to the first, and shows a certificate of the same authority.
    let own = first.servers.issue(&["localhost"]).unwrap();
    let own = own.write(first.world.directory.path(), "second").unwrap();
    let tls = client_tls(&first.servers, None);
    let second = World::start_with(|settings| {
        settings
            .flag("--tls-cert", own.cert.display())
            .flag("--tls-key", own.key.display())
            .called_by_tls(tls)
    })
    .await;
    let own = first.own.clone();
    let peers = format!("{},{}", second.orchestrator.url(), plain.orchestrator.url());
    let third = World::start_with(|settings| {
        settings
            .flag("--tls-cert", own.cert.display())
            .flag("--tls-key", own.key.display())
            .flag("--peer", peers)
            .called_by_tls(client_tls(&first.servers, None))
    })
    .await;
    let _worker = third
        .stock_worker("shared", |settings| {
            settings
                .flag("--tls-ca", first.server_ca.display())
                .flag("--tls-server-name", "localhost")
        })
        .await;
    for world in [&third, &second] {
        let result = world.execute(request(plan([echo(0, json!({}))]))).await;
        assert_eq!(result.status(), Status::Success);
    }
    let workers = plain
        .orchestrator
        .fleet()
        .list_workers(ListWorkersRequest::default())
        .await;
    assert!(workers.unwrap().into_inner().workers.is_empty());
}

#[tokio::test]
async fn a_private_key_that_others_can_read_is_warned_of() {
    let secure = SecureWorld::start().await;
    let set_mode = |mode| std::fs::set_permissions(&secure.own.key, Permissions::from_mode(mode)).unwrap();
    let check = || {
        let mut command = Command::new(Binaries::build().unwrap().orchestrator);
        command.arg("check-config");
        command.arg("--tls-cert").arg(&secure.own.cert);
        command.arg("--tls-key").arg(&secure.own.key);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    for (mode, is_warned_of) in [(0o600, false), (0o640, true), (0o604, true)] {
        set_mode(mode);
        let said = check();
        let warns = said.contains("--tls-key") && said.contains("can be read by other users");
        assert_eq!(warns, is_warned_of, "{mode:o}: {said}");
    }
    // It was made readable by all.
    let said = secure.world.orchestrator.process.stderr();
    assert!(
        said.contains("a file is open to other users of this machine")
            && said.contains("can be read by other users"),
        "{said}"
    );
}
