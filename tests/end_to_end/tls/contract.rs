//! Runs of one orchestrator whose contract is another one, by mutual TLS and with a token.

use super::SecureWorld;
use crate::access::credentials::{Token, policy};
use crate::runs::{create, creation, ended};
use crate::world::LIMIT;
use escapement_tests::authority::{IssuedFiles, replace};
use escapement_tests::{OrchestratorSettings, wait_for};
use escapement_wire::runs::v1::run::State;
use serde_json::{Value, json};
use std::path::Path;

/// Returns a plan of one step that the stock worker does.
fn document() -> Value {
    json!({"schema": "escapement.plan/1", "name": "Apart", "steps": [
        {"key": "a", "type": "tool_call", "config": {"tool_name": "echo", "tool_args": {"n": 1}}}
    ]})
}

fn reaching(secure: &SecureWorld, name: &str, shown: &IssuedFiles, token: &Path) -> OrchestratorSettings {
    let own = secure.world.directory.join(name);
    std::fs::create_dir_all(&own).unwrap();
    OrchestratorSettings::new(&own)
        .flag("--contract", secure.world.orchestrator.url())
        .flag("--contract-tls-ca", secure.server_ca.display())
        .flag("--contract-tls-cert", shown.cert.display())
        .flag("--contract-tls-key", shown.key.display())
        .flag("--contract-tls-server-name", "localhost")
        .flag("--contract-token-file", token.display())
}

#[tokio::test]
async fn runs_reach_a_contract_elsewhere_and_go_on_with_another_token_and_another_certificate() {
    let (first, second) = (Token::new("first"), Token::new("second"));
    let worker = "[[certificate]]\ndns = \"worker\"\nroles = [\"worker\"]\n".to_owned();
    let entries = |token: &Token| [token.entry("runs", "roles = [\"submitter\"]"), worker.clone()];
    let directory = escapement_tests::PrivateDirectory::new("contract").unwrap();
    let rules = directory.join("policy.toml");
    replace(&rules, &policy(&entries(&first))).unwrap();
    let secure = SecureWorld::start_with(|settings| {
        settings
            .switch("--no-runs")
            .flag("--access-policy", rules.display())
            .flag("--tls-client-auth", "required")
    })
    .await;
    let (_, files) = secure.issue("worker");
    let _worker = secure.worker("worker", &files).await;
    let (issued, shown) = secure.issue("runs");
    let token = directory.join("token");
    replace(&token, &first.secret).unwrap();
    let runs = reaching(&secure, "runs-apart", &shown, &token)
        .start()
        .await
        .unwrap();
    let run = create(&runs, creation("one", &document())).await;
    let run = ended(&runs, &run.run_id).await;
    assert_eq!(run.state(), State::Completed, "{run:?}");

    // All that it shows is replaced: the token in the policy, and its certificate, which is revoked.
    secure.issue("runs");
    replace(
        &secure.crl,
        &secure.clients.revocation_list(&[issued.number]).unwrap(),
    )
    .unwrap();
    replace(&rules, &policy(&entries(&second))).unwrap();
    let said = async || {
        let said = secure.world.orchestrator.process.stderr();
        (said.matches("files read again").count() >= 2).then_some(())
    };
    wait_for("both files are read again", LIMIT, said).await.unwrap();
    let run = create(&runs, creation("two", &document())).await;
    replace(&token, &second.secret).unwrap();
    let run = ended(&runs, &run.run_id).await;
    assert_eq!(
        run.state(),
        State::Completed,
        "what was refused meanwhile was tried again: {run:?}"
    );
}

#[tokio::test]
async fn a_contract_elsewhere_that_cannot_be_reached_as_configured_ends_the_start_with_64() {
    let secure = SecureWorld::start().await;
    let missing = IssuedFiles {
        cert: "/nowhere/cert".into(),
        key: "/nowhere/key".into(),
    };
    let token = secure.world.directory.join("token");
    replace(&token, "secret").unwrap();
    let settings = reaching(&secure, "runs-apart", &missing, &token);
    let mut process = settings.launch().unwrap();
    assert_eq!(process.exit(LIMIT).await.unwrap().code(), Some(64));
    let said = process.stderr();
    assert!(
        said.contains("--contract") && said.contains("/nowhere/cert"),
        "{said}"
    );
    assert!(!said.contains("secret"), "{said}");
}
