//! How the checkout is laid out: what lies at the top, how long files are, how Markdown is written.

use std::collections::BTreeSet;
use std::path::Path;

use escapement_tests::checkout;

use crate::assert_none;
use crate::source::{TextFile, rust_files, text_files};

const TOP: [&str; 12] = [
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "README.md",
    "deploy",
    "orchestrator",
    "proto",
    "rust-toolchain.toml",
    "shared",
    "tests",
    "worker",
];
const LINES_MAX: usize = 600;
const PRODUCT_LINES_MAX: usize = 450;
const SERVER_LINES_MAX: usize = 8_000;
const RUST_COLUMNS_MAX: usize = 140;

#[test]
fn the_top_level_holds_the_drawn_entries_and_dotfiles_only() {
    let top = |file: &Path| {
        file.iter()
            .next()
            .and_then(|part| part.to_str())
            .unwrap_or_default()
            .to_owned()
    };
    let found: BTreeSet<String> = checkout::files()
        .iter()
        .map(|file| top(file))
        .filter(|name| !name.starts_with('.'))
        .collect();
    let drawn: BTreeSet<String> = TOP.map(str::to_owned).into();
    let difference: Vec<String> = found.symmetric_difference(&drawn).cloned().collect();
    assert_none(&difference, "the top level is part of the architecture");
}

#[test]
fn no_file_is_longer_than_600_lines() {
    let is_data = |file: &TextFile| {
        let extension = file.path.extension().and_then(|extension| extension.to_str());
        matches!(extension, Some("lock" | "json" | "jsonl" | "txt" | "svg"))
    };
    let found: Vec<String> = text_files()
        .iter()
        .filter(|file| !is_data(file))
        .map(|file| (file.text.lines().count(), &file.path))
        .filter(|(lines, _)| *lines > LINES_MAX)
        .map(|(lines, path)| format!("{}: {lines} lines", path.display()))
        .collect();
    assert_none(&found, "a file answers one question; split it");
}

#[test]
fn no_file_of_the_product_is_longer_than_450_lines() {
    let found: Vec<String> = rust_files()
        .iter()
        .filter(|file| is_product(&file.path))
        .map(|file| (file.text.lines().count(), &file.path))
        .filter(|(lines, _)| *lines > PRODUCT_LINES_MAX)
        .map(|(lines, path)| format!("{}: {lines} lines", path.display()))
        .collect();
    assert_none(&found, "a file answers one question; split it");
}

#[test]
fn the_server_is_short_enough_to_be_read() {
    let of_server = |file: &&TextFile| file.is_under(&["orchestrator/server/src"]) && !file.is_test();
    let n_lines: usize = rust_files()
        .iter()
        .filter(of_server)
        .map(|file| file.text.lines().count())
        .sum();
    assert!(
        (1..=SERVER_LINES_MAX).contains(&n_lines),
        "the server has {n_lines} lines: what decides belongs to the engine, what converts to the codec, what limits to transport"
    );
}

/// Code that ships: in the `src` of a crate outside of `tests`, and no unit tests.
pub(crate) fn is_product(path: &Path) -> bool {
    let parts: Vec<_> = path.iter().filter_map(|part| part.to_str()).collect();
    parts[0] != "tests"
        && parts.contains(&"src")
        && !parts
            .iter()
            .any(|part| ["tests", "tests.rs", "conformance"].contains(part))
}

#[test]
fn no_line_of_code_runs_off_the_screen() {
    let mut found = Vec::new();
    for file in rust_files() {
        for (index, line) in file
            .text
            .lines()
            .enumerate()
            .filter(|(_, line)| line.chars().count() > RUST_COLUMNS_MAX)
        {
            found.push(format!(
                "{}:{}: {} columns",
                file.path.display(),
                index + 1,
                line.chars().count()
            ));
        }
    }
    assert_none(&found, "break the line");
}

#[test]
fn every_module_opens_with_its_purpose() {
    // The module beside `tests.rs` says what is tested there.
    let opens =
        |file: &TextFile| file.path.ends_with("tests.rs") || file.text.trim_start().starts_with("//!");
    let found: Vec<String> = rust_files()
        .iter()
        .filter(|file| !opens(file))
        .map(|file| file.path.display().to_string())
        .collect();
    assert_none(&found, "begin the file with `//!` and one sentence");
}

#[test]
fn markdown_has_one_sentence_per_line() {
    let is_markdown = |file: &&TextFile| file.path.extension().is_some_and(|extension| extension == "md");
    let mut found = Vec::new();
    for file in text_files().iter().filter(is_markdown) {
        found.extend(
            lines_with_sentences(&file.text)
                .into_iter()
                .map(|line| format!("{}:{line}", file.path.display())),
        );
    }
    assert_none(&found, "break the line after each sentence");
}

/// Numbers of lines that hold more than one sentence. Code blocks and tables may.
fn lines_with_sentences(text: &str) -> Vec<usize> {
    let mut in_code = false;
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        let line = line.trim_start();
        if !in_code && !line.starts_with('|') && has_two_sentences(line) {
            found.push(index + 1);
        }
    }
    found
}

/// A full stop after a word, a space and a capital: an abbreviation such as `e.g.` goes on in lower case.
fn has_two_sentences(line: &str) -> bool {
    line.match_indices(". ").any(|(at, stop)| {
        let before = line[..at]
            .chars()
            .next_back()
            .is_some_and(|c| c.is_lowercase() || matches!(c, ')' | '`' | '*'));
        let after = line[at + stop.len()..]
            .chars()
            .next()
            .is_some_and(char::is_uppercase);
        before && after
    })
}

#[test]
fn two_sentences_on_a_line_are_found_outside_code_and_tables() {
    let text = "One. Two is lower, e.g. this.\nFirst ends. Second begins.\n| a ends. B begins. |\n\
        ```\nCode ends. More.\n```\n1. An item.\n";
    assert_eq!(lines_with_sentences(text), [1, 2]);
}
