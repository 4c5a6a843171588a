//! The request of an attempt: its shape, its ids, and what it carries.

use super::Desk;
use super::book::{Book, Stage, Step};
use crate::canonical::uuid;
use crate::journal::{Called, RANGE, Unit};
use crate::wire::{Message, Value};
use std::collections::{BTreeMap, BTreeSet};

impl Book {
    pub(super) fn check_request(&self, called: &Called, request: &[u8], desk: &mut Desk<'_>) {
        if let Err(why) = self.try_check_request(called, request, desk) {
            desk.finds("RI9", &format!("the request is unreadable: {why}"));
        }
    }

    // RI9
    fn try_check_request(&self, called: &Called, request: &[u8], desk: &mut Desk<'_>) -> Result<(), String> {
        let unit = called.unit;
        let request = Message::parse(request)?;
        let plan = request.message(1)?;
        let steps: Vec<_> = plan.all(4).collect();
        let [step] = steps[..] else {
            return Err(format!("has {} steps", steps.len()));
        };
        let step = Message::parse(step)?;
        let strange = [(&request, 1..=8), (&plan, 1..=8), (&step, 1..=3)]
            .iter()
            .flat_map(|(message, known)| message.numbers().filter(|number| !known.contains(number)))
            // The plan's metadata and labels; the step's limit of time.
            .filter(|number| ![10, 11, 6].contains(number))
            .count();
        if strange > 0 {
            desk.finds("RI9", &format!("{unit:?} is sent with a policy of its own"));
        }
        let attempt = self.attempt(unit, called.attempt);
        let ids = [
            (request.text(3), "execution"),
            (plan.text(1), "plan"),
            (step.text(1), "step"),
        ];
        for (id, of) in ids {
            if id != uuid(&attempt.id(of)) {
                desk.finds("RI9", &format!("the {of} id {id} does not follow from {unit:?}"));
            }
        }
        if step.text(2) != called.action {
            desk.finds("RI9", &format!("{unit:?} is sent to {}", step.text(2)));
        }
        let payload = Value::of_object(step.bytes(3))?;
        self.check_payload(called, &payload, desk);
        self.check_gate(called, &payload, desk);
        self.check_environment(&Value::of_object(request.bytes(2))?, unit, desk);
        Ok(())
    }

    // RI10
    fn check_environment(&self, environment: &Value, unit: Unit, desk: &mut Desk<'_>) {
        let (Value::Object(sent), Value::Object(given)) = (environment, &self.environment) else {
            return desk.finds("RI10", "the environment is no object");
        };
        let mut rest = sent.clone();
        let own = rest.remove("escapement_run");
        if rest != *given {
            desk.finds(
                "RI10",
                &format!("{unit:?} has another environment than its run: {rest:?}"),
            );
        }
        let Some(Value::Object(own)) = own else {
            return desk.finds("RI10", &format!("{unit:?} does not say whose it is"));
        };
        let strange = own.keys().find(|key| !OWN_KEYS.contains(&key.as_str()));
        if let Some(strange) = strange {
            desk.finds("RI10", &format!("{unit:?} carries {strange} in its environment"));
        }
    }

    // RI10
    fn check_payload(&self, called: &Called, payload: &Value, desk: &mut Desk<'_>) {
        let unit = called.unit;
        if unit.is_look() {
            return self.check_look(called, payload, desk);
        }
        if unit.is_generation() || unit.is_check() {
            return self.check_own_payload(called, payload, desk);
        }
        let step = &self.steps[unit.step as usize];
        let edited = step.units.get(&unit.index).and_then(|unit| unit.edited.as_ref());
        if let Some(edited) = edited {
            if edited != payload {
                desk.finds(
                    "RI10",
                    &format!("{unit:?} does not send what was approved in its place"),
                );
            }
            return;
        }
        if unit.is_tool_call() {
            let asked = step
                .asked
                .get(&unit.index)
                .and_then(|(_, arguments)| arguments.as_ref());
            if asked != Some(payload) {
                let text = format!("{unit:?} sends {payload:?}, and the model asks for {asked:?}");
                desk.finds("RI10", &text);
            }
            return;
        }
        let document = step
            .document
            .as_ref()
            .and_then(|document| document.field("config"));
        let Some(config) = document else {
            return;
        };
        let template = match step.kind.as_str() {
            "tool_call" | "loop" => config.field("tool_args"),
            "parallel" => config
                .items("steps")
                .get(unit.index as usize)
                .and_then(|item| item.field("tool_args")),
            _ => return self.check_conversation(step, config, unit, payload, desk),
        };
        let empty = Value::Object(BTreeMap::new());
        let Some(mut expected) = self.render(template.unwrap_or(&empty), unit) else {
            return desk.finds(
                "RI10",
                &format!("{unit:?} is sent although a reference leads nowhere"),
            );
        };
        let is_numbered = config.field("pass_iteration") != Some(&Value::Bool(false));
        if let (Value::Object(entries), "loop", true) = (&mut expected, step.kind.as_str(), is_numbered) {
            entries.insert("iteration".to_owned(), Value::of_number(unit.index));
        }
        if expected != *payload {
            let text = format!("{unit:?} sends {payload:?}, and its template names {expected:?}");
            desk.finds("RI10", &text);
        }
    }

    /// A model is shown what the step's context names, and no other result.
    fn check_conversation(
        &self,
        step: &Step,
        config: &Value,
        unit: Unit,
        payload: &Value,
        desk: &mut Desk<'_>,
    ) {
        if let Value::Object(entries) = payload
            && let Some(strange) = entries.keys().find(|key| !TOLD_TO_MODELS.contains(&key.as_str()))
        {
            desk.finds("RI10", &format!("{unit:?} tells a model {strange}"));
        }
        let mut named = BTreeSet::new();
        for key in config
            .items("context")
            .iter()
            .chain(step.document.iter().flat_map(|it| it.items("depends_on")))
        {
            if let Value::Text(key) = key {
                named.insert(key.as_str());
            }
        }
        for other in self.steps.iter().filter(|other| other.key != step.key) {
            let mut marks = Vec::new();
            let outputs = other.units.values().filter_map(|unit| unit.output.as_ref());
            outputs.for_each(|output| output.texts_beginning("mark-", &mut marks));
            let shown = marks.iter().any(|mark| payload.mentions(mark));
            if shown && !named.contains(other.key.as_str()) {
                desk.finds(
                    "RI10",
                    &format!("{unit:?} shows a model the result of {}", other.key),
                );
            }
        }
    }

    /// What a template comes to; `None` if a reference leads nowhere.
    fn render(&self, template: &Value, unit: Unit) -> Option<Value> {
        match template {
            Value::Text(text) => self.render_text(text, unit),
            Value::List(items) => {
                let items = items.iter().map(|item| self.render(item, unit));
                items.collect::<Option<_>>().map(Value::List)
            }
            Value::Object(entries) => match template.text("$from") {
                Some(from) => {
                    let found = self.source(from, template.text("path").unwrap_or_default(), unit);
                    found.or_else(|| template.field("default").cloned())
                }
                None => {
                    let entries = entries
                        .iter()
                        .map(|(key, value)| Some((key.clone(), self.render(value, unit)?)));
                    entries.collect::<Option<_>>().map(Value::Object)
                }
            },
            Value::Null | Value::Bool(_) | Value::Number(_) => Some(template.clone()),
        }
    }

    /// A text that is one reference, or one with references to texts in it.
    fn render_text(&self, text: &str, unit: Unit) -> Option<Value> {
        let whole = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
        if let Some(inside) = whole.filter(|inside| !inside.contains(['{', '}'])) {
            let (source, path) = inside.split_once(':').unwrap_or((inside, ""));
            return self.source(source, path, unit);
        }
        let (mut rendered, mut rest) = (String::new(), text);
        while let Some((before, after)) = rest.split_once("${") {
            let (inside, behind) = after.split_once('}')?;
            let (source, path) = inside.split_once(':').unwrap_or((inside, ""));
            rendered.push_str(before);
            match self.source(source, path, unit)? {
                Value::Text(text) => rendered.push_str(&text),
                Value::Null => rendered.push_str("null"),
                Value::Bool(flag) => rendered.push_str(&flag.to_string()),
                Value::Number(bits) => rendered.push_str(&f64::from_bits(bits).to_string()),
                // The generated plans have none of these inside of a text.
                Value::List(_) | Value::Object(_) => return None,
            }
            rest = behind;
        }
        rendered.push_str(rest);
        Some(Value::Text(rendered))
    }

    fn source(&self, source: &str, path: &str, unit: Unit) -> Option<Value> {
        match source {
            "input" => follow(&self.input, path),
            "iteration" | "item" => follow(&Value::of_number(unit.index), path),
            key => {
                let step = self.steps.iter().find(|step| step.key == key)?;
                match (step.stage, &step.error) {
                    (Stage::Completed, _) => follow(&output_of(step)?, path),
                    (_, Some((code, message))) if self.is_synthetic(unit) => {
                        Some(Value::Text(format!("(FAILED: {code}: {message})")))
                    }
                    _ if self.is_synthetic(unit) => Some(Value::Text(
                        "(FAILED: STEP_SKIPPED: the step did not run)".to_owned(),
                    )),
                    _ => Some(Value::Null),
                }
            }
        }
    }

    fn is_synthetic(&self, unit: Unit) -> bool {
        let document = self.steps[unit.step as usize].document.as_ref();
        match document.and_then(|step| step.text("on_dependency_failure")) {
            Some(word) => word == "synthetic",
            None => self.spec.on_dependency_failure == 2,
        }
    }
}

/// What a completed step came to.
pub(super) fn output_of(step: &Step) -> Option<Value> {
    if let Some(output) = &step.output {
        return Some(output.clone());
    }
    match step.kind.as_str() {
        "parallel" | "loop" => {
            // One of which nothing but a safety check was sent is there, too.
            let begun = step.units.range(..2 * RANGE).map(|(index, _)| index % RANGE);
            let n_units = begun.max().map_or(0, |last| last + 1);
            let of = |index| step.units.get(&index).and_then(|unit| unit.output.clone());
            let items = (0..n_units).map(|index| of(index).unwrap_or(Value::Null));
            Some(Value::List(items.collect()))
        }
        _ => step
            .units
            .range(..RANGE)
            .next_back()
            .and_then(|(_, unit)| unit.output.clone()),
    }
}

fn follow(value: &Value, path: &str) -> Option<Value> {
    let mut at = value;
    for part in path.split('/').skip(1) {
        at = match at {
            Value::Object(entries) => entries.get(part)?,
            Value::List(items) => items.get(part.parse::<usize>().ok()?)?,
            _ => return None,
        };
    }
    Some(at.clone())
}

/// What a model is sent.
const TOLD_TO_MODELS: [&str; 5] = ["model", "messages", "tools", "tool_choice", "max_tokens"];
/// What an attempt tells its handler about itself.
const OWN_KEYS: [&str; 8] = [
    "run_id",
    "step",
    "index",
    "attempt",
    "idempotency_key",
    "user_id",
    "failed_dependencies",
    "approval",
];

/// The payload in a request.
pub(super) fn sent(request: &[u8]) -> Result<Value, String> {
    let request = Message::parse(request)?;
    Value::of_object(request.message(1)?.message(4)?.bytes(3))
}
