//! `GetStepResult`: what a step came to, wherever it is kept.

use super::Runs;
use super::steps::step_named;
use crate::errors::Rejection;
use crate::fields::Fields;
use crate::views::Document;
use bytes::Bytes;
use escapement_model::hex;
use escapement_model::opaque::{ListBuilder, StructBuilder, value, value_of};
use escapement_model::{OpaqueValue, RunId};
use escapement_run::outcome::encoded;
use escapement_run::plan::StepKind;
use escapement_run::state::{StepStage, StepState};
use escapement_run::{Blobs, Run};
use escapement_wire::runs::v1;
use sha2::{Digest, Sha256};

/// Which result is wanted.
pub(super) struct Wanted {
    /// The step, in canonical order from 0.
    pub(super) index: usize,
    /// One unit of it; all of it otherwise.
    pub(super) unit: Option<usize>,
}

impl Runs {
    pub(super) async fn get_step_result(
        &self,
        request: v1::GetStepResultRequest,
    ) -> Result<v1::GetStepResultResponse, Rejection> {
        let mut fields = Fields::default();
        let run_id = fields.id::<RunId>("run_id", &request.run_id);
        if let Some(index) = request.index {
            fields.number("index", index, 0..=i32::MAX);
        }
        if let Some(offset) = request.offset {
            fields.number("offset", offset, 0..=i64::MAX);
        }
        if let Some(length) = request.length {
            fields.number("length", length, 1..=RANGE_BYTES_MAX);
            if request.offset.is_none() {
                fields.wrong("offset", "is required with a length");
            }
        }
        fields.conclude()?;
        let run_id = run_id.expect("an id that is missing is a problem");
        let unit = request.index.and_then(|index| usize::try_from(index).ok());
        let key = request.step_key.clone();
        let seen = self.look(run_id, move |run, blobs| {
            let index = step_named(run, &key)?;
            result(run, blobs, &Wanted { index, unit })
        });
        answer(seen.await??, &request)
    }
}

fn answer(result: Bytes, request: &v1::GetStepResultRequest) -> Result<v1::GetStepResultResponse, Rejection> {
    let response = v1::GetStepResultResponse {
        size_bytes: i64::try_from(result.len()).unwrap_or(i64::MAX),
        sha256: hex::text(&Sha256::digest(&result)),
        ..v1::GetStepResultResponse::default()
    };
    let Some(offset) = request.offset else {
        return match result.len() {
            ..=WHOLE_BYTES_MAX => Ok(v1::GetStepResultResponse {
                value: Some(OpaqueValue::from_encoded(result)),
                ..response
            }),
            _ => Err(too_large()),
        };
    };
    let begin = usize::try_from(offset).unwrap_or(usize::MAX).min(result.len());
    let length = usize::try_from(request.length.unwrap_or(RANGE_BYTES_MAX)).unwrap_or(0);
    let end = begin.saturating_add(length).min(result.len());
    Ok(v1::GetStepResultResponse {
        data: result.slice(begin..end),
        ..response
    })
}

/// The encoded value of what is wanted.
///
/// # Errors
/// [`Rejection::Failed`] with `NO_RESULT`, `RESULT_TOO_LARGE` or `RUN_DISCARDED`.
pub(super) fn result(run: &Run, blobs: &dyn Blobs, wanted: &Wanted) -> Result<Bytes, Rejection> {
    let (state, plan) = (&run.state().steps[wanted.index], &run.plan().steps[wanted.index]);
    let no_result = |what: &str| {
        let message = format!("{what} of step {} has no result.", plan.key);
        Rejection::failed("NO_RESULT", message)
    };
    if let Some(unit) = wanted.unit {
        let output = state.units.get(unit).and_then(|unit| unit.output.as_ref());
        let output = output.ok_or_else(|| no_result(&format!("Unit {unit}")))?;
        return output.kept(run, blobs);
    }
    if let Some(output) = &state.output {
        return output.kept(run, blobs);
    }
    let is_list = matches!(plan.kind, StepKind::Parallel(_) | StepKind::Loop(_));
    match state.stage() {
        // What a list has so far is a result, too.
        StepStage::Completed | StepStage::Failed if is_list => list(run, state, blobs),
        StepStage::Completed => {
            let output = state.units.last().and_then(|unit| unit.output.as_ref());
            let output = output.ok_or_else(|| no_result("All"))?;
            output.kept(run, blobs)
        }
        StepStage::Pending
        | StepStage::Running
        | StepStage::Failed
        | StepStage::Skipped
        | StepStage::Blocked => Err(no_result("All")),
    }
}

/// The outputs of all units in order; null for one without.
fn list(run: &Run, state: &StepState, blobs: &dyn Blobs) -> Result<Bytes, Rejection> {
    let outputs = state.units.iter().filter_map(|unit| unit.output.as_ref());
    let total: u64 = outputs.map(|output| output.length).sum();
    if total > LIST_BYTES_MAX {
        return Err(too_large());
    }
    let mut list = ListBuilder::new();
    for unit in &state.units {
        let output = unit.output.as_ref().map(|output| output.kept(run, blobs));
        let output = output.transpose()?;
        list = match output.as_ref().map(|output| value(output)) {
            Some(Ok(view)) => list.value(view),
            _ => list.null(),
        };
    }
    let object = StructBuilder::new().list("list", list).build();
    let view = value_of(object.as_encoded(), "list").expect("it was put there just now");
    Ok(encoded(view))
}

fn too_large() -> Rejection {
    Rejection::failed(
        "RESULT_TOO_LARGE",
        "All of the result is too large for one answer: ask for one item by its index, or for a range.",
    )
}

/// Bytes of a value that is given as a whole: 2 MiB.
const WHOLE_BYTES_MAX: usize = 2 << 20;
/// Bytes of a list that is put together: 16 MiB.
const LIST_BYTES_MAX: u64 = 16 << 20;
/// Bytes of a range: 1 MiB.
const RANGE_BYTES_MAX: i64 = 1 << 20;
