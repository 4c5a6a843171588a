//! `STORIES.md` and the tests name the same stories.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Names of functions that are tests of a story, by the number of the story, in every file below these places.
fn told() -> BTreeMap<u32, BTreeSet<String>> {
    let mut told: BTreeMap<u32, BTreeSet<String>> = BTreeMap::new();
    let mut files = vec![escapement_tests::checkout::root().join("tests/run_stories")];
    while let Some(path) = files.pop() {
        if path.is_dir() {
            files.extend(
                std::fs::read_dir(path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
            continue;
        }
        for line in source(&path).lines() {
            let Some((_, rest)) = line.split_once("async fn s") else {
                continue;
            };
            let Some((name, _)) = rest.split_once('(') else {
                continue;
            };
            if let Some(number) = name.split('_').next().and_then(|number| number.parse().ok()) {
                told.entry(number).or_default().insert(format!("s{name}"));
            }
        }
    }
    told
}

fn source(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn table() -> PathBuf {
    escapement_tests::checkout::root().join("tests/run_stories/STORIES.md")
}

#[test]
fn every_story_has_a_test_or_a_stated_reason() {
    let page = source(&table());
    let mut told = told();
    let mut numbers = Vec::new();
    for line in page.lines().filter(|line| line.starts_with("| S")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [number, what, where_told] = cells[..] else {
            panic!("a row has three cells: {line}");
        };
        let number: u32 = number[1..].parse().unwrap();
        assert!(!what.is_empty() && !where_told.is_empty(), "{line}");
        let is_reason = where_told.split_whitespace().count() >= REASON_WORDS_MIN;
        assert!(
            where_told.contains('`') || is_reason,
            "S{number} says neither where nor why not"
        );
        numbers.push(number);
        let names = told.remove(&number).unwrap_or_default();
        for name in &names {
            assert!(
                where_told.contains(&format!("`{name}`")),
                "S{number} does not name {name}"
            );
        }
        // Other names in the row are tests elsewhere, by file and function.
        for quoted in where_told
            .split('`')
            .skip(1)
            .step_by(2)
            .filter(|quoted| !names.contains(*quoted))
        {
            let Some((file, function)) = quoted.split_once("::") else {
                panic!("S{number}: `{quoted}` is no test here and no `file::test`");
            };
            let file = escapement_tests::checkout::root().join(file);
            assert!(
                source(&file).contains(&format!("fn {function}(")),
                "S{number}: there is no {quoted}"
            );
        }
    }
    assert!(told.is_empty(), "these stories are not in the table: {told:?}");
    let mut sorted = numbers.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(numbers, sorted, "each number once, in order");
    assert_eq!(numbers, STORIES, "a row for each story, and for no other");
}

/// The acceptance stories of runs. The numbers have gaps: there were never others.
#[rustfmt::skip]
const STORIES: [u32; 76] = [
    4, 5, 6, 7, 8, 10, 13, 14, 17, 18, 19, 21, 22, 25, 26, 28, 29, 32, 33, 34,
    35, 37, 38, 39, 40, 41, 44, 46, 47, 48, 49, 51, 52, 55, 57, 58, 59, 60, 62, 63,
    64, 65, 66, 67, 68, 69, 70, 71, 72, 73, 74, 75, 76, 77, 78, 79, 80, 81, 82, 84,
    85, 86, 87, 88, 89, 90, 91, 92, 93, 94, 95, 96, 97, 98, 99, 100,
];
/// Fewer words are no reason.
const REASON_WORDS_MIN: usize = 6;
