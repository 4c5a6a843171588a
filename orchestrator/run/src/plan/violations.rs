//! What is wrong with a document: every violation with its path, its code and a sentence. Judges nothing.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// The kind of a violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Code {
    /// The document is too large or too deep, or has too many steps or references.
    PlanSize,
    /// A field is missing, has the wrong type, or is out of its range.
    InvalidField,
    /// There is no such field.
    UnknownField,
    /// Two steps have the same key.
    DuplicateKey,
    /// There is no such type of step.
    UnknownStepType,
    /// A field names a step that does not exist.
    UnknownReference,
    /// Steps depend on each other in a cycle, or one depends on itself.
    CyclicDependency,
    /// A jump leads to a step that does not come later in canonical order.
    BackwardJump,
    /// A reference in a template is malformed, or names what has no value at that place.
    ReferenceUnresolved,
    /// Two fields contradict each other, or the steps contradict a constraint of the plan.
    ConstraintViolated,
}

impl Code {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::PlanSize,
        Self::InvalidField,
        Self::UnknownField,
        Self::DuplicateKey,
        Self::UnknownStepType,
        Self::UnknownReference,
        Self::CyclicDependency,
        Self::BackwardJump,
        Self::ReferenceUnresolved,
        Self::ConstraintViolated,
    ];

    /// As answers spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PlanSize => "PLAN_SIZE",
            Self::InvalidField => "INVALID_FIELD",
            Self::UnknownField => "UNKNOWN_FIELD",
            Self::DuplicateKey => "DUPLICATE_KEY",
            Self::UnknownStepType => "UNKNOWN_STEP_TYPE",
            Self::UnknownReference => "UNKNOWN_REFERENCE",
            Self::CyclicDependency => "CYCLIC_DEPENDENCY",
            Self::BackwardJump => "BACKWARD_JUMP",
            Self::ReferenceUnresolved => "REFERENCE_UNRESOLVED",
            Self::ConstraintViolated => "CONSTRAINT_VIOLATED",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Path in the document, such as `steps[3].config.tool_name`; `document` for all of it.
    pub path: String,
    /// Its kind.
    pub code: Code,
    /// One sentence.
    pub message: String,
}

/// Why a document is refused: at least one violation, at most `escapement_model::limits::VIOLATIONS_MAX`.
///
/// They come in document order: fields in the order in which they are documented, then unknown ones by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violations(Vec<Violation>);

impl Violations {
    /// `None` if there are none.
    pub fn new(violations: Vec<Violation>) -> Option<Self> {
        (!violations.is_empty()).then_some(Self(violations))
    }

    /// The violations in document order.
    pub fn iter(&self) -> core::slice::Iter<'_, Violation> {
        self.0.iter()
    }

    /// The first violation.
    pub fn first(&self) -> &Violation {
        &self.0[0]
    }

    /// How many there are, at least 1.
    #[allow(clippy::len_without_is_empty, reason = "never empty")]
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

impl<'a> IntoIterator for &'a Violations {
    type Item = &'a Violation;
    type IntoIter = core::slice::Iter<'a, Violation>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = self.first();
        write!(f, "{}: {}", first.path, first.message)?;
        match self.0.len() - 1 {
            0 => Ok(()),
            more => write!(f, " ({more} more)"),
        }
    }
}

impl core::error::Error for Violations {}
