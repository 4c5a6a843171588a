//! `ARCHITECTURE.md`: every crate has a row there, and every invariant names a test that holds it and that there is.

use std::path::Path;

use escapement_tests::checkout;

use crate::assert_none;
use crate::metadata::ours;

const PAGE: &str = "orchestrator/ARCHITECTURE.md";
const INVARIANTS: &str = "## What never depends on what";

fn page() -> String {
    std::fs::read_to_string(checkout::root().join(PAGE)).unwrap()
}

/// The rows of the tables of a text, each without its ends.
fn rows(text: &str) -> impl Iterator<Item = &str> {
    let rows = text.lines().filter(|line| line.starts_with("| "));
    rows.map(|line| line.trim_matches(['|', ' ']))
}

#[test]
fn every_crate_has_a_row() {
    let page = page();
    let has_row = |folder: &str| rows(&page).any(|row| row.starts_with(&format!("[{folder}](")));
    let found: Vec<String> = ours()
        .values()
        .map(|package| package.folder.clone())
        .filter(|folder| !has_row(folder))
        .collect();
    assert_none(
        &found,
        &format!("say in {PAGE} what the crate is, and what it never does"),
    );
}

#[test]
fn every_invariant_is_held_by_a_test_that_there_is() {
    let page = page();
    let (_, section) = page.split_once(INVARIANTS).expect("the page has the section");
    let section = section.split("\n## ").next().unwrap_or_default();
    // Below the head of the table.
    let rows: Vec<&str> = rows(section).skip(1).collect();
    assert!(rows.len() > 20, "{} invariants", rows.len());
    let mut found = Vec::new();
    for row in rows {
        let checks = checks(row);
        if checks.is_empty() {
            found.push(format!("{row}: names no test"));
        }
        for (name, file) in checks {
            let file = checkout::root().join(Path::new(PAGE).with_file_name(file));
            let text = std::fs::read_to_string(file).unwrap_or_default();
            if !text.contains(&format!("#[test]\nfn {name}() {{")) {
                found.push(format!("{name}: no such test"));
            }
        }
    }
    assert_none(&found, "name the test that holds the invariant");
}

/// The tests that a row names, each with its file.
fn checks(row: &str) -> Vec<(&str, &str)> {
    let links = row.split("[`").skip(1);
    links
        .filter_map(|link| {
            let (name, rest) = link.split_once("`](")?;
            Some((name, rest.split(')').next()?))
        })
        .collect()
}

#[test]
fn the_tests_of_a_row_are_found() {
    let row = "[a](b) never | [`c`](d.rs), [`e`](f.rs)";
    assert_eq!(checks(row), [("c", "d.rs"), ("e", "f.rs")]);
    assert_eq!(checks("[a](b) never | a reader"), []);
}
