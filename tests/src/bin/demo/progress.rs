//! What is known of each step, from the entries of `WatchExecution` alone. Prints nothing.

use escapement_tests::Fault;
use escapement_wire::v1::AuditEntry;
use escapement_wire::v1::audit_entry::Event;
use serde_json::Value;

/// Where a step stands.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum State {
    /// Waits for dependencies, or for its turn.
    Pending,
    /// Its turn has come; waits for a free worker.
    Waiting,
    /// With a worker.
    Running,
    /// Sleeps before its next attempt.
    BackingOff,
    /// Has its output.
    Completed,
    /// Ended without; the word says why.
    NotCompleted(String),
    /// Was with a worker, or about to be again, when the execution ended.
    Stopped,
    /// The execution ended before its turn came.
    NeverRan,
}

/// A step as the reader sees it.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    id: String,
    /// From the plan's metadata; the orchestrator does not know it.
    pub(crate) title: String,
    pub(crate) action: String,
    pub(crate) state: State,
    /// Which worker had it last.
    pub(crate) worker: String,
    /// Unix milliseconds: first handed to a worker.
    began_at: Option<i64>,
    /// Unix milliseconds: ended.
    ended_at: Option<i64>,
}

impl Step {
    /// Milliseconds from its first hand-out to its end, or to `now`.
    pub(crate) fn time_ms(&self, now: i64) -> Option<i64> {
        Some((self.ended_at.unwrap_or(now) - self.began_at?).max(0))
    }
}

/// All steps of one execution, in the order of the document.
pub(crate) struct Progress {
    pub(crate) steps: Vec<Step>,
}

impl Progress {
    /// Reads ids, actions and titles from a plan document; titles stand in `metadata.titles` by step id.
    pub(crate) fn of(document: &Value) -> Result<Self, Fault> {
        let steps = document["steps"].as_array().ok_or("a plan has steps")?;
        let step = |step: &Value| {
            let id = step["id"].as_str().ok_or("a step has an id")?;
            let title = document["metadata"]["titles"][id]
                .as_str()
                .ok_or(format!("step {id} has no title"))?;
            Ok(Step {
                id: id.to_owned(),
                title: title.to_owned(),
                action: step["action"].as_str().unwrap_or_default().to_owned(),
                state: State::Pending,
                worker: String::new(),
                began_at: None,
                ended_at: None,
            })
        };
        Ok(Self {
            steps: steps.iter().map(step).collect::<Result<_, Fault>>()?,
        })
    }

    /// Returns the title of a step.
    pub(crate) fn title(&self, id: &str) -> Option<&str> {
        self.steps
            .iter()
            .find(|step| step.id == id)
            .map(|step| step.title.as_str())
    }

    /// Takes in what happened. Answers the index of the step whose state changed, if any did.
    pub(crate) fn apply(&mut self, entry: &AuditEntry) -> Option<usize> {
        let (id, state) = match entry.event.as_ref()? {
            Event::StepWaiting(event) => (&event.step_id, State::Waiting),
            Event::AttemptReturned(event) => (&event.step_id, State::Waiting),
            Event::AttemptAssigned(event) => (&event.step_id, State::Running),
            Event::RetryScheduled(event) => (&event.step_id, State::BackingOff),
            Event::StepCompleted(event) => (&event.step_id, State::Completed),
            Event::StepNotCompleted(event) => {
                let code = event
                    .error
                    .as_ref()
                    .map(|error| error.error_code.as_str())
                    .unwrap_or_default();
                (
                    &event.step_id,
                    State::NotCompleted(format!("{}: {code}", event.reason)),
                )
            }
            // They tell about the execution as a whole, or what an entry before or right after them tells as well.
            Event::Accepted(_)
            | Event::Started(_)
            | Event::AttemptStarted(_)
            | Event::AttemptFailed(_)
            | Event::MandatoryAction(_)
            | Event::StepsIncomplete(_)
            | Event::Settled(_) => return None,
        };
        let index = self.steps.iter().position(|step| step.id == *id)?;
        let step = &mut self.steps[index];
        if let Event::AttemptAssigned(event) = entry.event.as_ref()? {
            step.worker.clone_from(&event.worker_id);
            step.began_at.get_or_insert(entry.at);
        }
        step.ended_at = matches!(state, State::Completed | State::NotCompleted(_)).then_some(entry.at);
        let changed = step.state != state;
        step.state = state;
        changed.then_some(index)
    }

    /// Nothing more will happen.
    pub(crate) fn end(&mut self) {
        for step in &mut self.steps {
            step.state = match &step.state {
                State::Pending | State::Waiting => State::NeverRan,
                State::Running | State::BackingOff => State::Stopped,
                ended => ended.clone(),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Progress, State};
    use escapement_wire::v1::audit_entry::Event;
    use escapement_wire::v1::{AttemptAssigned, AuditEntry, StepCompleted};
    use serde_json::json;

    fn progress() -> Progress {
        let document = json!({
            "steps": [{ "id": "a", "action": "echo" }, { "id": "b", "action": "echo" }],
            "metadata": { "titles": { "a": "First", "b": "Second" } },
        });
        Progress::of(&document).unwrap()
    }

    #[test]
    fn a_step_takes_the_time_from_its_hand_out_to_its_end() {
        let mut progress = progress();
        let assigned = AttemptAssigned {
            step_id: "b".to_owned(),
            attempt: 1,
            worker_id: "one".to_owned(),
        };
        let entry = AuditEntry {
            hash: Vec::new(),
            sequence: 1,
            at: 100,
            event: Some(Event::AttemptAssigned(assigned)),
        };
        assert_eq!(progress.apply(&entry), Some(1));
        assert_eq!(progress.steps[1].time_ms(130), Some(30));
        let completed = StepCompleted {
            step_id: "b".to_owned(),
            attempts: 1,
            warnings: vec![],
        };
        let entry = AuditEntry {
            hash: Vec::new(),
            sequence: 2,
            at: 142,
            event: Some(Event::StepCompleted(completed)),
        };
        assert_eq!(progress.apply(&entry), Some(1));
        assert_eq!(progress.steps[1].time_ms(9999), Some(42));
        assert_eq!(progress.steps[0].time_ms(9999), None);
    }

    #[test]
    fn a_step_whose_turn_never_came_is_shown_as_such() {
        let mut progress = progress();
        progress.end();
        assert_eq!(progress.steps[0].state, State::NeverRan);
    }
}
