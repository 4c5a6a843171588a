//! Credentials of attempts that nobody gave: made by the recipe that everybody can read, and refused for their heads alone.

use crate::den::{Den, LIMIT};
use crate::frames::{END_HEADERS, HEADERS, frame, headers};
use crate::handshakes::by_reason;
use crate::wire::Wire;
use escapement_model::{AttemptToken, bearer};
use escapement_tests::raw_session::RawSession;
use escapement_tests::{PrivateDirectory, wait_for};
use tokio::time::timeout;

const SUBMIT: &str = "/escapement.v1.PlanExecutionService/SubmitPlan";
const REFLECT: &str = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
/// Refused credentials after which a connection is cut.
const FAILURES_MAX: u8 = 16;
/// `UNAUTHENTICATED`.
const UNAUTHENTICATED: i32 = 16;
/// Those without credentials may do what the others of this suite do.
const POLICY: &str =
    "version = 1\nanonymous_reflection = false\n[anonymous]\nroles = [\"admin\", \"worker\"]\n";

fn made_up(number: u8) -> String {
    let token = AttemptToken::new([number; 16]);
    format!("Bearer {}", bearer::of_attempt(token))
}

#[tokio::test]
async fn a_made_up_attempt_is_refused_before_its_message_comes_and_ends_its_connection() {
    let directory = PrivateDirectory::new("made-up").unwrap();
    let policy = directory.join("policy.toml");
    std::fs::write(&policy, POLICY).unwrap();
    let den = Den::start_with(|settings| {
        settings
            .flag("--access-policy", policy.display())
            .flag("--metrics-listen", "127.0.0.1:0")
    })
    .await;
    // No byte of a message is ever sent.
    for path in [SUBMIT, REFLECT] {
        let shown = made_up(0);
        let call = RawSession::open_with(den.address(), path, &[("authorization", &shown)]).await;
        let refused = timeout(LIMIT, call.unwrap().status()).await;
        let (status, _) = refused.expect("refused for its head alone").unwrap();
        assert_eq!(status, UNAUTHENTICATED, "{path}");
    }

    let mut wire = Wire::open(den.address()).await;
    let calls = (0..FAILURES_MAX).flat_map(|number| {
        let head = headers(SUBMIT, &[("authorization", &made_up(number))]);
        frame(HEADERS, END_HEADERS, u32::from(number) * 2 + 1, &head)
    });
    wire.flood(&calls.collect::<Vec<u8>>()).await;
    wire.expect_closed("sixteen made-up attempts").await;

    let are_counted = async || {
        let failures = by_reason(&den, "escapement_auth_failures_total").await;
        (failures.get("CREDENTIALS_INVALID") == Some(&(u64::from(FAILURES_MAX) + 2))).then_some(())
    };
    wait_for("all of them to be counted", LIMIT, are_counted)
        .await
        .unwrap();
    let log = den.orchestrator.process.stderr();
    assert!(log.contains("credentials refused"), "{log}");
    den.finish("made-up attempts", 16).await;
}
