//! The inputs of an execution as they are stored. Judges none of them: the contract core does when it is told them again.
//!
//! An output that stands in the result is not repeated.

use super::Unreadable;
use bytes::Bytes;
use escapement_contract::{
    AuditEntry, AuditKind, Evidence, Input, InputLog, Interruption, LoggedInput, Moment, Outcome, Plan,
    Reported, Settlement, StepIndex,
};
use escapement_model::opaque::ValueView;
use escapement_model::{Opaque, Severity, StepId};
use escapement_wire::counted::Holds::{Entries, One};
use escapement_wire::counted::{LIST_ENTRIES_MAX, Lists, has_more_entries};
use escapement_wire::v1;
use escapement_wire::v1::attempt_ended_input::Outcome as WireOutcome;
use escapement_wire::v1::attempt_returned_input::Evidence as WireEvidence;
use escapement_wire::v1::execution_error::Severity as WireSeverity;
use escapement_wire::v1::recorded_input::Input as WireInput;
use prost::Message;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Returns the inputs of a settlement, as they are stored.
pub fn encode(settlement: &Settlement) -> Vec<u8> {
    let Settlement {
        result,
        audit,
        inputs: log,
        // Another part of the record says it.
        started_at_unix_ms: _,
        provenance: _,
    } = settlement;
    let mut writer = Writer {
        origin: log.origin,
        outputs: outputs(&result.result_payload),
        completed: completed(audit),
        workers: BTreeMap::new(),
    };
    let inputs = log
        .inputs
        .iter()
        .filter_map(|logged| writer.input(logged))
        .collect();
    v1::ExecutionInputs {
        origin_monotonic_ms: log.origin.monotonic_ms,
        origin_unix_ms: log.origin.unix_ms,
        recovered_started_at: match log.interruption {
            Some(Interruption::Restarted { started_at }) => Some(started_at),
            Some(Interruption::Restored) | None => None,
        },
        restored: log.interruption == Some(Interruption::Restored),
        inputs,
        truncated: !log.is_complete,
        decisions: log.decisions.to_vec(),
        workers: writer.labels(),
    }
    .encode_to_vec()
}

/// Reads the inputs of an execution of this plan that ended with this payload.
///
/// # Errors
/// [`Unreadable`] if the bytes do not decode, or say what no execution of this plan is told.
pub fn decode(bytes: &Bytes, plan: &Plan, result_payload: &Opaque) -> Result<InputLog, Unreadable> {
    if has_more_entries(bytes, LISTS, LIST_ENTRIES_MAX) {
        return Err(Unreadable::Meaningless(
            "there are more inputs than any execution is told".to_owned(),
        ));
    }
    let wire = v1::ExecutionInputs::decode(bytes.clone()).map_err(Unreadable::Wire)?;
    let origin = Moment {
        monotonic_ms: wire.origin_monotonic_ms,
        unix_ms: wire.origin_unix_ms,
    };
    let mut steps = plan.canonical_order().to_vec();
    steps.sort_unstable();
    let reader = Reader {
        origin,
        plan,
        steps,
        workers: wire.workers.into_iter().map(Arc::from).collect(),
        outputs: outputs(result_payload),
        payload: result_payload,
    };
    let read = |(index, input)| {
        let read: Result<LoggedInput, String> = reader.input(input);
        read.map_err(|why| Unreadable::Meaningless(format!("input {index}: {why}")))
    };
    let inputs = wire.inputs.into_iter().enumerate().map(read);
    let decisions = wire.decisions.try_into();
    Ok(InputLog::from_parts(
        origin,
        match (wire.recovered_started_at, wire.restored) {
            (Some(started_at), false) => Some(Interruption::Restarted { started_at }),
            (None, true) => Some(Interruption::Restored),
            (None, false) => None,
            (Some(_), true) => {
                let both = "it had started, and was queued".to_owned();
                return Err(Unreadable::Meaningless(both));
            }
        },
        inputs.collect::<Result<_, _>>()?,
        !wire.truncated,
        decisions.map_err(|_| Unreadable::Meaningless("the decisions have not 32 bytes".to_owned()))?,
    ))
}

/// By step: its output in a payload. What is not an output has no step.
fn outputs(result_payload: &Opaque) -> BTreeMap<StepId, &[u8]> {
    let output = |(key, value): (&str, _)| match value {
        ValueView::Struct(output) => Some((key.parse().ok()?, output)),
        _ => None,
    };
    let entries = result_payload.entries().map_while(Result::ok);
    entries.filter_map(output).collect()
}

/// Returns the steps that completed, in the order in which they did.
fn completed(audit: &[AuditEntry]) -> impl Iterator<Item = StepId> {
    audit.iter().filter_map(|entry| match entry.kind {
        AuditKind::StepCompleted { step_id, .. } => Some(step_id),
        _ => None,
    })
}

struct Writer<'a, I> {
    origin: Moment,
    outputs: BTreeMap<StepId, &'a [u8]>,
    completed: I,
    workers: BTreeMap<Arc<str>, u32>,
}

impl<I: Iterator<Item = StepId>> Writer<'_, I> {
    fn input(&mut self, logged: &LoggedInput) -> Option<v1::RecordedInput> {
        let at_ms = logged.at.monotonic_ms.wrapping_sub(self.origin.monotonic_ms);
        let expected = self.origin.unix_ms.wrapping_add_unsigned(at_ms);
        Some(v1::RecordedInput {
            at_ms,
            wall_offset_ms: logged.at.unix_ms.wrapping_sub(expected),
            input: Some(self.what(&logged.input)?),
        })
    }

    fn what(&mut self, input: &Input) -> Option<WireInput> {
        Some(match input {
            Input::Start => WireInput::Start(v1::StartInput {}),
            Input::StartPersisted => WireInput::StartPersisted(v1::StartPersistedInput {}),
            Input::Assigned {
                step,
                attempt,
                worker,
            } => WireInput::Assigned(v1::AssignedInput {
                step: place(*step),
                attempt: *attempt,
                worker: self.worker(worker),
            }),
            Input::AttemptStarted { step, attempt } => WireInput::AttemptStarted(v1::AttemptStartedInput {
                step: place(*step),
                attempt: *attempt,
            }),
            Input::AttemptReturned {
                step,
                attempt,
                evidence,
            } => WireInput::AttemptReturned(v1::AttemptReturnedInput {
                step: place(*step),
                attempt: *attempt,
                evidence: evidence_to_wire(*evidence) as i32,
            }),
            Input::AttemptEnded {
                step,
                attempt,
                outcome,
            } => WireInput::AttemptEnded(v1::AttemptEndedInput {
                step: place(*step),
                attempt: *attempt,
                outcome: Some(self.outcome(outcome)),
            }),
            Input::ActionNotFound { step, attempt } => WireInput::ActionNotFound(v1::ActionNotFoundInput {
                step: place(*step),
                attempt: *attempt,
            }),
            Input::Tick => WireInput::Tick(v1::TickInput {}),
            // Follows the settlement, which the log leads to.
            Input::SettlePersisted => return None,
        })
    }

    fn outcome(&mut self, outcome: &Outcome) -> WireOutcome {
        match outcome {
            Outcome::Completed { output, warnings } => {
                // Each report of an output completes the next step, but for the last, which may be refused.
                let step_id = self.completed.next();
                let in_result = step_id.and_then(|step_id| self.outputs.get(&step_id));
                let is_in_result = in_result.is_some_and(|kept| *kept == output.as_encoded());
                WireOutcome::Completed(v1::CompletedOutcome {
                    output: (!is_in_result).then(|| output.clone()),
                    warnings: warnings.iter().map(reported_to_wire).collect(),
                })
            }
            Outcome::Failed(reported) => WireOutcome::Failed(reported_to_wire(reported)),
            Outcome::Undecodable { detail } => WireOutcome::Undecodable(detail.clone()),
            Outcome::Lost => WireOutcome::Lost(v1::LostOutcome {}),
        }
    }

    fn worker(&mut self, label: &Arc<str>) -> u32 {
        let next = u32::try_from(self.workers.len()).expect("a log has fewer inputs");
        match self.workers.get(label) {
            Some(place) => *place,
            None => *self.workers.entry(Arc::clone(label)).or_insert(next),
        }
    }

    /// Returns the labels, each at its place.
    fn labels(&self) -> Vec<String> {
        let mut by_place: Vec<_> = self.workers.iter().map(|(label, place)| (place, label)).collect();
        by_place.sort_unstable();
        by_place
            .into_iter()
            .map(|(_, label)| label.as_ref().to_owned())
            .collect()
    }
}

struct Reader<'a> {
    origin: Moment,
    plan: &'a Plan,
    /// By place in the plan's list.
    steps: Vec<StepIndex>,
    workers: Vec<Arc<str>>,
    outputs: BTreeMap<StepId, &'a [u8]>,
    payload: &'a Opaque,
}

impl Reader<'_> {
    fn input(&self, wire: v1::RecordedInput) -> Result<LoggedInput, String> {
        let expected = self.origin.unix_ms.wrapping_add_unsigned(wire.at_ms);
        let at = Moment {
            monotonic_ms: self.origin.monotonic_ms.wrapping_add(wire.at_ms),
            unix_ms: expected.wrapping_add(wire.wall_offset_ms),
        };
        let what = wire.input.ok_or("is of an unknown kind")?;
        Ok(LoggedInput {
            at,
            input: self.what(what)?,
        })
    }

    fn what(&self, wire: WireInput) -> Result<Input, String> {
        Ok(match wire {
            WireInput::Start(_) => Input::Start,
            WireInput::StartPersisted(_) => Input::StartPersisted,
            WireInput::Assigned(input) => Input::Assigned {
                step: self.step(input.step)?,
                attempt: input.attempt,
                worker: {
                    let worker = self.workers.get(input.worker as usize);
                    Arc::clone(worker.ok_or_else(|| format!("there is no worker {}", input.worker))?)
                },
            },
            WireInput::AttemptStarted(input) => Input::AttemptStarted {
                step: self.step(input.step)?,
                attempt: input.attempt,
            },
            WireInput::AttemptReturned(input) => Input::AttemptReturned {
                step: self.step(input.step)?,
                attempt: input.attempt,
                evidence: evidence_from_wire(input.evidence).ok_or("the evidence is of an unknown kind")?,
            },
            WireInput::AttemptEnded(input) => {
                let step = self.step(input.step)?;
                Input::AttemptEnded {
                    step,
                    attempt: input.attempt,
                    outcome: self.outcome(step, input.outcome.ok_or("the outcome is of an unknown kind")?)?,
                }
            }
            WireInput::ActionNotFound(input) => Input::ActionNotFound {
                step: self.step(input.step)?,
                attempt: input.attempt,
            },
            WireInput::Tick(_) => Input::Tick,
        })
    }

    fn step(&self, place: u32) -> Result<StepIndex, String> {
        let step = self.steps.get(place as usize).copied();
        step.ok_or_else(|| format!("the plan has no step at place {place}"))
    }

    fn outcome(&self, step: StepIndex, wire: WireOutcome) -> Result<Outcome, String> {
        Ok(match wire {
            WireOutcome::Completed(completed) => Outcome::Completed {
                output: match completed.output {
                    Some(output) => output,
                    None => self.output_in_result(step)?,
                },
                warnings: completed
                    .warnings
                    .into_iter()
                    .map(reported_from_wire)
                    .collect::<Result<_, _>>()?,
            },
            WireOutcome::Failed(failed) => Outcome::Failed(reported_from_wire(failed)?),
            WireOutcome::Undecodable(detail) => Outcome::Undecodable { detail },
            WireOutcome::Lost(_) => Outcome::Lost,
        })
    }

    fn output_in_result(&self, step: StepIndex) -> Result<Opaque, String> {
        let step_id = self.plan.step(step).id();
        let output = self.outputs.get(&step_id);
        let output = output.ok_or_else(|| format!("the result has no output of step {step_id}"))?;
        Ok(Opaque::from_encoded(self.payload.as_encoded().slice_ref(output)))
    }
}

fn place(step: StepIndex) -> u32 {
    u32::try_from(step.as_usize()).expect("a plan has at most 1024 steps")
}

fn reported_to_wire(reported: &Reported) -> v1::ReportedError {
    let Reported {
        code,
        message,
        severity,
        context,
    } = reported;
    let severity = match severity {
        None => WireSeverity::Unspecified,
        Some(Severity::Warn) => WireSeverity::Warn,
        Some(Severity::Error) => WireSeverity::Error,
        Some(Severity::Fatal) => WireSeverity::Fatal,
    };
    v1::ReportedError {
        error_code: code.clone(),
        message: message.clone(),
        severity: severity as i32,
        context: (!context.is_empty()).then(|| context.clone()),
    }
}

fn reported_from_wire(wire: v1::ReportedError) -> Result<Reported, String> {
    let v1::ReportedError {
        error_code,
        message,
        severity,
        context,
    } = wire;
    let severity = match WireSeverity::try_from(severity) {
        Ok(WireSeverity::Unspecified) => None,
        Ok(WireSeverity::Warn) => Some(Severity::Warn),
        Ok(WireSeverity::Error) => Some(Severity::Error),
        Ok(WireSeverity::Fatal) => Some(Severity::Fatal),
        Err(_) => return Err("the severity is of an unknown kind".to_owned()),
    };
    Ok(Reported {
        code: error_code,
        message,
        severity,
        context: context.unwrap_or_default(),
    })
}

fn evidence_to_wire(evidence: Evidence) -> WireEvidence {
    match evidence {
        Evidence::Rejected => WireEvidence::Rejected,
        Evidence::Released => WireEvidence::Released,
        Evidence::LeaseExpired => WireEvidence::LeaseExpired,
        Evidence::ResumeOmits => WireEvidence::ResumeOmits,
        Evidence::SnapshotOmits => WireEvidence::SnapshotOmits,
        Evidence::Goodbye => WireEvidence::Goodbye,
        Evidence::DeclaredDead => WireEvidence::DeclaredDead,
        Evidence::Refused => WireEvidence::Refused,
    }
}

fn evidence_from_wire(wire: i32) -> Option<Evidence> {
    match WireEvidence::try_from(wire).ok()? {
        WireEvidence::Unspecified => None,
        WireEvidence::Rejected => Some(Evidence::Rejected),
        WireEvidence::Released => Some(Evidence::Released),
        WireEvidence::LeaseExpired => Some(Evidence::LeaseExpired),
        WireEvidence::ResumeOmits => Some(Evidence::ResumeOmits),
        WireEvidence::SnapshotOmits => Some(Evidence::SnapshotOmits),
        WireEvidence::Goodbye => Some(Evidence::Goodbye),
        WireEvidence::DeclaredDead => Some(Evidence::DeclaredDead),
        WireEvidence::Refused => Some(Evidence::Refused),
    }
}

/// The inputs with the warnings of each, and the labels of workers.
const LISTS: Lists = &[
    (4, Entries(&[(8, One(&[(3, One(&[(2, Entries(&[]))]))]))])),
    (7, Entries(&[])),
];
