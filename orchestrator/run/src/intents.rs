//! What a request in plain words is after, by a table of rules that is data. Asks no model, and reads nothing but the words.

mod reading;

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// The table of rules that comes with the engine, as JSON: eight intents. [`Intents::read`] says what stands in such a table.
pub const SHIPPED: &str = include_str!("intents/shipped.json");

/// A table of rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intents {
    /// Words that ask for something to be made.
    makes: Vec<String>,
    /// The one that goes first if nothing else decides before the others.
    rows: Vec<Intent>,
}

/// What somebody may be after, and what a run for it should come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent {
    /// Its name.
    pub name: String,
    /// The type of the artifact or the answer.
    pub artifact_type: String,
    /// Its media type.
    pub mime_type: String,
    /// What may be made instead, the best first.
    pub alternatives: Vec<String>,
    /// True if an artifact is to be made: a plan for it needs a step that produces one.
    pub generates: bool,
    /// Words that name what is to be made, as a format.
    formats: Vec<String>,
    /// Words that name it otherwise, or that ask for what is not made.
    words: Vec<String>,
    /// Words that ask for it without a word for what is made.
    verbs: Vec<String>,
    /// Beginnings of addresses that stand for it.
    addresses: Vec<String>,
}

/// What is wrong with a table of rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotIntents {
    /// The field, such as `intents[2].words[0]`; empty for the text as a whole.
    pub path: String,
    /// A sentence.
    pub message: String,
}

impl fmt::Display for NotIntents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.message),
            path => write!(f, "{path}: {}", self.message),
        }
    }
}

impl core::error::Error for NotIntents {}

impl Intents {
    // RUN-12.11
    /// Reads a table from JSON: an object with `makes`, the words that ask for something to be made, and `intents`, its rows in
    /// their order. A row has `name`, `artifact_type`, `mime_type` and `generates`, and may have `alternatives`, `formats`, `words`,
    /// `verbs` and `addresses`. Words are in lower case, without blanks and marks.
    ///
    /// # Errors
    /// [`NotIntents`]: the first field that is wrong, missing, unknown, or that says again what an earlier row says.
    pub fn read(text: &str) -> Result<Self, NotIntents> {
        reading::read(text)
    }

    /// The rows in their order.
    pub fn rows(&self) -> &[Intent] {
        &self.rows
    }

    /// The row of that name.
    pub fn named(&self, name: &str) -> Option<&Intent> {
        self.rows.iter().find(|intent| intent.name == name)
    }

    // RUN-12.11
    /// What a request in plain words is after; `None` if no row fits. Costs time linear in its length.
    ///
    /// To make something takes a word such as `crea` or `create`, and a word for what is made: a format before any other, and
    /// among equals the first in the text. Words of an address do not count, and an address counts only if nothing else does.
    pub fn classify(&self, query: &str) -> Option<&Intent> {
        let lower: String = query
            .split_whitespace()
            .filter(|word| self.of_address(word).is_none())
            .flat_map(|word| [word, " "])
            .collect::<String>()
            .to_lowercase();
        let words: Vec<&str> = lower
            .split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty())
            .collect();
        let first = |wanted: &dyn Fn(&Intent, &str) -> bool| {
            let mut words = words.iter();
            words.find_map(|word| self.rows.iter().find(|intent| wanted(intent, word)))
        };
        if words.iter().any(|word| has(&self.makes, word)) {
            let format = first(&|intent, word| intent.generates && has(&intent.formats, word));
            let made = format.or_else(|| first(&|intent, word| intent.generates && has(&intent.words, word)));
            if made.is_some() {
                return made;
            }
        }
        first(&|intent, word| has(&intent.verbs, word))
            .or_else(|| first(&|intent, word| !intent.generates && has(&intent.words, word)))
            .or_else(|| query.split_whitespace().find_map(|word| self.of_address(word)))
    }

    /// The row that a word stands for if it is an address.
    fn of_address(&self, word: &str) -> Option<&Intent> {
        let lower = word.to_lowercase();
        let lower = lower.trim_start_matches(['(', '<', '"', '\'', '[']);
        let begins = |start: &String| lower.starts_with(start.as_str()) && lower.len() > start.len();
        let mut rows = self.rows.iter();
        rows.find(|intent| intent.addresses.iter().any(begins))
    }
}

fn has(words: &[String], word: &str) -> bool {
    words.iter().any(|one| one == word)
}
