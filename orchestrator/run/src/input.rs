//! What comes into a run and what leaves it. Decides nothing.

use crate::budget::Budget;
use crate::catalogue::Catalogue;
use crate::ids::{InputRequestId, RunId};
use crate::journal::{Decision, Doubt, Entry, Responder, Usage};
use crate::outcome::AttemptOutcome;
use crate::plan::Plan;
use crate::session::SkillHealth;
use crate::spec::ActionProfile;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;
use core::fmt;
use escapement_model::{ExecutionId, Opaque};

/// What comes in.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// The run leaves the queue.
    Admit,
    /// A contract execution ended. One that no live attempt waits for changes nothing.
    Settled {
        /// Which one.
        execution_id: ExecutionId,
        /// How.
        outcome: AttemptOutcome,
    },
    /// What a planner may choose from. One that no generation waits for changes nothing.
    Catalogue {
        /// The generation.
        generation: u32,
        /// The actions.
        catalogue: Catalogue,
        /// What is known of the actions that the run calls itself.
        own: Vec<ActionProfile>,
    },
    /// An expression has its value, or none. One that nobody waits for changes nothing.
    Evaluated {
        /// Which one.
        evaluation: u32,
        /// Its truth, or why it has none.
        result: Result<bool, String>,
    },
    /// A child run ended. One that no unit waits for changes nothing.
    ChildEnded {
        /// Which one.
        run_id: RunId,
        /// Its output, an encoded `google.protobuf.Value`, or what went wrong.
        result: Result<Bytes, String>,
        /// What it used, if that is known; it counts if the run has a budget.
        used: Option<Usage>,
        /// Its effects that are in doubt, and those that were when it began; `None` if nobody knows.
        doubts: Option<Vec<Doubt>>,
    },
    /// Somebody answers a request.
    Answer(Answer),
    /// Somebody approves the plan of the run, with another plan in its place: the document is the answer's value.
    ApproveEdited {
        /// The answer; its decision is [`Decision::ApproveWithEdits`].
        answer: Answer,
        /// What is known of the actions that the new plan uses.
        profiles: Vec<ActionProfile>,
    },
    /// The time that [`crate::Run::due_at`] named has come.
    Time,
    /// Nothing new shall be started.
    Pause {
        /// Why.
        reason: String,
    },
    /// The run shall go on.
    Resume {
        /// Why.
        reason: String,
    },
    /// The run shall end now.
    Cancel {
        /// `user`, `discarded`, `parent`, …
        reason: String,
    },
    /// Steps shall run again.
    Rewind {
        /// The first one.
        step_key: String,
        /// Which others.
        scope: RewindScope,
        /// True if effects may be repeated, those in doubt included.
        allow_repeat_effects: bool,
    },
    /// The run shall go back to its beginning, or to a checkpoint.
    Rollback {
        /// Which of both.
        to: Rollback,
        /// True if effects may be repeated, those in doubt included.
        allow_repeat_effects: bool,
    },
    /// An operator's word instead of a result.
    Override {
        /// The step.
        step_key: String,
        /// The word.
        word: OverrideWord,
        /// Why.
        reason: String,
    },
    /// What is done so far is remembered, with data of the caller.
    Checkpoint {
        /// At most 512,000 bytes.
        data: Opaque,
    },
    /// An artifact is given from outside. One that the run has already changes nothing.
    Upload(Upload),
    /// The process was started anew and the run with it, after it had ended without having been asked to.
    Recovered,
    /// The same after a stop that was asked for and came to its end.
    Restarted,
    /// Knowledge of the run's actions, once there is some of each or the wait is over. Changes no run that does not wait for it.
    ActionsKnown {
        /// Profiles that replace those of the time when the run was made, sorted by name.
        profiles: Vec<ActionProfile>,
    },
    /// What changed in the session that the run shares with others.
    Session(SessionNews),
    /// The orchestrator stood still, or could write nothing, for so much of the time since the last entry of the run.
    Stalled {
        /// Milliseconds that do not count as active time.
        ms: u64,
    },
}

/// An artifact that comes from outside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Upload {
    /// Its type: 1 to 255 code points.
    pub artifact_type: String,
    /// Its media type, at most 127 bytes.
    pub mime_type: String,
    /// At most 255 code points; may be empty.
    pub name: String,
    /// At most 8 MiB.
    pub content: Bytes,
}

/// What changed in a session since the run was told of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionNews {
    /// The number of its newest state, and that state.
    pub state: Option<(u64, Opaque)>,
    /// The number of the newest health of its skills, and that.
    pub health: Option<(u64, Vec<SkillHealth>)>,
}

/// Which steps are run again beside the named one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RewindScope {
    /// Those behind it in canonical order.
    Later,
    /// Those that depend on it.
    Dependents,
}

/// Where a run goes back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rollback {
    /// All steps are pending again.
    Reset,
    /// What had not completed at the checkpoint is pending again: the last one if none is named.
    Restore(Option<u32>),
}

/// An operator's word instead of a result.
#[derive(Clone, Debug, PartialEq)]
pub enum OverrideWord {
    /// It completed, with this output: an encoded `google.protobuf.Value`.
    Complete(Bytes),
    /// It failed.
    Fail {
        /// The code.
        code: String,
        /// The sentence.
        message: String,
    },
    /// It will not run.
    Skip,
}

/// An answer to a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The request.
    pub request_id: InputRequestId,
    /// What the decision is about, as the request says; empty for a question.
    pub subject_digest: Bytes,
    /// Who says it.
    pub responder: Responder,
    /// What is decided.
    pub decision: Decision,
    /// The answer or the output as an encoded `google.protobuf.Value`, the edited payload or plan as an encoded object; else
    /// empty.
    pub value: Bytes,
    /// At most 1,000 code points.
    pub comment: String,
}

/// What leaves a run once its entries are durable.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Submit this `escapement.v1.SubmitPlanRequest` and report the end of its execution. Submitting it again attaches.
    Submit {
        /// The execution.
        execution_id: ExecutionId,
        /// The encoded request.
        request: Bytes,
        /// What a worker has; for `classify`.
        attempt_ms: u64,
        /// True if a worker has offered the action before; for `classify`.
        seen: bool,
    },
    /// List what a planner may choose from and report it.
    Catalogue {
        /// The generation.
        generation: u32,
        /// The actions that are wanted; all that are offered if it is empty.
        allowed: Vec<String>,
        /// Actions that the run calls itself: what is known of them is wanted, too.
        own: Vec<String>,
    },
    /// Wait until each of these actions is known or its wait has ended. Then report what is known of all the
    /// actions that the run calls.
    Actions {
        /// Unknown ones, sorted by name.
        unknown: Vec<String>,
    },
    /// Evaluate an expression over [`crate::Run::bindings`] and report its truth.
    Evaluate {
        /// Which one.
        evaluation: u32,
        /// The text.
        expression: String,
    },
    /// Make a run and report its end. Making it again attaches.
    StartChild {
        /// The run.
        run_id: RunId,
        /// The saved plan, or else the revision.
        plan_id: Option<String>,
        /// The revision.
        revision_digest: Option<String>,
        /// The child's input.
        input: Opaque,
        /// What it may spend, if that is limited.
        budget: Option<Budget>,
        /// Effects that are in doubt when it begins.
        doubts: Vec<Doubt>,
    },
    /// Cancel a run because its parent does not wait for it any more.
    CancelChild {
        /// The run.
        run_id: RunId,
    },
}

/// What one input led to: entries that belong together, and what may leave once they are durable.
#[derive(Debug, Default)]
pub struct Commit {
    /// The entries, encoded, each with its hash.
    pub entries: Vec<EncodedEntry>,
    /// The same, readable.
    pub events: Vec<Entry>,
    /// What the entries refer to by SHA-256.
    pub blobs: Vec<([u8; 32], Bytes)>,
    /// The plans that revisions among the entries took the place of, in order. An entry before such a revision is about one of them.
    pub replaced: Vec<Arc<Plan>>,
    pub(crate) effects: Vec<Effect>,
}

/// An entry as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedEntry {
    /// The encoded [`Entry`].
    pub bytes: Bytes,
    /// Its hash in the chain.
    pub hash: [u8; 32],
}

impl Commit {
    /// What two inputs led to, one after the other.
    #[must_use]
    pub fn followed_by(mut self, next: Self) -> Self {
        self.entries.extend(next.entries);
        self.events.extend(next.events);
        self.blobs.extend(next.blobs);
        self.replaced.extend(next.replaced);
        self.effects.extend(next.effects);
        self
    }

    // RUN-9.3
    /// What may leave now that everything in here is durable.
    pub fn persisted(self) -> Vec<Effect> {
        self.effects
    }
}

/// Why an input was refused. It changed nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Which reason.
    pub reason: RefusedReason,
    /// A sentence.
    pub message: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl core::error::Error for Refused {}

/// The reason of a cancelled run that nobody wants any more.
pub const DISCARDED: &str = "discarded";

// RUN-9.5
/// Beginning of the reason of a pause that no caller asked for: the process ended repeatedly while the run
/// was active.
pub const CRASH_LOOP: &str = "CRASH_LOOP";

/// Reasons of refusals, as callers read them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RefusedReason {
    /// `RUN_ENDED`
    RunEnded,
    /// `RUN_DISCARDED`
    RunDiscarded,
    /// `NOT_QUEUED`
    NotQueued,
    /// `NOT_PAUSED`
    NotPaused,
    /// `ALREADY_PAUSED`
    AlreadyPaused,
    /// `UNKNOWN_STEP`
    UnknownStep,
    /// `EFFECTS_WOULD_REPEAT`
    EffectsWouldRepeat,
    /// `NO_CHECKPOINT`
    NoCheckpoint,
    /// `DATA_TOO_LARGE`
    DataTooLarge,
    /// `STEP_SETTLED`
    StepSettled,
    /// `REQUEST_NOT_FOUND`
    RequestNotFound,
    /// `REQUEST_EXPIRED`
    RequestExpired,
    /// `ALREADY_ANSWERED`
    AlreadyAnswered,
    /// `DIGEST_MISMATCH`
    DigestMismatch,
    /// `ANSWER_INVALID`
    AnswerInvalid,
    /// `NOT_AN_APPROVER`
    NotAnApprover,
    /// `SELF_APPROVAL`
    SelfApproval,
    /// `KEPT_STEP_CHANGED`
    KeptStepChanged,
    /// `ARTIFACT_INVALID`
    ArtifactInvalid,
    /// `ARTIFACTS_FULL`
    ArtifactsFull,
    /// `RUN_TOO_LARGE`
    RunTooLarge,
}

impl RefusedReason {
    /// All of them.
    pub const ALL: [RefusedReason; 21] = [
        RefusedReason::RunEnded,
        RefusedReason::RunDiscarded,
        RefusedReason::NotQueued,
        RefusedReason::NotPaused,
        RefusedReason::AlreadyPaused,
        RefusedReason::UnknownStep,
        RefusedReason::EffectsWouldRepeat,
        RefusedReason::NoCheckpoint,
        RefusedReason::DataTooLarge,
        RefusedReason::StepSettled,
        RefusedReason::RequestNotFound,
        RefusedReason::RequestExpired,
        RefusedReason::AlreadyAnswered,
        RefusedReason::DigestMismatch,
        RefusedReason::AnswerInvalid,
        RefusedReason::NotAnApprover,
        RefusedReason::SelfApproval,
        RefusedReason::KeptStepChanged,
        RefusedReason::ArtifactInvalid,
        RefusedReason::ArtifactsFull,
        RefusedReason::RunTooLarge,
    ];

    /// As answers spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            RefusedReason::RunEnded => "RUN_ENDED",
            RefusedReason::RunDiscarded => "RUN_DISCARDED",
            RefusedReason::NotQueued => "NOT_QUEUED",
            RefusedReason::NotPaused => "NOT_PAUSED",
            RefusedReason::AlreadyPaused => "ALREADY_PAUSED",
            RefusedReason::UnknownStep => "UNKNOWN_STEP",
            RefusedReason::EffectsWouldRepeat => "EFFECTS_WOULD_REPEAT",
            RefusedReason::NoCheckpoint => "NO_CHECKPOINT",
            RefusedReason::DataTooLarge => "DATA_TOO_LARGE",
            RefusedReason::StepSettled => "STEP_SETTLED",
            RefusedReason::RequestNotFound => "REQUEST_NOT_FOUND",
            RefusedReason::RequestExpired => "REQUEST_EXPIRED",
            RefusedReason::AlreadyAnswered => "ALREADY_ANSWERED",
            RefusedReason::DigestMismatch => "DIGEST_MISMATCH",
            RefusedReason::AnswerInvalid => "ANSWER_INVALID",
            RefusedReason::NotAnApprover => "NOT_AN_APPROVER",
            RefusedReason::SelfApproval => "SELF_APPROVAL",
            RefusedReason::KeptStepChanged => "KEPT_STEP_CHANGED",
            RefusedReason::ArtifactInvalid => "ARTIFACT_INVALID",
            RefusedReason::ArtifactsFull => "ARTIFACTS_FULL",
            RefusedReason::RunTooLarge => crate::bounds::RUN_TOO_LARGE,
        }
    }
}

/// Content by its hash: what the store keeps beside the journal.
pub trait Blobs {
    /// Returns the bytes with this SHA-256, which an entry of the run refers to. A blob that cannot be read is the shell's to
    /// report before it hands in an input.
    fn blob(&self, digest: &[u8; 32]) -> Bytes;
}
