//! The journal of a run: what happened, entry by entry, as it is stored and shown. Decides nothing.
//!
//! The bytes of an entry are those of the Protocol Buffers message [`Entry`]; `escapement_model::chain` links them.
//! Field numbers are never used for something else.

mod artifacts;
mod attempts;
mod contents;
mod course;
mod ends;
mod models;
mod names;
mod people;
mod planning;
mod revisions;
mod sessions;
pub mod sizes;
mod steps;

use crate::spec::{ActionProfile, Spec};
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use prost::{Message, Oneof};

pub use crate::responder::{Responder, ResponderKind};
pub use artifacts::{ArtifactCreated, ArtifactVerified, RunVerifying};
pub use attempts::{
    Evaluated, EvaluationRequested, Failure, OutcomeClass, StepRetrying, Stored, ToolCalled, ToolOutput,
};
pub use course::{
    ActionsKnown, CheckpointCreated, ChildRunEnded, ChildRunStarted, RunRecovered, RunRolledBack, RunStalled,
};
pub use ends::{Limit, RunCompleted, RunFailed, TimeoutError};
pub use models::{AskedCall, BudgetAwaited, BudgetWarning, ToolsAsked, Usage};
pub use people::{
    AnswerType, Decision, Extension, InputRequest, RequestAnswer, RequestKind, RequestRef, RequestState,
};
pub use planning::{
    CatalogueGiven, CompletedStep, FailedStep, FallbackUsed, GenerationEnded, GenerationStarted, PlanSummary,
    RefusedPart, Verdict,
};
pub use revisions::{CarriedResult, Doubt, ReplanTriggered, Substituted, UnitMemoized};
pub use sessions::{SessionRead, SkillHealthChanged, SkillsRead, StatePatched};
pub use steps::{SkipReason, StepCompleted, StepFailed, StepMemoized, StepSkipped, UnitFailed, UnitResult};

// RUN-9.1
/// One entry.
#[derive(Clone, PartialEq, Message)]
pub struct Entry {
    /// Counts from 1 without gaps.
    #[prost(uint64, tag = "1")]
    pub sequence: u64,
    /// Unix milliseconds; never less than those of the entry before.
    #[prost(int64, tag = "2")]
    pub at: i64,
    // RUN-13.11
    /// What the run used, what it reserved last included: with the end of a child run that has a budget.
    #[prost(message, optional, tag = "3")]
    pub spent: Option<Usage>,
    // RUN-12.14
    /// Effects of the run that are in doubt: with the end of a child run.
    #[prost(message, repeated, tag = "4")]
    pub doubts: Vec<Doubt>,
    /// Child runs that were under way, 16 bytes each: with the end of a child run.
    #[prost(bytes = "bytes", repeated, tag = "5")]
    pub children: Vec<Bytes>,
    /// What happened.
    #[prost(
        oneof = "Event",
        tags = "10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, \
                36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 60, 61, 62, 63, 64"
    )]
    pub event: Option<Event>,
}

/// What happened.
#[derive(Clone, PartialEq, Oneof)]
#[allow(
    clippy::large_enum_variant,
    reason = "an entry is written or read, and then gone"
)]
pub enum Event {
    /// The run is made. The first entry.
    #[prost(message, tag = "10")]
    RunCreated(RunCreated),
    /// A revision is accepted.
    #[prost(message, tag = "11")]
    PlanCreated(PlanCreated),
    /// The run left the queue.
    #[prost(message, tag = "12")]
    RunStarted(Empty),
    /// A step began.
    #[prost(message, tag = "13")]
    StepStarted(StepRef),
    /// An expression is to be evaluated.
    #[prost(message, tag = "14")]
    EvaluationRequested(EvaluationRequested),
    /// It was.
    #[prost(message, tag = "15")]
    Evaluated(Evaluated),
    /// An attempt is intended: what will be sent, before it is.
    #[prost(message, tag = "16")]
    ToolCalled(ToolCalled),
    /// An attempt ended.
    #[prost(message, tag = "17")]
    ToolOutput(ToolOutput),
    /// A unit will be tried again.
    #[prost(message, tag = "18")]
    StepRetrying(StepRetrying),
    /// A unit failed for good.
    #[prost(message, tag = "19")]
    UnitFailed(UnitFailed),
    /// A step ended well.
    #[prost(message, tag = "20")]
    StepCompleted(StepCompleted),
    /// A step failed for good.
    #[prost(message, tag = "21")]
    StepFailed(StepFailed),
    /// A step will not run.
    #[prost(message, tag = "22")]
    StepSkipped(StepSkipped),
    /// A step can never run.
    #[prost(message, tag = "23")]
    StepBlocked(StepRef),
    /// A step begins anew, in the next epoch.
    #[prost(message, tag = "24")]
    StepReset(StepRef),
    /// A person is asked.
    #[prost(message, tag = "25")]
    InputRequested(InputRequest),
    /// A person said something that did not close the request yet.
    #[prost(message, tag = "26")]
    DecisionRecorded(RequestAnswer),
    /// A request has its answer.
    #[prost(message, tag = "27")]
    InputReceived(RequestAnswer),
    /// A request's time is over.
    #[prost(message, tag = "28")]
    InputExpired(RequestRef),
    /// A request is not needed any more.
    #[prost(message, tag = "29")]
    InputClosed(RequestRef),
    /// The run shall pause.
    #[prost(message, tag = "30")]
    PauseRequested(Reason),
    /// Nothing of the run is in flight any more.
    #[prost(message, tag = "31")]
    RunPaused(Empty),
    /// The run goes on.
    #[prost(message, tag = "32")]
    RunResumed(Reason),
    /// The process was started anew.
    #[prost(message, tag = "33")]
    RunRecovered(RunRecovered),
    /// A checkpoint was made.
    #[prost(message, tag = "34")]
    CheckpointCreated(CheckpointCreated),
    /// The run was set back.
    #[prost(message, tag = "35")]
    RunRolledBack(RunRolledBack),
    /// The run of a `sub_plan` is intended.
    #[prost(message, tag = "36")]
    ChildRunStarted(ChildRunStarted),
    /// It ended.
    #[prost(message, tag = "37")]
    ChildRunEnded(ChildRunEnded),
    /// A limit ran out. Directly before `RunFailed`.
    #[prost(message, tag = "38")]
    TimeoutError(TimeoutError),
    /// The run ended well. The last entry.
    #[prost(message, tag = "39")]
    RunCompleted(RunCompleted),
    /// The run failed or ran out of time. The last entry.
    #[prost(message, tag = "40")]
    RunFailed(RunFailed),
    /// The run was cancelled. The last entry.
    #[prost(message, tag = "41")]
    RunCancelled(Reason),
    /// A step's failure ends the revision as soon as nothing of it is in flight.
    #[prost(message, tag = "42")]
    RevisionFailing(RevisionFailing),
    /// A step has its result from the run that this one was forked from, or from the revision before.
    #[prost(message, tag = "43")]
    StepMemoized(StepMemoized),
    /// A plan is to be made.
    #[prost(message, tag = "44")]
    GenerationStarted(GenerationStarted),
    /// What the planner may choose from.
    #[prost(message, tag = "45")]
    CatalogueGiven(CatalogueGiven),
    /// What came of it. Behind the planner's answer, and before the revision.
    #[prost(message, tag = "46")]
    GenerationEnded(GenerationEnded),
    /// What a plan that a planner made will do. Before its first step begins.
    #[prost(message, tag = "48")]
    PlanSummary(PlanSummary),
    /// The run has the output of its fallback.
    #[prost(message, tag = "49")]
    FallbackUsed(FallbackUsed),
    /// A revision failed, and another one takes its place.
    #[prost(message, tag = "50")]
    ReplanTriggered(ReplanTriggered),
    /// A unit has the result of an earlier revision of this run.
    #[prost(message, tag = "51")]
    UnitMemoized(UnitMemoized),
    /// An output declares an artifact, or one is uploaded.
    #[prost(message, tag = "52")]
    ArtifactCreated(ArtifactCreated),
    /// All steps have ended, and artifacts are looked at.
    #[prost(message, tag = "53")]
    RunVerifying(RunVerifying),
    /// An artifact was looked at.
    #[prost(message, tag = "54")]
    ArtifactVerified(ArtifactVerified),
    /// A turn of a model asks for tools.
    #[prost(message, tag = "55")]
    ToolsAsked(ToolsAsked),
    /// The run sees what changed in its session.
    #[prost(message, tag = "60")]
    SessionRead(SessionRead),
    /// A step that completed patched the state of the session.
    #[prost(message, tag = "61")]
    StatePatched(StatePatched),
    /// A skill does better or worse than before.
    #[prost(message, tag = "62")]
    SkillHealthChanged(SkillHealthChanged),
    /// Knowledge of the actions of a run that waited for it.
    #[prost(message, tag = "63")]
    ActionsKnown(ActionsKnown),
    /// A part of the budget is nearly used up.
    #[prost(message, tag = "56")]
    BudgetWarning(BudgetWarning),
    /// A unit waits for a part of the budget.
    #[prost(message, tag = "57")]
    BudgetAwaited(BudgetAwaited),
    /// The orchestrator stood still, or could write nothing, while the run was active.
    #[prost(message, tag = "64")]
    RunStalled(RunStalled),
}

/// Nothing more to say.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Empty {}

/// A word, such as `user`, or what an operator says.
#[derive(Clone, PartialEq, Message)]
pub struct Reason {
    /// At most 1,000 code points.
    #[prost(string, tag = "1")]
    pub reason: String,
}

/// What the run is.
#[derive(Clone, PartialEq, Message)]
pub struct RunCreated {
    /// The run, 16 bytes.
    #[prost(bytes = "bytes", tag = "1")]
    pub run_id: Bytes,
    /// What it is made from, without input and environment.
    #[prost(message, required, tag = "2")]
    pub spec: Spec,
    /// The caller's input: an encoded object.
    #[prost(message, required, tag = "3")]
    pub input: Stored,
    /// What every attempt's environment begins with: an encoded object.
    #[prost(message, required, tag = "4")]
    pub environment: Stored,
}

/// A revision of the plan.
#[derive(Clone, PartialEq, Message)]
pub struct PlanCreated {
    /// Counts from 1; 0 for the goal of a run whose first plan is still to be made: it has no steps.
    #[prost(uint32, tag = "1")]
    pub number: u32,
    /// SHA-256 of the plan, 32 bytes.
    #[prost(bytes = "bytes", tag = "2")]
    pub digest: Bytes,
    /// `goal`, `caller`, `edit`, `fallback`, `fork`, `planner` or `substitution`.
    #[prost(string, tag = "3")]
    pub cause: String,
    /// The actions that it uses, sorted by name.
    #[prost(message, repeated, tag = "4")]
    pub profiles: Vec<ActionProfile>,
    /// Steps of the plan.
    #[prost(uint32, tag = "5")]
    pub n_steps: u32,
    /// The plan's document: an encoded object.
    #[prost(message, required, tag = "6")]
    pub document: Stored,
    /// The generation that made it; 0 if no planner did.
    #[prost(uint32, tag = "18")]
    pub generation: u32,
    /// SHA-256 of the plan that it follows, 32 bytes; empty if there is none or nobody said.
    #[prost(bytes = "bytes", tag = "19")]
    pub parent: Bytes,
    /// Keys of the steps whose failure led to it, in canonical order; the first ones.
    #[prost(string, repeated, tag = "20")]
    pub failed_steps: Vec<String>,
    /// Actions that it may not call, sorted.
    #[prost(string, repeated, tag = "21")]
    pub disabled: Vec<String>,
    /// Results of the revision before that units of this one may take.
    #[prost(message, repeated, tag = "60")]
    pub results: Vec<CarriedResult>,
    /// Effects of the revision before that are in doubt.
    #[prost(message, repeated, tag = "61")]
    pub doubts: Vec<Doubt>,
}

/// A step, by its position in canonical order.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct StepRef {
    /// From 0.
    #[prost(uint32, tag = "1")]
    pub step: u32,
}

/// A unit: what is dispatched.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct UnitRef {
    /// The step, from 0; the greatest number for a generation of the planner.
    #[prost(uint32, tag = "1")]
    pub step: u32,
    /// The item, iteration or turn, from 0; the nth call of a tool that turn k of a model asks for is 2,000,000 + 64·k + n.
    /// The safety check of an item or iteration has 1,000,000 more, that of such a call 2,000,000 more.
    #[prost(uint32, tag = "2")]
    pub index: u32,
    /// How often the step was reset.
    #[prost(uint32, tag = "3")]
    pub epoch: u32,
}

impl UnitRef {
    // RUN-11.2
    /// The unit that is a generation of the planner.
    pub fn generation(generation: u32) -> Self {
        Self {
            step: PLANNER_STEP,
            index: generation,
            epoch: 0,
        }
    }

    /// True for a generation of the planner; its index is the generation.
    pub fn is_generation(self) -> bool {
        self.step == PLANNER_STEP
    }

    // RUN-6.11
    /// The unit that is the safety check of this one.
    #[must_use]
    pub fn safety_check(self) -> Self {
        let beyond = match self.index / RANGE {
            TOOL_CALLS => TOOL_CALL_CHECKS - TOOL_CALLS,
            _ => SAFETY_CHECKS,
        };
        Self {
            index: self.index + beyond * RANGE,
            ..self
        }
    }

    /// True for the safety check of another unit.
    pub fn is_safety_check(self) -> bool {
        matches!(self.index / RANGE, SAFETY_CHECKS | TOOL_CALL_CHECKS)
    }

    // RUN-12.9
    /// The unit that looks at an artifact of this one.
    #[must_use]
    pub fn verification(self, artifact: u32) -> Self {
        Self {
            index: VERIFICATIONS * RANGE + artifact,
            ..self
        }
    }

    /// True for the look at an artifact.
    pub fn is_verification(self) -> bool {
        self.index / RANGE == VERIFICATIONS
    }

    /// The number of the artifact that is looked at.
    pub fn of_verification(self) -> u32 {
        self.index % RANGE
    }

    /// The unit that a step dispatches: of a safety check the one that it checks.
    #[must_use]
    pub fn of_step(self) -> Self {
        let beyond = match self.index / RANGE {
            SAFETY_CHECKS => SAFETY_CHECKS,
            TOOL_CALL_CHECKS => TOOL_CALL_CHECKS - TOOL_CALLS,
            _ => 0,
        };
        Self {
            index: self.index - beyond * RANGE,
            ..self
        }
    }

    // RUN-13.2
    /// The nth call of a tool, from 0, that this turn of a model asks for.
    #[must_use]
    pub fn tool_call(self, n: u32) -> Self {
        Self {
            index: TOOL_CALLS * RANGE + self.index * CALLS_OF_TURN + n,
            ..self
        }
    }

    /// Of a call of a tool that a model asks for: the turn that asks and the number of the call, both from 0.
    pub fn as_tool_call(self) -> Option<(u32, u32)> {
        let n = self.index % RANGE;
        (self.index / RANGE == TOOL_CALLS).then_some((n / CALLS_OF_TURN, n % CALLS_OF_TURN))
    }
}

/// Units of each kind have as many numbers. No step has that many.
const RANGE: u32 = 1_000_000;
const SAFETY_CHECKS: u32 = 1;
const TOOL_CALLS: u32 = 2;
const VERIFICATIONS: u32 = 3;
const TOOL_CALL_CHECKS: u32 = 4;
/// Numbers for the calls of one turn.
const CALLS_OF_TURN: u32 = 64;
/// Generations are units of no step of a plan.
const PLANNER_STEP: u32 = u32::MAX;

/// A revision that will fail.
#[derive(Clone, PartialEq, Message)]
pub struct RevisionFailing {
    /// Why.
    #[prost(message, required, tag = "1")]
    pub error: Failure,
    /// True if independent steps still run.
    #[prost(bool, tag = "2")]
    pub drains: bool,
}
