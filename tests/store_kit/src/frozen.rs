//! Examples of encoded messages that were written once and are kept for ever. No later version may read them differently.
//! The fields of a message are found by decoding and encoding it.
//!
//! `tests/records/README.md` says what to do where a message gets a new field.

mod codec;
mod examples;
mod fields;

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::path::{Path, PathBuf};

use escapement_model::hex;
use prost::Message;
use sha2::{Digest, Sha256};

use codec::Codec;

/// Encoded message with every field set, or with one of several choices.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Example {
    /// The encoded message.
    pub bytes: Vec<u8>,
    /// A digest of the values in the order of the fields that hold them.
    values: String,
}

impl Example {
    fn of<M: Message + Default + Debug>(bytes: Vec<u8>) -> Result<Self, String> {
        let message = M::decode(&bytes[..]).map_err(|error| error.to_string())?;
        let values = values(&format!("{message:?}"));
        Ok(Self { bytes, values })
    }

    fn line(&self) -> String {
        format!("{} {}\n", hex::text(&self.bytes), self.values)
    }
}

/// Returns the kept examples of a message, in the order in which they were kept.
///
/// # Panics
/// If one of them is not read today as it was then, or if something that the message can hold has no example. With
/// `ESCAPEMENT_NEW_RECORDS=1` examples that lack are added; none is ever changed.
pub fn check<M: Message + Default + Debug>(name: &str) -> Vec<Example> {
    let path = folder().join(format!("{name}.txt"));
    let mut kept = read(&path);
    for (n, example) in (1..).zip(&kept) {
        let about = format!("{name}, example {n}");
        let today =
            Example::of::<M>(example.bytes.clone()).unwrap_or_else(|error| panic!("{about}: {error}"));
        let encoded = M::decode(&example.bytes[..])
            .expect("was decoded")
            .encode_to_vec();
        assert_eq!(
            hex::text(&encoded),
            hex::text(&example.bytes),
            "{about}: what was kept is encoded differently today"
        );
        assert_eq!(
            today.values, example.values,
            "{about}: its values are found in other fields today"
        );
    }
    let codec = |bytes: &[u8]| M::decode(bytes).ok().map(|message| message.encode_to_vec());
    let made = examples::of(&Codec::new(&codec));
    let missing: Vec<Example> = made
        .into_iter()
        .map(|bytes| Example::of::<M>(bytes).expect("an example is a message"))
        .filter(|example| !kept.contains(example))
        .collect();
    if std::env::var_os("ESCAPEMENT_NEW_RECORDS").is_some() && !missing.is_empty() {
        kept.extend(missing);
        std::fs::write(&path, kept.iter().map(Example::line).collect::<String>()).expect("written");
        return kept;
    }
    let lines: String = missing.iter().map(Example::line).collect();
    assert!(
        missing.is_empty(),
        "{name}: a field is new, or gone, or of another type, and no example of it is kept:\n{lines}"
    );
    kept
}

/// Returns the names of all messages that have examples.
///
/// # Panics
/// If the folder cannot be read.
pub fn names() -> BTreeSet<String> {
    let files = std::fs::read_dir(folder()).expect("the folder is there");
    let name = |file: std::io::Result<std::fs::DirEntry>| {
        let name = file.expect("a file").file_name().into_string().expect("a name");
        name.strip_suffix(".txt").map(str::to_owned)
    };
    files.filter_map(name).collect()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../records/frozen")
}

fn read(path: &Path) -> Vec<Example> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let example = |line: &str| {
        let (bytes, values) = line.split_once(' ')?;
        let pairs = bytes.as_bytes().chunks(2);
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        Some(Example {
            bytes: pairs.map(byte).collect::<Option<_>>()?,
            values: values.to_owned(),
        })
    };
    let examples = text
        .lines()
        .map(|line| example(line).expect("a line is an example"));
    examples.collect()
}

/// Computes a digest of the texts and numbers in the output of `Debug`. Leaves out names and empty values, so that renaming or
/// adding a field changes nothing.
fn values(shown: &str) -> String {
    let mut hasher = Sha256::new();
    let mut rest = shown;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => text_length(rest),
            'a'..='z' | 'A'..='Z' | '_' => length_while(rest, |c| c.is_alphanumeric() || c == '_'),
            '0'..='9' => length_while(rest, |c| c.is_ascii_digit() || c == '.'),
            other => other.len_utf8(),
        };
        let (token, behind) = rest.split_at(length);
        let is_number = first.is_ascii_digit() && !token.trim_matches(['0', '.']).is_empty();
        if is_number || (first == '"' && token != "\"\"") {
            hasher.update(token);
            hasher.update([0]);
        }
        rest = behind;
    }
    hex::text(&hasher.finalize()[..8])
}

fn length_while(text: &str, is_part: impl Fn(char) -> bool) -> usize {
    text.find(|c| !is_part(c)).unwrap_or(text.len())
}

/// Returns the length of the quoted text at the start.
fn text_length(text: &str) -> usize {
    let mut is_escaped = false;
    let end = text.char_indices().skip(1).find(|(_, c)| {
        let is_end = *c == '"' && !is_escaped;
        is_escaped = *c == '\\' && !is_escaped;
        is_end
    });
    end.map_or(text.len(), |(at, _)| at + 1)
}
