//! What callers and operators do to a run: pause, resume, cancel, rewind, roll back, override, checkpoint.

use super::Runs;
use super::forks::EndedRun;
use super::ids::client_request;
use super::steps::{checkpoint, point_named, unknown_step};
use crate::caller::Caller;
use crate::canonical::Repeatable;
use crate::errors::Rejection;
use crate::fields::Fields;
use crate::views::{Detail, run_view, uuid_text};
use bytes::Bytes;
use escapement_model::RunId;
use escapement_model::limits::{ERROR_CODE_CHARS_MAX, MESSAGE_CHARS_MAX};
use escapement_run::{Blobs, Input, OverrideWord, RefusedReason, RewindScope, Rollback, Run, ShownState};
use escapement_runs_shell::{CallError, Condition};
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::override_step_request::Word;

/// A verb that was read, and nothing is wrong with it.
pub(super) struct Verb {
    pub(super) run_id: RunId,
    pub(super) condition: Condition,
    input: Input,
}

/// What every verb has.
pub(super) struct Head<'a> {
    pub(super) name: &'static str,
    pub(super) run_id: &'a str,
    pub(super) etag: &'a str,
    pub(super) request_id: &'a str,
}

impl Head<'_> {
    pub(super) fn verb(
        self,
        request: &impl Repeatable,
        input: Input,
        mut fields: Fields,
    ) -> Result<Verb, Rejection> {
        let run_id = fields.id::<RunId>("run_id", self.run_id);
        let last_sequence = etag(self.etag, &mut fields);
        fields.note("request_id", self.request_id);
        fields.conclude()?;
        let run_id = run_id.expect("an id that is missing is a problem");
        let request = client_request(self.name, &run_id.to_string(), self.request_id, request);
        Ok(Verb {
            run_id,
            condition: Condition {
                last_sequence,
                request,
            },
            input,
        })
    }
}

/// The last entry that the caller has seen.
pub(super) fn etag(text: &str, fields: &mut Fields) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    let last = text.parse().ok();
    if last.is_none() {
        fields.wrong("etag", "must be the etag of a run");
    }
    last
}

fn reason(text: &str, fields: &mut Fields) -> String {
    fields.text("reason", text, 0..=MESSAGE_CHARS_MAX);
    text.to_owned()
}

impl Runs {
    pub(super) async fn pause_run(
        &self,
        request: v1::PauseRunRequest,
    ) -> Result<v1::PauseRunResponse, Rejection> {
        let head = Head {
            name: "pause",
            run_id: &request.run_id,
            etag: &request.etag,
            request_id: &request.request_id,
        };
        let mut fields = Fields::default();
        let reason = reason(&request.reason, &mut fields);
        let verb = head.verb(&request, Input::Pause { reason }, fields)?;
        let run = Some(self.act(verb).await?);
        Ok(v1::PauseRunResponse { run })
    }

    pub(super) async fn resume_run(
        &self,
        request: v1::ResumeRunRequest,
    ) -> Result<v1::ResumeRunResponse, Rejection> {
        let head = Head {
            name: "resume",
            run_id: &request.run_id,
            etag: &request.etag,
            request_id: &request.request_id,
        };
        let mut fields = Fields::default();
        let reason = reason(&request.reason, &mut fields);
        let verb = head.verb(&request, Input::Resume { reason }, fields)?;
        let run = Some(self.act(verb).await?);
        Ok(v1::ResumeRunResponse { run })
    }

    pub(super) async fn cancel_run(
        &self,
        request: v1::CancelRunRequest,
    ) -> Result<v1::CancelRunResponse, Rejection> {
        let head = Head {
            name: "cancel",
            run_id: &request.run_id,
            etag: &request.etag,
            request_id: &request.request_id,
        };
        let mut fields = Fields::default();
        let mut reason = reason(&request.reason, &mut fields);
        if reason.is_empty() {
            "user".clone_into(&mut reason);
        }
        let verb = head.verb(&request, Input::Cancel { reason }, fields)?;
        let run = Some(self.end(verb, |_| true).await?);
        Ok(v1::CancelRunResponse { run })
    }

    pub(super) async fn rewind_run(
        &self,
        request: v1::RewindRunRequest,
    ) -> Result<v1::RewindRunResponse, Rejection> {
        use v1::rewind_run_request::Scope;
        let head = Head {
            name: "rewind",
            run_id: &request.run_id,
            etag: &request.etag,
            request_id: &request.request_id,
        };
        let mut fields = Fields::default();
        let scope = Scope::try_from(request.scope).unwrap_or_else(|_| {
            fields.wrong("scope", "must be later or dependents");
            Scope::Later
        });
        fields.text("step_key", &request.step_key, 1..=KEY_CHARS_MAX);
        let input = Input::Rewind {
            step_key: request.step_key.clone(),
            scope: match scope {
                Scope::Later => RewindScope::Later,
                Scope::Dependents => RewindScope::Dependents,
            },
            allow_repeat_effects: request.allow_repeat_effects,
        };
        let verb = head.verb(&request, input, fields)?;
        let run = Some(self.act(verb).await?);
        Ok(v1::RewindRunResponse { run })
    }

    pub(super) async fn rollback_run(
        &self,
        request: v1::RollbackRunRequest,
        caller: &Caller,
    ) -> Result<v1::RollbackRunResponse, Rejection> {
        use v1::rollback_run_request::Mode;
        let head = Head {
            name: "rollback",
            run_id: &request.run_id,
            etag: &request.etag,
            request_id: &request.request_id,
        };
        let mut fields = Fields::default();
        let mode = Mode::try_from(request.mode).unwrap_or_else(|_| {
            fields.wrong("mode", "must be reset or restore");
            Mode::Reset
        });
        if let Some(number) = request.checkpoint {
            fields.number("checkpoint", number, 1..=i32::MAX);
            if mode == Mode::Reset {
                fields.wrong("checkpoint", "is for the mode restore only");
            }
        }
        let number = request.checkpoint.map(i32::cast_unsigned);
        let input = Input::Rollback {
            to: match mode {
                Mode::Reset => Rollback::Reset,
                Mode::Restore => Rollback::Restore(number),
            },
            allow_repeat_effects: request.allow_repeat_effects,
        };
        let verb = head.verb(&request, input, fields)?;
        let (run_id, last_sequence) = (verb.run_id, verb.condition.last_sequence);
        let run = match self.act(verb).await {
            // RUN-8.5: it never leaves its end.
            Err(Rejection::OfRun(_, CallError::Refused(RefusedReason::RunEnded, _))) => {
                let ended = EndedRun {
                    run_id,
                    last_sequence,
                };
                self.rolled_back(ended, mode, &request, caller).await?
            }
            acted => acted?,
        };
        let point = move |run: &Run, blobs: &dyn Blobs| {
            point_named(run, number).map(|point| checkpoint(run, point, blobs))
        };
        let seen = self.afterwards(run_id, || self.look(run_id, point));
        Ok(v1::RollbackRunResponse {
            run: Some(run),
            checkpoint: seen.await?,
        })
    }

    pub(super) async fn override_step(
        &self,
        request: v1::OverrideStepRequest,
    ) -> Result<v1::OverrideStepResponse, Rejection> {
        let head = Head {
            name: "override",
            run_id: &request.run_id,
            etag: &request.etag,
            request_id: &request.request_id,
        };
        let mut fields = Fields::default();
        fields.text("step_key", &request.step_key, 1..=KEY_CHARS_MAX);
        fields.text("reason", &request.reason, 1..=MESSAGE_CHARS_MAX);
        let word = override_word(request.word.as_ref(), &mut fields);
        let input = Input::Override {
            step_key: request.step_key.clone(),
            word,
            reason: request.reason.clone(),
        };
        let verb = head.verb(&request, input, fields)?;
        let run = Some(self.act(verb).await?);
        Ok(v1::OverrideStepResponse { run })
    }

    pub(super) async fn create_checkpoint(
        &self,
        request: v1::CreateCheckpointRequest,
    ) -> Result<v1::CreateCheckpointResponse, Rejection> {
        let head = Head {
            name: "checkpoint",
            run_id: &request.run_id,
            etag: &request.etag,
            request_id: &request.request_id,
        };
        let mut fields = Fields::default();
        let data = request.data.clone().unwrap_or_default();
        if data.len() <= DATA_BYTES_MAX {
            fields.object("data", &data, DATA_BYTES_MAX);
        } else {
            let message = format!("must have at most {DATA_BYTES_MAX} bytes, has {}", data.len());
            fields.because("data", "DATA_TOO_LARGE", message);
        }
        let verb = head.verb(&request, Input::Checkpoint { data }, fields)?;
        let run_id = verb.run_id;
        self.act(verb).await?;
        let point = |run: &Run, blobs: &dyn Blobs| {
            let point = run.state().checkpoints.last();
            point.map(|point| checkpoint(run, point, blobs))
        };
        let seen = self.afterwards(run_id, || self.look(run_id, point));
        Ok(v1::CreateCheckpointResponse {
            checkpoint: seen.await?,
        })
    }

    /// Ends a run; one that ended so before is the answer, too.
    pub(super) async fn end(&self, verb: Verb, is_alike: fn(&v1::Run) -> bool) -> Result<v1::Run, Rejection> {
        let run_id = verb.run_id;
        match self.act(verb).await {
            Err(Rejection::OfRun(_, CallError::Refused(RefusedReason::RunEnded, message))) => {
                let seen = self.look(run_id, |run, blobs| {
                    let is_cancelled = run.shown() == ShownState::Cancelled;
                    is_cancelled.then(|| run_view(run, blobs, Detail::Usual))
                });
                let alike = seen.await?.filter(is_alike);
                let refused = CallError::Refused(RefusedReason::RunEnded, message);
                alike.ok_or(Rejection::OfRun(run_id, refused))
            }
            acted => acted,
        }
    }

    /// Hands the input in, and tells how the run stands afterwards.
    async fn act(&self, verb: Verb) -> Result<v1::Run, Rejection> {
        let Verb {
            run_id,
            condition,
            input,
        } = verb;
        if let Err(error) = self.runs.input(run_id, condition, input).await {
            return Err(self.explained(run_id, error).await);
        }
        self.look_afterwards(run_id).await
    }

    /// Adds what the caller needs to do better.
    async fn explained(&self, run_id: RunId, error: CallError) -> Rejection {
        let explained = match &error {
            CallError::Refused(RefusedReason::UnknownStep, _) => {
                self.look(run_id, |run, _| unknown_step("step_key", run)).await
            }
            CallError::Refused(reason @ RefusedReason::NotPaused, message) => {
                let (reason, message) = (reason.as_str(), format!("Run {run_id}: {message}."));
                let open = self.look(run_id, |run, _| {
                    let open = run.state().open_requests();
                    open.map(|request| uuid_text(&request.id)).collect::<Vec<_>>()
                });
                open.await.map(|open| Rejection::Failed {
                    reason,
                    message,
                    fact: (!open.is_empty()).then(|| ("open_requests", first_of(&open))),
                })
            }
            _ => return Rejection::OfRun(run_id, error),
        };
        explained.unwrap_or(Rejection::OfRun(run_id, error))
    }
}

/// As many as fit into a header.
fn first_of(ids: &[String]) -> String {
    ids[..ids.len().min(IDS_MAX)].join(",")
}

fn override_word(word: Option<&Word>, fields: &mut Fields) -> OverrideWord {
    match word {
        None => {
            fields.wrong("complete", "is required, or fail or skip instead");
            OverrideWord::Skip
        }
        Some(Word::Complete(complete)) => {
            let output = complete.output.clone().unwrap_or_default();
            fields.value("complete.output", &output);
            // A value that says nothing is null.
            OverrideWord::Complete(match output.as_encoded().is_empty() {
                true => Bytes::from_static(&NULL),
                false => output.as_encoded().clone(),
            })
        }
        Some(Word::Fail(fail)) => {
            fields.text("fail.code", &fail.code, 1..=ERROR_CODE_CHARS_MAX);
            fields.text("fail.message", &fail.message, 0..=MESSAGE_CHARS_MAX);
            OverrideWord::Fail {
                code: fail.code.clone(),
                message: fail.message.clone(),
            }
        }
        Some(Word::Skip(_)) => OverrideWord::Skip,
    }
}

/// Code points of a key.
const KEY_CHARS_MAX: usize = 64;
/// Bytes of the data of a checkpoint.
const DATA_BYTES_MAX: usize = 512_000;
/// Ids in the details of a status.
const IDS_MAX: usize = 64;
/// An encoded `google.protobuf.Value`: null.
const NULL: [u8; 2] = [8, 0];
