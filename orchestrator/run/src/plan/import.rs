//! Documents of other formats as plan documents. Pure and strict: unknown fields are refused, nothing is guessed.
//!
//! Other formats have no references, so `${` in their texts stays text, and an object with `$from` is refused.
//! Records of what happened, such as the status of a step, are left out: an imported plan begins at its beginning.
//! What a format presupposes about failure is said by the preset that goes with it, and by no field.

mod autonomous;
mod core_plan;
mod decomposition;
mod foreign;
mod narrative;
mod protocol;

use super::document;
use super::reading::{Object, Reading};
use super::violations::{Violation, Violations};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use escapement_model::Opaque;
use escapement_model::limits::VIOLATIONS_MAX;
use foreign::Converted;

/// A format that can be imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `narrative/1`: tools with dependencies, as a narrator plans them.
    Narrative,
    /// `decomposition/1`: a goal and narrow questions to a language model.
    Decomposition,
    /// `autonomous/1`: a stored plan with typed steps.
    Autonomous,
    /// `core/1`: a goal and numbered steps, with or without a tool.
    Core,
    /// `protocol/1`: an objective and numbered tools, some of which make an artifact.
    Protocol,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Narrative,
        Self::Decomposition,
        Self::Autonomous,
        Self::Core,
        Self::Protocol,
    ];

    /// As requests spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Narrative => "narrative/1",
            Self::Decomposition => "decomposition/1",
            Self::Autonomous => "autonomous/1",
            Self::Core => "core/1",
            Self::Protocol => "protocol/1",
        }
    }

    /// Returns the one that is spelled so.
    pub fn spelled(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.as_str() == text)
    }

    /// The preset under which a plan of this format behaves as its format says.
    pub fn preset(self) -> &'static str {
        match self {
            Self::Narrative => "execution",
            Self::Decomposition => "plan_mode",
            Self::Autonomous | Self::Core => "autonomous",
            Self::Protocol => "protocol",
        }
    }
}

/// A document that was imported.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// The plan document, `escapement.plan/1`; it is a plan that [`super::read`] takes.
    pub document: Opaque,
    /// The id that the plan has elsewhere.
    pub external_id: Option<String>,
    /// What the format says beside the plan, such as its priority, under our names and otherwise unchanged: unchecked.
    pub attributes: Opaque,
}

/// Imports a document.
///
/// # Errors
/// [`Violations`] with everything that is wrong with it, under the paths that it has in its own format.
pub fn import(format: Format, document: &Opaque) -> Result<Imported, Violations> {
    let mut reading = Reading::default();
    if !document::is_readable(&mut reading, document) {
        return Err(reading.conclude(()).expect_err("it has a violation"));
    }
    let mut object = Object::new(document.as_encoded());
    let (converted, names): (Converted, _) = match format {
        Format::Narrative => (narrative::convert(&mut reading, &mut object), narrative::NAMES),
        Format::Decomposition => (
            decomposition::convert(&mut reading, &mut object),
            decomposition::NAMES,
        ),
        Format::Autonomous => (autonomous::convert(&mut reading, &mut object), autonomous::NAMES),
        Format::Core => (core_plan::convert(&mut reading, &mut object), core_plan::NAMES),
        Format::Protocol => (protocol::convert(&mut reading, &mut object), protocol::NAMES),
    };
    object.finish(&mut reading);
    let imported = Imported {
        document: converted.document.build(),
        external_id: converted.external_id,
        attributes: converted.attributes.build(),
    };
    let mut found: Vec<Violation> = match reading.conclude(()) {
        Ok(()) => Vec::new(),
        Err(violations) => violations.iter().cloned().collect(),
    };
    if let Err(violations) = super::read(&imported.document) {
        for violation in &violations {
            let translated = Violation {
                path: foreign_path(&violation.path, names),
                ..violation.clone()
            };
            // A field that became two is told once.
            if !found.contains(&translated) {
                found.push(translated);
            }
        }
    }
    found.truncate(VIOLATIONS_MAX);
    match Violations::new(found) {
        None => Ok(imported),
        Some(violations) => Err(violations),
    }
}

/// Fields of plan documents with their names in another format; a name of two parts counts before one of the last part.
/// What has no name there is left out.
type Names = &'static [(&'static str, &'static str)];

/// Translates a path of a plan document into one of its origin.
fn foreign_path(path: &str, names: Names) -> String {
    let mut foreign = String::new();
    let mut before = "";
    for part in path.split('.') {
        let (name, index) = part.split_at(part.find('[').unwrap_or(part.len()));
        let is_pair = |known: &str| known.split_once('.') == Some((before, name));
        let pair = names.iter().find(|(known, _)| is_pair(known));
        let found = pair.or_else(|| names.iter().find(|(known, _)| *known == name));
        let translated = found.map_or(name, |(_, translated)| *translated);
        if !translated.is_empty() {
            if !foreign.is_empty() {
                foreign.push('.');
            }
            foreign.push_str(translated);
            foreign.push_str(index);
        }
        before = name;
    }
    if foreign.is_empty() {
        "document".to_string()
    } else {
        foreign
    }
}
