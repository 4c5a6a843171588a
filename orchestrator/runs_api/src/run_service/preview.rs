//! `PreviewRun`: what can be said of a run before it starts. Stores nothing.

use super::Runs;
use super::create::{Resolved, as_it_would_be};
use crate::caller::Caller;
use crate::errors::Rejection;
use escapement_advice::{PayloadWarning, PlannedCall};
use escapement_model::Opaque;
use escapement_model::opaque::{ValueView, value_of};
use escapement_run::plan::{self, Plan, Violations, constraints};
use escapement_run::spec::Spec;
use escapement_run::{planner, preview};
use escapement_runs_shell::catalogue::{catalogue, input_schemas_of};
use escapement_runs_shell::{Origin, WorkOwner};
use escapement_store::runs::RunReader;
use escapement_wire::runs::v1;
use std::collections::{BTreeMap, BTreeSet};

impl Runs {
    pub(super) async fn preview_run(
        &self,
        request: v1::PreviewRunRequest,
        caller: &Caller,
    ) -> Result<v1::PreviewRunResponse, Rejection> {
        let request = request
            .run
            .ok_or_else(|| Rejection::field("run", "INVALID_ARGUMENT", "is required"))?;
        let made = self.made_by(&request, caller).await?;
        let resolved = match self.resolve_in_parent(&request, &made, caller).await? {
            Ok(resolved) => resolved,
            Err(violations) => return Ok(preview_of_none(&violations)),
        };
        let Resolved {
            spec, plan, profiles, ..
        } = &resolved;
        let preview = preview(plan, spec, profiles);
        let n = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let mut warnings: Vec<_> = preview.alone.iter().map(|reason| of_overlap(reason)).collect();
        warnings.extend(self.payload_warnings(plan, spec, &made.origin).await?);
        warnings.truncate(WARNINGS_MAX);
        Ok(v1::PreviewRunResponse {
            valid: true,
            violations: Vec::new(),
            warnings,
            attempts_max: n(preview.attempts_max),
            model_calls_max: n(preview.model_calls_max),
            tool_calls_max: n(preview.tool_calls_max),
            children_max: n(preview.children_max),
            active_ms_max: n(preview.active_ms_max),
            lifetime_ms: n(preview.lifetime_ms),
            plan_approval: preview.plan_approval,
            questions: preview.questions,
            gates: preview.gates,
            suggestions: self.suggestions(&preview.unknown_actions, &made.origin),
            unknown_actions: preview.unknown_actions,
            canonical_order: plan.steps.iter().map(|step| step.key.clone()).collect(),
            revision_digest: plan::revision_text(&plan.digest),
            planner_calls_max: preview.planner_calls_max.try_into().unwrap_or(i64::MAX),
            planner_prompt: self.planner_prompt(&resolved).await?,
            run: Some(as_it_would_be(resolved)),
        })
    }

    /// Returns, for each of these actions with a likely typing error, the similar ones among those the author
    /// may have called.
    fn suggestions(&self, unknown: &[String], origin: &Origin) -> Vec<v1::ActionSuggestion> {
        if unknown.is_empty() {
            return Vec::new();
        }
        let rights = self.runs.rights();
        let mut known = self.runs.seen().names();
        known.retain(|action| rights.permit(origin, action));
        let known = known.iter().map(String::as_str).collect();
        let suggested = escapement_advice::suggestions(unknown, &known).into_iter();
        let suggestions = suggested.map(|(action, similar)| v1::ActionSuggestion { action, similar });
        suggestions
            .filter(|suggestion| !suggestion.similar.is_empty())
            .collect()
    }

    /// Holds the arguments of the plan's calls against the schemas that workers publish now.
    async fn payload_warnings(
        &self,
        plan: &Plan,
        spec: &Spec,
        origin: &Origin,
    ) -> Result<Vec<v1::PlanViolation>, Rejection> {
        let arguments = constraints::arguments_of(plan);
        let mut called: BTreeSet<String> = arguments
            .iter()
            .map(|(_, action, _)| (*action).to_owned())
            .collect();
        if called.is_empty() {
            return Ok(Vec::new());
        }
        let rights = self.runs.rights();
        self.runs.seen().refresh().await;
        called.retain(|action| rights.permit(origin, action));
        let schemas = input_schemas_of(self.runs.seen(), &called);
        let plan = plan.clone();
        let owner = WorkOwner::new(&spec.namespace, &spec.user_id);
        let check = move |_: &dyn RunReader| Ok(warnings_of(&plan, &schemas));
        let check = self.runs.readers().read_long(owner, check);
        Ok(check.await?)
    }

    // RUN-11.4
    /// Returns the first prompt that the planner would get.
    async fn planner_prompt(&self, resolved: &Resolved) -> Result<Option<Opaque>, Rejection> {
        let spec = &resolved.spec;
        let Some(planner) = spec.planner.as_deref().filter(|_| !spec.goal.is_empty()) else {
            return Ok(None);
        };
        let allowed: BTreeSet<String> = planner.catalogue.iter().cloned().collect();
        let (rights, origin) = (self.runs.rights(), Origin::of(spec));
        let is_wanted = move |action: &str| {
            (allowed.is_empty() || allowed.contains(action)) && rights.permit(&origin, action)
        };
        let catalogue = catalogue(&self.runs, is_wanted).await?;
        Ok(planner::first_prompt(spec, planner, catalogue))
    }
}

fn warnings_of(plan: &Plan, schemas: &BTreeMap<String, String>) -> Vec<v1::PlanViolation> {
    let arguments = constraints::arguments_of(plan);
    let calls = arguments.iter().map(|(path, action, arguments)| PlannedCall {
        action,
        path: path.clone(),
        payload: arguments.as_encoded(),
    });
    let calls: Vec<PlannedCall<'_>> = calls.collect();
    let published = schemas
        .iter()
        .map(|(action, schema)| (action.as_str(), schema.as_str()));
    let schemas = escapement_advice::schemas_of(calls.iter().map(|call| call.action), &published.collect());
    let warnings = escapement_advice::of_payloads(&calls, &schemas, is_reference);
    let warnings = warnings
        .into_iter()
        .map(|PayloadWarning { path, message }| v1::PlanViolation {
            path,
            code: PayloadWarning::CODE.to_owned(),
            message,
        });
    warnings.collect()
}

// RUN-3.7
/// Returns the warning that steps run one at a time.
fn of_overlap(reason: &str) -> v1::PlanViolation {
    v1::PlanViolation {
        path: "parallel".to_owned(),
        code: "STEPS_RUN_ALONE".to_owned(),
        message: reason.to_owned(),
    }
}

/// Returns true if the value is known once the call is made: a text with a reference, or the long form of one.
fn is_reference(value: ValueView<'_>) -> bool {
    match value {
        ValueView::Text(text) => text.contains("${"),
        ValueView::Struct(object) => value_of(object, "$from").is_some(),
        ValueView::Null | ValueView::Bool(_) | ValueView::Number(_) | ValueView::List(_) => false,
    }
}

/// Returns the preview of a run with an invalid plan.
fn preview_of_none(violations: &Violations) -> v1::PreviewRunResponse {
    let violations = violations.iter().map(|violation| v1::PlanViolation {
        path: violation.path.clone(),
        code: violation.code.as_str().to_owned(),
        message: violation.message.clone(),
    });
    v1::PreviewRunResponse {
        violations: violations.collect(),
        ..v1::PreviewRunResponse::default()
    }
}

/// Warnings of a preview.
const WARNINGS_MAX: usize = 100;
