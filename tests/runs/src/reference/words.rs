//! The words of the law as types: states, outcomes, requests, inputs and what is commanded.

/// A JSON value, as far as a rule looks at it.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Null.
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Number(i64),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Value>),
    /// An object with `$pause: true` alone.
    Pause,
}

impl Value {
    /// RUN-4.10: what `result:` makes of it.
    #[must_use]
    pub fn counts_as_true(&self) -> bool {
        match self {
            Value::Null => false,
            Value::Bool(value) => *value,
            Value::Number(number) => *number != 0,
            Value::Text(text) => !text.is_empty(),
            Value::List(_) | Value::Pause => true,
        }
    }
}

/// How a run shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shown {
    /// Not admitted yet.
    Queued,
    /// A plan is being made.
    Planning,
    /// A person must say something.
    Waiting,
    /// Something happens.
    Running,
    /// A pause is wanted.
    Pausing,
    /// A pause.
    Paused,
    /// An end.
    Completed,
    /// An end.
    Failed,
    /// An end.
    Timeout,
    /// An end.
    Cancelled,
}

/// How a step stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StepState {
    /// Not started, or only backing off.
    Pending,
    /// Started.
    Running,
    /// Shown for a running step whose unit waits for a person.
    Waiting,
    /// Ended well.
    Completed,
    /// Ended badly.
    Failed,
    /// Did not run.
    Skipped,
    /// Could not run.
    Blocked,
}

/// Why a step did not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A jump or a branch went past it.
    Branch,
    /// A dependency failed.
    DependencyFailed,
    /// An operator said so.
    Operator,
    /// The run ended before.
    RunEnded,
}

/// Why a unit, a step or a run failed: a code.
pub type Code = &'static str;

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// Completed; true if a step failed.
    Completed {
        /// True if a step failed.
        is_partial: bool,
        /// The output; none for the narrative.
        output: Option<Value>,
    },
    /// Failed.
    Failed(Code),
    /// Failed, with the output of the fallback.
    FellBack {
        /// Why it failed.
        code: Code,
        /// The output.
        output: Value,
    },
    /// Which limit was over.
    Timeout(Limit),
    /// The reason.
    Cancelled(Code),
}

/// A limit, in the order in which they are over at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Limit {
    /// No progress.
    Watchdog,
    /// The revision's active time.
    Revision,
    /// The run's active time.
    Run,
    /// The time of a pause.
    Pause,
    /// The run's time.
    Lifetime,
}

/// What RUN-5.1 makes of the end of an execution.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Completed.
    Completed(Value),
    /// No worker had it.
    NeverRan(Code),
    /// Worth another try.
    Failed(Code),
    /// Not worth another try.
    ForGood(Code),
    /// A handler asks for approval.
    ApprovalRequired,
    /// Out of time.
    TimedOut,
    /// Nobody knows.
    Unknown {
        /// The code.
        code: Code,
        /// True if the orchestrator restarted.
        of_restart: bool,
    },
}

/// What a person is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequestKind {
    /// `user_input`.
    Question,
    /// Approval of the plan.
    PlanApproval,
    /// Approval of a unit, before it is dispatched.
    Gate,
    /// Approval that a handler asked for.
    HandlerApproval,
    /// More retries.
    Extension,
    /// Whether an effect happened.
    Effect,
}

/// Names a unit: its step and its index. The safety check of a unit is a unit with [`SAFETY_INDEX`] more.
pub type UnitId = (usize, usize);

/// RUN-6.11.
pub const SAFETY_INDEX: usize = 1_000_000;

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Responder {
    /// Who.
    pub id: u8,
    /// True for a program that acts for a model.
    pub is_agent: bool,
    /// True for the user of the run.
    pub is_user: bool,
}

/// What somebody answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// To a question.
    Value(Value),
    /// To a question: something of the wrong type.
    Invalid,
    /// Yes, for this very subject.
    Approve,
    /// Yes, for another subject.
    ApproveAnother,
    /// Yes, with another payload.
    ApproveEdited,
    /// No.
    Deny,
    /// To a plan: another one.
    Revise,
    /// To a question about retries.
    Extend,
    /// To a question about an effect.
    Happened(Value),
    /// To a question about an effect.
    DidNot,
    /// To a question about an effect.
    Fail,
}

/// Which attempt an outcome is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptId {
    /// The unit.
    pub unit: UnitId,
    /// The epoch of the step.
    pub epoch: u32,
    /// From 1 in each epoch.
    pub number: u32,
}

/// Which steps a rewind sets back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The step and all later ones.
    Later,
    /// The step and those that depend on it.
    Dependents,
}

/// What an operator says of a step.
#[derive(Clone, Debug, PartialEq)]
pub enum Word {
    /// It completed.
    Complete(Value),
    /// It failed.
    Fail,
    /// It does not run.
    Skip,
}

/// What happens to a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// The run leaves the queue.
    Admit,
    /// Time alone.
    Tick,
    /// An execution ended.
    Settled(AttemptId, Outcome),
    /// What a plan of this generation may call is known.
    Listed(u32),
    /// An attempt of a generation ended: generation and attempt from 1. A plan is the number of one of the planner's.
    Planned(u32, u32, Outcome),
    /// A child run ended.
    ChildEnded(AttemptId, Option<Value>),
    /// What an expression of a step came to.
    Evaluated {
        /// The step.
        step: usize,
        /// Its epoch.
        epoch: u32,
        /// None if it has no value.
        value: Option<bool>,
    },
    /// Somebody answers a request, by its number from 0.
    Answered(usize, Answer, Responder),
    /// A pause is wanted.
    Pause,
    /// No pause is wanted any more.
    Resume,
    /// The run shall end.
    Cancel,
    /// Steps are set back.
    Rewind {
        /// The first.
        step: usize,
        /// Which others.
        scope: Scope,
        /// True if effects may be repeated.
        repeats: bool,
    },
    /// Back to the checkpoint.
    Rollback {
        /// True if what had completed then stays.
        restores: bool,
        /// True if effects may be repeated.
        repeats: bool,
    },
    /// An operator's word.
    Override(usize, Word),
    /// The caller's data, by its bytes.
    Checkpoint(usize),
    /// The orchestrator started again, after an unplanned stop.
    Recovered,
    /// The orchestrator started again, after an orderly stop.
    Restarted,
    /// Knowledge of the actions of the plan has come, or the wait for it is over.
    Known,
    /// The orchestrator stood still for so many milliseconds until now.
    StoodStill(u64),
}

/// What shall be done.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Command {
    /// An execution, by its number in the epoch.
    Dispatch(UnitId, u32),
    /// A child run, by its number in the epoch.
    StartChild(UnitId, u32),
    /// A child run that nobody waits for.
    CancelChild(UnitId, u32),
    /// An expression of a step.
    Evaluate(usize),
    /// Lookup of the actions of the plan.
    LearnActions,
    /// What a plan of this generation may call.
    ListActions(u32),
    /// A question to the planner, by generation and attempt.
    AskPlanner(u32, u32),
    /// A question to a person.
    Ask(RequestKind, Option<UnitId>),
}
