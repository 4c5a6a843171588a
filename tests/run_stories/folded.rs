//! A run as its events tell it, folded here, and held against what the run says of itself. Knows nothing of what is in flight.

use crate::plan_words::text;
use crate::world::{ENDS, World};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What follows from the events of a run.
#[derive(Debug, Default)]
struct Folded {
    /// By key: the state of each step that is not pending, and why it was skipped.
    steps: BTreeMap<String, (&'static str, Value)>,
    state: &'static str,
    is_paused: bool,
    error: Option<(Value, Value)>,
    output: Value,
    total_steps: Value,
    /// By id.
    open_requests: BTreeMap<String, Value>,
    started_at: Value,
    completed_at: Value,
    updated_at: Value,
    last_sequence: Value,
}

impl Folded {
    fn of(events: &[Value]) -> Self {
        let mut folded = Self::default();
        for event in events {
            folded.add(event);
        }
        folded
    }

    fn add(&mut self, event: &Value) {
        let (name, data) = (event["event_type"].as_str().unwrap(), &event["data"]);
        (self.updated_at, self.last_sequence) = (event["at"].clone(), event["sequence"].clone());
        let became = |state| (state, data["reason"].clone());
        match name {
            "run_created" => self.state = "queued",
            "plan_created" => {
                self.steps.clear();
                self.total_steps = data["total_steps"].clone();
            }
            "run_started" => {
                self.state = "running";
                self.started_at = event["at"].clone();
            }
            "run_paused" => self.is_paused = true,
            "run_resumed" => self.is_paused = false,
            "step_started" => self.step(event, became("running")),
            "step_completed" => self.step(event, became("completed")),
            // With `memo_of` it is a unit that takes a result.
            "step_memoized" if data["memo_of"].is_null() => self.step(event, became("completed")),
            "step_failed" => self.step(event, became("failed")),
            "step_skipped" => self.step(event, became("skipped")),
            "step_blocked" => self.step(event, became("blocked")),
            "step_reset" => drop(self.steps.remove(&text(&event["step_key"]))),
            "input_requested" | "approval_requested" => {
                let id = text(&data["input_request_id"]);
                self.open_requests.insert(id, data["kind"].clone());
            }
            "input_received" | "approval_resolved" | "input_expired" | "input_closed" => {
                self.open_requests.remove(&text(&data["input_request_id"]));
            }
            "run_completed" => {
                self.ends(event, "completed");
                self.output = data["output"].clone();
            }
            // The output of a fallback is not in it.
            "run_failed" => {
                let timed_out = data["timed_out"] == true;
                self.ends(event, if timed_out { "timeout" } else { "failed" });
                self.error = Some((data["code"].clone(), data["message"].clone()));
            }
            "run_cancelled" => self.ends(event, "cancelled"),
            _ => {}
        }
    }

    fn step(&mut self, event: &Value, became: (&'static str, Value)) {
        self.steps.insert(text(&event["step_key"]), became);
    }

    fn ends(&mut self, event: &Value, state: &'static str) {
        assert_eq!(self.completed_at, Value::Null, "one end");
        self.state = state;
        self.completed_at = event["at"].clone();
    }

    fn n_in(&self, state: &str) -> usize {
        self.steps.values().filter(|(is, _)| *is == state).count()
    }
}

impl World {
    /// The state of a run that nothing happens to follows from its events, and is what it says of itself.
    pub(crate) async fn follows_from_its_events(&self, run_id: &str) {
        let (run, steps) = (self.get(run_id).await, self.steps(run_id).await);
        let folded = Folded::of(&self.events(run_id).await);
        let what = format!("{run:#} and {folded:#?}");
        let has_ended = ENDS.contains(&folded.state);
        assert_eq!(
            ENDS.contains(&run["state"].as_str().unwrap()),
            has_ended,
            "{what}"
        );
        if has_ended {
            assert_eq!(run["state"], folded.state, "{what}");
        }
        assert_eq!(run["state"] == "queued", folded.state == "queued", "{what}");
        assert_eq!(run["state"] == "paused", folded.is_paused && !has_ended, "{what}");
        for (field, told) in [
            ("started_at", &folded.started_at),
            ("completed_at", &folded.completed_at),
            ("updated_at", &folded.updated_at),
            ("last_sequence", &folded.last_sequence),
        ] {
            assert_eq!(run[field], *told, "{field} of {what}");
        }
        assert_eq!(run["total_steps"].as_f64(), folded.total_steps.as_f64(), "{what}");
        for state in ["completed", "failed", "skipped", "blocked"] {
            let counted = &run[format!("{state}_steps")];
            assert_eq!(*counted, json!(folded.n_in(state)), "{state} of {what}");
        }
        if let Some((code, message)) = &folded.error {
            assert_eq!(
                (&run["error"]["code"], &run["error"]["message"]),
                (code, message),
                "{what}"
            );
        }
        // Large ones are told by their hash.
        if folded.state == "completed" && folded.output["sha256"].is_null() {
            assert_eq!(run["output"], folded.output, "{what}");
        }
        let open = run["open_requests"].as_array().unwrap().iter();
        let open: BTreeMap<String, Value> = open
            .map(|request| (text(&request["input_request_id"]), request["kind"].clone()))
            .collect();
        assert_eq!(open, folded.open_requests, "{what}");
        for (key, step) in steps {
            let (state, reason) = folded
                .steps
                .get(&key)
                .cloned()
                .unwrap_or(("pending", Value::Null));
            let shown = step["state"].as_str().unwrap();
            match state {
                // What waits for a person or for its next attempt has started.
                "running" => assert!(
                    ["running", "waiting", "pending"].contains(&shown),
                    "{step} of {what}"
                ),
                _ => assert_eq!(shown, state, "{step} of {what}"),
            }
            if state == "skipped" {
                assert_eq!(step["reason"], reason, "{step} of {what}");
            }
        }
    }
}
