//! Phrases of the product's comments and of the protos that a reader would have to translate, each with plain words to use instead.

use crate::assert_none;
use crate::layout::is_product;
use crate::source::{TextFile, text_files};

/// What not to write, and what to write.
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
    let findings: Vec<String> = files.iter().flat_map(findings_of).collect();
    assert_none(&findings, "each line says what to write instead");
}

fn findings_of(file: &TextFile) -> Vec<String> {
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
    assert_eq!(findings_of(&file), ["shared/a/src/a.rs:2: `True where`: True if"]);
}
