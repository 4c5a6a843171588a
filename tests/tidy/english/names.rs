//! Names of types and of files.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;

use super::rules::Finding;
use crate::layout::is_product;
use crate::source::{TextFile, strip};

/// Participles, adverbs and prepositions that name no thing.
const NO_NOUNS: &[&str] = &[
    "about", "along", "asked", "beside", "by", "counted", "ended", "found", "happened", "kept", "known",
    "over", "said", "seen", "settled", "told", "waiting", "wanted", "watching",
];

/// Public types whose name occurs twice in the workspace or is no noun, and files whose name is none.
pub(super) fn findings(files: &[TextFile]) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut types: BTreeMap<String, Vec<(String, usize)>> = BTreeMap::new();
    for file in files
        .iter()
        .filter(|file| file.is_rust() && is_product(&file.path))
    {
        let path = file.path.display().to_string();
        let stem = file
            .path
            .file_stem()
            .and_then(|stem| stem.to_str())
            .unwrap_or_default();
        if is_no_noun(stem) {
            found.push(finding(
                &path,
                1,
                "E10",
                format!("`{stem}`: name the file by what it holds"),
            ));
        }
        for (line, name) in public_types(&file.text) {
            if is_no_noun(&name.to_lowercase()) {
                found.push(finding(
                    &path,
                    line,
                    "E9",
                    format!("`{name}`: name the type by what it holds"),
                ));
            }
            types.entry(name).or_default().push((path.clone(), line));
        }
    }
    for (name, places) in types.iter().filter(|(_, places)| places.len() > 1) {
        for (path, line) in places {
            let what = format!(
                "`{name}`: occurs {} times; a public name occurs once",
                places.len()
            );
            found.push(finding(path, *line, "E9", what));
        }
    }
    found
}

fn finding(path: &str, line: usize, rule: &'static str, what: String) -> Finding {
    Finding {
        path: path.to_owned(),
        line,
        rule,
        what,
    }
}

fn is_no_noun(name: &str) -> bool {
    NO_NOUNS.contains(&name) || name.starts_with("of_") || name.starts_with("by_")
}

/// Types that a crate shows to others.
fn public_types(source: &str) -> Vec<(usize, String)> {
    static TYPE: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"^\s*pub (struct|enum|trait|type|union) (\w+)").expect("is one"));
    let code = strip(source);
    let lines = code.lines().enumerate();
    let found = lines.filter_map(|(index, line)| Some((index + 1, TYPE.captures(line)?[2].to_owned())));
    found.collect()
}

#[test]
fn a_public_name_that_occurs_twice_is_found_at_both_places() {
    let file = |path: &str, text: &str| TextFile {
        path: path.into(),
        text: text.to_owned(),
    };
    let files = [
        file("shared/a/src/told.rs", "pub struct Plan;\nstruct Input;"),
        file(
            "shared/b/src/b.rs",
            "pub enum Plan {}\npub(crate) struct Input;\npub struct Wanted;",
        ),
    ];
    let found: Vec<String> = findings(&files)
        .iter()
        .map(|finding| format!("{}:{} {}", finding.path, finding.line, finding.rule))
        .collect();
    let expected = [
        "shared/a/src/told.rs:1 E10",
        "shared/b/src/b.rs:3 E9",
        "shared/a/src/told.rs:1 E9",
        "shared/b/src/b.rs:1 E9",
    ];
    assert_eq!(found, expected);
}
