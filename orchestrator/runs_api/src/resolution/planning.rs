//! Who makes the plans of a run, and what it has if they fail: as the request says, else the defaults. Asks nobody.

use super::or;
use crate::fields::Fields;
use escapement_model::Opaque;
use escapement_model::limits::ACTION_CHARS_MAX;
use escapement_model::opaque::StructBuilder;
use escapement_run::plan::{self, Plan};
use escapement_run::presets::Preset;
use escapement_run::spec::{Fallback, FallbackAction, FallbackKind, Planner, Spec, Templates};
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::create_run_request::What;
use escapement_wire::runs::v1::fallback::Kind;

/// Resolves planner, fallback and goal.
pub(super) fn resolve(
    request: &v1::CreateRunRequest,
    preset: Preset,
    spec: Spec,
    fields: &mut Fields,
) -> Spec {
    let goal = match &request.what {
        Some(What::Goal(goal)) => {
            fields.text("goal", goal, 1..=GOAL_CHARS_MAX);
            goal.clone()
        }
        _ => String::new(),
    };
    let planner = match (&request.planner, goal.is_empty()) {
        (Some(wanted), _) => Some(Box::new(planner(wanted, preset, fields))),
        (None, false) => Some(Box::new(planner(&v1::Planner::default(), preset, fields))),
        (None, true) => None,
    };
    let fallback = match &request.fallback {
        Some(wanted) => fallback(wanted, fields),
        None if planner.is_some() => preset.fallback(),
        None => None,
    };
    Spec {
        planner,
        fallback,
        goal,
        ..spec
    }
}

fn planner(wanted: &v1::Planner, preset: Preset, fields: &mut Fields) -> Planner {
    fields.text("planner.action", &wanted.action, 0..=ACTION_CHARS_MAX);
    fields.note("planner.model", &wanted.model);
    fields.text(
        "planner.instructions",
        &wanted.instructions,
        0..=INSTRUCTIONS_CHARS_MAX,
    );
    if let Some(parameters) = &wanted.parameters {
        fields.object("planner.parameters", parameters, PARAMETERS_BYTES_MAX);
    }
    if wanted.limit_ms != 0 {
        fields.because(
            "planner.limit_ms",
            "OUTPUT_ONLY",
            "is set by the operator alone (--planner-limit-ms)",
        );
    }
    let mut catalogue = wanted.catalogue.clone();
    if catalogue.len() > CATALOGUE_MAX {
        fields.wrong(
            "planner.catalogue",
            format!("must have at most {CATALOGUE_MAX} entries"),
        );
        catalogue.clear();
    }
    for (index, action) in catalogue.iter().enumerate() {
        fields.text(
            &format!("planner.catalogue[{index}]"),
            action,
            1..=ACTION_CHARS_MAX,
        );
    }
    catalogue.sort();
    catalogue.dedup();
    Planner {
        action: or(&wanted.action, super::LLM_ACTION),
        model: wanted.model.clone(),
        parameters: wanted.parameters.clone().unwrap_or_default(),
        catalogue,
        instructions: wanted.instructions.clone(),
        limit_ms: preset.generation_ms(),
    }
}

fn fallback(wanted: &v1::Fallback, fields: &mut Fields) -> Option<Fallback> {
    let kind = match &wanted.kind {
        None => {
            fields.wrong("fallback", "must have templates, an output or an action");
            return None;
        }
        Some(Kind::Action(wanted)) => FallbackKind::Action(fallback_action(wanted, fields)),
        Some(Kind::Output(output)) => {
            fields.object("fallback.output", output, OUTPUT_BYTES_MAX);
            FallbackKind::Output(output.clone())
        }
        Some(Kind::Templates(templates)) => {
            if !(1..=TEMPLATES_MAX).contains(&templates.texts.len()) {
                let field = "fallback.templates.texts";
                fields.wrong(field, format!("must have 1 to {TEMPLATES_MAX} entries"));
                return None;
            }
            for (index, text) in templates.texts.iter().enumerate() {
                let field = format!("fallback.templates.texts[{index}]");
                fields.text(&field, text, 1..=GOAL_CHARS_MAX);
            }
            FallbackKind::Templates(Templates {
                texts: templates.texts.clone(),
            })
        }
    };
    Some(Fallback { kind: Some(kind) })
}

// RUN-11.11
fn fallback_action(wanted: &v1::FallbackAction, fields: &mut Fields) -> FallbackAction {
    let payload = wanted.payload.clone().unwrap_or_default();
    let action = FallbackAction {
        action: wanted.action.clone(),
        payload,
    };
    let field = "fallback.action.payload";
    if action.payload.len() > PARAMETERS_BYTES_MAX {
        fields.object(field, &action.payload, PARAMETERS_BYTES_MAX);
    } else if !wanted.action.is_empty()
        && let Err(violations) = plan::fallback(&action)
    {
        fields.wrong(field, violations.to_string());
    }
    fields.text("fallback.action.action", &wanted.action, 1..=ACTION_CHARS_MAX);
    action
}

/// What stands for the goal of a run until its first plan is made: a plan without steps.
pub(crate) fn plan_of_goal(name: &str, goal: &str) -> Plan {
    let name: String = if name.is_empty() { goal } else { name }
        .chars()
        .take(NAME_CHARS)
        .collect();
    let document = StructBuilder::new()
        .text("schema", "escapement.plan/1")
        .text("name", &name)
        .text("goal", goal)
        .list("steps", escapement_model::opaque::ListBuilder::new())
        .build();
    plan::read(&document).expect("a goal of a checked length makes a plan")
}

/// Who makes plans, as it is shown.
pub(crate) fn planner_view(planner: &Planner) -> v1::Planner {
    v1::Planner {
        action: planner.action.clone(),
        model: planner.model.clone(),
        parameters: Some(planner.parameters.clone()).filter(|parameters: &Opaque| !parameters.is_empty()),
        catalogue: planner.catalogue.clone(),
        instructions: planner.instructions.clone(),
        limit_ms: i64::try_from(planner.limit_ms).unwrap_or(i64::MAX),
    }
}

/// What the run has if its plans failed, as it is shown.
pub(crate) fn fallback_view(fallback: &Fallback) -> v1::Fallback {
    let kind = fallback.kind.as_ref().map(|kind| match kind {
        FallbackKind::Output(output) => Kind::Output(output.clone()),
        FallbackKind::Templates(templates) => Kind::Templates(v1::FallbackTemplates {
            texts: templates.texts.clone(),
        }),
        FallbackKind::Action(action) => Kind::Action(v1::FallbackAction {
            action: action.action.clone(),
            payload: Some(action.payload.clone()),
        }),
    });
    v1::Fallback { kind }
}

const GOAL_CHARS_MAX: usize = 5_000;
const INSTRUCTIONS_CHARS_MAX: usize = 20_000;
/// Bytes of a planner's parameters, and of what a fallback sends: 16 KiB.
const PARAMETERS_BYTES_MAX: usize = 16 << 10;
const CATALOGUE_MAX: usize = 256;
const TEMPLATES_MAX: usize = 64;
/// Bytes of a fallback's output: 1 MiB.
const OUTPUT_BYTES_MAX: usize = 1 << 20;
/// Code points of the name of a run that is made from a goal and has none.
const NAME_CHARS: usize = 255;
