//! What callers were told: it is there, whatever happens afterwards.

use super::{Finding, Judge, Rule};
use crate::canonical::uuid;
use crate::journal::{self, Event};

/// What a caller was told.
#[derive(Clone, Debug)]
pub enum Told {
    /// Its request has this run.
    Created {
        /// The key of the request.
        key: String,
        /// The run.
        run: [u8; 16],
    },
    /// What it asked for is done.
    Done {
        /// The run.
        run: [u8; 16],
        /// How many of its entries were durable when it asked.
        since: u64,
        /// What.
        what: Done,
    },
    /// What it asked for with the entries behind the one and up to the other may repeat no effect.
    RepeatsNothing {
        /// The run.
        run: [u8; 16],
        /// Its last entry before.
        behind: u64,
        /// Its last entry after.
        until: u64,
    },
    /// A trigger is there.
    Trigger {
        /// Its id.
        trigger: String,
        /// What it is made from.
        rule: Rule,
    },
    /// An event has fired a trigger, or had done so before.
    Fired {
        /// The trigger.
        trigger: String,
        /// The id of the event.
        event: String,
    },
    /// A run was forked from another one, which keeps everything that had completed.
    Forked {
        /// The new run.
        run: [u8; 16],
        /// The other one.
        from: [u8; 16],
        /// Steps of the other one that had completed, by their places.
        completed: Vec<u32>,
        /// Steps of the plan that was asked for.
        n_steps: u32,
    },
}

/// What a caller asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// Nothing new shall start.
    Pause,
    /// It shall go on.
    Resume,
    /// It shall end.
    Cancel,
    /// Steps shall run again.
    Rewind,
    /// It shall go back.
    Rollback,
    /// An operator's word.
    Override,
    /// It shall be remembered.
    Checkpoint,
    /// It has this artifact.
    Upload {
        /// Of the content.
        sha256: [u8; 32],
    },
    /// A question is answered.
    Answer {
        /// The question, 16 bytes.
        request: Vec<u8>,
        /// By whom.
        responder: String,
        /// What the answer says that it is about.
        digest: Vec<u8>,
    },
}

impl Judge {
    // RI1, RI6
    /// A caller was told this.
    pub fn told(&mut self, told: Told) {
        let finding = match told {
            Told::Created { key, run } => self.told_created(key, run),
            Told::Done { run, since, what } => self.told_done(run, since, &what),
            Told::RepeatsNothing { run, behind, until } => self.told_repeats_nothing(run, behind, until),
            Told::Trigger { trigger, rule } => {
                self.has_trigger(trigger, rule);
                None
            }
            Told::Fired { trigger, event } => {
                self.told_event(&trigger, &event);
                None
            }
            Told::Forked {
                run,
                from,
                completed,
                n_steps,
            } => self
                .told_forked(run, from, &completed)
                .or_else(|| self.told_plan(run, n_steps)),
        };
        *self.counts.entry("acknowledgements").or_default() += 1;
        self.findings.extend(finding);
    }

    fn told_created(&mut self, key: String, run: [u8; 16]) -> Option<Finding> {
        let first = *self.created.entry(key.clone()).or_insert(run);
        if first != run {
            return found(
                "RI1",
                format!("request {key} has made {} and {}", uuid(&first), uuid(&run)),
            );
        }
        if self.n_entries(&run) == 0 {
            return found(
                "RI1",
                format!("run {} is acknowledged and not durable", uuid(&run)),
            );
        }
        None
    }

    fn told_done(&self, run: [u8; 16], since: u64, what: &Done) -> Option<Finding> {
        let entries = self.runs.get(&run)?.entries();
        if let Done::Answer { request, digest, .. } = what
            && let Some(known) = self.runs[&run].requests.get(request)
            && known.asked.digest != *digest
        {
            let text = format!("run {}: an answer to something else was taken", uuid(&run));
            return found("RI6", text);
        }
        let from = match what {
            // The same again changes nothing.
            Done::Answer { .. } | Done::Upload { .. } => 0,
            _ => usize::try_from(since).unwrap_or(usize::MAX).min(entries.len()),
        };
        let mut events = entries[from..]
            .iter()
            .filter_map(|bytes| journal::read(bytes).ok());
        if events.any(|entry| says(&entry.event, what)) {
            return None;
        }
        found(
            "RI1",
            format!("run {}: {what:?} is acknowledged and not durable", uuid(&run)),
        )
    }

    // RI17
    fn told_repeats_nothing(&mut self, run: [u8; 16], behind: u64, until: u64) -> Option<Finding> {
        *self
            .counts
            .entry("steps set back by those who allow no repetition")
            .or_default() += 1;
        let set_back = &self.runs.get(&run)?.set_back;
        let (_, what) = set_back.range(behind + 1..=until).next()?;
        let text = format!("run {}: {what} is set back, and nobody allows that", uuid(&run));
        found("RI17", text)
    }

    // RI4, RI5
    fn told_forked(&self, run: [u8; 16], from: [u8; 16], completed: &[u32]) -> Option<Finding> {
        let Some(book) = self.runs.get(&run) else {
            return found(
                "RI1",
                format!("run {} is acknowledged and not durable", uuid(&run)),
            );
        };
        let kept: Vec<u32> = book
            .entries()
            .iter()
            .filter_map(|bytes| match journal::read(bytes).ok()?.event {
                Event::Memoized { step, .. } => Some(step),
                _ => None,
            })
            .collect();
        let lost = completed.iter().find(|step| !kept.contains(step))?;
        let asks_model = book
            .steps
            .get(*lost as usize)
            .is_some_and(|step| step.kind == "llm_decision");
        let text = format!("run {} does not keep step {lost} of {}", uuid(&run), uuid(&from));
        found(if asks_model { "RI5" } else { "RI4" }, text)
    }
}

impl Judge {
    // RI1
    /// A fork has the plan that was asked for.
    fn told_plan(&self, run: [u8; 16], wanted: u32) -> Option<Finding> {
        let entries = self.runs.get(&run)?.entries().iter();
        let mut planned = entries.filter_map(|bytes| match journal::read(bytes).ok()?.event {
            Event::Planned { n_steps, .. } => Some(n_steps),
            _ => None,
        });
        let n_steps = planned.next().filter(|n_steps| *n_steps != wanted)?;
        let text = format!("run {} has {n_steps} steps of the {wanted} asked for", uuid(&run));
        found("RI1", text)
    }
}

fn found(invariant: &'static str, text: String) -> Option<Finding> {
    Some(Finding { invariant, text })
}

fn says(event: &Event, what: &Done) -> bool {
    match what {
        Done::Pause => matches!(event, Event::PauseRequested),
        Done::Resume => matches!(event, Event::Resumed),
        Done::Cancel => matches!(event, Event::Cancelled),
        Done::Rewind => matches!(event, Event::RolledBack(mode) if mode == "rewind"),
        Done::Rollback => matches!(event, Event::RolledBack(mode) if mode != "rewind"),
        Done::Override => matches!(
            event,
            Event::StepCompleted { .. } | Event::StepFailed { .. } | Event::StepSkipped { .. }
        ),
        Done::Checkpoint => matches!(event, Event::Checkpoint),
        Done::Upload { sha256 } => {
            matches!(event, Event::Declared(upload) if upload.unit.is_none() && upload.sha256[..] == sha256[..])
        }
        Done::Answer {
            request, responder, ..
        } => match event {
            Event::Answered(said) | Event::Decided(said) => {
                said.id == *request && said.responder == *responder
            }
            _ => false,
        },
    }
}
