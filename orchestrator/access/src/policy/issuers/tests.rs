//! Entries for issuers, right and wrong.

use crate::policy::Policy;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

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
