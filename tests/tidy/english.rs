//! Plain English: what comments, pages, texts and names may not say.
//! Old text is excused by a list that only gets shorter: `english.txt` has the number of findings of each rule in each file.

mod names;
mod rules;
mod texts;

use std::collections::BTreeMap;
use std::fmt::Write;

use escapement_tests::checkout;

use crate::assert_none;
use crate::layout::is_product;
use crate::source::{TextFile, text_files};

use rules::Finding;

/// Findings that are excused, one line for each file: `PATH RULE=COUNT RULE=COUNT`.
const ALLOWED: &str = "tests/tidy/english.txt";

/// Number of findings by file and by rule.
type Counts = BTreeMap<(String, String), usize>;

/// Phrases that no line of the product's comments and of the protos may hold, and what to write.
const PHRASES: [(&str, &str); 12] = [
    ("`None` where", "`None` if"),
    ("`Some` where", "`Some` if"),
    ("`Err` where", "`Err` if"),
    ("True where", "True if"),
    ("False where", "False if"),
    ("true where", "true if"),
    ("false where", "false if"),
    (
        "hoever",
        "name the subject: the caller, the reader, the process that",
    ),
    ("so many of", "this many, or at most N"),
    ("what stands there", "say what it is"),
    ("is told of", "name who says it to whom: is reported, is logged"),
    (
        "obody else",
        "name the subject: no other thread, no other process",
    ),
];

#[test]
fn comments_say_it_in_plain_english() {
    let files = text_files();
    let findings: Vec<String> = files.iter().flat_map(phrases_of).collect();
    assert_none(&findings, "each line says what to write instead");
}

fn phrases_of(file: &TextFile) -> Vec<String> {
    let is_proto = file
        .path
        .extension()
        .is_some_and(|extension| extension == "proto");
    if !is_proto && !is_product(&file.path) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        let Some((_, comment)) = line.split_once("//") else {
            continue;
        };
        for (phrase, instead) in PHRASES.iter().filter(|(phrase, _)| comment.contains(phrase)) {
            findings.push(format!(
                "{}:{}: `{phrase}`: {instead}",
                file.path.display(),
                index + 1
            ));
        }
    }
    findings
}

/// With `ESCAPEMENT_WRITE` set it lowers the counts of the list; it raises none.
#[test]
fn english_gets_plainer() {
    let files = text_files();
    let mut findings = findings_in(&files);
    findings.extend(names::findings(&files));
    let found = counts(&findings);
    let path = checkout::root().join(ALLOWED);
    let allowed = parse(&std::fs::read_to_string(&path).unwrap_or_default());
    if std::env::var_os("ESCAPEMENT_WRITE").is_some() {
        let lower = |(key, count): (&(String, String), &usize)| {
            let before = if allowed.is_empty() {
                usize::MAX
            } else {
                allowed.get(key).copied().unwrap_or(0)
            };
            (key.clone(), before.min(*count))
        };
        std::fs::write(&path, print(&found.iter().map(lower).collect())).unwrap();
        return;
    }
    let more = findings.iter().filter(|finding| {
        let key = (finding.path.clone(), finding.rule.to_owned());
        found[&key] > allowed.get(&key).copied().unwrap_or(0)
    });
    let more: Vec<String> = more.map(ToString::to_string).collect();
    assert_none(
        &more,
        "these files had fewer of these before; STYLE of each rule: tests/tidy/english/rules.rs",
    );
    let fewer: Vec<String> = allowed
        .iter()
        .filter(|(key, count)| found.get(*key).copied().unwrap_or(0) < **count)
        .map(|((path, rule), _)| format!("{path} {rule}"))
        .collect();
    assert_none(
        &fewer,
        "fewer than english.txt allows: with ESCAPEMENT_WRITE=1 this test lowers its counts",
    );
}

/// Findings of all files, on as many threads as there are cores.
fn findings_in(files: &[TextFile]) -> Vec<Finding> {
    let n_cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    std::thread::scope(|scope| {
        let threads = (0..n_cores).map(|nth| {
            let share = files.iter().skip(nth).step_by(n_cores);
            scope.spawn(move || share.flat_map(rules::findings).collect::<Vec<_>>())
        });
        let threads: Vec<_> = threads.collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    })
}

fn counts(findings: &[Finding]) -> Counts {
    let mut counts = Counts::new();
    for finding in findings {
        *counts
            .entry((finding.path.clone(), finding.rule.to_owned()))
            .or_default() += 1;
    }
    counts
}

fn print(counts: &Counts) -> String {
    let mut text = String::new();
    let mut last = None;
    for ((path, rule), count) in counts.iter().filter(|(_, count)| **count > 0) {
        if last != Some(path) {
            let end = if last.is_some() { "\n" } else { "" };
            let _ = write!(text, "{end}{path}");
            last = Some(path);
        }
        let _ = write!(text, " {rule}={count}");
    }
    text.push('\n');
    text
}

fn parse(text: &str) -> Counts {
    let mut counts = Counts::new();
    for line in text.lines() {
        let mut words = line.split(' ');
        let path = words.next().unwrap_or_default();
        for word in words {
            let (rule, count) = word.split_once('=').expect("RULE=COUNT");
            counts.insert((path.to_owned(), rule.to_owned()), count.parse().unwrap());
        }
    }
    counts
}

#[test]
fn the_list_is_read_as_it_is_written() {
    let text = "a.rs E1=3 E3=1\nb.rs E1=2\n";
    assert_eq!(print(&parse(text)), text);
}

#[test]
fn errors_and_panics_have_conditions() {
    let mut findings = Vec::new();
    for file in text_files().iter().filter(|file| file.is_rust()) {
        let lines: Vec<&str> = file.text.lines().map(str::trim).collect();
        for (index, pair) in lines.windows(2).enumerate() {
            if ["/// # Errors", "/// # Panics"].contains(&pair[0]) && pair[1].starts_with("/// Where ") {
                findings.push(format!("{}:{}: {}", file.path.display(), index + 2, pair[1]));
            }
        }
    }
    assert_none(&findings, "begin the condition with `If`");
}

#[test]
fn a_phrase_is_found_in_a_comment_and_nowhere_else() {
    let file = TextFile {
        path: "shared/a/src/a.rs".into(),
        text: "let text = \"True where\";\n/// True where it is.\n".to_owned(),
    };
    assert_eq!(phrases_of(&file), ["shared/a/src/a.rs:2: `True where`: True if"]);
}
