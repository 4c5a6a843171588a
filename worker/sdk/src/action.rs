//! What a worker tells about an action that it has a handler for. Runs nothing.

use escapement_model::limits::{ACTION_CHARS_MAX, INPUT_SCHEMA_BYTES_MAX};
use escapement_wire::worker::v1::ActionSpec;
use serde_json::Value;

/// An action: its name, and what callers and the orchestrator may know about it.
///
/// ```
/// use escapement_sdk::Action;
/// use serde_json::json;
///
/// let action = Action::new("wait_for_child")
///     .description("Waits until another execution has ended.")
///     .input_schema(json!({"type": "object", "required": ["execution_id"]}))
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
}

impl Action {
    /// An action with this name, 1 to 100 code points, bounded by the worker's `max_in_flight` alone.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            description: String::new(),
            input_schema: None,
            max_in_flight: 0,
            waits: false,
        }
    }

    /// A sentence for people.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }

    /// The JSON Schema of the input, at most 64 KiB as text. For people and tools: the SDK does not check
    /// inputs with it.
    #[must_use]
    pub fn input_schema(mut self, schema: Value) -> Self {
        self.input_schema = Some(schema);
        self
    }

    /// How many attempts of this action run at a time. 0: only the worker's `max_in_flight` bounds it.
    #[must_use]
    pub fn max_in_flight(mut self, max_in_flight: u32) -> Self {
        self.max_in_flight = max_in_flight;
        self
    }

    /// The handler only waits for other steps: its attempts do not count against the worker's
    /// `max_in_flight`,
    /// so that a waiting parent never holds a slot that its child needs. Needs a `max_in_flight` of its own.
    #[must_use]
    pub fn waits(mut self) -> Self {
        self.waits = true;
        self
    }

    /// The name.
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
        None
    }

    pub(crate) fn to_spec(&self) -> ActionSpec {
        ActionSpec {
            name: self.name.clone(),
            max_in_flight: self.max_in_flight,
            description: self.description.clone(),
            input_schema: self.schema_text(),
            waits: self.waits,
        }
    }

    fn schema_text(&self) -> String {
        self.input_schema
            .as_ref()
            .map(Value::to_string)
            .unwrap_or_default()
    }
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
