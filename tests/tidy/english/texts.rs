//! Text of a file by where it stands: comments, pages, string literals, log messages, names of tests.
//! Judges none of it.

use std::sync::LazyLock;

use regex::Regex;

use crate::layout::is_product;
use crate::source::{Kind, Piece, TextFile, pieces};

/// Kind of text, where rules differ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Channel {
    /// Doc comment or other comment of Rust, or comment of a proto.
    Comment,
    /// Markdown outside of fences.
    Page,
    /// String literal of the product.
    Literal,
    /// Message of a log event.
    Log,
    /// Name of a test, with blanks for underscores.
    TestName,
}

/// One comment block, line of a page, literal or name.
#[derive(Debug)]
pub(super) struct Text {
    pub(super) channel: Channel,
    /// Line on which it begins.
    pub(super) line: usize,
    /// Its words: code spans are `x`, links their label.
    pub(super) words: String,
    /// True for the comment that opens a file.
    pub(super) is_header: bool,
    /// True for the doc comment of a function.
    pub(super) is_of_function: bool,
    /// True for a comment that documents an item: `///`, `//!`, or any comment of a proto.
    pub(super) is_doc: bool,
}

/// Every text of a file that rules are for; none for data.
pub(super) fn texts(file: &TextFile) -> Vec<Text> {
    match file.path.extension().and_then(|extension| extension.to_str()) {
        Some("rs") => rust(file),
        Some("proto") => comments(&file.text, true),
        Some("md") => page(&file.text),
        _ => Vec::new(),
    }
}

fn text(channel: Channel, line: usize, words: &str) -> Text {
    Text {
        channel,
        line,
        words: words.to_owned(),
        is_header: false,
        is_of_function: false,
        is_doc: false,
    }
}

fn rust(file: &TextFile) -> Vec<Text> {
    let mut found = comments(&file.text, false);
    let pieces = pieces(&file.text);
    if is_product(&file.path) {
        found.extend(literals(&pieces));
    }
    found.extend(test_names(&file.text));
    found
}

/// Blocks of comments: lines that follow each other and begin with the same slashes.
fn comments(source: &str, is_proto: bool) -> Vec<Text> {
    let mut found: Vec<Text> = Vec::new();
    let mut open: Option<(&str, usize)> = None;
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    for (index, line) in lines.iter().enumerate() {
        let slashes = ["//!", "///", "//"]
            .into_iter()
            .find(|slashes| line.starts_with(slashes));
        let Some(slashes) = slashes else {
            open = None;
            continue;
        };
        let words = line[slashes.len()..].trim();
        if words.is_empty() || words.starts_with("```") {
            open = None;
            continue;
        }
        match open {
            Some((same, at)) if same == slashes => {
                found[at].words.push(' ');
                found[at].words.push_str(words);
            }
            _ => {
                let follows_block = index > 0 && lines[index - 1].starts_with(slashes);
                let is_doc = !follows_block && (is_proto || slashes != "//");
                open = Some((slashes, found.len()));
                found.push(Text {
                    is_header: slashes == "//!" && index == 0,
                    is_of_function: is_doc && slashes == "///" && documents_function(&lines[index..]),
                    is_doc,
                    ..text(Channel::Comment, index + 1, words)
                });
            }
        }
    }
    found.iter_mut().for_each(|text| text.words = plain(&text.words));
    found
}

/// True if the first line that is neither comment nor attribute is the head of a function.
fn documents_function(lines: &[&str]) -> bool {
    static HEAD: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"^(pub(\([a-z]+\))? )?(const |async )*fn ").expect("is one"));
    let item = lines
        .iter()
        .find(|line| !line.starts_with("//") && !line.starts_with("#["));
    item.is_some_and(|line| HEAD.is_match(line))
}

/// Lines of a page; each of its lines holds one sentence.
fn page(source: &str) -> Vec<Text> {
    let mut in_fence = false;
    let mut found = Vec::new();
    for (index, line) in source.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_fence = !in_fence;
        } else if !in_fence && !line.trim().is_empty() {
            found.push(text(
                Channel::Page,
                index + 1,
                &plain(line.trim_start_matches(['#', ' ', '-', '*', '|'])),
            ));
        }
    }
    found
}

/// Literals that say something: two words at least. A literal that a log macro takes as its message is one of [`Channel::Log`].
fn literals(pieces: &[Piece<'_>]) -> Vec<Text> {
    static MACRO: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"\b(error|warn|info|debug|trace)!\($").expect("is one"));
    let mut found = Vec::new();
    let mut depth_of_log: Option<i64> = None;
    let mut code_before = String::new();
    for piece in pieces {
        match piece.kind {
            Kind::Comment => {}
            Kind::Code => {
                // What opens and closes inside of the macro, up to its own bracket.
                for (at, character) in piece.text.char_indices() {
                    match (character, &mut depth_of_log) {
                        ('(', None) if MACRO.is_match(&piece.text[..=at]) => depth_of_log = Some(1),
                        ('(', Some(depth)) => *depth += 1,
                        (')', Some(depth)) => *depth -= 1,
                        _ => {}
                    }
                    if depth_of_log == Some(0) {
                        depth_of_log = None;
                    }
                }
                code_before = piece.text.trim_end().to_owned();
            }
            Kind::Text if piece.text.contains(' ') && !piece.text.starts_with('\'') => {
                let is_message = depth_of_log == Some(1) && code_before.ends_with(['(', ',']);
                let channel = if is_message {
                    Channel::Log
                } else {
                    Channel::Literal
                };
                let words = piece
                    .text
                    .trim_start_matches(['r', 'b'])
                    .trim_matches(['#', '"'])
                    .replace("\\\n", " ");
                found.push(text(channel, piece.line, &plain(&words)));
                code_before = String::new();
            }
            Kind::Text => code_before = String::new(),
        }
    }
    found
}

fn test_names(source: &str) -> Vec<Text> {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let mut found = Vec::new();
    for (index, _) in lines
        .iter()
        .enumerate()
        .filter(|(_, line)| **line == "#[test]" || line.starts_with("#[tokio::test"))
    {
        let head = lines[index..]
            .iter()
            .take(8)
            .position(|line| line.contains("fn "));
        let Some(head) = head.map(|offset| index + offset) else {
            continue;
        };
        let after = lines[head].split("fn ").nth(1).unwrap_or_default();
        let name = after.split('(').next().unwrap_or_default();
        found.push(text(Channel::TestName, head + 1, &name.replace('_', " ")));
    }
    found
}

/// The text without code spans and link targets.
fn plain(text: &str) -> String {
    static SPAN: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"`[^`]*`").expect("is one"));
    static LINK: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\]\([^)]*\)").expect("is one"));
    let text = SPAN.replace_all(text, "x");
    LINK.replace_all(&text, "]").into_owned()
}

#[test]
fn texts_are_found_where_they_stand() {
    let file = TextFile {
        path: "shared/a/src/a.rs".into(),
        text:
            "//! Opens it.\n\n/// Returns `x y`.\n/// More.\n#[must_use]\npub fn f() {\n    // Why not.\n    \
            warn!(a = \"b c\", %d, \"went wrong\");\n    g(\"one two\");\n}\n#[test]\nfn it_does_it() {}\n"
                .to_owned(),
    };
    let found: Vec<_> = texts(&file)
        .into_iter()
        .map(|text| (text.channel, text.line, text.words, text.is_of_function))
        .collect();
    let expected = [
        (Channel::Comment, 1, "Opens it.", false),
        (Channel::Comment, 3, "Returns x. More.", true),
        (Channel::Comment, 7, "Why not.", false),
        (Channel::Literal, 8, "b c", false),
        (Channel::Log, 8, "went wrong", false),
        (Channel::Literal, 9, "one two", false),
        (Channel::TestName, 12, "it does it", false),
    ];
    assert_eq!(found, expected.map(|(a, b, c, d)| (a, b, c.to_owned(), d)));
}
