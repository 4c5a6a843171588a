//! Patterns, held against a slow matcher that tries everything.

use super::{Pattern, PatternError};
use proptest::prelude::*;

fn matches(pattern: &str, name: &str) -> bool {
    Pattern::new(pattern).unwrap().matches(name)
}

fn matches_within(pattern: &str, name: &str) -> bool {
    Pattern::within(pattern, '/').unwrap().matches(name)
}

#[test]
fn a_star_stands_for_anything_and_nothing_else_does() {
    assert!(matches("billing.*", "billing.charge"));
    assert!(matches("billing.*", "billing."));
    assert!(!matches("billing.*", "billing"));
    assert!(!matches("billing.*", "xbilling.charge"));
    assert!(matches("*", ""));
    assert!(matches("a*b*c", "abbc"));
    assert!(!matches("a*b*c", "acb"));
    assert!(!matches("ab*ba", "aba"));
    assert!(matches("a?c", "a?c"));
    assert!(!matches("a?c", "abc"));
}

#[test]
fn a_star_never_crosses_a_slash() {
    let pattern = "spiffe://prod.example/ns/agents/sa/worker-*";
    assert!(matches_within(
        pattern,
        "spiffe://prod.example/ns/agents/sa/worker-7"
    ));
    assert!(!matches_within(
        pattern,
        "spiffe://prod.example/ns/agents/sa/worker-7/x"
    ));
    assert!(!matches_within("spiffe://*", "spiffe://prod.example/ns"));
    assert!(matches_within("spiffe://*/ns/*", "spiffe://prod.example/ns/x"));
}

#[test]
fn a_pattern_that_can_match_nothing_is_none() {
    assert_eq!(Pattern::new(""), Err(PatternError::Empty));
    assert_eq!(Pattern::new("a\nb"), Err(PatternError::NeverMatches));
    assert_eq!(Pattern::new(&"a".repeat(2_049)), Err(PatternError::TooLong));
}

/// Tries every length for every star.
fn slowly(pattern: &[u8], name: &[u8], separator: Option<u8>) -> bool {
    match pattern.split_first() {
        None => name.is_empty(),
        Some((b'*', rest)) => (0..=name.len())
            .take_while(|&n| !name[..n].iter().any(|byte| Some(*byte) == separator))
            .any(|n| slowly(rest, &name[n..], separator)),
        Some((first, rest)) => name.first() == Some(first) && slowly(rest, &name[1..], separator),
    }
}

proptest! {
    #[test]
    fn agrees_with_a_matcher_that_tries_everything(pattern in "[ab/*]{1,8}", name in "[ab/]{0,8}") {
        prop_assert_eq!(matches(&pattern, &name), slowly(pattern.as_bytes(), name.as_bytes(), None));
        let within = slowly(pattern.as_bytes(), name.as_bytes(), Some(b'/'));
        prop_assert_eq!(matches_within(&pattern, &name), within);
    }
}
