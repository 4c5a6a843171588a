//! `ClassifyIntent`: what a request in plain words is after.

use crate::errors::Rejection;
use crate::fields::Fields;
use crate::intents::intents;
use escapement_wire::runs::v1;

// RUN-12.11
/// The caller's own intent if there is one, else what the table says.
pub(super) fn classified(
    request: &v1::ClassifyIntentRequest,
) -> Result<v1::ClassifyIntentResponse, Rejection> {
    let mut fields = Fields::default();
    fields.text("query", &request.query, 0..=QUERY_CHARS_MAX);
    fields.note("intent", &request.intent);
    if request.query.is_empty() && request.intent.is_empty() {
        fields.wrong("query", "is required, or intent instead");
    }
    fields.conclude()?;
    let (known, otherwise) = match request.intent.as_str() {
        "" => (intents().classify(&request.query), GENERIC),
        own => (intents().named(own), own),
    };
    Ok(match known {
        Some(intent) => v1::ClassifyIntentResponse {
            intent: intent.name.clone(),
            artifact_type: intent.artifact_type.clone(),
            mime_type: intent.mime_type.clone(),
            alternatives: intent.alternatives.clone(),
            generates: intent.generates,
        },
        None => v1::ClassifyIntentResponse {
            intent: otherwise.to_owned(),
            ..v1::ClassifyIntentResponse::default()
        },
    })
}

/// What is said if no row fits.
const GENERIC: &str = "generic";
/// Code points of a query.
const QUERY_CHARS_MAX: usize = 5000;
