//! Reads the fields of requests: what is wrong with them is collected, so that an answer names all of it. Knows no request.

use crate::errors::{Problem, Rejection};
use escapement_model::limits::{LABEL_CHARS_MAX, OUTPUT_BYTES_MAX};
use escapement_model::opaque::Malformed;
use escapement_model::{Opaque, OpaqueValue};
use escapement_run::spec::SEPARATOR;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// What is wrong with the fields that were read so far.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    problems: Vec<Problem>,
}

impl Fields {
    /// Notes that a field is wrong.
    pub(crate) fn wrong(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.because(field, "INVALID_ARGUMENT", message);
    }

    /// Notes that a field is wrong, with a reason of its own.
    pub(crate) fn because(
        &mut self,
        field: impl Into<String>,
        reason: &'static str,
        message: impl Into<String>,
    ) {
        self.problems.push(Problem {
            field: field.into(),
            reason,
            message: message.into(),
        });
    }

    /// Notes that a field asks for what this server has not, if it does.
    pub(crate) fn not_offered(&mut self, field: &str, is_asked: bool, what: &str) {
        if is_asked {
            self.because(field, "NOT_OFFERED", format!("this server offers no {what}"));
        }
    }

    /// A text of a bounded length.
    pub(crate) fn text(&mut self, field: &str, text: &str, chars: RangeInclusive<usize>) {
        let n_chars = text.chars().take(chars.end() + 1).count();
        if chars.contains(&n_chars) {
            return;
        }
        self.wrong(
            field,
            match (chars.start(), n_chars) {
                (1.., 0) => "is required".to_owned(),
                _ => format!("must have {} to {} code points", chars.start(), chars.end()),
            },
        );
    }

    /// Texts of a bounded length, at most so many.
    pub(crate) fn texts(
        &mut self,
        field: &str,
        texts: &[String],
        n_max: usize,
        chars: RangeInclusive<usize>,
    ) {
        if texts.len() > n_max {
            return self.wrong(
                field,
                format!("must have at most {n_max} entries, has {}", texts.len()),
            );
        }
        for (index, text) in texts.iter().enumerate() {
            self.text(&format!("{field}[{index}]"), text, chars.clone());
        }
    }

    /// An id of a session: so many code points, and none that divides a namespace from an id.
    pub(crate) fn session_id(&mut self, field: &str, id: &str, chars: RangeInclusive<usize>) {
        self.text(field, id, chars);
        if id.contains(SEPARATOR) {
            self.wrong(field, "must not have the control character U+001F");
        }
    }

    /// A note: at most 255 code points.
    pub(crate) fn note(&mut self, field: &str, text: &str) {
        self.text(field, text, 0..=LABEL_CHARS_MAX);
    }

    /// A number within a range.
    pub(crate) fn number<T: PartialOrd + Display>(
        &mut self,
        field: &str,
        number: T,
        range: RangeInclusive<T>,
    ) {
        if !range.contains(&number) {
            self.wrong(
                field,
                format!("must be {} to {}, is {number}", range.start(), range.end()),
            );
        }
    }

    /// An id in canonical form.
    pub(crate) fn id<T: FromStr<Err: Display>>(&mut self, field: &str, text: &str) -> Option<T> {
        match T::from_str(text) {
            Ok(id) => Some(id),
            Err(_) if text.is_empty() => {
                self.wrong(field, "is required");
                None
            }
            Err(why) => {
                self.wrong(field, why.to_string());
                None
            }
        }
    }

    /// One of some words.
    pub(crate) fn word<T: Copy>(&mut self, field: &str, text: &str, words: &[(&str, T)]) -> Option<T> {
        let found = words.iter().find(|(word, _)| *word == text);
        if found.is_none() {
            let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            self.wrong(field, format!("must be one of {}", words.join(", ")));
        }
        found.map(|(_, meaning)| *meaning)
    }

    /// A free-form object.
    pub(crate) fn object(&mut self, field: &str, object: &Opaque, bytes_max: usize) {
        self.bytes(field, object.len(), bytes_max, object.check());
    }

    /// A value of any kind, of at most 1 MiB.
    pub(crate) fn value(&mut self, field: &str, value: &OpaqueValue) {
        self.bytes(field, value.as_encoded().len(), OUTPUT_BYTES_MAX, value.check());
    }

    fn bytes(&mut self, field: &str, n_bytes: usize, bytes_max: usize, checked: Result<(), Malformed>) {
        if n_bytes > bytes_max {
            self.wrong(
                field,
                format!("must have at most {bytes_max} bytes, has {n_bytes}"),
            );
        } else if let Err(malformed) = checked {
            self.wrong(field, malformed.to_string());
        }
    }

    /// A page size, `default` if none is given.
    pub(crate) fn page_size(&mut self, page_size: Option<i32>, default: i32, max: i32) -> usize {
        let page_size = page_size.unwrap_or(default);
        self.number("page_size", page_size, 1..=max);
        usize::try_from(page_size).unwrap_or(1)
    }

    /// True if nothing is wrong so far.
    pub(crate) fn are_right(&self) -> bool {
        self.problems.is_empty()
    }

    /// Goes on if nothing is wrong.
    ///
    /// # Errors
    /// [`Rejection::Problems`] with everything that is.
    pub(crate) fn conclude(self) -> Result<(), Rejection> {
        match self.problems.is_empty() {
            true => Ok(()),
            false => Err(Rejection::Problems(self.problems)),
        }
    }
}

/// Reads the only field that a request has: an id.
///
/// # Errors
/// [`Rejection::Problems`].
pub(crate) fn id<T: FromStr<Err: Display>>(field: &str, text: &str) -> Result<T, Rejection> {
    let mut fields = Fields::default();
    let id = fields.id(field, text);
    fields.conclude()?;
    Ok(id.expect("an id that is missing is a problem"))
}
