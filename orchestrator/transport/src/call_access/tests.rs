//! Who calls on a connection, and when it loses that.

use super::{AccessRules, ConnectionAccess};
use crate::call_class::CallClass;
use crate::connection_abort::ConnectionAbort;
use crate::limits::{FAILED_AUTHENTICATIONS_MAX, PRINCIPALS_PER_CONNECTION_MAX};
use crate::peer::Peer;
use escapement_access::{Access, CertificateIdentity, Denial, Policy, Principal, PrincipalKind, StaticToken};
use escapement_keys::Keys;
use escapement_model::{AttemptSeal, bearer as attempt_bearer};
use escapement_process::unix_ms;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Waker};
use tokio::sync::watch;

const GET: &str = "/escapement.v1.PlanExecutionService/GetExecution";
const SUBMIT: &str = "/escapement.v1.PlanExecutionService/SubmitPlan";

fn peer() -> Peer {
    Peer {
        address: "127.0.0.1:1".parse().unwrap(),
        certificate: None,
    }
}

fn bearer(seed: u8) -> String {
    format!("Bearer {}", StaticToken::from_random([seed; 32]).secret())
}

fn entry(seed: u8, role: &str, more: &str) -> String {
    let digest = StaticToken::from_random([seed; 32]).sha256();
    let digest = escapement_model::hex::text(&digest);
    format!("[[token]]\nname = \"t{seed}\"\nsha256 = \"{digest}\"\nroles = [\"{role}\"]\n{more}\n")
}

fn access(entries: &[String]) -> Arc<Access> {
    let policy = "version = 1\n".to_owned() + &entries.concat();
    Arc::new(Access::new(Policy::parse(&policy).unwrap()))
}

fn request(path: &str, authorization: &[&str]) -> hyper::Request<()> {
    let mut request = hyper::Request::builder().uri(path);
    for value in authorization {
        request = request.header("authorization", *value);
    }
    request.body(()).unwrap()
}

fn connection(access: Arc<Access>) -> (watch::Sender<Arc<Access>>, ConnectionAccess) {
    let (sender, receiver) = watch::channel(access);
    (sender, AccessRules::new(receiver).of_connection(peer()))
}

fn judge(connection: &ConnectionAccess, path: &str, authorization: &[&str]) -> Result<String, Denial> {
    let mut request = request(path, authorization);
    connection.judge(&mut request, &ConnectionAbort::default())?;
    let principal = request.extensions().get::<Arc<Principal>>();
    Ok(principal.expect("it was let in").name.to_string())
}

#[test]
fn who_is_let_in_stands_among_the_extensions() {
    let (_rules, connection) = connection(access(&[entry(1, "viewer", "")]));
    assert_eq!(judge(&connection, GET, &[&bearer(1)]), Ok("t1".to_owned()));
    assert_eq!(judge(&connection, GET, &[]), Err(Denial::CredentialsMissing));
    assert_eq!(
        judge(&connection, GET, &[&bearer(2)]),
        Err(Denial::CredentialsInvalid)
    );
    let two = [bearer(1), bearer(1)];
    let two: Vec<&str> = two.iter().map(String::as_str).collect();
    assert_eq!(judge(&connection, GET, &two), Err(Denial::CredentialsInvalid));
    let refused = judge(&connection, SUBMIT, &[&bearer(1)]).unwrap_err();
    assert_eq!(refused.reason(), "ROLE_MISSING");
}

#[test]
fn without_rules_everybody_is_let_in_with_whatever_they_show() {
    let connection = AccessRules::none().of_connection(peer());
    for shown in [&[][..], &["nonsense"], &["a", "b"]] {
        assert_eq!(
            judge(&connection, SUBMIT, shown),
            Ok(Principal::ANONYMOUS.to_owned())
        );
    }
    assert_eq!(
        judge(&connection, "/what/ever", &[]),
        Ok(Principal::ANONYMOUS.to_owned())
    );
}

#[tokio::test]
async fn who_fails_too_often_loses_the_connection() {
    let (_rules, connection) = connection(access(&[]));
    let abort = ConnectionAbort::default();
    for _ in 1..FAILED_AUTHENTICATIONS_MAX {
        connection
            .judge(&mut request(GET, &["Bearer x"]), &abort)
            .unwrap_err();
        // Nothing shown is nothing failed.
        connection.judge(&mut request(GET, &[]), &abort).unwrap_err();
    }
    let still_open = tokio::time::timeout(std::time::Duration::ZERO, abort.aborted()).await;
    assert!(still_open.is_err());
    connection
        .judge(&mut request(GET, &["Bearer x"]), &abort)
        .unwrap_err();
    abort.aborted().await;
}

#[test]
fn new_rules_hold_for_the_next_call_of_a_live_connection() {
    let (rules, connection) = connection(access(&[entry(1, "viewer", "")]));
    assert!(judge(&connection, GET, &[&bearer(1)]).is_ok());
    rules.send_replace(access(&[entry(1, "submitter", "")]));
    assert!(judge(&connection, SUBMIT, &[&bearer(1)]).is_ok());
    rules.send_replace(access(&[]));
    assert_eq!(
        judge(&connection, GET, &[&bearer(1)]),
        Err(Denial::CredentialsInvalid)
    );
}

#[tokio::test]
async fn a_connection_is_lost_with_the_token_that_it_showed() {
    let (rules, connection) = connection(access(&[entry(1, "viewer", ""), entry(2, "viewer", "")]));
    judge(&connection, GET, &[&bearer(1)]).unwrap();
    let mut lost = Box::pin(connection.lost());
    let mut context = Context::from_waker(Waker::noop());
    assert!(lost.as_mut().poll(&mut context).is_pending());
    rules.send_replace(access(&[entry(1, "submitter", "")]));
    let is_pending = lost.as_mut().poll(&mut context).is_pending();
    assert!(is_pending, "the other token was not shown here");
    rules.send_replace(access(&[entry(2, "viewer", "")]));
    assert_eq!(lost.await, "its credentials are not in the policy any more");
}

#[tokio::test]
async fn a_connection_is_lost_at_the_first_end_of_a_credential() {
    let certificate = CertificateIdentity {
        spiffe_id: None,
        dns_names: vec!["a.example".to_owned()],
        not_after_ms: unix_ms() + 50,
        fingerprint: [0; 32],
    };
    let connection = AccessRules::none().of_connection(Peer {
        certificate: Some(Arc::new(certificate)),
        ..peer()
    });
    let mut request = request(GET, &[]);
    connection
        .judge(&mut request, &ConnectionAbort::default())
        .unwrap();
    let principal = request.extensions().get::<Arc<Principal>>().unwrap();
    assert_eq!(principal.kind, PrincipalKind::Certificate);
    assert_eq!(connection.lost().await, "its credentials have expired");
    assert_eq!(judge(&connection, GET, &[]), Err(Denial::CredentialsExpired));
}

#[tokio::test]
async fn with_more_callers_than_are_remembered_new_rules_end_the_connection() {
    let n_callers = u8::try_from(PRINCIPALS_PER_CONNECTION_MAX).unwrap() + 1;
    let entries: Vec<String> = (0..n_callers).map(|seed| entry(seed, "viewer", "")).collect();
    let (rules, connection) = connection(access(&entries));
    for seed in 0..n_callers {
        judge(&connection, GET, &[&bearer(seed)]).unwrap();
    }
    rules.send_replace(access(&entries));
    assert_eq!(
        connection.lost().await,
        "its credentials are not in the policy any more"
    );
}

#[tokio::test]
async fn what_a_call_notices_first_ends_the_connection_all_the_same() {
    let (rules, connection) = connection(access(&[entry(1, "viewer", "")]));
    judge(&connection, GET, &[&bearer(1)]).unwrap();
    rules.send_replace(access(&[]));
    judge(&connection, GET, &[&bearer(1)]).unwrap_err();
    assert_eq!(
        connection.lost().await,
        "its credentials are not in the policy any more"
    );
}

#[tokio::test]
async fn a_key_that_may_come_is_asked_for_and_costs_nobody_the_connection() {
    let entry = "[[jwt]]\nissuer = \"https://a\"\naudience = \"b\"\njwks_url = \"https://a/keys\"\n";
    let access = access(&[entry.to_owned()]);
    // Its key `x` is not there; whether it is signed is not looked at before.
    let token = concat!(
        "Bearer eyJhbGciOiJFZERTQSIsImtpZCI6IngifQ.",
        "eyJpc3MiOiJodHRwczovL2EiLCJhdWQiOiJiIiwic3ViIjoiYyIsImV4cCI6",
        "NDAwMDAwMDAwMH0.AAAA"
    );
    let connection = AccessRules::with_keys(Keys::new(Arc::clone(&access))).of_connection(peer());
    let abort = ConnectionAbort::default();
    for _ in 0..=FAILED_AUTHENTICATIONS_MAX {
        let denied = connection.judge(&mut request(GET, &[token]), &abort);
        assert_eq!(denied.unwrap_err().reason(), "KEYS_UNAVAILABLE");
    }
    let still_open = tokio::time::timeout(std::time::Duration::ZERO, abort.aborted()).await;
    assert!(still_open.is_err());
    // Where nobody asks for keys none will come.
    let (_rules, connection) = self::connection(access);
    assert_eq!(judge(&connection, GET, &[token]), Err(Denial::CredentialsInvalid));
}

#[test]
fn a_made_up_attempt_is_a_failed_authentication_and_ends_the_connection_as_any_other() {
    let seals = [[1; 32], [2; 32]].map(AttemptSeal::new);
    let shown =
        |seal: &AttemptSeal, number| format!("Bearer {}", attempt_bearer::of_attempt(seal.token(number)));
    let policy = access(&[entry(1, "viewer", "")]);
    for rules in [AccessRules::new(watch::channel(policy).1), AccessRules::none()] {
        let connection = rules.of_attempts(seals[0].clone()).of_connection(peer());
        assert!(judge(&connection, SUBMIT, &[&shown(&seals[0], 7)]).is_ok());
        let abort = ConnectionAbort::default();
        let mut aborted = Box::pin(abort.aborted());
        let mut is_aborted = || {
            let mut context = Context::from_waker(Waker::noop());
            aborted.as_mut().poll(&mut context).is_ready()
        };
        for number in 0..u64::from(FAILED_AUTHENTICATIONS_MAX) {
            assert!(!is_aborted(), "after {number}");
            let mut made_up = request(SUBMIT, &[&shown(&seals[1], number)]);
            let judged = connection.judge(&mut made_up, &abort);
            assert_eq!(judged.unwrap_err(), Denial::CredentialsInvalid);
        }
        assert!(is_aborted());
        assert_eq!(
            connection.rules.n_failed.load(Ordering::Relaxed),
            u64::from(FAILED_AUTHENTICATIONS_MAX)
        );
    }
}

#[test]
fn attempts_of_different_connections_are_different_tenants() {
    let seal = AttemptSeal::new([1; 32]);
    let rules = AccessRules::new(watch::channel(access(&[])).1).of_attempts(seal.clone());
    let shown = format!("Bearer {}", attempt_bearer::of_attempt(seal.token(1)));
    let tenants = ["127.0.0.1:1", "127.0.0.1:2"].map(|address| {
        let connection = rules.of_connection(Peer {
            address: address.parse().unwrap(),
            certificate: None,
        });
        let mut request = request(SUBMIT, &[&shown]);
        let attempt = connection
            .judge(&mut request, &ConnectionAbort::default())
            .unwrap();
        connection.tenant_of(&attempt, CallClass::Writes)
    });
    assert_ne!(tenants[0], tenants[1]);
}
