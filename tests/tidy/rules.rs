//! Rule ids of the laws, CONTRACT.md, RUNS.md and TRIGGERS.md: each stands in the code that enforces it and in a test that proves it,
//! and no other occurs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::assert_none;
use crate::source::{TextFile, text_files};

/// The laws, with what the ids of each begin with.
const LAWS: [(&str, &str); 3] = [
    ("orchestrator/contract/CONTRACT.md", "R-"),
    ("orchestrator/run/RUNS.md", "RUN-"),
    ("orchestrator/triggers/TRIGGERS.md", "TRIG-"),
];
/// Holds ids that are examples.
const THIS_FILE: &str = "tests/tidy/rules.rs";
/// How far above its attribute a test's comment may begin, and how far below it its function counts.
const LINES_ABOVE_MAX: usize = 6;
const LINES_BELOW_MAX: usize = 40;

#[test]
fn each_law_defines_its_rules_and_each_rule_once() {
    let files = text_files();
    for (law, prefix) in LAWS {
        assert!(
            definitions_of(&files, law, prefix).next().is_some(),
            "{law} defines no rule; a definition is a line that begins with `**{prefix}3.12**`"
        );
    }
    let definitions = definitions(&files);
    let mut seen = BTreeSet::new();
    let twice: Vec<String> = definitions
        .into_iter()
        .filter(|rule| !seen.insert(rule.clone()))
        .collect();
    assert_none(&twice, "give each rule an id of its own");
}

#[test]
fn every_rule_stands_in_the_code_that_enforces_it() {
    let in_code = |file: &TextFile| {
        let enforces = is_source(&file.path) && !file.is_test();
        enforces.then(|| comments(&without_unit_tests(&file.text)))
    };
    assert_none(
        &rules_missing(in_code),
        "name the rule in a comment where the code enforces it",
    );
}

#[test]
fn every_rule_stands_in_a_test_that_proves_it() {
    // Only in or right above a test function: a harness or a reference that names a rule proves nothing.
    let in_tests = |file: &TextFile| Some(comments(&test_functions(&file.text)));
    assert_none(
        &rules_missing(in_tests),
        "name the rule right above the test function that proves it, or inside of it",
    );
}

#[test]
fn no_rule_is_named_that_the_laws_lack() {
    let files = text_files();
    let defined: BTreeSet<String> = definitions(&files).into_iter().collect();
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in files.iter().filter(|file| file.path != Path::new(THIS_FILE)) {
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
    assert_none(&found, "define the rule in its law, or name the right one");
}

/// Rules that no Rust file names in the part of it that counts.
fn rules_missing(part: impl Fn(&TextFile) -> Option<String>) -> Vec<String> {
    let files = text_files();
    let named: BTreeSet<String> = files
        .iter()
        .filter(|file| file.is_rust() && file.path != Path::new(THIS_FILE))
        .filter_map(part)
        .flat_map(|text| ids(&text).collect::<Vec<_>>())
        .collect();
    definitions(&files)
        .into_iter()
        .filter(|rule| !named.contains(rule))
        .collect()
}

/// The test functions of a file, each with the comments and attributes right above it.
fn test_functions(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut kept = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let attribute = line.trim_start();
        if !["#[test]", "#[tokio::test"]
            .iter()
            .any(|test| attribute.starts_with(test))
        {
            continue;
        }
        let above = lines[..at].iter().rev().take(LINES_ABOVE_MAX);
        let begin = at - above.take_while(|line| is_comment_or_attribute(line)).count();
        let end = item_end(&lines, at).min(at + LINES_BELOW_MAX);
        kept.extend_from_slice(&lines[begin..=end]);
    }
    kept.join("\n")
}

/// The file without its modules and functions for tests.
fn without_unit_tests(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut kept = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        if lines[at].trim_start().starts_with("#[cfg(test)]") {
            at = item_end(&lines, at);
        } else {
            kept.push(lines[at]);
        }
        at += 1;
    }
    kept.join("\n")
}

/// What stands behind `//` on each line: a text that only prints an id enforces and proves nothing.
fn comments(text: &str) -> String {
    let comment = |line| str::split_once(line, "//").map_or("", |(_, comment)| comment);
    text.lines().map(comment).collect::<Vec<_>>().join("\n")
}

fn is_comment_or_attribute(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("//") || line.starts_with("#[")
}

/// The last line of the item with this attribute: it closes at the indentation of the attribute,
/// as rustfmt writes it, or is a declaration such as `mod tests;`.
fn item_end(lines: &[&str], attribute: usize) -> usize {
    let indent = lines[attribute].len() - lines[attribute].trim_start().len();
    let closes = |line: &str| {
        line.len() > indent && line[..indent].trim().is_empty() && {
            let rest = &line[indent..];
            rest.starts_with('}') || (!rest.starts_with([' ', '/']) && rest.ends_with(';'))
        }
    };
    (attribute + 1..lines.len())
        .find(|at| lines[*at].is_char_boundary(indent) && closes(lines[*at]))
        .unwrap_or(lines.len() - 1)
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
    let laws = LAWS.iter();
    laws.flat_map(|(law, prefix)| definitions_of(files, law, prefix))
        .collect()
}

fn definitions_of(files: &[TextFile], law: &str, prefix: &str) -> impl Iterator<Item = String> {
    let file = files.iter().find(|file| file.path == Path::new(law));
    let all = file.map(|file| definitions_in(&file.text)).unwrap_or_default();
    all.into_iter().filter(move |id| id.starts_with(prefix))
}

fn definitions_in(text: &str) -> Vec<String> {
    text.lines()
        .filter_map(|line| {
            let (id, _) = line.strip_prefix("**")?.split_once("**")?;
            ids(id).next().filter(|found| found == id)
        })
        .collect()
}

/// Every id of the form `R-<section>.<n>`, `RUN-<section>.<n>` or `TRIG-<section>.<n>` in a text, in its order.
fn ids(text: &str) -> impl Iterator<Item = String> {
    text.match_indices('-').filter_map(|(dash, _)| {
        let prefix = LAWS.map(|(_, prefix)| prefix).into_iter().find(|prefix| {
            let before = text[..=dash].strip_suffix(prefix);
            let end = before.map(|before| before.chars().next_back());
            end.is_some_and(|end| !end.is_some_and(|c| c.is_alphanumeric() || c == '-'))
        })?;
        let rest = &text[dash + 1..];
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let section = digits(rest);
        let number = rest[section..].strip_prefix('.').map(digits)?;
        let complete = section > 0 && number > 0;
        complete.then(|| format!("{prefix}{}", &rest[..section + 1 + number]))
    })
}

#[test]
fn ids_are_found_whatever_stands_around_them() {
    let text = "// R-3.12, (R-4.1). R-5. XR-6.1 R-x.1 **R-7.10** RUN-1.2 RERUN-1.3 X-RUN-1.4";
    assert_eq!(
        ids(text).collect::<Vec<_>>(),
        ["R-3.12", "R-4.1", "R-7.10", "RUN-1.2"]
    );
}

#[test]
fn a_mention_is_no_definition() {
    let text = "**R-1.1** Plans MUST.\nSee **R-1.2**.\n**R-1.3 and** more\n";
    assert_eq!(definitions_in(text), ["R-1.1"]);
}

const EXAMPLE: &str = "\
// R-1.1
fn code() {} // R-1.2

#[cfg(test)]
mod tests {
    // R-1.3
    fn word() {}

    // R-1.4
    #[test]
    fn claim() {
        \"R-1.5\";
    }
    // R-1.6
}
// R-1.7
#[cfg(test)]
mod more;
// R-1.8
";

#[test]
fn only_test_functions_and_what_stands_right_above_them_prove_a_rule() {
    let proofs = test_functions(EXAMPLE);
    assert_eq!(ids(&proofs).collect::<Vec<_>>(), ["R-1.4", "R-1.5"]);
}

#[test]
fn an_id_in_a_literal_is_no_comment() {
    let text = "explain(\"R-1.1\"); // R-1.2\n/// R-1.3";
    assert_eq!(ids(&comments(text)).collect::<Vec<_>>(), ["R-1.2", "R-1.3"]);
}

#[test]
fn unit_tests_enforce_no_rule() {
    let code = without_unit_tests(EXAMPLE);
    assert_eq!(
        ids(&code).collect::<Vec<_>>(),
        ["R-1.1", "R-1.2", "R-1.7", "R-1.8"]
    );
}
