//! Sets of keys, right and wrong.

use super::KeySet;
use crate::jwt::testing::Signer;
use alloc::string::ToString;
use serde_json::{Value, json};

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
