//! Whether an output is what the operator or its worker says that outputs of the action are.

use super::Turn;
use crate::journal::{OutcomeClass, ToolCalled};
use crate::json::value_of_json;
use crate::outcome::{AttemptOutcome, cut};
use crate::schema;
use alloc::format;
use alloc::string::String;
use escapement_model::limits::MESSAGE_CHARS_MAX;
use escapement_model::opaque::{PaidView, WalkBudget, value};

impl Turn<'_> {
    // RUN-12.13
    /// The outcome, and whether its output fits; one that does not fails for good and keeps the output.
    pub(super) fn fitting(
        &self,
        live: &ToolCalled,
        outcome: AttemptOutcome,
    ) -> (AttemptOutcome, Option<bool>) {
        let output = outcome.output.as_ref();
        let output = output.filter(|_| outcome.class == OutcomeClass::Completed);
        let schema = value_of_json(&self.profile(&live.action).output_schema).ok();
        let both = schema.as_ref().and_then(|schema| value(schema).ok());
        let both = both.zip(output.and_then(|output| value(output).ok()));
        let Some((schema, output)) = both else {
            return (outcome, None);
        };
        let mut budget = WalkBudget::new(SCHEMA_WORK_MAX);
        let violation = schema::violation(PaidView::of(schema), PaidView::of(output), &mut budget);
        let why = match violation {
            Ok(Some(why)) => why,
            Ok(None) => return (outcome, Some(true)),
            Err(spent) => format!(": to hold it against its schema {spent}"),
        };
        let message = format!("the output of {}{why}", live.action);
        let failed = AttemptOutcome {
            class: OutcomeClass::FailedForGood,
            code: String::from("OUTPUT_INVALID"),
            message: cut(&message, MESSAGE_CHARS_MAX),
            ..outcome
        };
        (failed, Some(false))
    }
}

/// Work of the check of one value against a schema, in entries and items that are read in both.
pub(super) const SCHEMA_WORK_MAX: usize = 16 << 20;
