//! Licences of everything that is built, against the list in `.deny.toml`, which is the one source of truth.

use std::collections::BTreeSet;

use escapement_tests::checkout;

use crate::assert_none;
use crate::metadata::packages;

#[test]
fn every_crate_of_the_tree_has_an_allowed_licence() {
    let allowed = allowed_licences();
    let refused = |licence: Option<&str>| !licence.is_some_and(|licence| is_allowed(licence, &allowed));
    let found: Vec<String> = packages()
        .values()
        .filter(|package| refused(package.licence.as_deref()))
        .map(|package| {
            format!(
                "{}: {}",
                package.full_name,
                package.licence.as_deref().unwrap_or("says nothing")
            )
        })
        .collect();
    assert_none(
        &found,
        "choose another crate, or argue for the licence in .deny.toml",
    );
}

fn allowed_licences() -> BTreeSet<String> {
    let rules = std::fs::read_to_string(checkout::root().join(".deny.toml")).unwrap();
    let (_, licences) = rules
        .split_once("\n[licenses]\n")
        .expect("a section for licences");
    let (_, list) = licences
        .split_once("\nallow = [\n")
        .expect("a list `allow` with one licence per line");
    let (list, _) = list.split_once("\n]").expect("the end of the list");
    list.lines()
        .map(|line| line.trim().trim_end_matches(',').trim_matches('"').to_owned())
        .collect()
}

/// Judges an SPDX expression: an `OR` needs one allowed side, an `AND` needs both.
fn is_allowed(expression: &str, allowed: &BTreeSet<String>) -> bool {
    // Before SPDX 2 a slash meant "or".
    let spaced = expression
        .replace('/', " OR ")
        .replace('(', " ( ")
        .replace(')', " ) ");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = tokens.as_slice();
    let answer = either(&mut rest, allowed);
    answer && rest.is_empty()
}

fn either(rest: &mut &[&str], allowed: &BTreeSet<String>) -> bool {
    let mut answer = both(rest, allowed);
    while let ["OR", after @ ..] = *rest {
        *rest = after;
        answer |= both(rest, allowed);
    }
    answer
}

fn both(rest: &mut &[&str], allowed: &BTreeSet<String>) -> bool {
    let mut answer = one(rest, allowed);
    while let ["AND", after @ ..] = *rest {
        *rest = after;
        answer &= one(rest, allowed);
    }
    answer
}

fn one(rest: &mut &[&str], allowed: &BTreeSet<String>) -> bool {
    match *rest {
        ["(", after @ ..] => {
            *rest = after;
            let answer = either(rest, allowed);
            match *rest {
                [")", after @ ..] => {
                    *rest = after;
                    answer
                }
                _ => false,
            }
        }
        [licence, "WITH", exception, after @ ..] => {
            *rest = after;
            allowed.contains(&format!("{licence} WITH {exception}"))
        }
        [licence, after @ ..] => {
            *rest = after;
            allowed.contains(*licence)
        }
        [] => false,
    }
}

#[test]
fn licence_expressions_are_judged_as_spdx_means_them() {
    let allowed: BTreeSet<String> = ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"]
        .map(str::to_owned)
        .into();
    for expression in [
        "MIT",
        "MIT OR GPL-3.0",
        "GPL-3.0/MIT",
        "(GPL-3.0 OR MIT) AND ISC",
        "Apache-2.0 WITH LLVM-exception",
    ] {
        assert!(is_allowed(expression, &allowed), "{expression}");
    }
    for expression in [
        "",
        "GPL-3.0",
        "MIT AND GPL-3.0",
        "MIT AND (GPL-3.0 OR",
        "Apache-2.0",
        "MIT ISC",
    ] {
        assert!(!is_allowed(expression, &allowed), "{expression}");
    }
}
