//! What a run is made from: the request's own fields, else the saved plan's, else the operator's, else the preset's. Reads no plan.

mod limits;
mod planning;

use crate::fields::Fields;
use crate::header::Header;
use crate::intents::intents;
use crate::settings::{RESUME, RunSettings};
use escapement_model::ExecutionId;
use escapement_model::limits::{ACTION_CHARS_MAX, LABEL_CHARS_MAX, NAME_CHARS_MAX};
use escapement_run::ENVIRONMENT_KEY;
use escapement_run::presets::Preset;
use escapement_run::spec::{
    Constraints, DEFAULT_USER, DependencyDefault, FailureDefault, InDoubt, Notices, Policy, Spec,
};
use escapement_wire::runs::v1;
use limits::override_limits;
use std::sync::LazyLock;

pub(crate) use planning::{fallback_view, plan_of_goal, planner_view};

/// What a saved plan says about its runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Defaults {
    /// The plan; empty if the run is not one of a saved plan.
    pub plan_id: String,
    /// The preset.
    pub preset: Option<Preset>,
    /// 0 to 4.
    pub autonomy_level: Option<u32>,
    /// 1 to 10.
    pub priority: Option<u32>,
    /// Active time of a run in milliseconds; 0 for what the preset says.
    pub run_ms: u64,
    /// Retries of a failed run.
    pub max_retries: Option<u32>,
}

/// Reads everything of the request but what is run, and resolves it.
pub(crate) fn spec_of(
    request: &v1::CreateRunRequest,
    defaults: &Defaults,
    settings: &RunSettings,
    fields: &mut Fields,
) -> Spec {
    not_offered(request, fields);
    let preset = preset(request, defaults, fields);
    let autonomy_level = small(fields, "autonomy_level", request.autonomy_level, 0..=4)
        .or(defaults.autonomy_level)
        .or(settings.default_autonomy_level)
        .unwrap_or_else(|| match &request.what {
            Some(v1::create_run_request::What::Document(_)) if request.planner.is_none() => {
                preset.own_autonomy_level()
            }
            _ => preset.autonomy_level(),
        });
    let priority = small(fields, "priority", request.priority, 1..=10)
        .or(defaults.priority)
        .unwrap_or(PRIORITY);
    let (mut limits, mut policy) = (preset.limits(*N_CORES), preset.policy());
    settings.replace(&mut limits, &mut policy);
    if defaults.run_ms > 0 {
        limits.run_ms = defaults.run_ms;
    }
    if let Some(wanted) = &request.limits {
        override_limits(&mut limits, wanted, fields);
    }
    let mut safety_action = String::new();
    if let Some(wanted) = &request.policy {
        override_policy(&mut policy, wanted, fields);
        fields.text(
            "policy.safety_action",
            &wanted.safety_action,
            0..=ACTION_CHARS_MAX,
        );
        safety_action.clone_from(&wanted.safety_action);
    }
    objects(request, fields);
    fields.note("user_id", &request.user_id);
    fields.session_id("session_id", &request.session_id, 0..=SESSION_ID_CHARS_MAX);
    fields.text("locale", &request.locale, 0..=LOCALE_CHARS_MAX);
    let notices = notices(request, preset, fields);
    fields.note("request_id", &request.request_id);
    fields.text("llm_action", &request.llm_action, 0..=ACTION_CHARS_MAX);
    fields.note("llm_model", &request.llm_model);
    if !request.parent_execution_id.is_empty() {
        fields.id::<ExecutionId>("parent_execution_id", &request.parent_execution_id);
    }
    let spec = Spec {
        input: request.input.clone().unwrap_or_default(),
        environment: request.environment.clone().unwrap_or_default(),
        limits,
        policy,
        autonomy_level,
        user_id: owner(&request.user_id).to_owned(),
        request_id: request.request_id.clone(),
        priority,
        llm_action: or(&request.llm_action, LLM_ACTION),
        llm_model: request.llm_model.clone(),
        parent_execution_id: request.parent_execution_id.to_ascii_lowercase(),
        preset: preset.as_str().to_owned(),
        session_id: request.session_id.clone(),
        locale: request.locale.clone(),
        notices: notices.into(),
        header: header(request, defaults, fields).encoded(),
        safety_action,
        constraints: constraints(request, preset, fields),
        budget: crate::budget::budget(request, fields),
        ..Spec::default()
    };
    planning::resolve(request, preset, spec, fields)
}

fn not_offered(request: &v1::CreateRunRequest, fields: &mut Fields) {
    fields.not_offered("agent", !request.agent.is_empty(), "profiles of agents");
    let retries_itself = request.policy.as_ref().and_then(|policy| policy.auto_retry) == Some(true);
    fields.not_offered("policy.auto_retry", retries_itself, "retries of its own accord");
}

// RUN-12.5, RUN-12.11
/// What the request demands of plans; of an intent to make something, that it is made.
fn constraints(request: &v1::CreateRunRequest, preset: Preset, fields: &mut Fields) -> Constraints {
    let Some(wanted) = &request.constraints else {
        let query = match &request.what {
            Some(v1::create_run_request::What::Goal(goal)) => goal.as_str(),
            _ => "",
        };
        let intent = match request.intent.as_str() {
            "" => intents().classify(query),
            own => intents().named(own),
        };
        let made = intent.filter(|intent| intent.generates && preset == Preset::Protocol);
        return Constraints {
            must_produce: made
                .map(|intent| intent.artifact_type.clone())
                .into_iter()
                .collect(),
            ..Constraints::default()
        };
    };
    let of = |name: &str| format!("constraints.{name}");
    fields.texts(
        &of("must_produce"),
        &wanted.must_produce,
        TYPES_MAX,
        1..=LABEL_CHARS_MAX,
    );
    fields.note(&of("expected_artifact_type"), &wanted.expected_artifact_type);
    for (name, actions) in [
        ("allowed_actions", &wanted.allowed_actions),
        ("forbidden_actions", &wanted.forbidden_actions),
    ] {
        fields.texts(&of(name), actions, ACTIONS_MAX, 1..=ACTION_CHARS_MAX);
    }
    Constraints {
        must_produce: wanted.must_produce.clone(),
        expected_artifact_type: wanted.expected_artifact_type.clone(),
        allowed_actions: wanted.allowed_actions.clone(),
        forbidden_actions: wanted.forbidden_actions.clone(),
    }
}

fn preset(request: &v1::CreateRunRequest, defaults: &Defaults, fields: &mut Fields) -> Preset {
    if request.preset.is_empty() {
        return defaults.preset.unwrap_or(Preset::Standard);
    }
    let words = Preset::ALL.map(|preset| (preset.as_str(), preset));
    let preset = fields.word("preset", &request.preset, &words);
    preset.unwrap_or(Preset::Standard)
}

/// What the user is told.
fn notices(request: &v1::CreateRunRequest, preset: Preset, fields: &mut Fields) -> Notices {
    if !request.notices.is_empty() {
        let word = fields.word("notices", &request.notices, &NOTICES);
        return word.unwrap_or(Notices::None);
    }
    match preset == Preset::PlanMode || !request.session_id.is_empty() {
        true => Notices::All,
        false => Notices::None,
    }
}

fn objects(request: &v1::CreateRunRequest, fields: &mut Fields) {
    if let Some(input) = &request.input {
        fields.object("input", input, OBJECT_BYTES_MAX);
    }
    if let Some(environment) = &request.environment {
        fields.object("environment", environment, OBJECT_BYTES_MAX);
        if environment.has_key(ENVIRONMENT_KEY) {
            fields.wrong(
                "environment",
                format!("must not have the key {ENVIRONMENT_KEY}, which is reserved"),
            );
        }
    }
    if let Some(metadata) = &request.metadata {
        fields.object("metadata", metadata, METADATA_BYTES_MAX);
    }
}

fn header(request: &v1::CreateRunRequest, defaults: &Defaults, fields: &mut Fields) -> Header {
    fields.text("name", &request.name, 0..=NAME_CHARS_MAX);
    for (field, note) in [
        ("intent", &request.intent),
        ("goal_id", &request.goal_id),
        ("trigger_id", &request.trigger_id),
        ("source", &request.source),
        ("source_id", &request.source_id),
    ] {
        fields.note(field, note);
    }
    if request.labels.len() > LABELS_MAX {
        fields.wrong(
            "labels",
            format!(
                "must have at most {LABELS_MAX} entries, has {}",
                request.labels.len()
            ),
        );
    } else {
        for (key, value) in &request.labels {
            fields.text("labels", key, 1..=LABEL_CHARS_MAX);
            fields.text(&format!("labels[{key:?}]"), value, 0..=LABEL_VALUE_CHARS_MAX);
        }
    }
    Header {
        name: request.name.clone(),
        labels: request.labels.clone(),
        metadata: request.metadata.clone().unwrap_or_default(),
        intent: request.intent.clone(),
        goal_id: request.goal_id.clone(),
        trigger_id: request.trigger_id.clone(),
        source: request.source.clone(),
        source_id: request.source_id.clone(),
        plan_id: defaults.plan_id.clone(),
        chain_id: String::new(),
        retry_count: 0,
        max_retries: defaults.max_retries.unwrap_or(RETRIES),
        trigger_depth: 0,
        plan_name: String::new(),
        plan_goal: String::new(),
    }
}

fn override_policy(policy: &mut Policy, wanted: &v1::Policy, fields: &mut Fields) {
    word(
        fields,
        "policy.resume",
        &wanted.resume,
        &RESUME,
        &mut policy.resume,
    );
    word(
        fields,
        "policy.ambiguity",
        &wanted.ambiguity,
        &IN_DOUBT,
        &mut policy.ambiguity,
    );
    let timed_out = &mut policy.ambiguous_timeout;
    word(
        fields,
        "policy.ambiguous_timeout",
        &wanted.ambiguous_timeout,
        &IN_DOUBT,
        timed_out,
    );
    word(
        fields,
        "policy.on_failure",
        &wanted.on_failure,
        &ON_FAILURE,
        &mut policy.on_failure,
    );
    let dependency = &mut policy.on_dependency_failure;
    let wanted_word = &wanted.on_dependency_failure;
    word(
        fields,
        "policy.on_dependency_failure",
        wanted_word,
        &ON_DEPENDENCY_FAILURE,
        dependency,
    );
    policy.escalate = wanted.escalate.unwrap_or(policy.escalate);
    policy.four_eyes = wanted.four_eyes.unwrap_or(policy.four_eyes);
    policy.async_by_default = wanted.async_by_default.unwrap_or(policy.async_by_default);
    if wanted.approvers.len() > APPROVERS_MAX {
        fields.wrong(
            "policy.approvers",
            format!("must have at most {APPROVERS_MAX} entries"),
        );
    } else {
        for (index, approver) in wanted.approvers.iter().enumerate() {
            fields.text(
                &format!("policy.approvers[{index}]"),
                approver,
                1..=LABEL_CHARS_MAX,
            );
        }
        policy.approvers.clone_from(&wanted.approvers);
    }
    if let Some(quorum) = small(fields, "policy.quorum", wanted.quorum, 1..=16) {
        policy.quorum = quorum;
    }
    let n_approvers = policy.approvers.len();
    if n_approvers > 0 && fields.are_right() && policy.quorum as usize > n_approvers {
        fields.wrong(
            "policy.quorum",
            format!("must be at most the number of approvers, {n_approvers}"),
        );
    }
}

fn word<T: Copy + Into<i32>>(
    fields: &mut Fields,
    field: &str,
    text: &str,
    words: &[(&str, T)],
    to: &mut i32,
) {
    if text.is_empty() {
        return;
    }
    if let Some(found) = fields.word(field, text, words) {
        *to = found.into();
    }
}

fn small(
    fields: &mut Fields,
    field: &str,
    number: Option<i32>,
    range: std::ops::RangeInclusive<i32>,
) -> Option<u32> {
    let number = number?;
    fields.number(field, number, range);
    u32::try_from(number).ok()
}

/// Whose run it is.
pub(crate) fn owner(user_id: &str) -> &str {
    if user_id.is_empty() { DEFAULT_USER } else { user_id }
}

fn or(text: &str, default: &str) -> String {
    if text.is_empty() { default } else { text }.to_owned()
}

/// Asked once: the answer takes six reads of files.
static N_CORES: LazyLock<u32> = LazyLock::new(|| {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    u32::try_from(cores).unwrap_or(1)
});
/// What is done about an effect in doubt, as it is spelled.
pub(crate) const IN_DOUBT: [(&str, InDoubt); 3] = [
    ("ask", InDoubt::Ask),
    ("fail", InDoubt::Fail),
    ("retry", InDoubt::Retry),
];
/// What a final failure leads to, as it is spelled.
pub(crate) const ON_FAILURE: [(&str, FailureDefault); 3] = [
    ("abort", FailureDefault::Abort),
    ("drain", FailureDefault::Drain),
    ("skip", FailureDefault::Skip),
];
/// What a failed dependency leads to, as it is spelled.
pub(crate) const ON_DEPENDENCY_FAILURE: [(&str, DependencyDefault); 5] = [
    ("skip", DependencyDefault::Skip),
    ("null_if_optional", DependencyDefault::NullIfOptional),
    ("null_input", DependencyDefault::Null),
    ("synthetic", DependencyDefault::Synthetic),
    ("block", DependencyDefault::Block),
];

/// What the user of a run is told, as it is spelled.
pub(crate) const NOTICES: [(&str, Notices); 3] = [
    ("none", Notices::None),
    ("end", Notices::End),
    ("all", Notices::All),
];

/// Code points of the id of a session.
pub(crate) const SESSION_ID_CHARS_MAX: usize = 128;
/// Code points of a language: what RFC 5646 asks for.
const LOCALE_CHARS_MAX: usize = 35;
/// The action that `llm_decision` steps call if the request does not say.
pub(crate) const LLM_ACTION: &str = "llm.chat";
/// The priority of a run if neither the request nor a saved plan says.
const PRIORITY: u32 = 5;
/// Retries of a failed run in a chain if no saved plan says.
const RETRIES: u32 = 3;
/// Bytes of an input, or of an environment: 1 MiB.
const OBJECT_BYTES_MAX: usize = 1 << 20;
/// Bytes of the metadata: 64 KiB.
const METADATA_BYTES_MAX: usize = 64 << 10;
const LABELS_MAX: usize = 64;
const LABEL_VALUE_CHARS_MAX: usize = 1024;
const APPROVERS_MAX: usize = 64;
/// Types of artifacts that a run must produce.
const TYPES_MAX: usize = 16;
/// Actions that are allowed, or forbidden.
const ACTIONS_MAX: usize = 256;

#[cfg(test)]
mod tests;
