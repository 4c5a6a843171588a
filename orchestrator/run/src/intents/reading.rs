//! Reads a table of intents, and names the first field that is wrong.

#![expect(
    clippy::disallowed_methods,
    reason = "an operator writes the table, and it is read at a start"
)]

use super::{Intent, Intents, NotIntents};
use crate::json::value_of_json;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use escapement_model::opaque::{ValueView, entries, items, value};

pub(super) fn read(text: &str) -> Result<Intents, NotIntents> {
    let bytes = value_of_json(text).map_err(|why| wrong("", &format!("is no JSON: {why}")))?;
    let table = Object::of(value(&bytes).ok(), String::new(), &["makes", "intents"])?;
    let makes = table.words("makes")?;
    let mut rows: Vec<Intent> = Vec::new();
    for (at, given) in table.list("intents")?.into_iter().enumerate() {
        let row = row(given, format!("intents[{at}]"))?;
        if rows.iter().any(|known| known.name == row.name) {
            return Err(wrong(
                &format!("intents[{at}].name"),
                "is the name of an earlier row",
            ));
        }
        rows.push(row);
    }
    if rows.is_empty() {
        return Err(wrong("intents", "has no row"));
    }
    Ok(Intents { makes, rows })
}

fn row(given: ValueView<'_>, path: String) -> Result<Intent, NotIntents> {
    let row = Object::of(Some(given), path, &FIELDS)?;
    let mime_type = row.text("mime_type")?;
    if !mime_type.contains('/') {
        return Err(wrong(&row.at("mime_type"), "is no media type"));
    }
    let generates = match row.field("generates") {
        Some(ValueView::Bool(generates)) => generates,
        _ => return Err(wrong(&row.at("generates"), "must be true or false")),
    };
    Ok(Intent {
        name: row.text("name")?,
        artifact_type: row.text("artifact_type")?,
        mime_type,
        generates,
        alternatives: row.texts("alternatives")?,
        formats: row.words("formats")?,
        words: row.words("words")?,
        verbs: row.words("verbs")?,
        addresses: row.texts("addresses")?,
    })
}

/// An object with its path.
struct Object<'a> {
    fields: Vec<(&'a str, ValueView<'a>)>,
    path: String,
}

impl<'a> Object<'a> {
    fn of(given: Option<ValueView<'a>>, path: String, known: &[&str]) -> Result<Self, NotIntents> {
        let Some(ValueView::Struct(object)) = given else {
            return Err(wrong(&path, "must be an object"));
        };
        let object = Self {
            fields: entries(object).flatten().collect(),
            path,
        };
        let unknown = object.fields.iter().find(|(name, _)| !known.contains(name));
        match unknown {
            Some((name, _)) => Err(wrong(&object.at(name), "is no field of a table of intents")),
            None => Ok(object),
        }
    }

    fn at(&self, name: &str) -> String {
        match self.path.as_str() {
            "" => name.to_string(),
            path => format!("{path}.{name}"),
        }
    }

    fn field(&self, name: &str) -> Option<ValueView<'a>> {
        let found = self.fields.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| *value)
    }

    fn text(&self, name: &str) -> Result<String, NotIntents> {
        match self.field(name) {
            Some(ValueView::Text(text)) if !text.is_empty() => Ok(text.to_string()),
            _ => Err(wrong(&self.at(name), "must be a text that says something")),
        }
    }

    /// The values of a list; none if it is absent.
    fn list(&self, name: &str) -> Result<Vec<ValueView<'a>>, NotIntents> {
        match self.field(name) {
            None => Ok(Vec::new()),
            Some(ValueView::List(list)) => Ok(items(list).flatten().collect()),
            Some(_) => Err(wrong(&self.at(name), "must be a list")),
        }
    }

    fn texts(&self, name: &str) -> Result<Vec<String>, NotIntents> {
        let texts = self.list(name)?.into_iter().enumerate();
        let texts = texts.map(|(at, value)| match value {
            ValueView::Text(text) if !text.is_empty() => Ok(text.to_string()),
            _ => Err(wrong(
                &format!("{}[{at}]", self.at(name)),
                "must be a text that says something",
            )),
        });
        texts.collect()
    }

    /// Texts that a request in plain words can have among its words.
    fn words(&self, name: &str) -> Result<Vec<String>, NotIntents> {
        let words = self.texts(name)?;
        let is_word = |word: &String| word.chars().all(char::is_alphanumeric) && *word == word.to_lowercase();
        match words.iter().position(|word| !is_word(word)) {
            Some(at) => Err(wrong(
                &format!("{}[{at}]", self.at(name)),
                "must be a word in lower case, without blanks and marks",
            )),
            None => Ok(words),
        }
    }
}

fn wrong(path: &str, message: &str) -> NotIntents {
    NotIntents {
        path: path.to_string(),
        message: message.to_string(),
    }
}

/// The fields of a row.
const FIELDS: [&str; 9] = [
    "name",
    "artifact_type",
    "mime_type",
    "generates",
    "alternatives",
    "formats",
    "words",
    "verbs",
    "addresses",
];
