//! Description of an action that the worker has a handler for. Runs nothing.

use escapement_model::limits::{
    ACTION_CHARS_MAX, ACTION_TRAIT_NAMES_MAX, ACTION_TRAITS_BYTES_MAX, INPUT_SCHEMA_BYTES_MAX,
    LABEL_CHARS_MAX,
};
use escapement_wire::v1::{ActionTraits, action_traits};
use escapement_wire::worker::v1::ActionSpec;
use prost::Message;
use serde_json::Value;

/// Consequence of repeating an action.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effect {
    /// Changes something, here or elsewhere.
    #[default]
    SideEffect,
    /// Only computes.
    Pure,
    /// Reads data that may change.
    World,
    /// Asks a model.
    Llm,
    /// Acts on a person or system outside.
    External,
}

/// Consequence of running an action without approval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Risk {
    /// Not known, or out of the ordinary.
    #[default]
    Unusual,
    /// Routine.
    Safe,
    /// May destroy something.
    Destructive,
}

/// An action: its name, and what callers and the orchestrator may know about it.
///
/// ```
/// use escapement_sdk::{Action, Effect, Risk};
/// use serde_json::json;
///
/// let action = Action::new("wait_for_child")
///     .description("Waits until another execution has ended.")
///     .input_schema(json!({"type": "object", "required": ["execution_id"]}))
///     .effect(Effect::World)
///     .risk(Risk::Safe)
///     .max_in_flight(64)
///     .waits();
/// assert_eq!(action.name(), "wait_for_child");
/// ```
#[derive(Clone, Debug)]
pub struct Action {
    name: String,
    description: String,
    input_schema: Option<Value>,
    max_in_flight: u32,
    waits: bool,
    /// `None` as long as nothing is said of its nature.
    traits: Option<Traits>,
}

/// Traits of an action.
#[derive(Clone, Debug, Default)]
struct Traits {
    effect: Effect,
    risk: Risk,
    idempotent: bool,
    output_schema: Option<Value>,
    produces: Vec<String>,
    alternatives: Vec<String>,
    not_for_planners: bool,
}

impl Action {
    /// Creates an action with this name, 1 to 100 code points, bounded by the worker's `max_in_flight` alone.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            description: String::new(),
            input_schema: None,
            max_in_flight: 0,
            waits: false,
            traits: None,
        }
    }

    /// Sets a sentence for people.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }

    /// Sets the JSON Schema of the input, at most 64 KiB as text. For people and tools: the SDK does not check
    /// inputs with it.
    #[must_use]
    pub fn input_schema(mut self, schema: Value) -> Self {
        self.input_schema = Some(schema);
        self
    }

    /// Sets the consequence of repeating it, for planners and approvers. Default: [`Effect::SideEffect`].
    #[must_use]
    pub fn effect(mut self, effect: Effect) -> Self {
        self.traits().effect = effect;
        self
    }

    /// Sets the consequence of running it without approval, for planners and approvers. Default: [`Risk::Unusual`].
    #[must_use]
    pub fn risk(mut self, risk: Risk) -> Self {
        self.traits().risk = risk;
        self
    }

    /// States that a repetition with the same idempotency key has no second effect.
    #[must_use]
    pub fn idempotent(mut self) -> Self {
        self.traits().idempotent = true;
        self
    }

    /// Sets the JSON Schema of the output, for people and tools; a run fails an attempt whose output is not so. It counts towards the
    /// 64 KiB of what is said of its nature.
    #[must_use]
    pub fn output_schema(mut self, schema: Value) -> Self {
        self.traits().output_schema = Some(schema);
        self
    }

    /// Types of artifacts that it makes, such as `image`: at most 16 of 1 to 255 code points.
    #[must_use]
    pub fn produces<T: Into<String>>(mut self, types: impl IntoIterator<Item = T>) -> Self {
        self.traits().produces = types.into_iter().map(Into::into).collect();
        self
    }

    /// Sets actions that may replace it, the best first: at most 16.
    #[must_use]
    pub fn alternatives<T: Into<String>>(mut self, actions: impl IntoIterator<Item = T>) -> Self {
        self.traits().alternatives = actions.into_iter().map(Into::into).collect();
        self
    }

    /// Planners are not offered it, unless a run names it: it is for tests, or part of the machinery.
    #[must_use]
    pub fn not_for_planners(mut self) -> Self {
        self.traits().not_for_planners = true;
        self
    }

    fn traits(&mut self) -> &mut Traits {
        self.traits.get_or_insert_default()
    }

    /// Sets the maximum of concurrent attempts of this action. 0: only the worker's `max_in_flight` bounds it.
    #[must_use]
    pub fn max_in_flight(mut self, max_in_flight: u32) -> Self {
        self.max_in_flight = max_in_flight;
        self
    }

    /// States that the handler only waits for other steps. Its attempts do not count against the worker's `max_in_flight`,
    /// so a waiting parent never holds a slot that its child needs. Needs a `max_in_flight` of its own.
    #[must_use]
    pub fn waits(mut self) -> Self {
        self.waits = true;
        self
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Says what is wrong with it, if anything.
    pub(crate) fn problem(&self) -> Option<String> {
        let name = &self.name;
        let schema_bytes = self.schema_text().len();
        if name.is_empty() || name.chars().count() > ACTION_CHARS_MAX {
            return Some(format!(
                "an action's name has 1 to {ACTION_CHARS_MAX} characters, not {name:?}"
            ));
        }
        if self.waits && self.max_in_flight == 0 {
            return Some(format!(
                "action {name:?} waits, so it needs a max_in_flight of its own"
            ));
        }
        if schema_bytes > INPUT_SCHEMA_BYTES_MAX {
            return Some(format!(
                "the input schema of {name:?} has {schema_bytes} bytes, more than {INPUT_SCHEMA_BYTES_MAX}"
            ));
        }
        let traits = self.traits.as_ref()?;
        for (what, names, chars_max) in [
            ("produces", &traits.produces, LABEL_CHARS_MAX),
            ("alternatives", &traits.alternatives, ACTION_CHARS_MAX),
        ] {
            let is_name = |name: &String| (1..=chars_max).contains(&name.chars().count());
            if names.len() > ACTION_TRAIT_NAMES_MAX || !names.iter().all(is_name) {
                return Some(format!(
                    "{what} of {name:?} has at most {ACTION_TRAIT_NAMES_MAX} names of 1 to {chars_max} characters"
                ));
            }
        }
        let traits_bytes = traits.to_wire().encoded_len();
        (traits_bytes > ACTION_TRAITS_BYTES_MAX).then(|| {
            format!(
                "what is said of the nature of {name:?} has {traits_bytes} bytes, more than {ACTION_TRAITS_BYTES_MAX}"
            )
        })
    }

    pub(crate) fn to_spec(&self) -> ActionSpec {
        ActionSpec {
            name: self.name.clone(),
            max_in_flight: self.max_in_flight,
            description: self.description.clone(),
            input_schema: self.schema_text(),
            waits: self.waits,
            traits: self.traits.as_ref().map(|traits| Box::new(traits.to_wire())),
        }
    }

    fn schema_text(&self) -> String {
        text_of(self.input_schema.as_ref())
    }
}

impl Traits {
    fn to_wire(&self) -> ActionTraits {
        let effect = match self.effect {
            Effect::SideEffect => action_traits::Effect::SideEffect,
            Effect::Pure => action_traits::Effect::Pure,
            Effect::World => action_traits::Effect::World,
            Effect::Llm => action_traits::Effect::Llm,
            Effect::External => action_traits::Effect::External,
        };
        let risk = match self.risk {
            Risk::Unusual => action_traits::Risk::Unusual,
            Risk::Safe => action_traits::Risk::Safe,
            Risk::Destructive => action_traits::Risk::Destructive,
        };
        ActionTraits {
            effect: effect.into(),
            risk: risk.into(),
            idempotent: self.idempotent,
            output_schema: text_of(self.output_schema.as_ref()),
            produces: self.produces.clone(),
            alternatives: self.alternatives.clone(),
            not_for_planners: self.not_for_planners,
        }
    }
}

fn text_of(schema: Option<&Value>) -> String {
    schema.map(Value::to_string).unwrap_or_default()
}

impl From<&str> for Action {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

impl From<String> for Action {
    fn from(name: String) -> Self {
        Self::new(name)
    }
}
