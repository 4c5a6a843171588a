//! Tools in the conversation: what the model may call, what it calls, and names that every endpoint takes.
//! Calls no tool.

use crate::handlers::{excerpt, invalid};
use crate::limits::{REMOTE_TEXT_BYTES, TOOL_ARGUMENTS_DEPTH_MAX, TOOLS_MAX};
use escapement_sdk::StepError;
use escapement_wire::json::outside;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// What the model may call.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tool {
    /// 1 to 100 characters, such as the name of an action.
    pub name: String,
    /// When to call it, for the model.
    #[serde(default)]
    pub description: String,
    /// JSON Schema of its arguments; any object if absent.
    pub parameters: Option<Map<String, Value>>,
}

/// True if the model has to call a tool.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum ToolChoice {
    /// `auto`, `none` or `required`.
    Word(String),
    /// This one.
    Tool(NamedTool),
}

/// A tool by its name.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedTool {
    /// Same as in `tools`.
    pub name: String,
}

/// A call that the model wants, or wanted earlier in the conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolCall {
    /// The model's id of it, which the answer to it names.
    pub id: String,
    /// Same as in `tools`, if the model keeps to them.
    pub name: String,
    /// An object; the model's text if that is none.
    pub arguments: Value,
}

/// Tools by the names that they have at the endpoint: letters, digits, `_` and `-`, at most 64.
#[derive(Debug, Default)]
pub(super) struct Names(BTreeMap<String, String>);

impl Names {
    /// Checks the tools and names them.
    pub(super) fn of(tools: &[Tool]) -> Result<Self, StepError> {
        if tools.len() > TOOLS_MAX {
            return Err(invalid(format!(
                "tools has at most {TOOLS_MAX} entries, not {}",
                tools.len()
            )));
        }
        let mut known = BTreeSet::new();
        let mut names = Self::default();
        for (index, tool) in tools.iter().enumerate() {
            if tool.name.is_empty() || tool.name.chars().count() > NAME_CHARS_MAX {
                return Err(invalid(format!(
                    "tools[{index}].name has 1 to {NAME_CHARS_MAX} characters"
                )));
            }
            if !known.insert(&tool.name) {
                return Err(invalid(format!("tools[{index}].name is there twice")));
            }
            let name = names.free(&plain(&tool.name));
            names.0.insert(name, tool.name.clone());
        }
        Ok(names)
    }

    /// Returns the name itself, or with a number behind it if another tool has it.
    fn free(&self, name: &str) -> String {
        let numbered = (2..).map(|number| {
            let end = format!("_{number}");
            format!(
                "{}{end}",
                &name[..name.len().min(ENDPOINT_NAME_BYTES_MAX - end.len())]
            )
        });
        let mut names = std::iter::once(name.to_owned()).chain(numbered);
        names
            .find(|name| !self.0.contains_key(name))
            .expect("there are more numbers than tools")
    }

    /// Returns the name of a tool at the endpoint.
    fn at_endpoint(&self, tool: &str) -> String {
        let found = self.0.iter().find(|(_, own)| *own == tool);
        found.map_or_else(|| plain(tool), |(name, _)| name.clone())
    }

    /// Returns the tool that the endpoint means.
    fn tool(&self, name: &str) -> String {
        self.0.get(name).cloned().unwrap_or_else(|| name.to_owned())
    }

    /// `tools` as the protocol has them.
    pub(super) fn tools(&self, tools: &[Tool]) -> Value {
        let function = |tool: &Tool| {
            let mut function = json!({ "name": self.at_endpoint(&tool.name) });
            if !tool.description.is_empty() {
                function["description"] = tool.description.clone().into();
            }
            if let Some(parameters) = &tool.parameters {
                function["parameters"] = Value::Object(parameters.clone());
            }
            json!({ "type": "function", "function": function })
        };
        tools.iter().map(function).collect()
    }

    /// `tool_choice` as the protocol has it.
    pub(super) fn choice(&self, choice: &ToolChoice) -> Result<Value, StepError> {
        match choice {
            ToolChoice::Word(word) if CHOICES.contains(&word.as_str()) => Ok(word.as_str().into()),
            ToolChoice::Tool(named) if self.0.values().any(|tool| *tool == named.name) => {
                Ok(json!({ "type": "function", "function": { "name": self.at_endpoint(&named.name) } }))
            }
            ToolChoice::Tool(_) => Err(invalid("tool_choice.name is none of tools")),
            ToolChoice::Word(_) => Err(invalid(
                "tool_choice is auto, none, required, or an object with the name of a tool",
            )),
        }
    }

    /// Calls of an earlier turn as the protocol has them.
    pub(super) fn earlier(&self, calls: &[ToolCall]) -> Value {
        let call = |call: &ToolCall| {
            let arguments = match &call.arguments {
                Value::String(text) => text.clone(),
                arguments => arguments.to_string(),
            };
            let function = json!({ "name": self.at_endpoint(&call.name), "arguments": arguments });
            json!({ "id": call.id, "type": "function", "function": function })
        };
        calls.iter().map(call).collect()
    }

    /// Returns the calls that an answer asks for.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(super) fn wanted(&self, calls: Option<&Value>) -> Result<Vec<ToolCall>, String> {
        let calls = match calls {
            None | Some(Value::Null) => return Ok(Vec::new()),
            Some(Value::Array(calls)) if calls.len() <= TOOLS_MAX => calls,
            Some(Value::Array(calls)) => {
                return Err(format!("the model asks for {} calls at once", calls.len()));
            }
            Some(_) => return Err("message.tool_calls is no list".to_owned()),
        };
        let wanted = calls.iter().enumerate().map(|(index, call)| {
            let function = call.get("function");
            let name = function.and_then(|function| function.get("name"));
            let name = name.and_then(Value::as_str).filter(|name| !name.is_empty());
            let name = name.ok_or_else(|| format!("message.tool_calls[{index}] names no function"))?;
            // Some endpoints give no ids.
            let id = call.get("id").and_then(Value::as_str).filter(|id| !id.is_empty());
            Ok(ToolCall {
                id: id.map_or_else(|| format!("call_{index}"), str::to_owned),
                name: self.tool(&excerpt(name.as_bytes(), REMOTE_TEXT_BYTES)),
                arguments: arguments(function.and_then(|function| function.get("arguments"))),
            })
        });
        wanted.collect()
    }
}

/// The object that the model wrote as text, with all digits of its integers; what it wrote if that is no object, has a key twice, or is too
/// deep to travel.
fn arguments(written: Option<&Value>) -> Value {
    let (parsed, text) = match written {
        None | Some(Value::Null) => return json!({}),
        Some(Value::String(text)) if text.trim().is_empty() => return json!({}),
        Some(Value::String(text)) => (outside::value(text.as_bytes()).ok(), text.clone()),
        // Some endpoints give the object itself.
        Some(given) => (Some(given.clone()), given.to_string()),
    };
    match parsed {
        Some(object @ Value::Object(_)) if depth(&object) <= TOOL_ARGUMENTS_DEPTH_MAX => object,
        _ => text.into(),
    }
}

/// How many objects and lists lie inside one another. Text that was parsed has 128 at most.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(object) => 1 + object.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// The name with `_` in place of what no endpoint is sure to take.
fn plain(name: &str) -> String {
    let is_plain = |letter: &char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    let letters = name
        .chars()
        .map(|letter| if is_plain(&letter) { letter } else { '_' });
    letters.take(ENDPOINT_NAME_BYTES_MAX).collect()
}

/// Characters of a tool's name, as of an action's.
const NAME_CHARS_MAX: usize = 100;
/// Bytes of a function's name at the endpoint.
const ENDPOINT_NAME_BYTES_MAX: usize = 64;
/// What `tool_choice` may be beside a tool.
const CHOICES: [&str; 3] = ["auto", "none", "required"];

#[cfg(test)]
mod tests {
    use super::{Names, Tool, arguments, depth};
    use serde_json::{Value, json};

    fn tool(name: &str) -> Tool {
        Tool {
            name: name.to_owned(),
            description: String::new(),
            parameters: None,
        }
    }

    #[test]
    fn every_tool_has_a_plain_name_of_its_own_at_the_endpoint_and_gets_its_own_back() {
        let long = "x".repeat(100);
        let longer = format!("{}y", "x".repeat(99));
        let tools = ["file.read", "file_read", "file:read", "é", &long, &longer].map(tool);
        let names = Names::of(&tools).unwrap();
        let named = names.tools(&tools);
        let named: Vec<&str> = named
            .as_array()
            .unwrap()
            .iter()
            .map(|tool| tool["function"]["name"].as_str().unwrap())
            .collect();
        assert_eq!(named[..4], ["file_read", "file_read_2", "file_read_3", "_"]);
        assert!(named.iter().all(|name| name.len() <= 64));
        for (name, tool) in named.iter().zip(&tools) {
            assert_eq!(names.tool(name), tool.name);
        }
        assert_eq!(names.tool("unheard_of"), "unheard_of");
    }

    #[test]
    fn arguments_are_an_object_or_what_the_model_wrote() {
        let text = |text: &str| arguments(Some(&Value::String(text.to_owned())));
        assert_eq!(text(r#"{"a": [1]}"#), json!({ "a": [1] }));
        assert_eq!(text(" "), json!({}));
        assert_eq!(arguments(None), json!({}));
        assert_eq!(arguments(Some(&json!({ "a": 1 }))), json!({ "a": 1 }));
        assert_eq!(
            text(r#"{"id": 2512292042121000001}"#),
            json!({ "id": "2512292042121000001" })
        );
        for odd in [r#"{"a": 1, "a": 2}"#, "[1]", "7", "{\"a\":", "sorry", "{} {}"] {
            assert_eq!(text(odd), json!(odd), "it is for the caller to say no");
        }
        assert_eq!(arguments(Some(&json!([1]))), json!("[1]"));
        for levels in [40, 100, 1_000, 100_000] {
            let deep = format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels));
            assert_eq!(text(&deep), json!(deep));
        }
        assert_eq!(depth(&json!({ "a": [{}] })), 3);
    }
}
