//! Words that the code must not use, each with what to use instead.

use std::path::Path;

use crate::assert_none;
use crate::source::{TextFile, is_word, rust_files};

/// Where a word is forbidden.
enum Scope {
    /// In all Rust code, tests too.
    Everywhere,
    /// In all code but tests.
    OutsideTests,
    /// In the crates that decide, outside their tests.
    PureCrates,
    /// In tests, except where conditions are waited for.
    Tests,
}

/// One forbidden word.
struct Ban {
    word: &'static str,
    scope: Scope,
    instead: &'static str,
}

const fn ban(word: &'static str, scope: Scope, instead: &'static str) -> Ban {
    Ban { word, scope, instead }
}

const BANS: [Ban; 26] = [
    ban(
        "unsafe",
        Scope::Everywhere,
        "find a safe way, or a well-kept crate that has one",
    ),
    ban("#[ignore", Scope::Everywhere, "make the test run, or delete it"),
    ban("todo!", Scope::Everywhere, "write it"),
    ban("unimplemented!", Scope::Everywhere, "write it"),
    ban("dbg!", Scope::Everywhere, "remove it"),
    ban(
        ".unwrap()",
        Scope::OutsideTests,
        "`expect(\"why it holds\")`, or return a fault",
    ),
    ban(
        "HashMap",
        Scope::PureCrates,
        "`BTreeMap`: what decides must not depend on a hash seed",
    ),
    ban(
        "HashSet",
        Scope::PureCrates,
        "`BTreeSet`: what decides must not depend on a hash seed",
    ),
    ban("std", Scope::PureCrates, "`core` and `alloc`"),
    ban("Instant", Scope::PureCrates, "take the time as an argument"),
    ban("SystemTime", Scope::PureCrates, "take the time as an argument"),
    ban("rand", Scope::PureCrates, "take ids and seeds as arguments"),
    ban("getrandom", Scope::PureCrates, "take ids and seeds as arguments"),
    ban("async", Scope::PureCrates, "return effects as values"),
    ban("await", Scope::PureCrates, "return effects as values"),
    ban("tokio", Scope::PureCrates, "return effects as values"),
    ban(
        "thread",
        Scope::PureCrates,
        "the engine is one state machine on one thread",
    ),
    ban(
        "Mutex",
        Scope::PureCrates,
        "the engine is one state machine on one thread",
    ),
    ban("RefCell", Scope::PureCrates, "pass `&mut`"),
    ban(
        "println!",
        Scope::PureCrates,
        "return it as data; the shells tell",
    ),
    ban(
        "eprintln!",
        Scope::PureCrates,
        "return it as data; the shells tell",
    ),
    ban("tracing", Scope::PureCrates, "return it as data; the shells tell"),
    ban("log", Scope::PureCrates, "return it as data; the shells tell"),
    ban(
        "f32",
        Scope::PureCrates,
        "integers, or `f64` where the contract has a double",
    ),
    ban(
        "sleep_until",
        Scope::Tests,
        "`wait_for` a condition, or tokio's paused clock",
    ),
    ban(
        "sleep",
        Scope::Tests,
        "`wait_for` a condition, or tokio's paused clock",
    ),
];

/// The crates that decide: they never wait, read no clock, draw no random number and log nothing.
const PURE: [&str; 7] = [
    "orchestrator/contract/src",
    "orchestrator/engine/src",
    "orchestrator/simulator/src",
    "orchestrator/run/src",
    "orchestrator/runs/src",
    "orchestrator/triggers/src",
    "orchestrator/delivery/src",
];
/// Where conditions are waited for with a limit, so that nothing else has to sleep:
/// the harness, and the worker's own tests, which cannot depend on it.
const WAITS: [&str; 2] = ["tests/src/waiting.rs", "worker/bin/tests/handlers/main.rs"];

/// The one file that may be unsafe: SQLite calls its file system through C.
pub(crate) const SPEAKS_C: &str = "tests/disk/src/vfs.rs";

// the bans of the pure crates.
#[test]
fn no_source_uses_a_forbidden_word() {
    let files = rust_files();
    let findings: Vec<String> = BANS.iter().flat_map(|ban| findings_of(ban, &files)).collect();
    assert_none(&findings, "each line says what to use instead");
}

fn findings_of(ban: &Ban, files: &[TextFile]) -> Vec<String> {
    let mut findings = Vec::new();
    for file in files {
        let code = match ban.scope {
            Scope::Everywhere if ban.word == "unsafe" && file.path.as_path() == Path::new(SPEAKS_C) => {
                continue;
            }
            Scope::Everywhere => file.code(true),
            Scope::OutsideTests if !file.is_test() => file.code(false),
            Scope::PureCrates if file.is_under(&PURE) && !file.is_test() => file.code(false),
            Scope::Tests if !WAITS.iter().any(|waits| file.path.ends_with(waits)) => test_code(file),
            _ => continue,
        };
        for (index, line) in code.lines().enumerate() {
            if holds(line, ban.word) {
                let (path, line) = (file.path.display(), index + 1);
                findings.push(format!("{path}:{line}: `{}`: {}", ban.word, ban.instead));
            }
        }
    }
    findings
}

/// The tests in a file, with the rest blanked so that line numbers stay.
fn test_code(file: &TextFile) -> String {
    let all = file.code(true);
    if file.is_test() {
        return all;
    }
    let lines_before = file.code(false).lines().count();
    let blank_before = |(index, line)| if index < lines_before { "" } else { line };
    all.lines()
        .enumerate()
        .map(blank_before)
        .collect::<Vec<_>>()
        .join("\n")
}

/// True if the line has the word as a word: `async` is not in `asynchronous`, and `std` not in `no_std`.
fn holds(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let begins = word.starts_with(is_word);
        let ends = word.ends_with(is_word);
        let before = line[..at].chars().next_back().is_some_and(is_word);
        let after = line[at + word.len()..].chars().next().is_some_and(is_word);
        !(begins && before || ends && after)
    })
}

#[test]
fn a_word_inside_a_longer_one_is_another_word() {
    assert!(holds("async fn", "async"));
    assert!(holds("x.unwrap();", ".unwrap()"));
    assert!(!holds("asynchronous", "async"));
    assert!(!holds("#![no_std]", "std"));
    assert!(!holds("x.unwrap_or(1)", ".unwrap()"));
}

#[test]
fn a_forbidden_word_is_found_with_its_line() {
    let path = std::path::PathBuf::from("orchestrator/engine/src/a.rs");
    let file = TextFile {
        path,
        text: "// HashMap\nuse HashMap;\n".to_owned(),
    };
    let ban = ban("HashMap", Scope::PureCrates, "BTreeMap");
    assert_eq!(
        findings_of(&ban, &[file]),
        ["orchestrator/engine/src/a.rs:2: `HashMap`: BTreeMap"]
    );
}

#[test]
fn sleeping_is_found_in_unit_tests_only() {
    let path = std::path::PathBuf::from("worker/sdk/src/a.rs");
    let text = "fn a() { sleep() }\n#[cfg(test)]\nmod tests {\n sleep();\n}".to_owned();
    let ban = ban("sleep", Scope::Tests, "wait_for");
    assert_eq!(
        findings_of(&ban, &[TextFile { path, text }]),
        ["worker/sdk/src/a.rs:4: `sleep`: wait_for"]
    );
}
