//! Which input an entry and those behind it tell of. Decides nothing: whether the law would have written them is seen by trying.

use alloc::format;
use alloc::string::{String, ToString};
use bytes::Bytes;
use escapement_model::{InputRequestId, Opaque};
use escapement_run::catalogue::Catalogue;
use escapement_run::ids::{AttemptName, RunId};
use escapement_run::journal::{
    ArtifactCreated, CatalogueGiven, Decision, Entry, Event, Failure, OutcomeClass, RequestAnswer,
    RunRolledBack, SessionRead, SkipReason, Stored, ToolOutput, UnitRef,
};
use escapement_run::outcome::AttemptOutcome;
use escapement_run::{Answer, Blobs, Input, OverrideWord, RewindScope, Rollback, Run, SessionNews, Upload};
use prost::Message;

/// What an input is told from.
pub(crate) struct Reader<'a> {
    /// The run before it.
    pub(crate) run: &'a Run,
    /// What entries refer to.
    pub(crate) blobs: &'a dyn Blobs,
}

/// Returns the input that leads to these entries. At least one is there.
#[expect(clippy::too_many_lines, reason = "a table")]
pub(crate) fn input(reader: &Reader<'_>, entries: &[Entry]) -> Result<Input, String> {
    let run_id = || run_id_of(&reader.run.state().run_id);
    Ok(match event(&entries[0])? {
        Event::RunStarted(_) => Input::Admit,
        Event::ToolOutput(output) => Input::Settled {
            execution_id: reader
                .attempt(run_id()?, output.unit, output.attempt)?
                .execution_id(),
            outcome: reader.outcome(output)?,
        },
        Event::CatalogueGiven(given) => reader.catalogue(given)?,
        Event::Evaluated(evaluated) => Input::Evaluated {
            evaluation: evaluated.evaluation,
            result: match evaluated.error.as_str() {
                "" => Ok(evaluated.value),
                why => Err(why.to_string()),
            },
        },
        Event::ChildRunEnded(ended) => Input::ChildEnded {
            run_id: reader.child(ended.unit)?,
            result: match (&ended.output, &ended.error) {
                (Some(output), None) => Ok(reader.load(output)?),
                (None, Some(error)) => Err(error.message.clone()),
                _ => return Err("a child has an output or a failure".to_string()),
            },
            used: ended.usage,
            doubts: ended.tells_doubts.then(|| ended.doubts.clone()),
        },
        Event::InputReceived(answer) | Event::DecisionRecorded(answer) => {
            reader.answered(answer, &entries[1..])?
        }
        Event::PauseRequested(pause) => Input::Pause {
            reason: pause.reason.clone(),
        },
        Event::RunResumed(resume) => Input::Resume {
            reason: resume.reason.clone(),
        },
        Event::RunRolledBack(back) => reader.rolled_back(back)?,
        Event::CheckpointCreated(checkpoint) => Input::Checkpoint {
            data: Opaque::from_encoded(reader.load(&checkpoint.data)?),
        },
        Event::ArtifactCreated(artifact) if artifact.unit.is_none() => reader.uploaded(artifact)?,
        Event::RunRecovered(found) => match found.orderly {
            true => Input::Restarted,
            false => Input::Recovered,
        },
        Event::RunStalled(stalled) => Input::Stalled {
            ms: stalled.stalled_ms,
        },
        Event::ActionsKnown(known) => Input::ActionsKnown {
            profiles: known.profiles.clone(),
        },
        Event::SessionRead(read) => Input::Session(reader.session(read)?),
        // A retry that is due, the end of a request, or of a generation.
        Event::ToolCalled(_)
        | Event::SkillHealthChanged(_)
        | Event::ChildRunStarted(_)
        | Event::InputRequested(_)
        | Event::UnitFailed(_)
        | Event::GenerationEnded(_)
        | Event::BudgetAwaited(_)
        | Event::InputExpired(_) => Input::Time,
        Event::InputClosed(_)
        | Event::StepSkipped(_)
        | Event::StepCompleted(_)
        | Event::StepFailed(_)
        | Event::TimeoutError(_)
        | Event::ReplanTriggered(_)
        | Event::RunCancelled(_) => reader.behind_what_was_closed(entries)?,
        Event::RunCreated(_)
        | Event::PlanCreated(_)
        | Event::StepStarted(_)
        | Event::EvaluationRequested(_)
        | Event::StepRetrying(_)
        | Event::StepBlocked(_)
        | Event::StepReset(_)
        | Event::StepMemoized(_)
        | Event::ToolsAsked(_)
        | Event::StatePatched(_)
        | Event::BudgetWarning(_)
        | Event::RunPaused(_)
        | Event::RevisionFailing(_)
        | Event::UnitMemoized(_)
        | Event::ArtifactCreated(_)
        | Event::RunVerifying(_)
        | Event::ArtifactVerified(_)
        | Event::GenerationStarted(_)
        | Event::PlanSummary(_)
        | Event::FallbackUsed(_)
        | Event::RunCompleted(_)
        | Event::RunFailed(_) => return Err("no input leads to such an entry".to_string()),
    })
}

fn event(entry: &Entry) -> Result<&Event, String> {
    entry.event.as_ref().ok_or_else(|| "says nothing".to_string())
}

fn run_id_of(bytes: &[u8]) -> Result<RunId, String> {
    let bytes: Option<[u8; 16]> = bytes.try_into().ok();
    let run_id = bytes.and_then(RunId::from_bytes);
    run_id.ok_or_else(|| "has no id of a run".to_string())
}

/// What was kept, in place or by its hash.
pub(crate) fn load(stored: &Stored, blobs: &dyn Blobs) -> Result<Bytes, String> {
    if stored.digest.is_empty() {
        return Ok(stored.inline.clone());
    }
    let digest: Result<[u8; 32], _> = stored.digest[..].try_into();
    let digest = digest.map_err(|_| "refers to something by what is no SHA-256".to_string())?;
    Ok(blobs.blob(&digest))
}

impl<'a> Reader<'a> {
    fn uploaded(&self, artifact: &ArtifactCreated) -> Result<Input, String> {
        let content = artifact.content.as_ref();
        Ok(Input::Upload(Upload {
            artifact_type: artifact.artifact_type.clone(),
            mime_type: artifact.mime_type.clone(),
            name: artifact.name.clone(),
            content: self.load(content.ok_or("what is uploaded has a content")?)?,
        }))
    }

    fn load(&self, stored: &Stored) -> Result<Bytes, String> {
        load(stored, self.blobs)
    }

    fn session(&self, read: &SessionRead) -> Result<SessionNews, String> {
        let state = match &read.state {
            Some(state) => Some((read.state_version, Opaque::from_encoded(self.load(state)?))),
            None => None,
        };
        let health = read.health.as_ref();
        let health = health.map(|health| (health.version, health.skills.clone()));
        Ok(SessionNews { state, health })
    }

    fn attempt(&self, run_id: RunId, unit: UnitRef, attempt: u32) -> Result<AttemptName<'a>, String> {
        let step = self.run.plan().steps.get(unit.step as usize);
        let key = match step {
            _ if unit.is_generation() => AttemptName::PLANNER,
            Some(step) => &step.key,
            None => return Err(format!("the plan has no step at {}", unit.step)),
        };
        Ok(AttemptName {
            run_id,
            seed: self.run.state().spec.seed(),
            step: key,
            index: unit.index,
            epoch: unit.epoch,
            attempt,
        })
    }

    /// What a planner may choose from.
    fn catalogue(&self, given: &CatalogueGiven) -> Result<Input, String> {
        let catalogue = Catalogue::decode(self.load(&given.catalogue)?);
        Ok(Input::Catalogue {
            generation: given.generation,
            catalogue: catalogue.map_err(|_| "is no list of actions".to_string())?,
            own: given.own.clone(),
        })
    }

    fn child(&self, unit: UnitRef) -> Result<RunId, String> {
        let step = self.run.state().steps.get(unit.step as usize);
        let unit = step.and_then(|step| step.units.get(unit.index as usize));
        let unit = unit.ok_or_else(|| "the run has no such unit".to_string())?;
        run_id_of(&unit.child)
    }

    fn outcome(&self, output: &ToolOutput) -> Result<AttemptOutcome, String> {
        let value = output
            .output
            .as_ref()
            .map(|stored| self.load(stored))
            .transpose()?;
        // RUN-12.13: the law itself says that it failed.
        if output.fits_schema == Some(false) {
            return Ok(AttemptOutcome {
                class: OutcomeClass::Completed,
                output: value,
                code: String::new(),
                message: String::new(),
                pause: output.pause,
                retry_after_ms: output.retry_after_ms,
                mistakes: output.mistakes.clone(),
            });
        }
        let error = match (output.class(), &value, &output.error) {
            (OutcomeClass::Completed, Some(_), None) => Failure::default(),
            (OutcomeClass::ApprovalRequired, _, Some(error)) => error.clone(),
            (class, None, Some(error)) if class != OutcomeClass::Completed => error.clone(),
            _ => return Err("an attempt has an output or a failure".to_string()),
        };
        Ok(AttemptOutcome {
            class: output.class(),
            output: value,
            code: error.code,
            message: error.message,
            pause: output.pause,
            retry_after_ms: output.retry_after_ms,
            mistakes: output.mistakes.clone(),
        })
    }

    /// Returns an answer, with the plan that it puts in the place of another one.
    fn answered(&self, answer: &RequestAnswer, behind: &[Entry]) -> Result<Input, String> {
        let mut requests = self.run.state().requests.iter();
        let of_plan = requests.any(|request| request.id == answer.id && request.unit.is_none());
        let answered = self.answer(answer)?;
        if !of_plan || answer.decision() != Decision::ApproveWithEdits {
            return Ok(Input::Answer(answered));
        }
        match behind.first().and_then(|entry| entry.event.as_ref()) {
            Some(Event::PlanCreated(revision)) => Ok(Input::ApproveEdited {
                answer: answered,
                profiles: revision.profiles.clone(),
            }),
            _ => Err("an edited plan is a revision".to_string()),
        }
    }

    fn answer(&self, answer: &RequestAnswer) -> Result<Answer, String> {
        let mut requests = self.run.state().requests.iter();
        let request = requests.find(|request| request.id == answer.id);
        let request = request.ok_or_else(|| "the run asked nothing of this id".to_string())?;
        let id: Option<[u8; 16]> = answer.id[..].try_into().ok();
        let id = id.and_then(InputRequestId::from_bytes);
        let value = answer
            .value
            .as_ref()
            .map(|stored| self.load(stored))
            .transpose()?;
        Ok(Answer {
            request_id: id.ok_or_else(|| "has no id of a request".to_string())?,
            // The answer has another one if it edits what was asked about.
            subject_digest: request.subject_digest.clone(),
            responder: answer.responder.clone(),
            decision: answer.decision(),
            value: value.unwrap_or_default(),
            comment: answer.comment.clone(),
        })
    }

    fn rolled_back(&self, back: &RunRolledBack) -> Result<Input, String> {
        match (back.mode.as_str(), back.step) {
            ("rewind", Some(step)) => {
                let step = self.run.plan().steps.get(step as usize);
                Ok(Input::Rewind {
                    step_key: step
                        .ok_or_else(|| "the plan has no such step".to_string())?
                        .key
                        .clone(),
                    scope: match back.dependents {
                        true => RewindScope::Dependents,
                        false => RewindScope::Later,
                    },
                    // Without this it would have been refused, or it makes no difference.
                    allow_repeat_effects: true,
                })
            }
            ("reset", None) => Ok(rollback(Rollback::Reset)),
            ("restore", None) => Ok(rollback(Rollback::Restore(Some(back.checkpoint)))),
            (mode, _) => Err(format!("{mode:?} is no way back")),
        }
    }

    /// The end of a run and an operator's word begin with what they close and skip.
    fn behind_what_was_closed(&self, entries: &[Entry]) -> Result<Input, String> {
        for entry in entries {
            match event(entry)? {
                Event::InputClosed(_) => {}
                Event::StepSkipped(skipped) if skipped.reason() == SkipReason::RunEnded => {}
                Event::RunCancelled(cancelled) => {
                    return Ok(Input::Cancel {
                        reason: cancelled.reason.clone(),
                    });
                }
                // The limit of a plan, after which another one is wanted.
                Event::TimeoutError(_) | Event::ReplanTriggered(_) => return Ok(Input::Time),
                Event::StepSkipped(skipped) => {
                    return self.overridden(skipped.step, OverrideWord::Skip, &skipped.comment);
                }
                Event::StepCompleted(completed) => {
                    let output = completed
                        .output
                        .as_ref()
                        .ok_or("a word that completes has an output")?;
                    let reason = completed.reason.strip_prefix("override: ");
                    let reason = reason.ok_or("no input completes a step by itself")?;
                    let word = OverrideWord::Complete(self.load(output)?);
                    return self.overridden(completed.step, word, reason);
                }
                Event::StepFailed(failed) => {
                    let (message, reason) = operator_said(&failed.error.message);
                    let word = OverrideWord::Fail {
                        code: failed.error.code.clone(),
                        message: message.to_string(),
                    };
                    return self.overridden(failed.step, word, reason);
                }
                _ => break,
            }
        }
        Err("no input leads to such an entry".to_string())
    }

    fn overridden(&self, step: u32, word: OverrideWord, reason: &str) -> Result<Input, String> {
        let step = self.run.plan().steps.get(step as usize);
        Ok(Input::Override {
            step_key: step.ok_or("the plan has no such step")?.key.clone(),
            word,
            reason: reason.to_string(),
        })
    }
}

/// Returns an operator's message and reason, as one text has them. If that was cut, it is cut again at the same place.
fn operator_said(text: &str) -> (&str, &str) {
    let parts = text
        .strip_suffix(')')
        .and_then(|text| text.rsplit_once(" (override: "));
    parts.unwrap_or((text, ""))
}

/// Returns the call that set a run back. It was allowed to repeat effects, or there were none.
fn rollback(to: Rollback) -> Input {
    Input::Rollback {
        to,
        allow_repeat_effects: true,
    }
}
