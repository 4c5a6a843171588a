//! What handlers make: artifacts that outputs declare, and files that are right, wrong, late or never there.
//! Judges none of them.

use crate::dice::Dice;
use escapement_model::Opaque;
use escapement_model::encoder::sha256;
use escapement_model::opaque::{ValueView, value_of};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The types of artifacts that actions make.
pub(crate) const KINDS: [&str; 3] = ["image", "text", "thing"];

/// The types of artifacts that an action makes.
pub(crate) fn produced_by(action: &str) -> &'static [&'static str] {
    match action {
        "pure.safe" => &["image"],
        "world.safe" => &["text"],
        "idem.safe" => &["image", "text"],
        "mail.safe" => &["thing"],
        _ => &[],
    }
}

/// Files that handlers have written.
#[derive(Debug, Default)]
pub(crate) struct Files(BTreeMap<String, File>);

#[derive(Debug)]
struct File {
    /// It is there from then on.
    from_ms: u64,
    content: &'static [u8],
}

/// What an output declares, if it declares something.
pub(crate) fn declared(
    action: &str,
    mark: &str,
    now_ms: u64,
    files: &mut Files,
    dice: &mut Dice,
) -> Option<Value> {
    let kinds = produced_by(action);
    if kinds.is_empty() || !dice.percent(60) {
        return None;
    }
    Some(match dice.roll(30) {
        0 => json!({"type": "image"}),
        1 => json!([{"type": "image", "mime_type": "image/png", "path": "../out"}]),
        2 => json!([{"type": "image", "mime_type": "image/png"}]),
        _ => {
            let n_artifacts = dice.between(1, 2);
            let made = (0..n_artifacts).map(|n| {
                let kind = dice.pick(kinds);
                one(kind, &format!("out/{mark}-{n}"), now_ms, files, dice)
            });
            json!(made.collect::<Vec<_>>())
        }
    })
}

/// One artifact, whose content is given or in a file.
fn one(kind: &str, path: &str, now_ms: u64, files: &mut Files, dice: &mut Dice) -> Value {
    let (mime_type, good, bad) = match kind {
        "image" => ("image/png", IMAGE, TEXT),
        "text" => ("text/plain", TEXT, IMAGE),
        _ => ("application/x-thing", TEXT, SHORT),
    };
    let (content, base64): (&'static [u8], &str) = match dice.roll(10) {
        0 => bad,
        1 => SHORT,
        _ => good,
    };
    let mut declared = json!({"type": kind, "mime_type": mime_type, "name": path});
    if dice.percent(30) {
        declared["data"] = json!(base64);
    } else {
        declared["path"] = json!(path);
        let after_ms = *dice.pick(&[0, 0, 0, 1_500, 3_000, 8_000]);
        let file = File {
            from_ms: now_ms + after_ms,
            content,
        };
        if dice.percent(95) {
            files.0.insert(path.to_owned(), file);
        }
    }
    if dice.percent(40) {
        declared["size_bytes"] = json!(content.len() + usize::from(dice.percent(10)));
    }
    if dice.percent(40) {
        let said = if dice.percent(90) {
            content
        } else {
            path.as_bytes()
        };
        declared["sha256"] = json!(hex(&sha256(said)));
    }
    declared
}

/// What a look at a file finds; `None` if the handler fails, as it may while the file is not there.
pub(crate) fn found(payload: &Opaque, now_ms: u64, files: &Files, dice: &mut Dice) -> Option<Value> {
    let path = match value_of(payload.as_encoded(), "path") {
        Some(ValueView::Text(path)) => path,
        _ => "",
    };
    let Some(file) = files.0.get(path).filter(|file| file.from_ms <= now_ms) else {
        return dice.percent(20).then(|| json!({"exists": false}));
    };
    let mut found = json!({"size_bytes": file.content.len(), "magic_hex": hex(file.content)});
    if dice.percent(90) {
        found["sha256"] = json!(hex(&sha256(file.content)));
    }
    if dice.percent(50) {
        found["exists"] = json!(true);
    }
    Some(found)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _never_fails = write!(text, "{byte:02x}");
        text
    })
}

/// Contents, and the same as base64.
const IMAGE: (&[u8], &str) = (b"\x89PNG\r\n\x1a\n\0\0", "iVBORw0KGgoAAA==");
const TEXT: (&[u8], &str) = (b"text text text", "dGV4dCB0ZXh0IHRleHQ=");
const SHORT: (&[u8], &str) = (b"text", "dGV4dA==");
