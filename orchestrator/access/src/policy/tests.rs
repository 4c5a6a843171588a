//! Policies: what is read, and every violation with its path and line.

use super::{NamespaceLimits, Policy};
use crate::grant::NamespaceScope;
use crate::role::Role;
use crate::token::StaticToken;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write as _;
use escapement_model::Namespace;
use proptest::prelude::*;

pub(crate) fn digest_of(seed: u8) -> String {
    let digest = StaticToken::from_random([seed; 32]).sha256();
    digest.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

/// Returns a policy with everything that there is.
pub(crate) fn whole() -> String {
    format!(
        r#"version = 1
anonymous_reflection = false

[anonymous]
roles = ["viewer"]

[[namespace]]
name = "billing"
weight = 4
max_live_executions = 50_000
max_running_executions = 256

[[token]]
name = "billing-planner"
sha256 = "{}"
expires = 2027-06-30T00:00:00Z
roles = ["submitter"]
namespaces = ["billing"]
actions = ["billing.*", "http.request"]

[[token]]
name = "billing-workers"
sha256 = "{}"
roles = ["worker"]
actions = ["billing.*"]
worker_ids = ["billing-*"]
max_in_flight = 64
max_sessions = 200

[[token]]
name = "sre"
sha256 = "{}"
roles = ["operator"]
payloads = true

[[token]]
name = "anna"
sha256 = "{}"
roles = ["submitter"]
agent = true

[[certificate]]
spiffe = "spiffe://prod.example/ns/agents/sa/worker-*"
roles = ["worker"]
actions = ["agents.*"]

[[certificate]]
dns = "*.planners.example"
roles = ["viewer", "submitter"]
namespaces = ["*"]
"#,
        digest_of(1),
        digest_of(2),
        digest_of(3),
        digest_of(4)
    )
}

fn violations(text: &str) -> Vec<String> {
    let violations = Policy::parse(text).expect_err("it must not hold");
    violations.iter().map(ToString::to_string).collect()
}

#[test]
fn a_whole_policy_is_read() {
    let policy = Policy::parse(&whole()).unwrap();
    let limits = NamespaceLimits {
        weight: 4,
        max_live_executions: Some(50_000),
        max_running_executions: Some(256),
    };
    let billing = Namespace::parse("billing").unwrap();
    let namespaces: Vec<_> = policy.namespaces().collect();
    assert_eq!(
        namespaces,
        [
            (&billing, limits),
            (&Namespace::default(), NamespaceLimits::default())
        ]
    );
    let names = policy.token_principals().map(|principal| &*principal.name);
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    assert_eq!(names, ["anna", "billing-planner", "billing-workers", "sre"]);
    let planner = policy
        .token_principals()
        .find(|principal| &*principal.name == "billing-planner");
    let planner = planner.unwrap();
    assert_eq!(planner.valid_until_ms, Some(1_814_313_600_000));
    assert!(planner.has(Role::Submitter, &billing));
    assert!(!planner.has(Role::Submitter, &Namespace::default()));
    assert_eq!(policy.certificates[1].grant.namespaces, NamespaceScope::All);
    assert!(!policy.anonymous_reflection);
}

#[test]
fn the_smallest_policy_permits_nobody_anything() {
    let policy = Policy::parse("version = 1").unwrap();
    assert!(policy.anonymous.is_empty() && policy.tokens.is_empty() && policy.certificates.is_empty());
}

#[test]
fn all_violations_are_named_at_once_with_path_and_line() {
    let text = "version = 2
surprise = 1
[anonymous]
roles = [\"reader\"]
[[namespace]]
name = \"Billing\"
weight = 0
[[token]]
sha256 = \"ab\"
roles = [\"viewer\", 7]
expires = 2027-06-30
namespaces = [\"nowhere\"]
actions = [\"\"]
[[certificate]]
roles = [\"worker\"]
colour = \"red\"
[[certificate]]
spiffe = \"spiffe://*/x\"
roles = [\"worker\"]
[[certificate]]
dns = \"UPPER.example\"
";
    let found = violations(text);
    let expected = [
        "line 1: version must be a whole number from 1 to 1",
        "line 2: surprise is no key that a policy has here",
        "line 4: anonymous.roles[0] is no role: they are viewer, submitter, worker, operator and admin",
        "line 6: namespace[0].name must be 1 to 63 of a to z, 0 to 9 and -, with - inside only",
        "line 7: namespace[0].weight must be a whole number from 1 to 1000",
        "line 8: token[0].name is required",
        "line 9: token[0].sha256 must be the SHA-256 of the token: 64 hexadecimal digits",
        "line 10: token[0].roles[1] must be a text",
        "line 11: token[0].expires must be a time with its zone, such as 2027-06-30T00:00:00Z",
        "line 12: token[0].namespaces[0] names no namespace that a [[namespace]] declares",
        "line 13: token[0].actions[0] must not be empty",
        "line 14: certificate[0] must have one of `spiffe` and `dns`",
        "line 16: certificate[0].colour is no key that a policy has here",
        "line 18: certificate[1].spiffe must name its trust domain in full: a to z, 0 to 9, dot, - and _",
        "line 20: certificate[2] must have `roles`",
        "line 21: certificate[2].dns must be a DNS name in lower case, with * for parts of a label",
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_text_that_is_no_toml_is_refused_with_its_line() {
    let found = violations("version = 1\n[[token]\nname = 3");
    assert!(found[0].starts_with("line 2: is no TOML: "), "{found:?}");
    assert_eq!(violations(""), ["line 1: version is required"]);
}

#[test]
fn a_name_or_a_token_that_is_there_twice_is_refused() {
    let entry = |name: &str, seed: u8| {
        format!(
            "[[token]]\nname = \"{name}\"\nsha256 = \"{}\"\nroles = [\"viewer\"]\n",
            digest_of(seed)
        )
    };
    let text = String::from("version = 1\n") + &entry("a", 1) + &entry("a", 2) + &entry("b", 1);
    let expected = [
        "line 7: token[1].name is the name of another token too",
        "line 12: token[2].sha256 is the digest of another token too",
    ];
    assert_eq!(violations(&text), expected);
}

#[test]
fn while_a_token_is_rotated_both_are_of_one_principal() {
    let text = format!(
        "version = 1\n[[token]]\nname = \"a\"\nsha256 = \"{}\"\nprevious_sha256 = \"{}\"\nroles = [\"worker\"]\n",
        digest_of(2),
        digest_of(1)
    );
    let policy = Policy::parse(&text).unwrap();
    let of = |seed| &policy.tokens[&StaticToken::from_random([seed; 32]).sha256()];
    assert!(of(1).is_same_as(of(2)));
    let twice = text.replace(&digest_of(1), &digest_of(2));
    let expected = ["line 5: token[0].previous_sha256 is the digest of another token too"];
    assert_eq!(violations(&twice), expected);
    let broken = text.replace(&digest_of(1), "ab");
    assert!(violations(&broken)[0].contains("64 hexadecimal digits"));
}

#[test]
fn instants_have_their_milliseconds() {
    for (text, expected) in [
        ("1970-01-01T00:00:00Z", 0),
        ("2000-02-29T12:00:00.5+01:00", 951_822_000_500),
        ("2100-03-01T00:00:00Z", 4_107_542_400_000),
        ("1969-12-31T23:59:59Z", -1_000),
    ] {
        let text = format!(
            "version = 1\n[[token]]\nname = \"a\"\nsha256 = \"{}\"\nroles = []\nexpires = {text}",
            digest_of(1)
        );
        let policy = Policy::parse(&text).unwrap();
        let until = policy.token_principals().next().unwrap().valid_until_ms;
        assert_eq!(until, Some(expected), "{text}");
    }
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,200}") {
        let _ = Policy::parse(&text);
    }

    /// Never half read: what changed by a byte is another policy, the same, or none.
    #[test]
    fn a_policy_with_one_byte_changed_is_refused_or_parses_twice_alike(at in 0usize..1_400, byte in 32u8..127) {
        let mut bytes = whole().into_bytes();
        let at = at % bytes.len();
        bytes[at] = byte;
        let text = String::from_utf8(bytes).unwrap();
        match Policy::parse(&text) {
            Ok(policy) => prop_assert_eq!(Policy::parse(&text), Ok(policy)),
            Err(violations) => prop_assert!(!violations.is_empty()),
        }
    }
}
