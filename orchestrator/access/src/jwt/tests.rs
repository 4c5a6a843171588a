//! Tokens of issuers: who is believed, and every forgery that is not.

use super::testing::{Signer, part, set};
use super::{JwtCache, KeySet, KeySource};
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

/// The policy with these keys of its first issuer.
fn access(keys: &[Value]) -> Access {
    let keys = (KeySource::File("/keys/one".into()), Arc::new(set(keys)));
    Access::new(Policy::parse(POLICY).unwrap()).with_keys([keys])
}

fn claims() -> Value {
    json!({"iss": "https://issuer.example", "aud": "escapement", "sub": "planner", "exp": NOW_S + 600})
}

/// The claims with one of them replaced, or left out if it is null.
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
        certificate: None,
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

#[test]
fn a_bit_that_is_flipped_in_the_middle_of_any_part_is_a_forgery() {
    for signer in [Signer::p256(), Signer::ed25519(), Signer::rsa()] {
        let access = access(&[signer.jwk("k")]);
        let token = signer.token("k", &claims());
        let parts: Vec<&str> = token.split('.').collect();
        for index in 0..3 {
            let mut forged: Vec<String> = parts.iter().map(ToString::to_string).collect();
            let mut bytes = forged[index].clone().into_bytes();
            let middle = bytes.len() / 2;
            // Another character of the alphabet, so that another bit is what is wrong, and not the spelling.
            bytes[middle] = if bytes[middle] == b'A' { b'B' } else { b'A' };
            forged[index] = String::from_utf8(bytes).unwrap();
            let judged = judge(&access, &forged.join("."), NOW_MS);
            assert_eq!(judged, Err(Denial::CredentialsInvalid), "part {index}");
        }
    }
}

#[test]
fn what_a_token_says_of_its_algorithm_is_never_enough() {
    let (ec, rsa) = (Signer::p256(), Signer::rsa());
    let access = access(&[ec.jwk("ec"), rsa.jwk("rsa")]);
    let claims = claims();
    let unsigned =
        |algorithm: &str| part(&json!({"alg": algorithm, "kid": "ec"})) + "." + &part(&claims) + ".";
    // With HS256 the public key would be the secret, which everybody knows.
    let secret = ring::hmac::Key::new(
        ring::hmac::HMAC_SHA256,
        ec.jwk("ec")["x"].as_str().unwrap().as_bytes(),
    );
    let message = part(&json!({"alg": "HS256", "kid": "ec"})) + "." + &part(&claims);
    let hmac = part_of(ring::hmac::sign(&secret, message.as_bytes()).as_ref());
    for (what, forged) in [
        ("none", unsigned("none")),
        ("None", unsigned("None")),
        ("nothing signed", unsigned("ES256")),
        ("HS256", message + "." + &hmac),
        (
            "RS256 for a key of a curve",
            rsa.token_with(&json!({"alg": "RS256", "kid": "ec"}), &claims),
        ),
        (
            "ES256 for a key of RSA",
            ec.token_with(&json!({"alg": "ES256", "kid": "rsa"}), &claims),
        ),
        (
            "ES384 for a key of P-256",
            ec.token_with(&json!({"alg": "ES384", "kid": "ec"}), &claims),
        ),
        (
            "ES256 under the name of RS256",
            rsa.token_with(&json!({"alg": "ES256", "kid": "rsa"}), &claims),
        ),
        (
            "an algorithm that the policy leaves out",
            rsa.token_with(&json!({"alg": "RS512", "kid": "rsa"}), &claims),
        ),
        (
            "a key of its own",
            ec.token_with(&json!({"alg": "ES256", "jwk": ec.jwk("ec")}), &claims),
        ),
        (
            "something to understand",
            ec.token_with(&json!({"alg": "ES256", "kid": "ec", "crit": ["b64"]}), &claims),
        ),
        (
            "no name of a key",
            ec.token_with(&json!({"alg": "ES256"}), &claims),
        ),
        (
            "a name that is no text",
            ec.token_with(&json!({"alg": "ES256", "kid": 7}), &claims),
        ),
        ("the key of somebody else", Signer::p256().token("ec", &claims)),
    ] {
        assert_eq!(
            judge(&access, &forged, NOW_MS),
            Err(Denial::CredentialsInvalid),
            "{what}"
        );
    }
    assert!(judge(&access, &ec.token("ec", &claims), NOW_MS).is_ok());
}

#[test]
fn a_key_that_is_for_one_algorithm_is_for_no_other() {
    let rsa = Signer::rsa();
    let mut jwk = rsa.jwk("k");
    jwk["alg"] = "PS256".into();
    let access = access(&[jwk]);
    let refused = judge(&access, &rsa.token("k", &claims()), NOW_MS);
    assert_eq!(refused, Err(Denial::CredentialsInvalid));
    let pss = rsa.token_with(&json!({"alg": "PS256", "kid": "k"}), &claims());
    assert!(judge(&access, &pss, NOW_MS).is_ok());
}

#[test]
fn claims_that_are_wrong_or_missing_are_refused() {
    let signer = Signer::ed25519();
    let access = access(&[signer.jwk("k")]);
    for (name, value) in [
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
    ] {
        let token = signer.token("k", &claims_with(name, value.clone()));
        assert_eq!(
            judge(&access, &token, NOW_MS),
            Err(Denial::CredentialsInvalid),
            "{name} {value}"
        );
    }
    for (name, value) in [
        ("aud", json!(["another", "escapement"])),
        ("nbf", json!(NOW_S + 60)),
        ("exp", json!(NOW_S as f64 + 0.5)),
        ("exp", json!(1e300)),
        ("iat", json!("whatever")),
    ] {
        let token = signer.token("k", &claims_with(name, value.clone()));
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

#[test]
fn a_set_of_keys_is_taken_whole_or_not_at_all() {
    let (ec, rsa) = (Signer::p256(), Signer::rsa());
    let parse = |keys: Value| KeySet::parse(json!({ "keys": keys }).to_string().as_bytes());
    // What signs nothing here is left out.
    let mut encrypts = rsa.jwk("k");
    encrypts["use"] = "enc".into();
    let secret = json!({"kty": "oct", "kid": "s", "k": "c2VjcmV0"});
    let mut nameless = ec.jwk("n");
    nameless.as_object_mut().unwrap().remove("kid");
    let mixed =
        parse(json!([ec.jwk("k"), encrypts, secret, nameless, {"kty": "EC", "crv": "P-521", "kid": "p"}]));
    assert_eq!(mixed.unwrap().len(), 1);
    let short = json!({"kty": "EC", "crv": "P-256", "kid": "k", "x": "AAAA", "y": "AAAA"});
    let mut crossed = ec.jwk("k");
    crossed["alg"] = "RS256".into();
    for (what, keys) in [
        ("the kid of another key", json!([ec.jwk("k"), rsa.jwk("k")])),
        ("has no key", json!([secret])),
        ("not the length", json!([short])),
        ("not of its kind", json!([crossed])),
        (
            "no base64url",
            json!([{"kty": "RSA", "kid": "k", "n": "%", "e": "AQAB"}]),
        ),
        ("no object", json!([7])),
        (
            "more than 64 keys",
            Value::Array((0..65).map(|_| json!({})).collect()),
        ),
    ] {
        let error = parse(keys).unwrap_err().to_string();
        assert!(error.contains(what), "{what}: {error}");
    }
    for (what, text) in [("no JSON", "{"), ("no list", "{}"), ("no list", "[]")] {
        let error = KeySet::parse(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(what), "{what}: {error}");
    }
    let large = " ".repeat(KeySet::BYTES_MAX + 1);
    assert!(KeySet::parse(large.as_bytes()).is_err());
}

#[test]
fn violations_of_an_issuer_are_named_with_path_and_line() {
    let text = "version = 1
[[jwt]]
issuer = \"a\"
audience = \"\"
jwks_url = \"http://issuer.example/keys\"
algorithms = [\"HS256\", \"none\"]
leeway_ms = 600001
[[jwt.grant]]
when = { groups = 7, none = {} }
roles = [\"viewer\"]
[[jwt.grant]]
roles = [\"viewer\"]
[[jwt]]
issuer = \"a\"
audience = \"b\"
jwks_file = \"f\"
jwks_ca_file = \"c\"
[[jwt]]
audience = \"b\"
";
    let violations = Policy::parse(text).unwrap_err();
    let found: Vec<String> = violations.iter().map(ToString::to_string).collect();
    let known = "is no algorithm: they are ES256, ES384, EdDSA, RS256, RS384, RS512, PS256, PS384, PS512";
    let expected = [
        "line 4: jwt[0].audience must have 1 to 255 characters, none of them a control character".to_owned(),
        "line 5: jwt[0].jwks_url must begin with https://, or with http:// and a loopback address".to_owned(),
        format!("line 6: jwt[0].algorithms[0] {known}"),
        format!("line 6: jwt[0].algorithms[1] {known}"),
        "line 7: jwt[0].leeway_ms must be a whole number from 0 to 600000".to_owned(),
        "line 9: jwt[0].grant[0].when.groups must be a text, true or false; a claim that is a list holds if one member does"
            .to_owned(),
        "line 9: jwt[0].grant[0].when.none asks for nothing, or leads too deep".to_owned(),
        "line 11: jwt[0].grant[1] must have `when`, a table; {} is every token of the issuer".to_owned(),
        "line 14: jwt[1].issuer is the issuer of another entry too".to_owned(),
        "line 17: jwt[1].jwks_ca_file is for `jwks_url`, and there is `jwks_file`".to_owned(),
        "line 18: jwt[2].issuer is required".to_owned(),
        "line 18: jwt[2] must have one of `jwks_file` and `jwks_url`".to_owned(),
    ];
    assert_eq!(found, expected);
}

#[test]
fn keys_come_from_where_nobody_can_change_them() {
    let url = |url: &str| {
        let text = format!("version = 1\n[[jwt]]\nissuer = \"a\"\naudience = \"b\"\njwks_url = \"{url}\"\n");
        Policy::parse(&text).is_ok()
    };
    for right in [
        "https://a",
        "https://a:1/x?y",
        "http://localhost:8",
        "http://127.1.2.3/k",
        "http://[::1]:8/k",
    ] {
        assert!(url(right), "{right}");
    }
    for wrong in [
        "",
        "a",
        "ftp://a",
        "https://",
        "https:///x",
        "http://a/x",
        "http://10.0.0.1/x",
        "http://127.0.0.1@a/x",
        "https://u:p@a/x",
        "http://localhost.example/x",
        "http://[::2]/x",
        "https://a/ x",
        "https://a/#x",
        "https://a/\u{e4}",
    ] {
        assert!(!url(wrong), "{wrong}");
    }
}

#[test]
fn what_was_judged_is_kept_for_as_long_as_it_holds() {
    let mut cache = JwtCache::default();
    let digest = |n: usize| {
        let mut digest = [0; 32];
        digest[..8].copy_from_slice(&n.to_le_bytes());
        digest
    };
    let principal = |valid_until_ms| {
        Ok(Arc::new(Principal {
            valid_until_ms,
            ..Principal::without_policy()
        }))
    };
    cache.keep(digest(0), &principal(Some(100)), 0);
    assert!(cache.find(&digest(0), 99).is_some());
    assert_eq!(cache.find(&digest(0), 100), None);
    let refused = Err(Denial::CredentialsInvalid);
    cache.keep(digest(1), &refused, 0);
    assert_eq!(
        cache.find(&digest(1), JwtCache::REFUSAL_MS - 1),
        Some(refused.clone())
    );
    assert_eq!(cache.find(&digest(1), JwtCache::REFUSAL_MS), None);
    let unavailable = Err(Denial::KeysUnavailable { issuer: "a".into() });
    cache.keep(digest(2), &unavailable, 0);
    assert_eq!(cache.find(&digest(2), 0), None);
    // Forgeries drive out forgeries, and never who was let in.
    let n_good = JwtCache::ENTRIES_MAX / 2;
    for n in 0..n_good {
        cache.keep(digest(10 + n), &principal(Some(i64::MAX)), 1_000);
    }
    for n in 0..2 * JwtCache::ENTRIES_MAX {
        cache.keep(digest(1_000_000 + n), &refused, 1_000);
        assert!(cache.len() <= JwtCache::ENTRIES_MAX);
    }
    let all_there = (0..n_good).all(|n| cache.find(&digest(10 + n), 2_000).is_some());
    assert!(all_there && !cache.is_empty());
}

fn part_of(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes)
}
