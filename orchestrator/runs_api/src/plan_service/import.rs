//! What an imported document says beside the plan, as fields of a new plan. Checks nothing.

use bytes::Bytes;
use escapement_model::Opaque;
use escapement_model::opaque::{ValueView, value_of};
use escapement_run::plan::import::{Format, Imported};
use escapement_wire::runs::v1;

use super::document::text_of;

/// What is said of a new plan: by the caller, else by the document.
pub(crate) struct Given {
    /// The plan.
    pub(crate) plan: v1::Plan,
    /// 1 to 10.
    pub(crate) priority: Option<i32>,
    /// 0 to 4.
    pub(crate) autonomy_level: Option<i32>,
    /// 0 to 100.
    pub(crate) max_retries: Option<i32>,
}

/// Fills in what the caller does not say. A field of the document that no plan can have is left for the caller to say.
pub(crate) fn with_attributes(given: Option<v1::Plan>, imported: &Imported, format: Format) -> Given {
    let mut plan = given.unwrap_or_default();
    let said = &imported.attributes;
    for (name, field) in [
        ("source", &mut plan.source),
        ("source_id", &mut plan.source_id),
        ("trigger_id", &mut plan.trigger_id),
        ("goal_id", &mut plan.goal_id),
    ] {
        if let Some(text) = text_of(said, name).filter(|_| field.is_empty()) {
            *field = text.to_owned();
        }
    }
    if plan.external_id.is_empty() {
        plan.external_id = imported.external_id.clone().unwrap_or_default();
    }
    if plan.description.is_empty() {
        plan.description = text_of(&imported.document, "description")
            .unwrap_or_default()
            .to_owned();
    }
    if plan.preset.is_empty() {
        plan.preset = format.preset().to_owned();
    }
    if plan.timeout_ms == 0 {
        plan.timeout_ms = whole(said, "timeout_ms").unwrap_or_default();
    }
    if plan.metadata.is_none()
        && let Some(ValueView::Struct(metadata)) = value_of(said.as_encoded(), "metadata")
    {
        plan.metadata = Some(Opaque::from_encoded(Bytes::copy_from_slice(metadata)));
    }
    let small = |said_by_caller: i32, name| match said_by_caller {
        0 => whole(said, name).map(|number| i32::try_from(number).unwrap_or(i32::MAX)),
        _ => None,
    };
    Given {
        priority: small(plan.priority, "priority"),
        autonomy_level: small(plan.autonomy_level, "autonomy_level"),
        max_retries: small(plan.max_retries, "max_retries"),
        plan,
    }
}

/// A whole number; of a broken one, the part before its point.
fn whole(object: &Opaque, name: &str) -> Option<i64> {
    match value_of(object.as_encoded(), name) {
        Some(ValueView::Number(number)) => Some(number as i64),
        _ => None,
    }
}
