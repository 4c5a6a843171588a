//! Artifacts that outputs declare, and their verification before a run completes.

use super::Turn;
use super::contract::Rendered;
use super::dispatch::DISPATCH_MS_MIN;
use crate::artifacts::{self, Declared, Found, PER_RUN_MAX};
use crate::ids::artifact_id;
use crate::input::Effect;
use crate::journal::{
    ArtifactCreated, ArtifactVerified, Event, Failure, OutcomeClass, RunVerifying, ToolCalled, ToolOutput,
    UnitRef,
};
use crate::outcome::{AttemptOutcome, cut};
use crate::plan::constraints::wanted_types;
use crate::spec::LOOK_ACTION;
use crate::state::{ArtifactState, StepStage, Verdict};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use bytes::Bytes;
use escapement_model::limits::MESSAGE_CHARS_MAX;
use escapement_model::opaque::StructBuilder;
use escapement_model::planted::{self, Bug};

impl Turn<'_> {
    // RUN-12.7
    /// The outcome, unless its output declares artifacts in a way that nobody can read.
    pub(super) fn declaring(&self, outcome: AttemptOutcome, is_first: bool) -> AttemptOutcome {
        let output = outcome
            .output
            .as_ref()
            .filter(|_| outcome.class == OutcomeClass::Completed && is_first);
        let declared = output.map_or(Ok(Vec::new()), |output| artifacts::declared(output));
        let room = PER_RUN_MAX - self.state.artifacts.len();
        let message = match declared {
            Ok(declared) if declared.len() <= room => return outcome,
            Ok(_) => format!("the run has {PER_RUN_MAX} artifacts, as many as it may have"),
            Err(what) => what,
        };
        AttemptOutcome {
            class: OutcomeClass::FailedForGood,
            output: None,
            code: String::from("OUTPUT_INVALID"),
            message: cut(&message, MESSAGE_CHARS_MAX),
            pause: false,
            ..AttemptOutcome::default()
        }
    }

    // RUN-12.7
    /// Writes down the artifacts that a unit's output declares. What cannot be read declares none.
    pub(crate) fn declare(&mut self, unit: UnitRef, action: &str, output: &[u8]) {
        for declared in artifacts::declared(output).unwrap_or_default() {
            if self.state.artifacts.len() >= PER_RUN_MAX {
                return;
            }
            self.declare_one(unit, action, declared);
        }
    }

    fn declare_one(&mut self, unit: UnitRef, action: &str, declared: Declared) {
        let number = self.state.n_artifacts + 1;
        let found = declared.data.as_ref().map(|data| artifacts::found_in(data));
        let given = found.as_ref().map(|found| found.size_bytes);
        let digest = declared.sha256.or(found.and_then(|found| found.sha256));
        let content = declared.data.map(|data| self.put_away(Bytes::from(data)));
        self.emit(Event::ArtifactCreated(ArtifactCreated {
            id: Bytes::copy_from_slice(artifact_id(self.run_id(), number).as_bytes()),
            number,
            unit: Some(unit),
            action: action.to_string(),
            artifact_type: declared.artifact_type,
            mime_type: declared.mime_type,
            name: declared.name,
            path: declared.path,
            content,
            size_bytes: declared.size_bytes.or(given),
            sha256: digest.map_or_else(Bytes::new, |digest| Bytes::copy_from_slice(&digest)),
            preview_url: declared.preview_url,
        }));
    }

    // RUN-12.8
    /// Looks at the artifacts that the run must produce. `None` while that goes on, else whether they are there.
    pub(super) fn verify(&mut self) -> Option<Result<(), Failure>> {
        let constraints = &self.state.spec.constraints;
        let wanted: Vec<String> = wanted_types(&self.plan.constraints, constraints)
            .into_iter()
            .map(str::to_string)
            .collect();
        if wanted.is_empty() || planted::is_on(Bug::RunArtifactUnseen) {
            return Some(Ok(()));
        }
        if !self.state.is_verifying {
            let wanted = wanted.clone();
            self.emit(Event::RunVerifying(RunVerifying { wanted }));
        }
        for at in 0..self.state.artifacts.len() {
            let artifact = &self.state.artifacts[at];
            if wanted.contains(&artifact.created.artifact_type) && artifact.verdict() == Verdict::Unknown {
                self.look_at(at);
                if self.state.stage().is_end() {
                    return None;
                }
            }
        }
        let is_open = |artifact: &ArtifactState| {
            wanted.contains(&artifact.created.artifact_type) && artifact.verdict() == Verdict::Unknown
        };
        if self.state.artifacts.iter().any(is_open) {
            return None;
        }
        for one in &wanted {
            let of_type: Vec<_> = {
                let all = self.state.artifacts.iter();
                all.filter(|artifact| artifact.created.artifact_type == *one)
                    .collect()
            };
            let is_right = |artifact: &&ArtifactState| artifact.verdict() == Verdict::Right;
            match of_type.first() {
                _ if of_type.iter().any(is_right) => {}
                Some(artifact) => return Some(Err(invalid(artifact))),
                None => return Some(Err(self.missing(one))),
            }
        }
        Some(Ok(()))
    }

    /// Judges what is given; has a worker look at what is not.
    fn look_at(&mut self, at: usize) {
        let artifact = self.state.artifacts[at].clone();
        if let Some(content) = &artifact.created.content {
            let found = artifacts::found_in(&self.load(content));
            return self.judge_artifact(&artifact.created, &found);
        }
        let Some(unit) = artifact.created.unit else {
            unreachable!("what is uploaded is given");
        };
        if artifact.live.is_some() || artifact.again_at > self.now {
            return;
        }
        // RUN-7.4
        if self.remaining_ms() < DISPATCH_MS_MIN {
            return self.outer_limit_is_over();
        }
        self.send_look(unit, &artifact);
    }

    // RUN-12.9
    fn send_look(&mut self, unit: UnitRef, artifact: &ArtifactState) {
        let (unit, attempt) = (unit.verification(artifact.created.number), artifact.attempts + 1);
        let rendered = Rendered {
            action: String::from(LOOK_ACTION),
            payload: StructBuilder::new().text("path", &artifact.created.path).build(),
        };
        let profile = self.profile(LOOK_ACTION);
        let subject = self.subject_digest(unit, &rendered);
        let attempt_ms = self.cut_ms(self.state.spec.limits.attempt_ms);
        let request = self.contract_request(unit, attempt, &rendered, &subject, attempt_ms);
        let stored = self.store(request.clone());
        self.emit(Event::ToolCalled(ToolCalled {
            unit,
            attempt,
            action: rendered.action,
            request: stored,
            subject_digest: Bytes::copy_from_slice(&subject),
            effect: crate::spec::EffectClass::World.into(),
            attempt_ms,
            approval: Bytes::new(),
            result_key: Bytes::new(),
            reserved: None,
            model: String::new(),
        }));
        self.effect(Effect::Submit {
            execution_id: self.attempt_name(unit, attempt).execution_id(),
            request,
            attempt_ms,
            seen: profile.seen,
        });
    }

    // RUN-12.9
    /// A worker has looked at an artifact, or could not.
    pub(super) fn looked(&mut self, live: &ToolCalled, outcome: AttemptOutcome) {
        let outcome = super::judge::bounded(outcome, live);
        let class = outcome.class;
        let found = outcome
            .output
            .as_ref()
            .and_then(|output| artifacts::found_by_stat(output));
        let failed = class != OutcomeClass::Completed;
        let output = outcome.output.map(|output| self.store(output));
        let error = failed.then(|| Failure::of_step(live.unit.step, &outcome.code, &outcome.message));
        self.emit(Event::ToolOutput(ToolOutput {
            retry_after_ms: 0,
            unit: live.unit,
            attempt: live.attempt,
            class: class.into(),
            output,
            error: error.clone(),
            pause: false,
            is_safe: false,
            patches: false,
            fits_schema: None,
            usage: None,
            mistakes: Vec::new(),
        }));
        let number = live.unit.of_verification();
        let artifact = self
            .state
            .artifacts
            .iter()
            .find(|artifact| artifact.created.number == number);
        let Some(artifact) = artifact.cloned() else {
            return;
        };
        let again = match class {
            OutcomeClass::NeverRan
            | OutcomeClass::Failed
            | OutcomeClass::TimedOut
            | OutcomeClass::Unknown => artifact.attempts < LOOKS_MAX,
            OutcomeClass::Completed | OutcomeClass::FailedForGood | OutcomeClass::ApprovalRequired => false,
        };
        let problem = match (error, found) {
            (None, Some(found)) => return self.judge_artifact(&artifact.created, &found),
            (None, None) => format!("{LOOK_ACTION} does not say what it found"),
            (Some(error), _) => format!("{LOOK_ACTION}: {}: {}", error.code, error.message),
        };
        let delay_ms = match planted::is_on(Bug::RunLookAtOnce) {
            true => 1,
            false => LOOK_AGAIN_MS << artifact.attempts.min(LOOKS_MAX),
        };
        self.emit(Event::ArtifactVerified(ArtifactVerified {
            number,
            problem: cut(&problem, MESSAGE_CHARS_MAX),
            again_at: if again {
                self.now.saturating_add(delay_ms)
            } else {
                0
            },
            ..ArtifactVerified::default()
        }));
    }

    fn judge_artifact(&mut self, artifact: &ArtifactCreated, found: &Found) {
        let problem =
            artifacts::problem(artifact, found).filter(|_| !planted::is_on(Bug::RunArtifactBelieved));
        let problem = problem.unwrap_or_default();
        self.emit(Event::ArtifactVerified(ArtifactVerified {
            number: artifact.number,
            problem,
            size_bytes: found.size_bytes,
            sha256: found
                .sha256
                .map_or_else(Bytes::new, |digest| Bytes::copy_from_slice(&digest)),
            again_at: 0,
        }));
    }

    /// No artifact of the type was declared. The step that should have done so is named, if there is one.
    fn missing(&self, wanted: &str) -> Failure {
        let made = (0..self.n_steps()).find(|step| {
            let produces = |action: &String| self.profile(action).produces.iter().any(|one| one == wanted);
            self.step_state(*step).stage() == StepStage::Completed
                && self.actions_of(*step).iter().any(produces)
        });
        Failure {
            code: String::from(MISSING),
            message: cut(
                &format!("no artifact of the type {wanted:?} was made"),
                MESSAGE_CHARS_MAX,
            ),
            step: made,
        }
    }

    /// The actions that the units of a step have called.
    pub(super) fn actions_of(&self, step: u32) -> Vec<String> {
        let units = 0..u32::try_from(self.step_state(step).units.len()).expect("units are few");
        units
            .map(|index| self.action_of(self.unit_ref(step, index)))
            .collect()
    }
}

fn invalid(artifact: &ArtifactState) -> Failure {
    let created = &artifact.created;
    let place = if created.path.is_empty() {
        &created.name
    } else {
        &created.path
    };
    Failure {
        code: String::from(INVALID),
        message: cut(
            &format!(
                "the artifact {place:?} of the type {:?} is not right: {}",
                created.artifact_type, artifact.problem
            ),
            MESSAGE_CHARS_MAX,
        ),
        step: created.unit.map(|unit| unit.step),
    }
}

/// The code of a run that made no artifact of a type that it must produce.
pub(super) const MISSING: &str = "ARTIFACT_MISSING";
/// The code of a run whose artifacts of such a type are not right.
pub(super) const INVALID: &str = "ARTIFACT_INVALID";
/// How often a worker is asked to look at one artifact.
const LOOKS_MAX: u32 = 4;
/// Half of the time before the second look; it doubles.
const LOOK_AGAIN_MS: i64 = 500;
