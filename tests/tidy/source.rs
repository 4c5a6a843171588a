//! Files of the checkout as the checks see them: code apart from comments and texts, tests apart from the rest.
//! Knows as much of Rust's grammar as that takes, and no more.

use std::path::PathBuf;

use escapement_tests::checkout;

/// One file with its text.
pub(crate) struct TextFile {
    /// Relative to the root.
    pub(crate) path: PathBuf,
    /// Its content.
    pub(crate) text: String,
}

impl TextFile {
    /// True if the path begins with one of these folders.
    pub(crate) fn is_under(&self, folders: &[&str]) -> bool {
        folders.iter().any(|folder| self.path.starts_with(folder))
    }

    /// True if the file holds tests only.
    pub(crate) fn is_test(&self) -> bool {
        self.path.iter().any(|part| part == "tests")
            || matches!(
                self.path.file_name().and_then(|name| name.to_str()),
                Some("tests.rs" | "testing.rs")
            )
    }

    /// True for Rust sources.
    pub(crate) fn is_rust(&self) -> bool {
        self.path.extension().is_some_and(|extension| extension == "rs")
    }

    /// The code without comments, texts and, where asked, unit tests. Line numbers stay.
    pub(crate) fn code(&self, with_tests: bool) -> String {
        let code = strip(&self.text);
        // House style puts unit tests last.
        match code.find("#[cfg(test)]") {
            Some(start) if !with_tests => code[..start].to_owned(),
            _ => code,
        }
    }
}

/// Every text file of the checkout. Files that are no UTF-8 are left out.
pub(crate) fn text_files() -> Vec<TextFile> {
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(checkout::root().join(&path)).ok()?;
        Some(TextFile { path, text })
    };
    checkout::files().into_iter().filter_map(read).collect()
}

/// Every Rust source.
pub(crate) fn rust_files() -> Vec<TextFile> {
    text_files().into_iter().filter(TextFile::is_rust).collect()
}

/// Blanks comments and the insides of texts, and keeps every line break.
pub(crate) fn strip(code: &str) -> String {
    let mut out = String::with_capacity(code.len());
    for piece in pieces(code) {
        if piece.kind == Kind::Code {
            out.push_str(piece.text);
        } else {
            out.push(' ');
            out.extend(piece.text.chars().filter(|character| *character == '\n'));
        }
    }
    out
}

/// Part of a Rust source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Neither of the other two.
    Code,
    /// A comment with its slashes.
    Comment,
    /// A text or a character with its quotes.
    Text,
}

/// Stretch of a Rust source of one kind.
pub(crate) struct Piece<'a> {
    /// Kind of the stretch.
    pub(crate) kind: Kind,
    /// Its characters.
    pub(crate) text: &'a str,
    /// Line on which it begins, from 1.
    pub(crate) line: usize,
}

/// Takes a Rust source apart. The pieces together are the source.
pub(crate) fn pieces(code: &str) -> Vec<Piece<'_>> {
    let mut found = Vec::new();
    let (mut start, mut at, mut line) = (0, 0, 1);
    let mut push = |kind, text| {
        found.push(Piece { kind, text, line });
        line += text.matches('\n').count();
    };
    while let Some(first) = code[at..].chars().next() {
        let rest = &code[at..];
        let (kind, taken) = match first {
            '/' if rest.starts_with("//") => (Kind::Comment, rest.find('\n').unwrap_or(rest.len())),
            '/' if rest.starts_with("/*") => (Kind::Comment, block_comment(rest)),
            '"' => (Kind::Text, text_end(rest)),
            'r' | 'b' if !ends_in_word(&code[..at]) => (Kind::Text, raw_or_byte_text(rest).unwrap_or(0)),
            '\'' => (Kind::Text, character(rest).unwrap_or(0)),
            _ => (Kind::Code, 0),
        };
        if taken == 0 {
            at += first.len_utf8();
            continue;
        }
        for (kind, text) in [(Kind::Code, &code[start..at]), (kind, &rest[..taken])] {
            if !text.is_empty() {
                push(kind, text);
            }
        }
        at += taken;
        start = at;
    }
    if start < code.len() {
        push(Kind::Code, &code[start..]);
    }
    found
}

fn ends_in_word(text: &str) -> bool {
    text.chars().next_back().is_some_and(is_word)
}

/// True for what a Rust name is made of.
pub(crate) fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

fn block_comment(rest: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

/// Length of a text that begins with its quote.
fn text_end(rest: &str) -> usize {
    let mut escaped = false;
    for (at, character) in rest.char_indices().skip(1) {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

fn raw_or_byte_text(rest: &str) -> Option<usize> {
    let prefix = ["br", "r", "b"]
        .into_iter()
        .find(|prefix| rest.starts_with(prefix))?;
    let after = &rest[prefix.len()..];
    if prefix == "b" {
        return after.starts_with('"').then(|| prefix.len() + text_end(after));
    }
    let hashes = after.chars().take_while(|character| *character == '#').count();
    if !after[hashes..].starts_with('"') {
        return None;
    }
    let end = format!("\"{}", "#".repeat(hashes));
    let body = prefix.len() + hashes + 1;
    Some(
        rest[body..]
            .find(&end)
            .map_or(rest.len(), |at| body + at + end.len()),
    )
}

/// Length of a character literal; `None` for a lifetime.
fn character(rest: &str) -> Option<usize> {
    let mut characters = rest.char_indices().skip(1);
    let (_, first) = characters.next()?;
    if first != '\\' {
        let (at, second) = characters.next()?;
        return (second == '\'').then_some(at + 1);
    }
    characters.next()?;
    characters
        .find(|(_, character)| *character == '\'')
        .map(|(at, _)| at + 1)
}

#[test]
fn comments_and_texts_are_no_code() {
    let code = r##"a /* b /* c */ d */ e // f
"g \" h" i r#"j " k"# 'l' 'm b"n" '\'' o"##;
    assert_eq!(
        strip(code).split_whitespace().collect::<Vec<_>>(),
        ["a", "e", "i", "'m", "o"]
    );
}

#[test]
fn stripping_keeps_line_numbers() {
    let code = "one\n/* \n\n */ two\n\"x\ny\" three";
    let stripped = strip(code);
    assert_eq!(stripped.lines().count(), 6);
    assert!(stripped.lines().nth(3).unwrap().contains("two"));
    assert!(stripped.lines().nth(5).unwrap().contains("three"));
}

#[test]
fn unit_tests_are_cut_off() {
    let text = "fn a() {}\n#[cfg(test)]\nmod tests { b }".to_owned();
    let file = TextFile {
        path: PathBuf::from("orchestrator/x/src/a.rs"),
        text,
    };
    assert!(!file.code(false).contains('b'));
    assert!(file.code(true).contains('b'));
}
