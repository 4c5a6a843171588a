//! A worker inside the test whose calls do what their payload says, and a ledger of every call in a file outside of the
//! system. Judges nothing.
//!
//! A payload says one thing, or with `each` one thing for each call of its unit, the last of them for all further ones:
//!
//! - `{"answer": {…}}` answers with the object; without anything the answer is `{}`.
//! - `{"bytes": n, "unit": "ä"}` answers with a text of n bytes under `text`.
//! - `{"fail": "CODE"}` fails; `"fatal": true` for good, `"context": {…}` with a context.
//! - `{"gate": "name"}` waits until the test opens the gate, and does the rest then; with `"gate_at": n` in iteration n only.
//! - `{"hang": true}` does not answer before the test ends.
//!
//! `script.judge` does what the call that it judges says under `judge`, and `script.planner` what its payload says under `plans` for the
//! generation that is asked for, the last of them for all further ones.

use escapement_sdk::{Action, Risk, StepContext, StepError, Worker};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The gate that opens when the test ends.
pub(crate) const END: &str = "the end";
/// Names under which the same handler is offered. The part behind the dot says how a profile classifies it.
pub(crate) const ACTIONS: [&str; 10] = [
    "script.pure",
    "script.world",
    "script.effect",
    "script.idempotent",
    "script.external",
    "script.safe",
    "script.danger",
    "script.plain",
    "script.judge",
    "script.planner",
];

/// A running worker. It ends with the test.
pub(crate) struct ScriptWorker {
    running: JoinHandle<()>,
}

/// What all handlers of one world share, whichever worker runs them.
pub(crate) struct Shared {
    ledger: PathBuf,
    gates: watch::Sender<BTreeSet<String>>,
    calls: Mutex<BTreeMap<String, usize>>,
    model: Mutex<VecDeque<Value>>,
    stubs: Mutex<BTreeMap<String, Value>>,
}

impl Shared {
    /// With the ledger in this file.
    pub(crate) fn new(ledger: &Path) -> Arc<Self> {
        Arc::new(Self {
            ledger: ledger.to_owned(),
            gates: watch::Sender::new(BTreeSet::new()),
            calls: Mutex::default(),
            model: Mutex::default(),
            stubs: Mutex::default(),
        })
    }

    /// Opens a gate for ever.
    pub(crate) fn open(&self, gate: &str) {
        self.gates.send_modify(|gates| {
            gates.insert(gate.to_owned());
        });
    }

    /// What the model says next, in order; then it says `ok`.
    pub(crate) fn model_says(&self, answers: &[&str]) {
        let mut model = self.model.lock().unwrap();
        model.extend(answers.iter().map(|answer| json!({ "content": answer })));
    }

    /// What the model answers next, in order, as the output of `llm.chat`; with `gate` once the test opens that gate.
    pub(crate) fn model_answers(&self, answers: impl IntoIterator<Item = Value>) {
        self.model.lock().unwrap().extend(answers);
    }

    /// What an action answers from now on, whatever its payload says.
    pub(crate) fn action_says(&self, action: &str, answer: Value) {
        self.stubs.lock().unwrap().insert(action.to_owned(), answer);
    }

    /// Every line of the ledger so far.
    pub(crate) fn ledger(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.ledger).unwrap_or_default();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    fn note(&self, line: &Value) {
        let mut file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.ledger)
            .unwrap();
        file.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// How often the unit was called before.
    fn count(&self, key: &str) -> usize {
        let mut calls = self.calls.lock().unwrap();
        let count = calls.entry(key.to_owned()).or_default();
        *count += 1;
        *count - 1
    }
}

impl ScriptWorker {
    /// Offers every action to the orchestrator at this URL.
    pub(crate) fn start(url: &str, shared: &Arc<Shared>) -> Self {
        Self::offering(url, shared, &ACTIONS)
    }

    /// Offers these actions and `llm.chat`.
    pub(crate) fn offering(url: &str, shared: &Arc<Shared>, actions: &[&str]) -> Self {
        let mut builder = Worker::builder(url).worker_id("script").max_in_flight(64);
        for action in actions.iter().copied().chain(["llm.chat"]) {
            let shared = Arc::clone(shared);
            builder = builder.handler_with(offered(action), move |payload: Value, context: StepContext| {
                let shared = Arc::clone(&shared);
                async move { handle(&shared, payload, &context).await }
            });
        }
        let worker = builder.build().unwrap();
        // An orchestrator that is killed ends no worker; one that goes away for good ends with the test.
        let running = tokio::spawn(async move {
            let _ = worker.run_until(std::future::pending::<()>()).await;
        });
        Self { running }
    }
}

/// The action; `script.typed` says what its outputs are.
fn offered(action: &str) -> Action {
    match action {
        "script.typed" => Action::new(action)
            .risk(Risk::Safe)
            .output_schema(json!({ "type": "object", "properties": { "n": { "type": "number" } } })),
        _ => Action::new(action),
    }
}

impl Drop for ScriptWorker {
    fn drop(&mut self) {
        self.running.abort();
    }
}

async fn handle(shared: &Shared, payload: Value, context: &StepContext) -> Result<Value, StepError> {
    let environment = context.environment()?.clone();
    let own = environment.get("escapement_run").cloned().unwrap_or_default();
    let key = own["idempotency_key"].as_str().unwrap_or_default().to_owned();
    let call = shared.count(&format!("{}/{}/{}", own["run_id"], own["step"], own["index"]));
    let mut line = json!({
        "event": "begin",
        "action": context.action(),
        "execution": context.execution_id(),
        "call": call,
        "key": key,
        "paid_as": context.idempotency_key(),
        "run_attempt": context.run_attempt(),
        "payload": payload,
        "digest": digest(&payload),
        "environment": environment,
    });
    for (name, value) in own.as_object().into_iter().flatten() {
        line[name.as_str()] = value.clone();
    }
    shared.note(&line);
    let stub = shared.stubs.lock().unwrap().get(context.action()).cloned();
    let outcome = if let Some(answer) = stub {
        Ok(answer)
    } else if context.action() == "llm.chat" {
        let said = shared.model.lock().unwrap().pop_front();
        let mut said = said.unwrap_or_else(|| json!({ "content": "ok" }));
        if let Some(Value::String(gate)) = said.as_object_mut().and_then(|said| said.remove("gate")) {
            let mut gates = shared.gates.subscribe();
            let _ = gates.wait_for(|gates| gates.contains(&gate)).await;
        }
        Ok(said)
    } else if context.action() == "script.judge" {
        act(shared, said(&payload["payload"]["judge"], 0)).await
    } else if context.action() == "script.planner" {
        let generation = payload["metadata"]["generationAttempt"].as_f64().unwrap_or(1.0);
        let plans = json!({ "each": payload["plans"] });
        act(shared, said(&plans, generation as usize - 1)).await
    } else {
        act(shared, said(&payload, call)).await
    };
    shared.note(&json!({
        "event": "end",
        "key": line["key"],
        "run_id": line["run_id"],
        "step": line["step"],
        "index": line["index"],
        "ok": outcome.is_ok(),
    }));
    outcome
}

/// What the payload says for this call.
fn said(payload: &Value, call: usize) -> &Map<String, Value> {
    let said = match payload["each"].as_array() {
        Some(each) => &each[call.min(each.len() - 1)],
        None => payload,
    };
    said.as_object().expect("a payload is an object")
}

async fn act(shared: &Shared, said: &Map<String, Value>) -> Result<Value, StepError> {
    let waits = said
        .get("gate_at")
        .is_none_or(|at| said.get("iteration") == Some(at));
    let gate = said.get("gate").and_then(Value::as_str).filter(|_| waits);
    if let Some(gate) = gate.or(said.contains_key("hang").then_some(END)) {
        let mut gates = shared.gates.subscribe();
        let _ = gates.wait_for(|gates| gates.contains(gate)).await;
    }
    if let Some(code) = said.get("fail").and_then(Value::as_str) {
        let message = said.get("message").and_then(Value::as_str);
        let mut error = StepError::new(code, message.unwrap_or("as scripted"));
        if let Some(context) = said.get("context") {
            error = error.context(context.clone());
        }
        return Err(if said.contains_key("fatal") {
            error.fatal()
        } else {
            error
        });
    }
    if let Some(bytes) = said.get("bytes").and_then(Value::as_u64) {
        let unit = said.get("unit").and_then(Value::as_str).unwrap_or("x");
        return Ok(json!({ "text": text_of(usize::try_from(bytes).unwrap(), unit) }));
    }
    Ok(said.get("answer").cloned().unwrap_or_else(|| json!({})))
}

/// A text of so many bytes, of repetitions of the unit with `x` before them.
pub(crate) fn text_of(bytes: usize, unit: &str) -> String {
    let rest = bytes % unit.len();
    format!("{}{}", "x".repeat(rest), unit.repeat(bytes / unit.len()))
}

fn digest(payload: &Value) -> String {
    let bytes = Sha256::digest(payload.to_string().as_bytes());
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
