#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
//! Which keys are in force, when the policy changes and when issuers answer, over days that pass at once.

use super::State;
use crate::limits::{ASK_MS_MIN, KEEP_MS, REFRESH_MS};
use escapement_access::{Access, KeySet, KeySource, Policy};
use std::sync::Arc;

fn policy(issuers: &[&str]) -> Arc<Access> {
    let entry = |name: &&str| {
        format!("[[jwt]]\nissuer = \"{name}\"\naudience = \"here\"\njwks_url = \"https://{name}/keys\"\n")
    };
    let entries: String = issuers.iter().map(entry).collect();
    let policy = Policy::parse(&format!("version = 1\n{entries}")).unwrap();
    Arc::new(Access::new(policy))
}

fn source(issuer: &str) -> KeySource {
    KeySource::Url {
        url: format!("https://{issuer}/keys"),
        ca_file: None,
        token_file: None,
    }
}

fn keys(kid: &str) -> KeySet {
    // A point of a curve is not looked at before somebody shows a token.
    let x = "A".repeat(43);
    let set = format!(r#"{{"keys":[{{"kty":"OKP","crv":"Ed25519","kid":"{kid}","x":"{x}"}}]}}"#);
    KeySet::parse(set.as_bytes()).unwrap()
}

#[test]
fn a_rotation_changes_what_is_in_force_and_the_same_keys_again_do_not() {
    let mut state = State::new(policy(&["a"]), 0);
    assert_eq!(state.begin(0), [source("a")]);
    assert!(state.begin(1).is_empty());
    assert_eq!(state.ages_ms(50), [("a".to_owned(), None)]);
    assert!(state.told(&source("a"), Some(keys("one")), 100, 0));
    assert_eq!(state.ages_ms(130), [("a".to_owned(), Some(30))]);
    assert_eq!(state.begin(100 + REFRESH_MS), [source("a")]);
    assert!(!state.told(&source("a"), Some(keys("one")), 200 + REFRESH_MS, 0));
    assert_eq!(state.ages_ms(200 + REFRESH_MS), [("a".to_owned(), Some(0))]);
    assert!(state.ask("a", 2 * REFRESH_MS));
    assert_eq!(state.begin(2 * REFRESH_MS), [source("a")]);
    assert!(state.told(&source("a"), Some(keys("two")), 2 * REFRESH_MS, 0));
}

#[test]
fn an_issuer_that_fails_keeps_its_keys_for_a_day() {
    let mut state = State::new(policy(&["a"]), 0);
    state.begin(0);
    state.told(&source("a"), Some(keys("one")), 0, 0);
    let mut n_looks = 0;
    let mut now_ms = state.next_ms().unwrap();
    while now_ms < KEEP_MS {
        assert_eq!(state.begin(now_ms), [source("a")]);
        n_looks += 1;
        assert!(!state.forget_stale(now_ms));
        assert!(!state.told(&source("a"), None, now_ms, 0));
        now_ms = state.next_ms().unwrap();
    }
    assert_eq!(now_ms, KEEP_MS);
    assert_eq!(n_looks, (KEEP_MS - REFRESH_MS) / ASK_MS_MIN);
    assert!(state.forget_stale(now_ms));
    assert!(!state.forget_stale(now_ms));
}

#[test]
fn another_policy_keeps_the_keys_of_the_issuers_that_it_keeps() {
    let mut state = State::new(policy(&["a", "b"]), 0);
    state.begin(0);
    for name in ["a", "b"] {
        state.told(&source(name), Some(keys(name)), 0, 0);
    }
    state.replace_policy(policy(&["b", "c"]), 1_000);
    assert_eq!(state.begin(1_000), [source("c")], "b was asked a moment ago");
    assert!(
        !state.told(&source("a"), Some(keys("new")), 1_000, 0),
        "nobody needs it"
    );
    assert!(!state.ask("a", 2_000));
    assert!(!state.ask("b", 2_000));
    assert!(state.ask("c", 2_000), "it is being asked");
    assert!(!state.ask("nobody", 2_000));
}

#[test]
fn two_entries_with_one_address_are_one_question() {
    let text = "version = 1\n[[jwt]]\nissuer = \"a\"\naudience = \"x\"\njwks_url = \"https://a/keys\"\n\
                [[jwt]]\nissuer = \"b\"\naudience = \"x\"\njwks_url = \"https://a/keys\"\n";
    let access = Arc::new(Access::new(Policy::parse(text).unwrap()));
    let mut state = State::new(access, 0);
    assert_eq!(state.begin(0), [source("a")]);
}
