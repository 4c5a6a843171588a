//! The journal of one run, and what it comes to.

use super::artifacts::Artifacts;
use super::bounds::Doings;
use super::deeds::Settled;
use super::money::Purse;
use super::sessions::View;
use super::time::Active;
use super::{Desk, Row};
use crate::canonical::{chain_begin, chain_next};
use crate::journal::{Entry, Event, Spec, Unit, Usage};
use crate::wire::Value;
use std::collections::{BTreeMap, BTreeSet};

/// One run.
#[derive(Debug)]
pub(super) struct Book {
    entries: Vec<Vec<u8>>,
    chain: [u8; 32],
    pub(super) at: i64,
    passed_ms: u64,
    pub(super) id: [u8; 16],
    pub(super) spec: Spec,
    pub(super) input: Value,
    pub(super) environment: Value,
    pub(super) revision: Vec<u8>,
    pub(super) risks: BTreeMap<String, u32>,
    /// Actions whose repetition may be noticed.
    pub(super) effects: BTreeSet<String>,
    pub(super) n_revisions: u32,
    pub(super) settled: Settled,
    pub(super) steps: Vec<Step>,
    /// Steps of the current revision may overlap.
    pub(super) parallel: bool,
    pub(super) requests: BTreeMap<Vec<u8>, Request>,
    pub(super) evaluations: BTreeMap<u32, Unit>,
    /// What the planner was asked, by generation.
    pub(super) generations: BTreeMap<u32, UnitBook>,
    /// The generation that is under way.
    pub(super) planning: Option<u32>,
    /// What the run does without.
    pub(super) disabled: BTreeSet<String>,
    pub(super) n_substitutions: u32,
    /// Its fallback is called, or was.
    pub(super) fell_back: bool,
    /// The next revision changes one step.
    pub(super) substitutes: bool,
    pub(super) purse: Purse,
    pub(super) doings: Doings,
    pub(super) view: View,
    /// Steps that were set back and had effects: which, by the numbers of the entries.
    pub(super) set_back: BTreeMap<u64, String>,
    /// The types of artifacts that the revision at hand must make.
    pub(super) wanted: Vec<String>,
    pub(super) artifacts: Artifacts,
    /// What was uploaded: SHA-256, and type, media type and name of each.
    pub(super) uploads: BTreeSet<(Vec<u8>, [String; 3])>,
    pub(super) active: Active,
    pub(super) created_at: i64,
    started: bool,
    pub(super) pause_wanted: bool,
    pub(super) paused_at: Option<i64>,
    /// The step whose failure ends the revision, and whether others go on.
    pub(super) cause: Option<(Option<u32>, bool)>,
    /// The state byte of its end.
    end: Option<u8>,
}

/// One step.
#[derive(Debug, Default)]
pub(super) struct Step {
    pub(super) key: String,
    pub(super) kind: String,
    pub(super) document: Option<Value>,
    pub(super) stage: Stage,
    pub(super) epoch: u32,
    /// The epoch is at least this one: the first entry about a unit says which.
    pub(super) is_epoch_open: bool,
    pub(super) units: BTreeMap<u32, UnitBook>,
    /// What models ask for, by the unit that would be called: the action, and the arguments unless it is refused.
    pub(super) asked: BTreeMap<u32, (String, Option<Value>)>,
    /// What a safety check found safe.
    pub(super) cleared: BTreeSet<Vec<u8>>,
    pub(super) output: Option<Value>,
    pub(super) error: Option<(String, String)>,
}

/// Where a step is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stage {
    #[default]
    Pending,
    Running,
    Completed,
    Failed,
    /// Skipped or blocked.
    Left,
}

/// One unit in the epoch at hand.
#[derive(Debug, Default)]
pub(super) struct UnitBook {
    /// The attempt that lives.
    pub(super) live: Option<u32>,
    pub(super) attempts: u32,
    pub(super) completed: bool,
    pub(super) failed: bool,
    pub(super) output: Option<Value>,
    pub(super) retry_at: Option<i64>,
    pub(super) retries: u32,
    pub(super) extensions: u32,
    pub(super) child: Option<Vec<u8>>,
    /// The payload that an approval has put in the place of the rendered one.
    pub(super) edited: Option<Value>,
    /// What the attempt that lives may use, and the model that it asks.
    pub(super) reserved: Option<(Usage, String)>,
    /// What it is bound to.
    pub(super) subject: Vec<u8>,
    pub(super) waits: bool,
    /// Digests that were approved for it, each by whom.
    pub(super) approved: BTreeMap<Vec<u8>, BTreeSet<String>>,
}

/// A question.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) asked: crate::journal::Asked,
    pub(super) open: bool,
    pub(super) n_answers: u32,
    pub(super) approvers: BTreeSet<String>,
}

impl Book {
    pub(super) fn new(run: &[u8; 16]) -> Self {
        Self {
            entries: Vec::new(),
            chain: chain_begin(run),
            at: i64::MIN,
            passed_ms: 0,
            id: *run,
            spec: Spec::default(),
            input: Value::Null,
            environment: Value::Null,
            revision: Vec::new(),
            risks: BTreeMap::new(),
            effects: BTreeSet::new(),
            n_revisions: 0,
            settled: Settled::default(),
            steps: Vec::new(),
            parallel: false,
            requests: BTreeMap::new(),
            evaluations: BTreeMap::new(),
            generations: BTreeMap::new(),
            planning: None,
            disabled: BTreeSet::new(),
            n_substitutions: 0,
            fell_back: false,
            substitutes: false,
            purse: Purse::default(),
            doings: Doings::default(),
            view: View::default(),
            set_back: BTreeMap::new(),
            wanted: Vec::new(),
            artifacts: Artifacts::default(),
            uploads: BTreeSet::new(),
            active: Active::default(),
            created_at: 0,
            started: false,
            pause_wanted: false,
            paused_at: None,
            cause: None,
            end: None,
        }
    }

    pub(super) fn n_entries(&self) -> u64 {
        self.entries.len() as u64
    }

    pub(super) fn entries(&self) -> &[Vec<u8>] {
        &self.entries
    }

    /// True if it was admitted, has not ended and is not paused.
    pub(super) fn is_under_way(&self) -> bool {
        self.started && self.end.is_none() && self.paused_at.is_none()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.end.is_some()
    }

    // RI13
    /// Puts an entry behind the others.
    pub(super) fn link(&mut self, bytes: &[u8], link: &[u8; 32], desk: &mut Desk<'_>) -> Option<Entry> {
        self.entries.push(bytes.to_vec());
        self.chain = chain_next(&self.chain, self.n_entries(), bytes);
        if self.chain != *link {
            desk.finds("RI13", "the chain is broken");
        }
        let entry = match super::entry(bytes) {
            Ok(entry) => entry,
            Err(why) => {
                desk.finds("RI13", &why);
                return None;
            }
        };
        if entry.sequence != self.n_entries() {
            desk.finds("RI13", &format!("says that it is entry {}", entry.sequence));
        }
        if entry.at < self.at {
            desk.finds("RI13", "time goes back");
        }
        if self.end.is_some() {
            desk.finds("RI2", &format!("comes behind the end: {:?}", entry.event));
        }
        self.passed_ms = match self.at {
            i64::MIN => 0,
            at => u64::try_from(entry.at.saturating_sub(at)).unwrap_or(0),
        };
        self.at = entry.at;
        Some(entry)
    }

    pub(super) fn take(&mut self, entry: Entry, desk: &mut Desk<'_>) {
        let counted_ms = self.counts(&entry, self.passed_ms, desk);
        self.passes(counted_ms, &entry.event, desk);
        self.marks_time(&entry.event);
        self.check_pause(&entry.event, desk);
        if matches!(
            entry.event,
            Event::Completed | Event::Failed { .. } | Event::Cancelled
        ) {
            self.tells_what_it_spent(entry.spent, desk);
        }
        match entry.event {
            Event::Created {
                run,
                spec,
                input,
                environment,
            } => {
                if run != self.id {
                    desk.finds("RI1", "is that of another run");
                }
                self.created_at = entry.at;
                self.doings.are_promised(desk);
                self.spec = *spec;
                self.input = desk.object(&input);
                self.environment = desk.object(&environment);
                self.check_allowance(desk);
                self.begins_from(entry.at, desk);
            }
            Event::Planned {
                digest,
                n_steps,
                document,
                risks,
                effects,
                produces,
                generation,
                disabled,
            } => {
                self.revision = digest;
                self.n_revisions += 1;
                self.counts_revisions(desk);
                (self.settled, self.effects) = (Settled::default(), effects.into_iter().collect());
                self.risks = risks.into_iter().collect();
                let document = desk.object(&document);
                self.check_revision(&document, generation, &disabled, desk);
                self.check_constraints(&document, generation, &produces, desk);
                if generation > 0 {
                    self.doings.are_promised(desk);
                }
                self.begins_anew(&document, n_steps);
            }
            // RUN-2.6
            Event::ActionsKnown { risks, effects } => {
                if self.started {
                    desk.finds("RI1", "actions become known behind the admission");
                }
                self.effects = effects.into_iter().collect();
                self.risks = risks.into_iter().collect();
            }
            Event::Started => self.started = true,
            Event::PauseRequested => self.pause_wanted = true,
            Event::Paused => self.paused_at = Some(entry.at),
            Event::Resumed => (self.pause_wanted, self.paused_at) = (false, None),
            Event::Failing { step, drains } => self.cause = Some((step, drains)),
            Event::Completed => {
                if self.fell_back {
                    desk.finds("RI2", "a run whose fallback was called completes");
                }
                self.check_made(desk);
                self.ends(6, desk);
            }
            Event::Failed { timed_out } => self.ends(if timed_out { 8 } else { 7 }, desk),
            Event::Cancelled => self.ends(9, desk),
            Event::Asked(_)
            | Event::Decided(_)
            | Event::Answered(_)
            | Event::Expired(_)
            | Event::Closed(_) => self.take_of_people(entry.event, desk),
            Event::StepStarted(_)
            | Event::StepCompleted { .. }
            | Event::StepFailed { .. }
            | Event::StepSkipped { .. }
            | Event::StepBlocked(_)
            | Event::StepReset(_)
            | Event::Memoized { .. } => self.take_of_step(entry.event, desk),
            Event::EvaluationRequested { .. }
            | Event::Evaluated { .. }
            | Event::Called(_)
            | Event::Output(_)
            | Event::Retrying { .. }
            | Event::UnitFailed(_)
            | Event::UnitMemoized { .. }
            | Event::ToolsAsked { .. }
            | Event::BudgetAwaited(_)
            | Event::ChildStarted { .. }
            | Event::ChildEnded { .. } => self.take_of_unit(entry.event, desk),
            Event::GenerationStarted(_) | Event::GenerationEnded { .. } | Event::Replanned { .. } => {
                self.take_of_planning(entry.event, desk);
            }
            Event::SessionRead { .. } | Event::StatePatched { .. } => {
                self.take_of_session(entry.event, desk);
            }
            Event::Declared(declared) => {
                if declared.unit.is_none() {
                    self.uploaded(&declared, desk);
                }
                self.declared(*declared, desk);
            }
            Event::Verifying(wanted) => self.verifies(&wanted, desk),
            Event::Verified(verified) => self.verified(&verified, desk),
            Event::TimedOut { limit, ms } => self.is_over(limit, ms, desk),
            Event::Recovered { .. }
            | Event::Stalled { .. }
            | Event::Checkpoint
            | Event::RolledBack(_)
            | Event::Other => {}
        }
    }

    // RI1
    /// A pause that was acknowledged holds until somebody says otherwise.
    fn check_pause(&self, event: &Event, desk: &mut Desk<'_>) {
        let starts = matches!(
            event,
            Event::Started
                | Event::StepStarted(_)
                | Event::Called(_)
                | Event::ChildStarted { .. }
                | Event::GenerationStarted(_)
        );
        if starts && self.pause_wanted {
            desk.finds("RI1", &format!("a pause is lost: {event:?}"));
        }
    }

    fn ends(&mut self, state: u8, desk: &mut Desk<'_>) {
        desk.count("ends");
        self.end = Some(state);
    }

    fn take_of_step(&mut self, event: Event, desk: &mut Desk<'_>) {
        match event {
            Event::StepStarted(step) => {
                self.check_overlap(step, desk);
                self.moves(step, Stage::Running, desk);
            }
            Event::StepCompleted { step, output } => {
                let output = output.map(|output| desk.value(&output));
                self.moves(step, Stage::Completed, desk);
                self.steps[step as usize].output = output;
            }
            Event::StepFailed { step, code, message } => {
                self.moves(step, Stage::Failed, desk);
                self.steps[step as usize].error = Some((code, message));
            }
            Event::StepSkipped { step } | Event::StepBlocked(step) => self.moves(step, Stage::Left, desk),
            Event::StepReset(step) => {
                self.sets_back(step, desk);
                self.artifacts.set_back(step);
                desk.count("steps that were set back");
                self.doings.are_open = true;
                if self.cause.is_some_and(|(cause, _)| cause == Some(step)) {
                    self.cause = None;
                }
                self.evaluations.retain(|_, unit| unit.step != step);
                let step = &mut self.steps[step as usize];
                *step = Step {
                    key: std::mem::take(&mut step.key),
                    kind: std::mem::take(&mut step.kind),
                    document: step.document.take(),
                    epoch: step.epoch + 1,
                    is_epoch_open: step.is_epoch_open,
                    ..Step::default()
                };
            }
            Event::Memoized {
                step,
                output,
                units,
                keys,
            } => {
                desk.count("steps that were kept");
                self.keeps(step);
                keys.iter().for_each(|key| self.takes_over(step, key, desk));
                self.moves(step, Stage::Completed, desk);
                let output = output.map(|output| desk.value(&output));
                let units = units.iter().zip(0..).map(|(output, index)| {
                    let output = output.as_ref().map(|output| desk.value(output));
                    let unit = UnitBook {
                        completed: output.is_some(),
                        failed: output.is_none(),
                        output,
                        ..UnitBook::default()
                    };
                    (index, unit)
                });
                let units = units.collect();
                let step = &mut self.steps[step as usize];
                (step.output, step.units) = (output, units);
            }
            _ => unreachable!("{event:?} is not about a step"),
        }
    }

    // RI2 of steps: what has ended changes no more in its epoch.
    fn moves(&mut self, step: u32, to: Stage, desk: &mut Desk<'_>) {
        let Some(it) = self.steps.get_mut(step as usize) else {
            return desk.finds("RI13", &format!("there is no step {step}"));
        };
        if matches!(it.stage, Stage::Completed | Stage::Failed | Stage::Left) {
            let from = it.stage;
            desk.finds(
                "RI7",
                &format!("step {step} has ended as {from:?} and becomes {to:?}"),
            );
        }
        self.steps[step as usize].stage = to;
    }

    // RI8
    /// What lists show follows from the journal, and a run that has not ended has its timer.
    pub(super) fn check_row(&self, row: Row, desk: &mut Desk<'_>) {
        match self.end {
            Some(end) if row.state != end => {
                desk.finds("RI2", &format!("ended as {end} and is shown as {}", row.state));
            }
            Some(_) => {}
            None if (6..10).contains(&row.state) => {
                desk.finds("RI2", &format!("has no end and is shown as {}", row.state))
            }
            None => {
                let bound = self.due_bound();
                if row.due_at.is_none_or(|due_at| due_at > bound) {
                    desk.finds(
                        "RI8",
                        &format!("has to go on at {bound}, and its timer is {:?}", row.due_at),
                    );
                }
            }
        }
    }

    /// The run has to do something at this time at the latest.
    fn due_bound(&self) -> i64 {
        let after = |at: i64, ms: u64| at.saturating_add_unsigned(ms);
        let mut bound = after(self.created_at, self.spec.lifetime_ms);
        for request in self.requests.values().filter(|request| request.open) {
            bound = bound.min(request.asked.expires_at);
        }
        if let Some(paused_at) = self.paused_at {
            return bound.min(after(paused_at, self.spec.pause_ms));
        }
        let starts = self.cause.is_none_or(|(_, drains)| drains);
        if self.started && !self.pause_wanted && starts {
            let running = self.steps.iter().filter(|step| step.stage == Stage::Running);
            let backing_off = running.flat_map(|step| step.units.values());
            for at in backing_off.filter_map(|unit| unit.retry_at) {
                bound = bound.min(at);
            }
        }
        // A look is due only while the run verifies.
        if self.started && !self.pause_wanted && self.cause.is_none() {
            bound = bound.min(self.artifacts.due_at().unwrap_or(bound));
        }
        let waits = self.requests.values().any(|request| request.open);
        if self.started && !waits {
            bound = bound.min(after(self.at, self.spec.run_ms));
            if self.planning.is_some() {
                bound = bound.min(after(self.at, self.spec.generation_ms));
            }
        }
        bound
    }
}
