//! Everything that an execution was told, with its times: what a replay needs. Judges nothing.

use crate::execution::{Effect, Input, Interruption, WithdrawReason};
use crate::outcome::{Outcome, Reported};
use crate::time::Moment;
use alloc::vec::Vec;
use escapement_model::Opaque;
use escapement_model::encoder::Encoder;
use escapement_model::limits::{
    ERROR_CONTEXT_BYTES_MAX, INPUT_LOG_BYTES_MAX, MESSAGE_CHARS_MAX, WARNINGS_MAX,
};

/// The inputs of one execution, from its acceptance in this process to its end.
#[derive(Clone, Debug, PartialEq)]
pub struct InputLog {
    /// Time at which this process took the execution up; what the times of the inputs are compared with.
    pub origin: Moment,
    /// Present if it must not run any more, and so ended at once.
    pub interruption: Option<Interruption>,
    /// In order. Refused inputs changed nothing and are left out; if time did something before one, there is a `Tick`.
    pub inputs: Vec<LoggedInput>,
    /// False if there were more than are kept.
    pub is_complete: bool,
    /// SHA-256, chained from 32 zeros over what was decided until then. Each link is over the one before, a byte (0 start,
    /// 1 dispatch, 2 withdrawal at the step's limit, 3 withdrawal at the end), the step's position (0 at the start) and
    /// the attempt (at the start its time), both as `encoder` spells numbers.
    pub decisions: [u8; 32],
    bytes: usize,
}

/// An input.
#[derive(Clone, Debug, PartialEq)]
pub struct LoggedInput {
    /// When.
    pub at: Moment,
    /// What; texts and contexts cut to what classification keeps.
    pub input: Input,
}

impl InputLog {
    /// Creates a log as it was kept.
    pub fn from_parts(
        origin: Moment,
        interruption: Option<Interruption>,
        inputs: Vec<LoggedInput>,
        is_complete: bool,
        decisions: [u8; 32],
    ) -> Self {
        let bytes = inputs.iter().map(|logged| bytes_of(&logged.input)).sum();
        Self {
            origin,
            interruption,
            inputs,
            is_complete,
            decisions,
            bytes,
        }
    }

    /// About what the inputs take, outputs not counted; never more than [`INPUT_LOG_BYTES_MAX`].
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns true if it says that it is not complete although any input would still have had room: it was cut off later.
    pub fn is_cut_short(&self) -> bool {
        //
        !self.is_complete && self.bytes.saturating_add(INPUT_BYTES_MAX) <= INPUT_LOG_BYTES_MAX
    }

    pub(crate) fn new(origin: Moment) -> Self {
        Self::from_parts(origin, None, Vec::new(), true, [0; 32])
    }

    /// Notes an input that is about to be applied.
    pub(crate) fn note(&mut self, at: Moment, input: &Input) -> Noted {
        if !self.is_complete {
            return Noted::AfterTheEnd;
        }
        let input = bounded(input);
        // attempts are as many as a plan asks for, the log is not.
        let bytes = self.bytes.saturating_add(bytes_of(&input));
        if bytes > INPUT_LOG_BYTES_MAX {
            self.is_complete = false;
            return Noted::TooMuch;
        }
        self.bytes = bytes;
        self.inputs.push(LoggedInput { at, input });
        Noted::Kept
    }

    /// Takes back the input that was noted last: it was refused.
    pub(crate) fn take_back(&mut self, noted: Noted) {
        //
        match noted {
            Noted::Kept => {
                let refused = self.inputs.pop().expect("what was kept is there");
                self.bytes -= bytes_of(&refused.input);
            }
            Noted::TooMuch => self.is_complete = true,
            Noted::AfterTheEnd => {}
        }
    }

    /// The context of the failure that was noted last was not kept; the note in its place says so again in a replay.
    pub(crate) fn drop_last_context(&mut self, note: &Opaque) {
        if let Some(LoggedInput {
            input:
                Input::AttemptEnded {
                    outcome: Outcome::Failed(reported),
                    ..
                },
            ..
        }) = self.inputs.last_mut()
            && self.is_complete
        {
            assert!(
                note.len() <= CONTEXT_NOTE_BYTES,
                "a note has its room from the beginning"
            );
            self.bytes -= failure_bytes(reported);
            reported.context = note.clone();
            self.bytes += failure_bytes(reported);
        }
    }

    /// Chains what was decided. What follows the end follows from the rule set.
    pub(crate) fn decided(&mut self, effect: &Effect) {
        if !self.is_complete {
            return;
        }
        let (tag, step, number) = match effect {
            Effect::PersistStart { started_at_unix_ms } => (0, 0, started_at_unix_ms.cast_unsigned()),
            Effect::Dispatch { step, attempt } => (1, step.as_usize() as u64, u64::from(*attempt)),
            Effect::Withdraw {
                step,
                attempt,
                reason,
            } => {
                let tag = match reason {
                    WithdrawReason::StepTimeout => 2,
                    WithdrawReason::ExecutionEnded => 3,
                };
                (tag, step.as_usize() as u64, u64::from(*attempt))
            }
            Effect::PersistResult(_) | Effect::Deliver(_) => return,
        };
        self.decisions = Encoder::chained(&self.decisions, |encoder| {
            encoder.bytes(&[tag]);
            encoder.number(step);
            encoder.number(number);
        });
    }
}

/// What became of an input that was to be noted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Noted {
    /// It is the last one of the log.
    Kept,
    /// With this one the log has ended.
    TooMuch,
    /// The log had ended before.
    AfterTheEnd,
}

/// The same to the core, without what classification cuts off.
fn bounded(input: &Input) -> Input {
    match input {
        Input::AttemptEnded {
            step,
            attempt,
            outcome,
        } => Input::AttemptEnded {
            step: *step,
            attempt: *attempt,
            outcome: outcome.bounded(),
        },
        Input::Start
        | Input::StartPersisted
        | Input::Assigned { .. }
        | Input::AttemptStarted { .. }
        | Input::AttemptReturned { .. }
        | Input::ActionNotFound { .. }
        | Input::Tick
        | Input::SettlePersisted => input.clone(),
    }
}

/// About what an input takes. An output counts nothing: the result has it, or it is the one that was refused and ended the plan.
fn bytes_of(input: &Input) -> usize {
    INPUT_BYTES
        + match input {
            Input::Assigned { worker, .. } => worker.len(),
            Input::AttemptEnded { outcome, .. } => match outcome {
                Outcome::Completed { warnings, .. } => warnings.iter().map(report_bytes).sum(),
                Outcome::Failed(reported) => failure_bytes(reported),
                Outcome::Undecodable { detail } => detail.len(),
                Outcome::Lost => 0,
            },
            Input::Start
            | Input::StartPersisted
            | Input::AttemptStarted { .. }
            | Input::AttemptReturned { .. }
            | Input::ActionNotFound { .. }
            | Input::Tick
            | Input::SettlePersisted => 0,
        }
}

fn report_bytes(reported: &Reported) -> usize {
    INPUT_BYTES + reported.code.len() + reported.message.len() + reported.context.len()
}

/// Returns the note that may stand in place of its context has its room as well.
fn failure_bytes(reported: &Reported) -> usize {
    report_bytes(reported) + CONTEXT_NOTE_BYTES.saturating_sub(reported.context.len())
}

/// What an input takes beside its texts.
const INPUT_BYTES: usize = 128;
const _: () = assert!(size_of::<LoggedInput>() <= INPUT_BYTES && size_of::<Reported>() <= INPUT_BYTES);
/// More than the largest input takes, which is an outcome with all the warnings that are kept: 2 MiB.
const INPUT_BYTES_MAX: usize = 2 << 20;
const _: () = assert!(
    INPUT_BYTES + WARNINGS_MAX * (INPUT_BYTES + 2 * 4 * MESSAGE_CHARS_MAX + ERROR_CONTEXT_BYTES_MAX)
        <= INPUT_BYTES_MAX
);
/// What the note in place of a context takes at most.
const CONTEXT_NOTE_BYTES: usize = 128;
