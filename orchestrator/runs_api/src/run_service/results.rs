//! `GetStepResult`: what a step came to, wherever it is kept.

use super::Runs;
use super::steps::step_named;
use crate::errors::Rejection;
use crate::fields::Fields;
use bytes::Bytes;
use escapement_model::hex;
use escapement_model::opaque::{ListBuilder, ValueView, value};
use escapement_model::{OpaqueValue, RunId};
use escapement_run::Run;
use escapement_run::journal::Stored;
use escapement_run::outcome::encoded;
use escapement_run::plan::StepKind;
use escapement_run::state::{StepStage, StepState};
use escapement_runs_shell::WorkOwner;
use escapement_store::StoreFault;
use escapement_store::runs::RunReader;
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
        let seen = self.look(run_id, move |run, _| {
            let index = step_named(run, &key)?;
            let parts = parts(run, &Wanted { index, unit })?;
            let spec = &run.state().spec;
            Ok::<_, Rejection>((parts, WorkOwner::new(&spec.namespace, &spec.user_id)))
        });
        let (parts, owner) = seen.await??;
        let read = self.runs.readers().read_long(owner, move |reader| {
            Ok(parts
                .together(reader)?
                .and_then(|result| answer(result, &request)))
        });
        read.await?
    }
}

/// The parts from which a result is assembled. The thread of runs only says where they are kept.
pub(super) struct Parts {
    /// Outputs of the units, one each; `None` for a unit without an output.
    outputs: Vec<Option<Stored>>,
    /// True if the result is the list of them, else it is the only one.
    is_list: bool,
}

impl Parts {
    fn one(output: &Stored) -> Self {
        Self {
            outputs: vec![Some(output.clone())],
            is_list: false,
        }
    }

    /// Returns the number of their bytes, without reading any.
    pub(super) fn n_bytes(&self) -> usize {
        let outputs = self.outputs.iter().flatten();
        let n_bytes: u64 = outputs.map(|output| output.length).sum();
        usize::try_from(n_bytes).unwrap_or(usize::MAX)
    }

    /// Returns the encoded value.
    ///
    /// # Errors
    /// [`StoreFault`] as the store fails; [`Rejection::Failed`] with `RUN_DISCARDED` if a part went with the run.
    pub(super) fn together(self, reader: &dyn RunReader) -> Result<Result<Bytes, Rejection>, StoreFault> {
        let mut list = ListBuilder::new();
        for output in &self.outputs {
            let output = match output {
                Some(output) => match load(reader, output)? {
                    Some(output) => Some(output),
                    None => return Ok(Err(discarded())),
                },
                None => None,
            };
            match output {
                Some(output) if !self.is_list => return Ok(Ok(output)),
                Some(output) => {
                    list = match value(&output) {
                        Ok(view) => list.value(view),
                        Err(_) => list.null(),
                    };
                }
                None => list = list.null(),
            }
        }
        let list = list.into_encoded();
        Ok(Ok(encoded(ValueView::List(&list))))
    }
}

/// Returns the kept value; `None` if it was discarded with the run.
fn load(reader: &dyn RunReader, stored: &Stored) -> Result<Option<Bytes>, StoreFault> {
    match stored.content() {
        Some(digest) => reader.content(&digest),
        None => Ok(Some(stored.inline.clone())),
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

/// Returns the parts in which the requested result is kept.
///
/// # Errors
/// [`Rejection::Failed`] with `NO_RESULT` or `RESULT_TOO_LARGE`.
pub(super) fn parts(run: &Run, wanted: &Wanted) -> Result<Parts, Rejection> {
    let (state, plan) = (&run.state().steps[wanted.index], &run.plan().steps[wanted.index]);
    let no_result = |what: &str| {
        let message = format!("{what} of step {} has no result.", plan.key);
        Rejection::failed("NO_RESULT", message)
    };
    if let Some(unit) = wanted.unit {
        let output = state.units.get(unit).and_then(|unit| unit.output.as_ref());
        let output = output.ok_or_else(|| no_result(&format!("Unit {unit}")))?;
        return Ok(Parts::one(output));
    }
    if let Some(output) = &state.output {
        return Ok(Parts::one(output));
    }
    let is_list = matches!(plan.kind, StepKind::Parallel(_) | StepKind::Loop(_));
    match state.stage() {
        // What a list has so far is a result, too.
        StepStage::Completed | StepStage::Failed if is_list => list(state),
        StepStage::Completed => {
            let output = state.units.last().and_then(|unit| unit.output.as_ref());
            output.map(Parts::one).ok_or_else(|| no_result("All"))
        }
        StepStage::Pending
        | StepStage::Running
        | StepStage::Failed
        | StepStage::Skipped
        | StepStage::Blocked => Err(no_result("All")),
    }
}

/// Returns the outputs of all units in order.
fn list(state: &StepState) -> Result<Parts, Rejection> {
    let outputs = state.units.iter().filter_map(|unit| unit.output.as_ref());
    let total: u64 = outputs.map(|output| output.length).sum();
    if total > LIST_BYTES_MAX {
        return Err(too_large());
    }
    Ok(Parts {
        outputs: state.units.iter().map(|unit| unit.output.clone()).collect(),
        is_list: true,
    })
}

fn discarded() -> Rejection {
    Rejection::failed(
        "RUN_DISCARDED",
        "The run was discarded; what is asked for is gone.",
    )
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
