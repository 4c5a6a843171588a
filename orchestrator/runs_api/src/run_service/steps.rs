//! `ListRunSteps`, `GetRunStep` and `ListCheckpoints`.

use super::Runs;
use crate::errors::Rejection;
use crate::fields::{self, Fields};
use crate::journal::forward;
use crate::paging;
use crate::revision_plans::RevisionPlans;
use crate::run_service::results::{Wanted, parts};
use crate::views::{AttemptsFold, Document, result_view, step_objects, step_view};
use escapement_model::{Opaque, RunId};
use escapement_run::state::Checkpoint;
use escapement_run::{Blobs, Run};
use escapement_wire::runs::v1;
use std::sync::Arc;

impl Runs {
    pub(super) async fn list_run_steps(
        &self,
        request: v1::ListRunStepsRequest,
    ) -> Result<v1::ListRunStepsResponse, Rejection> {
        let mut fields = Fields::default();
        let run_id = fields.id::<RunId>("run_id", &request.run_id);
        let page_size = fields.page_size(request.page_size, PAGE_STEPS, PAGE_STEPS_MAX);
        fields.conclude()?;
        let run_id = run_id.expect("an id that is missing is a problem");
        let filters = ("steps", run_id);
        let first = paging::number(&request.page_token, &filters)?.unwrap_or(0);
        let first = usize::try_from(first).unwrap_or(usize::MAX);
        let seen = self.look(run_id, move |run, _| {
            let specs = step_objects(run.plan());
            let page = specs.into_iter().enumerate().skip(first).take(page_size);
            let steps: Vec<_> = page
                .map(|(index, spec)| step_view(run, index, Some(spec)))
                .collect();
            (steps, run.plan().steps.len())
        });
        let (steps, total) = seen.await?;
        let next = first.saturating_add(steps.len());
        Ok(v1::ListRunStepsResponse {
            next_page_token: match next < total {
                true => paging::token([next as u64, 0, 0], &filters),
                false => String::new(),
            },
            steps,
            total_steps: i32::try_from(total).unwrap_or(i32::MAX),
        })
    }

    pub(super) async fn get_run_step(
        &self,
        request: v1::GetRunStepRequest,
    ) -> Result<v1::GetRunStepResponse, Rejection> {
        let run_id: RunId = fields::id("run_id", &request.run_id)?;
        let seen = self.look(run_id, move |run, _| {
            let index = step_named(run, &request.step_key)?;
            let spec = step_objects(run.plan()).into_iter().nth(index);
            let step = step_view(run, index, spec);
            let parts = parts(run, &Wanted { index, unit: None }).ok();
            let shown = parts.filter(|parts| parts.n_bytes() <= RESULT_VIEW_BYTES_MAX);
            let shown = shown.map(|parts| (parts, Arc::clone(run.plan()), index));
            Ok::<_, Rejection>((step, RevisionPlans::of(run), run.state().sequence, shown))
        });
        let (mut step, mut plans, last, shown) = seen.await??;
        if let Some((parts, plan, index)) = shown {
            let output = self
                .runs
                .readers()
                .read(move |reader| parts.together(reader))
                .await?
                .ok();
            let shown = output
                .as_ref()
                .filter(|output| output.len() <= RESULT_VIEW_BYTES_MAX);
            let view = shown.and_then(|output| escapement_model::opaque::value(output).ok());
            step.result_view = view.map(|view| result_view(&plan.steps[index], view));
        }
        let mut fold = AttemptsFold::new(run_id, plans.seed());
        let mut attempts = Vec::new();
        let mut next = last.saturating_sub(ATTEMPTS_SCANNED).max(1);
        while next <= last {
            let stretch = forward(&self.runs, run_id, next, usize::MAX, SCAN_BYTES).await?;
            let Some((entry, _)) = stretch.entries.last() else {
                break;
            };
            next = entry.sequence + 1;
            plans = plans.with_those_of(&self.runs, &stretch.entries).await?;
            let entries = stretch.entries.iter();
            let settled = entries.flat_map(|(entry, _)| fold.take(entry, plans.at(entry.sequence)));
            attempts.extend(settled.filter(|attempt| attempt.step_key() == step.step_key));
        }
        attempts.extend(
            fold.living()
                .filter(|attempt| attempt.step_key() == step.step_key),
        );
        let hidden = attempts.len().saturating_sub(ATTEMPTS_MAX);
        step.attempts = attempts[hidden..]
            .iter()
            .map(|attempt| fold.attempt_view(attempt))
            .collect();
        Ok(v1::GetRunStepResponse { step: Some(step) })
    }

    pub(super) async fn list_checkpoints(
        &self,
        request: v1::ListCheckpointsRequest,
    ) -> Result<v1::ListCheckpointsResponse, Rejection> {
        let mut fields = Fields::default();
        let run_id = fields.id::<RunId>("run_id", &request.run_id);
        let page_size = fields.page_size(request.page_size, PAGE_CHECKPOINTS, PAGE_CHECKPOINTS_MAX);
        fields.conclude()?;
        let run_id = run_id.expect("an id that is missing is a problem");
        let filters = ("checkpoints", run_id);
        let after = paging::number(&request.page_token, &filters)?.unwrap_or(0);
        let seen = self.look(run_id, move |run, blobs| {
            let behind = run.state().checkpoints.iter();
            let behind: Vec<_> = behind.filter(|point| u64::from(point.number) > after).collect();
            let mut bytes = 0;
            let fits = |point: &&&Checkpoint| {
                bytes += point.data.length;
                bytes <= CHECKPOINTS_BYTES_MAX || bytes == point.data.length
            };
            let page = behind.iter().take(page_size).take_while(fits);
            let page: Vec<_> = page.map(|point| checkpoint(run, point, blobs)).collect();
            let has_more = page.len() < behind.len();
            (page, has_more)
        });
        let (checkpoints, has_more) = seen.await?;
        let last = checkpoints.last().map_or(0, |point| point.number);
        Ok(v1::ListCheckpointsResponse {
            checkpoints,
            next_page_token: match has_more {
                true => paging::token([u64::try_from(last).unwrap_or(0), 0, 0], &filters),
                false => String::new(),
            },
        })
    }
}

/// The position of the step with this key.
///
/// # Errors
/// [`Rejection::Problems`] with `UNKNOWN_STEP` and the keys that there are.
pub(super) fn step_named(run: &Run, key: &str) -> Result<usize, Rejection> {
    let found = run.plan().steps.iter().position(|step| step.key == key);
    found.ok_or_else(|| unknown_step("step_key", run))
}

/// Names the keys that there are.
pub(super) fn unknown_step(field: &str, run: &Run) -> Rejection {
    let keys: Vec<&str> = run.plan().steps.iter().map(|step| step.key.as_str()).collect();
    Rejection::field(
        field,
        "UNKNOWN_STEP",
        match keys.as_slice() {
            [] => "the plan has no steps".to_owned(),
            keys => format!("must be one of {}", keys.join(", ")),
        },
    )
}

/// The checkpoint of this number, or the newest one.
pub(super) fn point_named(run: &Run, number: Option<u32>) -> Option<&Checkpoint> {
    let mut points = run.state().checkpoints.iter();
    match number {
        Some(number) => points.find(|point| point.number == number),
        None => points.next_back(),
    }
}

/// A checkpoint as a message.
pub(super) fn checkpoint(run: &Run, point: &Checkpoint, blobs: &dyn Blobs) -> v1::Checkpoint {
    let is_current = point.revision_number == run.state().revision_number;
    let steps = point.completed.iter().filter(|_| is_current);
    let key = |step: &u32| run.plan().steps.get(*step as usize).map(|step| step.key.clone());
    v1::Checkpoint {
        number: i32::try_from(point.number).unwrap_or(i32::MAX),
        at: point.at,
        data: Some(Opaque::from_encoded(point.data.load(blobs))),
        completed_steps: steps.filter_map(key).collect(),
        revision_number: i32::try_from(point.revision_number).unwrap_or(i32::MAX),
    }
}

const PAGE_STEPS: i32 = 100;
const PAGE_STEPS_MAX: i32 = 1024;
const PAGE_CHECKPOINTS: i32 = 20;
const PAGE_CHECKPOINTS_MAX: i32 = 64;
/// Bytes of the data of a page of checkpoints: 2 MiB.
const CHECKPOINTS_BYTES_MAX: u64 = 2 << 20;
/// Attempts that a step is shown with.
const ATTEMPTS_MAX: usize = 100;
/// Entries in which they are looked for.
const ATTEMPTS_SCANNED: u64 = 4096;
/// Bytes of these that are read at a time.
const SCAN_BYTES: usize = 1 << 20;
/// Bytes of a result that is shown in the words of stored plans.
const RESULT_VIEW_BYTES_MAX: usize = 32_768;
