//! That every sentence from which a check comes stands where the check says. Judges no worker.

use std::collections::BTreeMap;

use crate::catalogue::{RULES, checks};

/// Returns the documents that a check may quote, by their places: `PROTOCOL.md, section 3` or `session.proto, Hello.build`.
fn documents() -> BTreeMap<String, String> {
    macro_rules! proto {
        ($path:literal) => {
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../proto/", $path))
        };
    }
    let mut places = sections("PROTOCOL.md", proto!("PROTOCOL.md"));
    let session = proto!("escapement/worker/v1/session.proto");
    let service = proto!("escapement/worker/v1/worker_service.proto");
    places.extend(comments("session.proto", session));
    places.extend(comments("worker_service.proto", service));
    places
}

/// Returns the numbered sections of a page. The cells of a row of a table are parted by colons.
fn sections(name: &str, page: &str) -> BTreeMap<String, String> {
    let parts = page.split("\n## ").skip(1).filter_map(|part| {
        let (number, text) = part.split_once(". ")?;
        let lines = text.lines().map(|line| match line.strip_prefix('|') {
            Some(row) => row.replace(" | ", ": "),
            None => line.to_owned(),
        });
        let text: Vec<_> = lines.collect();
        Some((format!("{name}, section {number}"), one_line(&text.join("\n"))))
    });
    parts.collect()
}

/// Returns the comment above each declaration: `Message`, `Message.field`, `Message.value_of_its_enum` or the name of a call.
fn comments(name: &str, proto: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let (mut comment, mut outer) = (String::new(), Vec::new());
    for line in proto.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("//") {
            comment.push_str(text);
            continue;
        }
        let words: Vec<_> = line.split([' ', '(']).collect();
        let own = match words[..] {
            ["message" | "enum" | "rpc" | "service" | "oneof", own, ..] => own,
            _ => line
                .split(" = ")
                .next()
                .and_then(|left| left.split(' ').next_back())
                .unwrap_or_default(),
        };
        let place = match outer.first() {
            Some(message) if words[0] != "rpc" => format!("{name}, {message}.{own}"),
            _ => format!("{name}, {own}"),
        };
        found.insert(place, one_line(&std::mem::take(&mut comment)));
        if line.ends_with('{') {
            outer.push(own.to_owned());
        } else if line == "}" {
            outer.pop();
        }
    }
    found
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What is wrong with a source, where something is.
fn fault(source: &str, documents: &BTreeMap<String, String>) -> Option<String> {
    let Some((place, quote)) = source.split_once(": ") else {
        return Some(format!("no quote in {source:?}"));
    };
    let quote = quote.trim_start_matches("...").trim_end_matches("...").trim();
    match documents.get(place) {
        None => Some(format!("no such place: {source:?}")),
        Some(text) if quote.is_empty() || !text.contains(quote) => {
            Some(format!("not said there: {source:?}"))
        }
        Some(_) => None,
    }
}

#[test]
fn every_source_stands_where_the_check_says() {
    let documents = documents();
    let sources = checks()
        .map(|check| (check.name, check.source))
        .chain(RULES.iter().map(|rule| (rule.name, rule.source)));
    let faults: Vec<_> = sources
        .filter_map(|(name, source)| Some(format!("{name}: {}", fault(source, &documents)?)))
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_quote_that_is_wrong_or_stands_elsewhere_is_found() {
    let documents = documents();
    for (source, right) in [
        (
            "PROTOCOL.md, section 9: Several cancels of one attempt are one.",
            true,
        ),
        (
            "PROTOCOL.md, section 8: Several cancels of one attempt are one.",
            false,
        ),
        ("PROTOCOL.md, section 3: an unknown field: ignored", true),
        ("PROTOCOL.md, section 3: an unknown field: forgotten", false),
        ("PROTOCOL.md, section 99: an unknown field: ignored", false),
        ("PROTOCOL.md, section 9: ...", false),
        ("session.proto, Heartbeat.n: 1, 2, 3, ...", true),
        ("session.proto, Heartbeat: 1, 2, 3, ...", false),
        (
            "session.proto, RejectedAttempt.draining: The worker is draining.",
            true,
        ),
        ("session.proto, Hello.build: The worker is draining.", false),
        (
            "worker_service.proto, Session: a gap or a repeat ends the stream.",
            true,
        ),
        ("The worker is draining.", false),
    ] {
        assert_eq!(fault(source, &documents).is_none(), right, "{source}");
    }
}
