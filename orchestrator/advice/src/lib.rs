//! Warnings about the calls of a plan: payloads that do not fit a published schema, and misspelt names of actions.
//! Serves plans of the contract and of runs. Forbids nothing, and knows neither kind of plan.

#![warn(clippy::too_many_lines)]

mod payload_schema;

use escapement_model::opaque::ValueView;
use escapement_model::spelling::Speller;
use payload_schema::{Mismatch, mismatches};
use std::collections::{BTreeMap, BTreeSet};

/// A call that a plan contains.
#[derive(Clone, Debug)]
pub struct PlannedCall<'a> {
    /// The action.
    pub action: &'a str,
    /// The path of the payload in the request, such as `plan.steps[3].payload`.
    pub path: String,
    /// The payload, an encoded object.
    pub payload: &'a [u8],
}

/// A payload, or a part of one, that does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PayloadWarning {
    /// The path in the request.
    pub path: String,
    /// A sentence for people.
    pub message: String,
}

impl PayloadWarning {
    /// The word that answers have for it.
    pub const CODE: &'static str = "PAYLOAD_MISMATCH";
}

/// Returns the published schemas of these actions, by action, up to 256 KiB of them.
pub fn schemas_of<'a>(
    actions: impl Iterator<Item = &'a str>,
    published: &BTreeMap<&str, &str>,
) -> BTreeMap<String, String> {
    let mut schemas = BTreeMap::new();
    let mut bytes_left = SCHEMAS_BYTES_MAX;
    for action in actions {
        let Some(schema) = published.get(action).filter(|_| !schemas.contains_key(action)) else {
            continue;
        };
        let Some(left) = bytes_left.checked_sub(schema.len()) else {
            break;
        };
        bytes_left = left;
        schemas.insert(action.to_owned(), (*schema).to_owned());
    }
    schemas
}

/// Holds the payloads against these schemas: 100 warnings at most, within a bounded time.
///
/// `is_open`: whether a value is only known once the call is made, such as a reference. It fits every schema.
pub fn of_payloads(
    calls: &[PlannedCall<'_>],
    schemas: &BTreeMap<String, String>,
    is_open: fn(ValueView<'_>) -> bool,
) -> Vec<PayloadWarning> {
    let mut warnings = Vec::new();
    let mut budget = PAYLOAD_CHECK_STEPS_MAX;
    for (action, schema) in schemas {
        let Ok(schema) = serde_json::from_str(schema) else {
            continue;
        };
        for call in calls.iter().filter(|call| call.action == action) {
            if warnings.len() >= PAYLOAD_WARNINGS_MAX {
                break;
            }
            let found = mismatches(&schema, call.payload, &mut budget, is_open);
            warnings.extend(
                found
                    .into_iter()
                    .map(|Mismatch { path, problem }| PayloadWarning {
                        path: format!("{}{path}", call.path),
                        message: format!("By the input schema of {action} it {problem}."),
                    }),
            );
        }
    }
    warnings.truncate(PAYLOAD_WARNINGS_MAX);
    warnings
}

/// Returns, for each of these actions, the names that may have been meant.
pub fn suggestions(unknown: &[String], known: &BTreeSet<&str>) -> Vec<(String, Vec<String>)> {
    if unknown.is_empty() {
        return Vec::new();
    }
    let mut speller = Speller::new(known);
    let suggested = unknown
        .iter()
        .map(|action| (action.clone(), speller.suggestions(action)));
    suggested.collect()
}

/// Bytes of the schemas that one plan is held against: 256 KiB. Actions beyond it are not checked.
const SCHEMAS_BYTES_MAX: usize = 256 << 10;
/// Values, keys and alternatives that are looked at for one plan: some milliseconds. Nothing is found beyond it.
const PAYLOAD_CHECK_STEPS_MAX: usize = 100_000;
/// Warnings about payloads in one answer.
const PAYLOAD_WARNINGS_MAX: usize = 100;
