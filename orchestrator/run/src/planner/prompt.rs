//! What a planner is sent: an object, or for `llm.chat` messages that say the same. The same question gives the same bytes.

use crate::catalogue::Catalogue;
use crate::journal::{CompletedStep, FailedStep, RefusedPart};
use crate::json::object_of_json;
use crate::plan::revision_text;
use crate::session::{SkillHealth, health_of};
use crate::spec::{Constraints, EffectClass, Planner, Risk};
use crate::state::PreviousPlan;
use crate::template::json_text;
use alloc::borrow::Cow;
use alloc::string::String;
use escapement_model::Opaque;
use escapement_model::limits::PAYLOAD_BYTES_MAX;
use escapement_model::opaque::{ListBuilder, StructBuilder, ValueView, check};

/// What a plan is to be made from.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// Who is asked, and what it is told.
    pub planner: &'a Planner,
    /// What the plan is for.
    pub goal: &'a str,
    /// The input of the run, an object.
    pub input: &'a Opaque,
    /// What may be chosen from.
    pub catalogue: &'a Catalogue,
    /// What may not be chosen any more, sorted.
    pub disabled: &'a [String],
    /// The skills that are not as new, sorted by name.
    pub skills: &'a [SkillHealth],
    /// What the plan must keep to.
    pub constraints: &'a Constraints,
    /// True if the steps of a plan that is `parallel` overlap even if it marks none.
    pub async_by_default: bool,
    /// What became of the plans so far.
    pub previous: &'a [PreviousPlan],
    /// The generation, from 1.
    pub generation: u32,
    /// The digest of the plan that this one follows, if there is one.
    pub parent: Option<[u8; 32]>,
    /// Tokens that the answer may have, if the run's budget bounds them.
    pub answer_tokens: Option<u64>,
}

// RUN-11.4
impl Question<'_> {
    /// The payload of the planner's action; `None` if it has more than 1 MiB.
    pub fn payload(&self) -> Option<Opaque> {
        let payload = match self.planner.action.as_str() {
            CHAT_ACTION => self.messages(),
            _ => self.object(),
        };
        let fits = payload.len() <= PAYLOAD_BYTES_MAX && payload.check().is_ok();
        fits.then_some(payload)
    }

    /// Parameters of the caller, but what the run says itself.
    #[expect(clippy::disallowed_methods, reason = "they are at most 16 KiB")]
    fn parameters(&self, own: &[&str]) -> StructBuilder {
        let given = self.planner.parameters.entries().filter_map(Result::ok);
        let is_own = |key: &str| own.contains(&key) || (key == MAX_TOKENS && self.answer_tokens.is_some());
        let given = given.filter(|(key, _)| !is_own(key));
        let object = given.fold(StructBuilder::new(), |object, (key, value)| {
            object.value(key, value)
        });
        // RUN-13.8
        match self.answer_tokens {
            Some(tokens) => object.number(MAX_TOKENS, tokens as f64),
            None => object,
        }
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the question has few keys, each of which the run wrote"
    )]
    fn object(&self) -> Opaque {
        let question = self.question();
        let mut payload = self.parameters(&OWN_KEYS);
        for (key, value) in question.entries().filter_map(Result::ok) {
            payload = payload.value(key, value);
        }
        if !self.planner.model.is_empty() {
            payload = payload.text("model", &self.planner.model);
        }
        if !self.planner.instructions.is_empty() {
            payload = payload.text("instructions", &self.planner.instructions);
        }
        payload.build()
    }

    fn messages(&self) -> Opaque {
        let mut system = String::from(ROLE);
        if !self.planner.instructions.is_empty() {
            system.push_str("\n\n");
            system.push_str(&self.planner.instructions);
        }
        let user = json_text(ValueView::Struct(self.question().as_encoded()));
        let message = |role: &str, content: &str| {
            StructBuilder::new()
                .text("role", role)
                .text("content", content)
                .build()
        };
        let messages = ListBuilder::new()
            .object(message("system", &system).as_encoded())
            .object(message("user", &user).as_encoded());
        let format = StructBuilder::new().text("type", "json_object").build();
        let mut payload = self.parameters(&["model", "messages", "response_format"]);
        if !self.planner.model.is_empty() {
            payload = payload.text("model", &self.planner.model);
        }
        payload
            .list("messages", messages)
            .object("response_format", format.as_encoded())
            .build()
    }

    /// The question itself.
    fn question(&self) -> Opaque {
        let mut question = StructBuilder::new().text("goal", self.goal);
        question = match self.input.len() <= INPUT_BYTES_MAX {
            true => question.object("input", self.input.as_encoded()),
            false => question.text("input", "(left out: it has more than 64 KiB)"),
        };
        let disabled = self
            .disabled
            .iter()
            .fold(ListBuilder::new(), |list, action| list.text(action));
        let previous = self.previous.iter().fold(ListBuilder::new(), |list, plan| {
            list.object(previous(plan).as_encoded())
        });
        let metadata = StructBuilder::new().number("generationAttempt", f64::from(self.generation));
        let metadata = match &self.parent {
            Some(parent) => metadata.text("parentPlanId", &revision_text(parent)),
            None => metadata.null("parentPlanId"),
        };
        let schema = match self.async_by_default {
            true => Cow::Borrowed(SCHEMA),
            false => Cow::Owned(SCHEMA.replace(PARALLEL, PARALLEL_IF_MARKED)),
        };
        let (schema, _) = object_of_json(schema.trim(), 0).expect("the schema is a JSON object");
        question
            .list("actions", self.actions())
            .boolean("actions_cut", self.catalogue.n_left_out > 0)
            .list("disabled_actions", disabled)
            .object("constraints", self.constraints().as_encoded())
            .list("previous", previous)
            .object("metadata", metadata.build().as_encoded())
            .object("document_schema", schema.as_encoded())
            .build()
    }

    /// What the plan must keep to.
    fn constraints(&self) -> Opaque {
        let given = self.constraints;
        let mut object = StructBuilder::new();
        for (key, words) in [
            ("must_produce", &given.must_produce),
            ("allowed_actions", &given.allowed_actions),
            ("forbidden_actions", &given.forbidden_actions),
        ] {
            if !words.is_empty() {
                object = object.list(
                    key,
                    words
                        .iter()
                        .fold(ListBuilder::new(), |list, word| list.text(word)),
                );
            }
        }
        if !given.expected_artifact_type.is_empty() {
            object = object.text("expected_artifact_type", &given.expected_artifact_type);
        }
        object.build()
    }

    /// The actions that may be chosen.
    fn actions(&self) -> ListBuilder {
        let mut list = ListBuilder::new();
        for action in &self.catalogue.actions {
            let profile = &action.profile;
            let is_disabled = self.disabled.binary_search(&profile.action).is_ok();
            // What the run names is in the catalogue because of that.
            let is_hidden = profile.not_for_planners && self.planner.catalogue.is_empty();
            if is_disabled || is_hidden {
                continue;
            }
            let mut object = StructBuilder::new().text("name", &profile.action);
            if !action.description.is_empty() {
                object = object.text("description", &action.description);
            }
            if let Some(schema) = schema_in(&action.input_schema) {
                object = object.object("input_schema", schema.as_encoded());
            }
            if !profile.produces.is_empty() {
                let produces = profile.produces.iter();
                object = object.list(
                    "produces",
                    produces.fold(ListBuilder::new(), |list, kind| list.text(kind)),
                );
            }
            let (health, _) = health_of(self.skills, profile.skill());
            let object = object
                .text("health", health.as_str())
                .text("effect", effect_word(profile.effect()))
                .text("risk", risk_word(profile.risk()));
            list = list.object(object.build().as_encoded());
        }
        list
    }
}

/// The schema in what a worker sent; `None` if that is no JSON object, or too deep to be told.
fn schema_in(text: &str) -> Option<Opaque> {
    let text = text.trim();
    let (schema, end) = object_of_json(text, 0).ok()?;
    let is_told = end == text.len() && check(schema.as_encoded(), SCHEMA_NESTING_MAX).is_ok();
    is_told.then_some(schema)
}

/// What became of a plan.
fn previous(plan: &PreviousPlan) -> Opaque {
    let mut object = StructBuilder::new().number("generation", f64::from(plan.generation));
    if let Ok(digest) = <[u8; 32]>::try_from(&plan.digest[..]) {
        object = object.text("plan_digest", &revision_text(&digest));
    }
    if !plan.violations.is_empty() {
        let violations = plan.violations.iter();
        object = object.list("violations", violations.fold(ListBuilder::new(), violation));
    }
    if let Some(error) = &plan.error {
        let error = StructBuilder::new()
            .text("code", &error.code)
            .text("message", &error.message);
        object = object.object("error", error.build().as_encoded());
    }
    if !plan.failed.is_empty() {
        object = object.list(
            "failed_steps",
            plan.failed.iter().fold(ListBuilder::new(), failed),
        );
    }
    if !plan.completed.is_empty() {
        let completed_steps = plan.completed.iter();
        object = object.list(
            "completed_steps",
            completed_steps.fold(ListBuilder::new(), completed),
        );
    }
    if !plan.comment.is_empty() {
        object = object.text("comment", &plan.comment);
    }
    object.build()
}

fn violation(list: ListBuilder, part: &RefusedPart) -> ListBuilder {
    let object = StructBuilder::new()
        .text("path", &part.path)
        .text("code", &part.code)
        .text("message", &part.message);
    list.object(object.build().as_encoded())
}

fn failed(list: ListBuilder, step: &FailedStep) -> ListBuilder {
    let object = StructBuilder::new()
        .text("key", &step.key)
        .text("action", &step.action)
        .text("code", &step.code)
        .text("message", &step.message);
    list.object(object.build().as_encoded())
}

fn completed(list: ListBuilder, step: &CompletedStep) -> ListBuilder {
    let object = StructBuilder::new()
        .text("key", &step.key)
        .text("output", &step.output);
    list.object(object.build().as_encoded())
}

fn effect_word(effect: EffectClass) -> &'static str {
    match effect {
        EffectClass::SideEffect => "side_effect",
        EffectClass::Pure => "pure",
        EffectClass::World => "world",
        EffectClass::Llm => "llm",
        EffectClass::External => "external",
    }
}

fn risk_word(risk: Risk) -> &'static str {
    match risk {
        Risk::Unusual => "unusual",
        Risk::Safe => "safe",
        Risk::Destructive => "destructive",
    }
}

/// The JSON Schema of what a planner may answer.
const SCHEMA: &str = include_str!("schema.json");
/// Text about `parallel` in the schema.
const PARALLEL: &str = "true: steps may overlap; if some have async true, only those";
/// Text instead of it in a run whose steps overlap only if they are marked. Journals of earlier versions have it.
const PARALLEL_IF_MARKED: &str = "true: steps with async true may overlap";
/// What a model that plans is.
const ROLE: &str = "You make plans. The message is a JSON object: a goal, the input, the actions that a plan may call, and what became of \
    earlier plans. Answer with one JSON object and nothing else: a plan that follows document_schema and reaches the goal. Call only \
    actions that are listed, never one of disabled_actions. Do not repeat what failed before; correct every violation that is listed.";
/// The parameter that bounds an answer.
const MAX_TOKENS: &str = "max_tokens";
/// The action that is asked with messages.
const CHAT_ACTION: &str = "llm.chat";
/// Bytes of an input that a planner is shown: 64 KiB.
const INPUT_BYTES_MAX: usize = 64 << 10;
/// Messages in a schema within each other; one that is deeper is left out.
const SCHEMA_NESTING_MAX: usize = 64;
/// Keys of the object that parameters cannot set.
const OWN_KEYS: [&str; 11] = [
    "goal",
    "input",
    "actions",
    "actions_cut",
    "disabled_actions",
    "constraints",
    "previous",
    "metadata",
    "document_schema",
    "model",
    "instructions",
];
