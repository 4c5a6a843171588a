//! Rule ids of CONTRACT.md: each stands in the code that enforces it and in a test that proves it, and no other occurs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::assert_none;
use crate::source::{TextFile, text_files};

const CONTRACT: &str = "orchestrator/contract/CONTRACT.md";

#[test]
fn the_contract_defines_each_rule_once() {
    let definitions = definitions(&text_files());
    assert!(
        !definitions.is_empty(),
        "{CONTRACT} defines no rule; a definition is a line that begins with `**R-3.12**`"
    );
    let mut seen = BTreeSet::new();
    let twice: Vec<String> = definitions
        .into_iter()
        .filter(|rule| !seen.insert(rule.clone()))
        .collect();
    assert_none(&twice, "give each rule an id of its own");
}

#[test]
fn every_rule_stands_in_the_code_that_enforces_it() {
    let in_code = |file: &TextFile| file.is_rust() && is_source(&file.path) && !file.is_test();
    assert_none(
        &rules_missing(in_code),
        "name the rule in a comment where the code enforces it",
    );
}

#[test]
fn every_rule_stands_in_a_test_that_proves_it() {
    let in_tests = |file: &TextFile| file.is_rust() && file.is_test();
    assert_none(&rules_missing(in_tests), "write a test that names the rule");
}

#[test]
fn no_rule_is_named_that_the_contract_lacks() {
    let files = text_files();
    let defined: BTreeSet<String> = definitions(&files).into_iter().collect();
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in files.iter().filter(|file| !file.path.starts_with("tests/tidy")) {
        for rule in ids(&file.text).filter(|rule| !defined.contains(rule)) {
            found
                .entry(rule)
                .or_default()
                .insert(file.path.display().to_string());
        }
    }
    let found: Vec<String> = found
        .into_iter()
        .map(|(rule, paths)| format!("{rule} in {}", paths.into_iter().collect::<Vec<_>>().join(", ")))
        .collect();
    assert_none(&found, "define the rule in CONTRACT.md, or name the right one");
}

/// Rules that no file of the kind names.
fn rules_missing(kind: impl Fn(&TextFile) -> bool) -> Vec<String> {
    let files = text_files();
    let not_this_check = files.iter().filter(|file| !file.path.starts_with("tests/tidy"));
    let named: BTreeSet<String> = not_this_check
        .filter(|file| kind(file))
        .flat_map(|file| ids(&file.text))
        .collect();
    definitions(&files)
        .into_iter()
        .filter(|rule| !named.contains(rule))
        .collect()
}

/// True under `orchestrator/*/src`, `worker/*/src` and `shared/*/src`.
fn is_source(path: &Path) -> bool {
    let parts: Vec<&str> = path.iter().filter_map(|part| part.to_str()).collect();
    matches!(
        parts.as_slice(),
        ["orchestrator" | "worker" | "shared", _, "src", ..]
    )
}

fn definitions(files: &[TextFile]) -> Vec<String> {
    let contract = files.iter().find(|file| file.path == Path::new(CONTRACT));
    contract
        .map(|file| definitions_in(&file.text))
        .unwrap_or_default()
}

fn definitions_in(text: &str) -> Vec<String> {
    text.lines()
        .filter_map(|line| {
            let (id, _) = line.strip_prefix("**")?.split_once("**")?;
            ids(id).next().filter(|found| found == id)
        })
        .collect()
}

/// Every id of the form `R-<section>.<n>` in a text.
fn ids(text: &str) -> impl Iterator<Item = String> {
    text.match_indices("R-").filter_map(|(at, _)| {
        let inside_a_word = text[..at]
            .chars()
            .next_back()
            .is_some_and(|c| c.is_alphanumeric() || c == '-');
        let rest = &text[at + 2..];
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let section = digits(rest);
        let number = rest[section..].strip_prefix('.').map(digits)?;
        let complete = section > 0 && number > 0 && !inside_a_word;
        complete.then(|| format!("R-{}", &rest[..section + 1 + number]))
    })
}

#[test]
fn ids_are_found_whatever_stands_around_them() {
    let text = "// R-3.12, (R-4.1). R-5. XR-6.1 R-x.1 **R-7.10**";
    assert_eq!(ids(text).collect::<Vec<_>>(), ["R-3.12", "R-4.1", "R-7.10"]);
}

#[test]
fn a_mention_is_no_definition() {
    let text = "**R-1.1** Plans MUST.\nSee **R-1.2**.\n**R-1.3 and** more\n";
    assert_eq!(definitions_in(text), ["R-1.1"]);
}
