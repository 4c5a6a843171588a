//! What this worker shows to others and never tells: its token, and the key of its model. Takes it out of whatever others say, since an
//! endpoint may say back what it was shown. Reads files that hold secrets, and nothing else.

use crate::http_client::Answer;
use bytes::Bytes;
use escapement_wire::json::outside;
use http::HeaderValue;
use serde_json::Value;
use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;

/// Where the secrets of this worker come from.
#[derive(Clone, Default)]
pub struct Secrets {
    texts: Vec<String>,
    /// Read for every call, so that what replaces them is hidden as well.
    files: Vec<PathBuf>,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets")
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

impl Secrets {
    /// Returns the secrets that these texts are and that these files hold.
    pub fn new(texts: impl IntoIterator<Item = String>, files: impl IntoIterator<Item = PathBuf>) -> Self {
        Self {
            texts: texts.into_iter().collect(),
            files: files.into_iter().collect(),
        }
    }

    /// Returns all of them as they are now. A file that cannot be read holds none.
    pub fn now(&self) -> Hidden {
        let read = self
            .files
            .iter()
            .filter_map(|file| std::fs::read_to_string(file).ok());
        read.chain(self.texts.iter().cloned())
            .fold(Hidden::default(), |hidden, secret| hidden.and(&secret))
    }
}

/// Secrets, in every spelling in which a text may hold them.
#[derive(Clone, Default)]
pub struct Hidden(Vec<String>);

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hidden(..)")
    }
}

impl Hidden {
    /// Sets another one as well. What is too short to be a secret is left out: it would stand in ordinary words.
    #[must_use]
    pub fn and(mut self, secret: &str) -> Self {
        let secret = secret.trim();
        if secret.len() < SECRET_BYTES_MIN {
            return self;
        }
        let in_json = Value::from(secret).to_string();
        let in_json = in_json.trim_matches('"').to_owned();
        for spelling in [secret.to_owned(), in_json.replace('/', "\\/"), in_json] {
            if !self.0.contains(&spelling) {
                self.0.push(spelling);
            }
        }
        // A secret may be a part of another one.
        self.0.sort_by_key(|spelling| std::cmp::Reverse(spelling.len()));
        self
    }

    /// Returns the text with [`HIDDEN`] in the place of each secret.
    pub fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.0.iter().fold(Cow::Borrowed(text), |text, secret| {
            match text.contains(secret.as_str()) {
                true => Cow::Owned(text.replace(secret.as_str(), HIDDEN)),
                false => text,
            }
        })
    }

    /// The same for bytes of whatever kind.
    pub fn bytes(&self, bytes: Vec<u8>) -> Vec<u8> {
        self.0
            .iter()
            .fold(bytes, |bytes, secret| replaced(bytes, secret.as_bytes()))
    }

    /// The same for every text and key of a JSON value.
    pub fn value(&self, value: Value) -> Value {
        match value {
            Value::String(text) => self.text(&text).into(),
            Value::Array(items) => items.into_iter().map(|item| self.value(item)).collect(),
            Value::Object(entries) => {
                let entries = entries.into_iter();
                let hidden = entries.map(|(key, value)| (self.text(&key).into_owned(), self.value(value)));
                Value::Object(hidden.collect())
            }
            other => other,
        }
    }

    /// The same for an answer: before anything of it is read, kept or written into a file.
    pub(crate) fn answer(&self, answer: Answer) -> Answer {
        let mut headers = answer.headers;
        for value in headers.values_mut() {
            let hidden = self.bytes(value.as_bytes().to_vec());
            if hidden != value.as_bytes() {
                *value = HeaderValue::from_bytes(&hidden).unwrap_or(HeaderValue::from_static(HIDDEN));
            }
        }
        let body = self.bytes(answer.body.into());
        Answer {
            headers,
            body: Bytes::from(self.escaped(&body).unwrap_or(body)),
            ..answer
        }
    }

    /// Returns the JSON that a body is, if it spells a secret by escapes.
    fn escaped(&self, body: &[u8]) -> Option<Vec<u8>> {
        find(body, b"\\u")?;
        let said: Value = serde_json::from_slice(&outside::exact(body)).ok()?;
        let hidden = self.value(said.clone());
        (hidden != said).then(|| hidden.to_string().into_bytes())
    }
}

fn replaced(bytes: Vec<u8>, secret: &[u8]) -> Vec<u8> {
    let mut hidden = Vec::new();
    let mut rest = bytes.as_slice();
    while let Some(at) = find(rest, secret) {
        hidden.extend_from_slice(&rest[..at]);
        hidden.extend_from_slice(HIDDEN.as_bytes());
        rest = &rest[at + secret.len()..];
    }
    if rest.len() == bytes.len() {
        return bytes;
    }
    hidden.extend_from_slice(rest);
    hidden
}

fn find(bytes: &[u8], secret: &[u8]) -> Option<usize> {
    let (first, last) = (*secret.first()?, bytes.len().checked_sub(secret.len())?);
    let mut at = 0;
    while at <= last {
        at += bytes[at..=last].iter().position(|byte| *byte == first)?;
        if bytes[at..].starts_with(secret) {
            return Some(at);
        }
        at += 1;
    }
    None
}

/// What stands in the place of a secret.
pub const HIDDEN: &str = "[secret]";
/// Bytes of the shortest secret.
const SECRET_BYTES_MIN: usize = 4;

#[cfg(test)]
mod tests {
    use super::{HIDDEN, Hidden, Secrets, find};
    use serde_json::json;

    #[test]
    fn a_secret_is_hidden_wherever_it_stands_and_however_it_is_spelt() {
        let hidden = Hidden::default().and("sk-te\"st/51\n").and("sk-te").and("abc");
        assert_eq!(hidden.text("key: sk-te\"st/51."), format!("key: {HIDDEN}."));
        assert_eq!(
            hidden.text(r#"{"m": "sk-te\"st\/51 sk-te"}"#),
            format!(r#"{{"m": "{HIDDEN} {HIDDEN}"}}"#)
        );
        assert_eq!(hidden.text("abc"), "abc", "too short to be one");
        assert_eq!(
            hidden.bytes(b"\xffsk-tesk-te\xfe".to_vec()),
            [b"\xff", HIDDEN.repeat(2).as_bytes(), b"\xfe"].concat()
        );
        assert_eq!(
            hidden.value(json!({ "sk-te": ["sk-te\"st/51", 1, null] })),
            json!({ HIDDEN: [HIDDEN, 1, null] })
        );
    }

    #[test]
    fn a_file_is_read_as_it_is_now_and_none_is_shown() {
        let directory = tempfile::TempDir::new().unwrap();
        let file = directory.path().join("key");
        let secrets = Secrets::new(["of-the-worker".to_owned()], [file.clone()]);
        assert_eq!(secrets.now().text("first-key"), "first-key");
        for key in ["first-key", "second-key"] {
            std::fs::write(&file, format!("{key}\n")).unwrap();
            assert_eq!(
                secrets.now().text(&format!("{key} of-the-worker")),
                format!("{HIDDEN} {HIDDEN}")
            );
        }
        assert!(!format!("{secrets:?} {:?}", secrets.now()).contains("-worker"));
    }

    #[test]
    fn what_looks_alike_is_passed_over() {
        assert_eq!(find(b"aaab", b"aab"), Some(1));
        assert_eq!(find(b"aab", b"aabb"), None);
        assert_eq!(find(b"", b"a"), None);
        assert_eq!(find(b"xxab", b"ab"), Some(2));
    }
}
