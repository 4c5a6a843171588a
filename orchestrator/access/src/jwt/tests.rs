//! Tokens of issuers: who is believed, and every forgery that is not.

use super::KeySource;
use super::testing::{Signer, encoded, part, set};
use crate::access::{Access, Credentials};
use crate::denial::Denial;
use crate::policy::Policy;
use crate::principal::{Principal, PrincipalKind};
use crate::role::Role;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use escapement_model::Namespace;
use serde_json::{Value, json};

const NOW_MS: i64 = 1_800_000_000_000;
const NOW_S: i64 = NOW_MS / 1_000;

const POLICY: &str = r#"version = 1
[[namespace]]
name = "agents"

[[jwt]]
issuer = "https://issuer.example"
audience = "escapement"
jwks_file = "/keys/one"
algorithms = ["ES256", "ES384", "EdDSA", "RS256", "PS256"]
  [[jwt.grant]]
  when = { sub = "planner" }
  roles = ["submitter"]
  namespaces = ["agents"]
  [[jwt.grant]]
  when = { groups = "sre" }
  roles = ["operator"]
  [[jwt.grant]]
  when = { realm_access.roles = "reader", email_verified = true }
  roles = ["viewer"]
  [[jwt.grant]]
  when = { "kubernetes.io".namespace = "agents" }
  roles = ["worker"]

[[jwt]]
issuer = "https://other.example"
audience = "escapement"
jwks_url = "https://other.example/keys"
leeway_ms = 0
  [[jwt.grant]]
  when = {}
  roles = ["viewer"]
"#;

fn other_source() -> KeySource {
    KeySource::Url {
        url: "https://other.example/keys".into(),
        ca_file: None,
        token_file: None,
    }
}

/// Returns the policy with these keys of its first issuer.
fn access(keys: &[Value]) -> Access {
    let keys = (KeySource::File("/keys/one".into()), Arc::new(set(keys)));
    Access::new(Policy::parse(POLICY).unwrap()).with_keys([keys])
}

fn claims() -> Value {
    json!({"iss": "https://issuer.example", "aud": "escapement", "sub": "planner", "exp": NOW_S + 600})
}

/// Returns the claims with one of them replaced, or left out if it is null.
fn claims_with(name: &str, value: Value) -> Value {
    let mut claims = claims();
    match value {
        Value::Null => claims.as_object_mut().unwrap().remove(name),
        value => claims.as_object_mut().unwrap().insert(name.into(), value),
    };
    claims
}

fn judge(access: &Access, token: &str, now_ms: i64) -> Result<Arc<Principal>, Denial> {
    let header = format!("Bearer {token}");
    let shown = Credentials {
        authorization: Some(header.as_bytes()),
        ..Credentials::default()
    };
    access.authenticate(shown, now_ms)
}

fn roles(claims: &Value) -> Vec<Role> {
    let signer = Signer::ed25519();
    let principal = judge(&access(&[signer.jwk("k")]), &signer.token("k", claims), NOW_MS).unwrap();
    Role::ALL
        .into_iter()
        .filter(|role| principal.roles().contains(*role))
        .collect()
}

#[test]
fn a_token_of_every_kind_of_key_says_who_its_holder_is() {
    for signer in [Signer::p256(), Signer::p384(), Signer::ed25519(), Signer::rsa()] {
        let access = access(&[signer.jwk("k")]);
        let principal = judge(&access, &signer.token("k", &claims()), NOW_MS).unwrap();
        assert_eq!(
            (&*principal.name, principal.kind, &*principal.issuer),
            ("planner", PrincipalKind::Jwt, "https://issuer.example")
        );
        assert_eq!(principal.valid_until_ms, Some(NOW_MS + 600_000 + 60_000));
        assert!(principal.has(Role::Submitter, &Namespace::parse("agents").unwrap()));
        assert!(!principal.has(Role::Submitter, &Namespace::default()));
    }
    let signer = Signer::rsa();
    let pss = signer.token_with(&json!({"alg": "PS256", "kid": "k"}), &claims());
    assert!(judge(&access(&[signer.jwk("k")]), &pss, NOW_MS).is_ok());
}

/// Tokens whose header says something else than the key.
fn wrong_headers(ec: &Signer, rsa: &Signer) -> Vec<(String, String)> {
    let claims = claims();
    let unsigned = |algorithm: &str| {
        let header = json!({"alg": algorithm, "kid": "ec"});
        (algorithm.to_owned(), part(&header) + "." + &part(&claims) + ".")
    };
    // With HS256 the public key would be the secret, which everybody knows.
    let secret = ec.jwk("ec")["x"].as_str().unwrap().to_owned();
    let secret = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret.as_bytes());
    let message = part(&json!({"alg": "HS256", "kid": "ec"})) + "." + &part(&claims);
    let signature = ring::hmac::sign(&secret, message.as_bytes());
    let hmac = message + "." + &encoded(signature.as_ref());
    let signed = |signer: &Signer, header: Value| (header.to_string(), signer.token_with(&header, &claims));
    Vec::from([
        unsigned("none"),
        unsigned("None"),
        unsigned("ES256"),
        ("HS256".to_owned(), hmac),
        signed(rsa, json!({"alg": "RS256", "kid": "ec"})),
        signed(rsa, json!({"alg": "ES256", "kid": "rsa"})),
        signed(rsa, json!({"alg": "RS256", "kid": "for PS256 alone"})),
        // The policy leaves it out.
        signed(rsa, json!({"alg": "RS512", "kid": "rsa"})),
        signed(ec, json!({"alg": "ES256", "kid": "rsa"})),
        signed(ec, json!({"alg": "ES384", "kid": "ec"})),
        signed(ec, json!({"alg": "ES256", "jwk": ec.jwk("ec")})),
        signed(ec, json!({"alg": "ES256", "kid": "ec", "crit": ["b64"]})),
        signed(ec, json!({"alg": "ES256"})),
        signed(ec, json!({"alg": "ES256", "kid": 7})),
        signed(&Signer::p256(), json!({"alg": "ES256", "kid": "ec"})),
    ])
}

/// Returns a token with another character in the middle of one part, for each part: another bit is wrong then, and not the spelling.
fn flipped(token: &str) -> Vec<(String, String)> {
    let parts: Vec<&str> = token.split('.').collect();
    let flip = |index: usize| {
        let mut bytes = parts[index].as_bytes().to_vec();
        let middle = bytes.len() / 2;
        bytes[middle] = if bytes[middle] == b'A' { b'B' } else { b'A' };
        let mut parts = parts.clone();
        let changed = String::from_utf8(bytes).unwrap();
        parts[index] = &changed;
        (format!("part {index}"), parts.join("."))
    };
    (0..parts.len()).map(flip).collect()
}

/// Tokens that are signed rightly and say what they must not.
fn wrong_claims(signer: &Signer) -> Vec<(String, String)> {
    let wrong = [
        ("iss", json!(null)),
        ("iss", json!("https://issuer.example/")),
        ("iss", json!(["https://issuer.example"])),
        ("aud", json!(null)),
        ("aud", json!("escapement2")),
        ("aud", json!([])),
        ("aud", json!(["another", "third"])),
        ("sub", json!(null)),
        ("sub", json!("")),
        ("sub", json!(7)),
        ("sub", json!("a\nb")),
        ("sub", json!("x".repeat(2_000))),
        ("exp", json!(null)),
        ("exp", json!("1900000000")),
        ("exp", json!({})),
        ("nbf", json!(NOW_S + 61)),
        ("nbf", json!("soon")),
    ];
    let token = |(name, value): (&str, Value)| {
        let what = format!("{name} {value}");
        (what, signer.token("ed", &claims_with(name, value)))
    };
    wrong.map(token).into()
}

#[test]
fn no_forgery_is_believed() {
    let (ec, rsa, ed) = (Signer::p256(), Signer::rsa(), Signer::ed25519());
    let mut for_pss = rsa.jwk("for PS256 alone");
    for_pss["alg"] = "PS256".into();
    let access = access(&[ec.jwk("ec"), rsa.jwk("rsa"), ed.jwk("ed"), for_pss]);
    let pss = |kid: &str| rsa.token_with(&json!({"alg": "PS256", "kid": kid}), &claims());
    let right = [
        ec.token("ec", &claims()),
        rsa.token("rsa", &claims()),
        ed.token("ed", &claims()),
        pss("rsa"),
        pss("for PS256 alone"),
    ];
    let mut forged = [wrong_headers(&ec, &rsa), wrong_claims(&ed)].concat();
    forged.extend(right.iter().flat_map(|token| flipped(token)));
    for (what, token) in forged {
        assert_eq!(
            judge(&access, &token, NOW_MS),
            Err(Denial::CredentialsInvalid),
            "{what}"
        );
    }
    for token in right {
        assert!(judge(&access, &token, NOW_MS).is_ok(), "{token}");
    }
    for (name, value) in [
        ("aud", json!(["another", "escapement"])),
        ("nbf", json!(NOW_S + 60)),
        ("exp", json!(NOW_S as f64 + 0.5)),
        ("exp", json!(1e300)),
        ("iat", json!("whatever")),
    ] {
        let token = ed.token("ed", &claims_with(name, value.clone()));
        assert!(judge(&access, &token, NOW_MS).is_ok(), "{name} {value}");
    }
}

#[test]
fn a_token_ends_at_its_exp_and_the_leeway_of_its_issuer() {
    let signer = Signer::ed25519();
    let access = access(&[signer.jwk("k")]).with_keys([(other_source(), Arc::new(set(&[signer.jwk("k")])))]);
    for (issuer, leeway_ms) in [("https://issuer.example", 60_000), ("https://other.example", 0)] {
        let token = signer.token("k", &claims_with("iss", issuer.into()));
        let end_ms = NOW_MS + 600_000 + leeway_ms;
        assert!(judge(&access, &token, end_ms - 1).is_ok());
        assert_eq!(judge(&access, &token, end_ms), Err(Denial::CredentialsExpired));
    }
    // Whether it was ever right is said of no forgery.
    let forged = Signer::ed25519().token("k", &claims());
    assert_eq!(
        judge(&access, &forged, NOW_MS + 1_000_000),
        Err(Denial::CredentialsInvalid)
    );
}

#[test]
fn a_token_of_more_than_8_kib_is_not_looked_at() {
    let signer = Signer::ed25519();
    let access = access(&[signer.jwk("k")]);
    let of_bytes = |bytes: usize| {
        let mut padding = 0;
        loop {
            let token = signer.token("k", &claims_with("pad", "x".repeat(padding).into()));
            if token.len() >= bytes {
                return token;
            }
            padding += (bytes - token.len()).div_ceil(2);
        }
    };
    let largest = of_bytes(8 << 10);
    assert_eq!(largest.len(), 8 << 10);
    assert!(judge(&access, &largest, NOW_MS).is_ok());
    let larger = of_bytes((8 << 10) + 1);
    assert_eq!(judge(&access, &larger, NOW_MS), Err(Denial::CredentialsInvalid));
    let shown = "Bearer ".to_string() + &larger;
    assert_eq!(access.digest_of_jwt(shown.as_bytes()), None);
}

#[test]
fn a_key_is_that_of_its_issuer_alone_and_one_that_may_come_is_asked_for() {
    let (one, other) = (Signer::ed25519(), Signer::ed25519());
    let access = access(&[one.jwk("one")]);
    let of_other = claims_with("iss", "https://other.example".into());
    // The key of the first issuer, for a token of the second.
    let crossed = one.token("one", &of_other);
    let unknown = Denial::KeysUnavailable {
        issuer: "https://other.example".into(),
    };
    assert_eq!(judge(&access, &crossed, NOW_MS), Err(unknown.clone()));
    let access = access.with_keys([(other_source(), Arc::new(set(&[other.jwk("other")])))]);
    assert_eq!(
        judge(&access, &crossed, NOW_MS),
        Err(unknown),
        "another set may have it"
    );
    assert!(judge(&access, &other.token("other", &of_other), NOW_MS).is_ok());
    let missing = one.token("two", &claims());
    assert_eq!(
        judge(&access, &missing, NOW_MS),
        Err(Denial::CredentialsInvalid),
        "a file is not asked again"
    );
    let nobody = one.token("one", &claims_with("iss", "https://nobody.example".into()));
    assert_eq!(judge(&access, &nobody, NOW_MS), Err(Denial::CredentialsInvalid));
}

#[test]
fn grants_are_given_by_claims_and_united() {
    assert_eq!(roles(&claims()), [Role::Submitter]);
    assert_eq!(roles(&claims_with("sub", "somebody".into())), []);
    let groups = claims_with("groups", json!(["dev", "sre"]));
    assert_eq!(roles(&groups), [Role::Submitter, Role::Operator]);
    assert_eq!(
        roles(&claims_with("groups", "sre".into())),
        [Role::Submitter, Role::Operator]
    );
    assert_eq!(
        roles(&claims_with("groups", json!({"sre": true}))),
        [Role::Submitter]
    );
    let mut reader = claims_with("realm_access", json!({"roles": ["reader"]}));
    assert_eq!(roles(&reader), [Role::Submitter], "both must hold");
    reader["email_verified"] = true.into();
    assert_eq!(roles(&reader), [Role::Viewer, Role::Submitter]);
    let pod = claims_with("kubernetes.io", json!({"namespace": "agents"}));
    assert_eq!(roles(&pod), [Role::Submitter, Role::Worker]);
}

#[test]
fn a_token_of_a_namespace_that_was_removed_gives_nothing_there() {
    let signer = Signer::ed25519();
    let without = POLICY.replace("[[namespace]]\nname = \"agents\"\n", "");
    let violations = Policy::parse(&without).unwrap_err();
    assert!(
        violations[0].message.contains("no namespace that"),
        "{violations:?}"
    );
    let elsewhere = without.replace("namespaces = [\"agents\"]\n", "");
    let keys = (
        KeySource::File("/keys/one".into()),
        Arc::new(set(&[signer.jwk("k")])),
    );
    let access = Access::new(Policy::parse(&elsewhere).unwrap()).with_keys([keys]);
    let principal = judge(&access, &signer.token("k", &claims()), NOW_MS).unwrap();
    assert!(principal.namespace("agents").is_err());
}
