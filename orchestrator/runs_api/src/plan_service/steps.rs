//! Single steps of a saved plan: added, replaced, taken out.

use escapement_model::Opaque;
use escapement_run::plan::{self, Violations};
use escapement_runs_shell::RunsHandle;
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::add_plan_step_request::Form;

use super::document::{free_key, key_of, steps_of, with_key, with_steps};
use super::draft::Draft;
use super::flat_step::{flat_path, step_of};
use super::reading::{repeatable, target};
use super::saving::change;
use super::view::plan_view;
use super::{read, required};
use crate::caller::Caller;
use crate::errors::{Problem, Rejection};
use crate::fields::Fields;

/// Adds a step.
///
/// # Errors
/// [`Rejection`].
pub(crate) async fn add(
    runs: &RunsHandle,
    request: v1::AddPlanStepRequest,
    caller: Caller,
) -> Result<v1::AddPlanStepResponse, Rejection> {
    let repeated = repeatable(&request.request_id, &request);
    let target = target(
        &request.plan_id,
        &request.user_id,
        &request.etag,
        repeated,
        Some(caller),
    )?;
    let form = request.form.ok_or_else(|| required("step"))?;
    // What is wrong with it whatever the plan is.
    new_step(&form, &[])?;
    let edit = move |draft: &mut Draft| {
        let mut steps = steps_of(&draft.document);
        let place = steps.len();
        let (key, step) = new_step(&form, &steps)?;
        steps.push(step);
        let document = with_steps(&draft.document, &steps);
        let read = plan::read_with_new_step(&document, &key).and_then(plan::carried_out);
        draft.plan = Some(read.map_err(|violations| {
            wrong(&violations, place, |path| match &form {
                Form::Step(_) => format!("step.{path}"),
                Form::Flat(_) => flat_path(path),
            })
        })?);
        draft.step_key = key;
        Ok(())
    };
    let shown = change(runs, target, edit).await?;
    let plan = plan_view(&shown);
    Ok(v1::AddPlanStepResponse {
        step_key: shown.step_key,
        total_steps: plan.total_steps,
        plan: Some(plan),
    })
}

/// Replaces a step.
///
/// # Errors
/// [`Rejection`].
pub(crate) async fn update(
    runs: &RunsHandle,
    request: v1::UpdatePlanStepRequest,
    caller: Caller,
) -> Result<v1::Plan, Rejection> {
    let repeated = repeatable(&request.request_id, &request);
    let target = target(
        &request.plan_id,
        &request.user_id,
        &request.etag,
        repeated,
        Some(caller),
    )?;
    let step_key = request.step_key;
    let step = request.step.ok_or_else(|| required("step"))?;
    checked("step", &step)?;
    if ![step_key.as_str(), ""].contains(&key_of(&step)) {
        let message = format!("must be {step_key:?} or absent");
        return Err(Rejection::field("step.key", "INVALID_ARGUMENT", message));
    }
    let edit = move |draft: &mut Draft| {
        let mut steps = steps_of(&draft.document);
        let place = place_of(&steps, &step_key)?;
        steps[place] = with_key(&step, &step_key);
        let read = plan::read(&with_steps(&draft.document, &steps)).and_then(plan::carried_out);
        let plan = read.map_err(|violations| wrong(&violations, place, |path| format!("step.{path}")))?;
        draft.plan = Some(plan);
        Ok(())
    };
    change(runs, target, edit).await.map(|shown| plan_view(&shown))
}

/// Takes a step out.
///
/// # Errors
/// [`Rejection`].
pub(crate) async fn delete(
    runs: &RunsHandle,
    request: v1::DeletePlanStepRequest,
) -> Result<v1::Plan, Rejection> {
    let repeated = repeatable(&request.request_id, &request);
    let target = target(&request.plan_id, &request.user_id, &request.etag, repeated, None)?;
    let step_key = request.step_key;
    let edit = move |draft: &mut Draft| {
        let mut steps = steps_of(&draft.document);
        let place = place_of(&steps, &step_key)?;
        steps.remove(place);
        draft.plan = Some(read("document", &with_steps(&draft.document, &steps))?);
        Ok(())
    };
    change(runs, target, edit).await.map(|shown| plan_view(&shown))
}

/// Where the step of that key is.
fn place_of(steps: &[Opaque], step_key: &str) -> Result<usize, Rejection> {
    let place = steps.iter().position(|step| key_of(step) == step_key);
    place.ok_or_else(|| {
        let keys: Vec<&str> = steps.iter().map(key_of).collect();
        let message = match keys.is_empty() {
            true => "names no step: the plan has none".to_owned(),
            false => format!("must be one of {}", keys.join(", ")),
        };
        Rejection::field("step_key", "UNKNOWN_STEP", message)
    })
}

/// A new step and its key.
fn new_step(form: &Form, steps: &[Opaque]) -> Result<(String, Opaque), Rejection> {
    let given = match form {
        Form::Step(step) => {
            checked("step", step)?;
            key_of(step)
        }
        Form::Flat(flat) => &flat.key,
    };
    let key = match given {
        "" => free_key(steps),
        given => given.to_owned(),
    };
    let step = match form {
        Form::Step(step) => with_key(step, &key),
        Form::Flat(flat) => {
            let mut fields = Fields::default();
            let step = step_of(flat, &key, &mut fields);
            fields.conclude()?;
            step
        }
    };
    Ok((key, step))
}

/// An object that can be taken apart.
fn checked(field: &str, object: &Opaque) -> Result<(), Rejection> {
    let mut fields = Fields::default();
    fields.object(field, object, STEP_BYTES_MAX);
    fields.conclude()
}

/// Violations of a document as those of the step that the request brings, where they are of that.
fn wrong(violations: &Violations, place: usize, path_in_step: impl Fn(&str) -> String) -> Rejection {
    let own = format!("steps[{place}].");
    let problems = violations.iter().map(|violation| Problem {
        field: match violation.path.strip_prefix(&own) {
            Some(path) => path_in_step(path),
            None if violation.path == "document" => violation.path.clone(),
            None => format!("document.{}", violation.path),
        },
        reason: violation.code.as_str(),
        message: violation.message.clone(),
    });
    Rejection::PlanWrong(problems.collect())
}

/// Bytes of one step: those of a document.
const STEP_BYTES_MAX: usize = 1 << 20;
