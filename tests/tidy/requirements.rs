//! `REQUIREMENTS.md` leads from each number of the specifications of runs to the rule or the story that shows it, or says why none does.

use std::collections::BTreeSet;
use std::path::Path;

use crate::assert_none;
use crate::source::text_files;

const TABLE: &str = "tests/run_stories/REQUIREMENTS.md";
const STORIES: &str = "tests/run_stories/STORIES.md";
/// The specifications, with how many requirements each has.
const SPECIFICATIONS: [(&str, u32); 4] = [("000", 73), ("001", 83), ("003", 168), ("004", 65)];
/// Fewer words are no reason.
const REASON_WORDS_MIN: usize = 4;

#[test]
fn every_requirement_is_in_the_table_in_its_place() {
    let wanted: Vec<String> = SPECIFICATIONS
        .iter()
        .flat_map(|(specification, last)| (1..=*last).map(move |n| format!("{specification}-{n}")))
        .collect();
    let found: Vec<String> = rows(TABLE)
        .into_iter()
        .map(|[number, _, _]| number)
        .filter(|number| number.starts_with("00"))
        .collect();
    let first_other = wanted.iter().zip(&found).find(|(wanted, found)| wanted != found);
    assert_eq!(first_other, None, "the table says something else at this place");
    assert_eq!(found.len(), wanted.len());
}

#[test]
fn every_requirement_is_shown_or_says_why_not() {
    let stories: BTreeSet<String> = rows(STORIES).into_iter().map(|[number, _, _]| number).collect();
    let findings: Vec<String> = rows(TABLE)
        .into_iter()
        .filter(|[number, _, _]| number.starts_with("00"))
        .filter_map(|[number, _, shown]| fault(&shown, &stories).map(|fault| format!("{number}: {fault}")))
        .collect();
    assert_none(
        &findings,
        "name a rule or a story that there is, or say why there is none",
    );
}

#[test]
fn a_row_that_shows_nothing_is_found() {
    let stories = BTreeSet::from(["S4".to_owned()]);
    assert_eq!(fault("RUN-5.1, S4", &stories), None);
    assert_eq!(fault("The client program brings them", &stories), None);
    assert_eq!(fault("S5", &stories), Some("no story S5".to_owned()));
    for nothing in ["", "later", "{replan}"] {
        assert!(fault(nothing, &stories).is_some(), "{nothing}");
    }
}

/// What is wrong with a last cell. Rules that no law has are found elsewhere.
fn fault(shown: &str, stories: &BTreeSet<String>) -> Option<String> {
    let is_story = |word: &&str| word.starts_with('S') && word[1..].parse::<u32>().is_ok();
    let is_rule = |word: &str| word.starts_with("RUN-") || word.starts_with("TRIG-");
    let words: Vec<&str> = shown
        .split([' ', ',', ';'])
        .filter(|word| !word.is_empty())
        .collect();
    if let Some(lacking) = words
        .iter()
        .filter(|word| is_story(word))
        .find(|word| !stories.contains(**word))
    {
        return Some(format!("no story {lacking}"));
    }
    let is_shown = words.iter().any(|word| is_rule(word) || is_story(word));
    (!is_shown && words.len() < REASON_WORDS_MIN).then(|| format!("nothing shows it: {shown:?}"))
}

/// The rows of the tables of a page, three cells each.
fn rows(page: &str) -> Vec<[String; 3]> {
    let files = text_files();
    let page = files.iter().find(|file| file.path == Path::new(page));
    let text = &page.expect("the page is there").text;
    let cells = |line: &str| -> Vec<String> {
        let cells = line.trim_matches('|').split('|').map(str::trim);
        cells.map(str::to_owned).collect()
    };
    let lines = text.lines().filter(|line| line.starts_with('|'));
    lines.filter_map(|line| cells(line).try_into().ok()).collect()
}
