//! A plan of a run: an immutable graph of steps, checked. Decides nothing about a run.
//!
//! A plan is read from a document (`escapement.plan/1`), a free-form object. Where a step names another one, the plan
//! has its index: the position in canonical order, which is topological, and among the steps whose dependencies come
//! before takes the lowest order number, then the first in the document.

#![expect(
    clippy::disallowed_methods,
    reason = "a document is read once, before a run has it, by passes whose number does not depend on it"
)]

mod config;
pub mod constraints;
mod digest;
mod document;
pub(crate) mod edit;
mod expressions;
mod fallback;
mod graph;
pub mod import;
mod links;
mod parts;
mod reading;
mod size;
mod step;
mod verify;
mod violations;

use crate::spec::Policy;
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use escapement_model::planted::{self, Bug};
use escapement_model::{Opaque, hex};

pub use expressions::expressions;
pub use fallback::fallback;
pub use size::out_of_size;
pub use verify::{carried_out, not_carried_out};
pub use violations::{Code, Violation, Violations};

/// Reads a plan document, an encoded `escapement.plan/1`.
///
/// # Errors
/// [`Violations`] with everything that is wrong with it.
pub fn read(document: &Opaque) -> Result<Plan, Violations> {
    document::read(document, None)
}

/// As [`read`], for a document to which the step with this key was added: messages about cycles call it `(new step)`.
///
/// # Errors
/// As [`read`].
pub fn read_with_new_step(document: &Opaque, new_step: &str) -> Result<Plan, Violations> {
    document::read(document, Some(new_step))
}

/// Position of a step in canonical order, from 0.
pub type StepIndex = usize;

impl Plan {
    /// The saved plans and the revisions that its steps run, in canonical order.
    pub fn sub_plans(&self) -> impl Iterator<Item = &SubPlan> {
        self.steps.iter().filter_map(|step| match &step.kind {
            StepKind::SubPlan(sub_plan) => Some(sub_plan),
            _ => None,
        })
    }
}

impl Plan {
    // RUN-3.7
    /// Returns true if all steps count as `async` under the policy, because the plan is `parallel` and marks none.
    pub fn counts_all_async(&self, policy: &Policy) -> bool {
        let marks_none = || !self.steps.iter().any(|step| step.is_async);
        policy.async_by_default && self.parallel && (marks_none() || planted::is_on(Bug::RunMarksOverruled))
    }

    /// The actions that its steps call, sorted, each once. The one that asks a model is said by the run.
    pub fn actions(&self) -> BTreeSet<&str> {
        let calls = self.steps.iter().flat_map(|step| {
            let (call, calls): (Option<&Call>, &[Call]) = match &step.kind {
                StepKind::ToolCall(call) => (Some(call), &[]),
                StepKind::Parallel(parallel) => (None, &parallel.items),
                StepKind::Loop(repeated) => (Some(&repeated.call), &[]),
                StepKind::LlmDecision(_)
                | StepKind::UserInput(_)
                | StepKind::Condition(_)
                | StepKind::SubPlan(_) => (None, &[]),
            };
            call.into_iter().chain(calls).chain(&step.verify)
        });
        let calls = calls.map(|call| call.tool_name.as_str());
        calls.chain(self.tools()).collect()
    }

    /// The actions that models of its steps may call, in the order of the steps.
    pub fn tools(&self) -> impl Iterator<Item = &str> {
        let tools = self.steps.iter().flat_map(|step| match &step.kind {
            StepKind::LlmDecision(decision) => decision.tools.as_slice(),
            _ => &[],
        });
        tools.map(String::as_str)
    }
}

impl SubPlan {
    /// The digest of the revision, if it names one.
    pub fn revision(&self) -> Option<[u8; 32]> {
        revision_of(self.revision_digest.as_deref()?)
    }
}

/// Reads the digest of a revision, `sha256:` and 64 hexadecimal digits.
pub fn revision_of(text: &str) -> Option<[u8; 32]> {
    hex::array(text.strip_prefix("sha256:")?)
}

/// The digest of a revision as it is written: `sha256:` and 64 hexadecimal digits.
pub fn revision_text(digest: &[u8; 32]) -> String {
    let mut text = String::from("sha256:");
    hex::push(&mut text, digest);
    text
}

/// A checked plan.
#[derive(Clone, Debug)]
pub struct Plan {
    /// 1 to 255 code points.
    pub name: String,
    /// What the plan aims at, at most 5,000 code points; may be empty.
    pub goal: String,
    /// At most 5,000 code points; may be empty.
    pub description: String,
    /// True if steps that are `async` may overlap; if none is, a policy may say that all are.
    pub parallel: bool,
    /// The output of a plan without steps.
    pub narrative: Option<String>,
    /// A template over all steps: the output of the run. Without it the output is that of the last step in canonical order.
    pub output: Option<Template>,
    /// What the run must produce.
    pub constraints: Constraints,
    /// The steps in canonical order, at most 1,024.
    pub steps: Vec<Step>,
    /// What it was read from; not a part of the digest.
    pub document: Opaque,
    /// SHA-256 of the canonical encoding, headed `escapement run plan 1`: equal for documents that say the same.
    pub digest: [u8; 32],
}

/// What a run must produce to be completed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Constraints {
    /// Types of artifacts, such as `image`, at most 16; there must be one artifact of each.
    pub must_produce: Vec<String>,
    /// The type of the artifact that the answer is.
    pub expected_artifact_type: Option<String>,
}

/// A value with references in it: an encoded `google.protobuf.Value`, unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template(pub Bytes);

/// One step.
#[derive(Clone, Debug)]
pub struct Step {
    /// Names the step in its plan: `[A-Za-z0-9_.-]{1,64}`, and none of `input`, `session`, `run`, `iteration`, `item`, `abort`,
    /// `drain`, `skip`.
    pub key: String,
    /// The order number, 0 to 1,000,000; the position in the document, from 1, unless given.
    pub order: u32,
    /// The position in the document, from 0.
    pub place: usize,
    /// At most 255 code points; the key unless given.
    pub name: String,
    /// At most 5,000 code points; may be empty.
    pub description: String,
    /// What the step does.
    pub kind: StepKind,
    /// The steps that this one depends on, ascending: those named, those that its templates refer to, and those in the
    /// `context` of an `llm_decision`. A step that is named by `result:` comes earlier, and is no dependency: that it
    /// failed is an answer.
    pub depends_on: Vec<StepIndex>,
    /// `false` is shorthand for `on_failure: skip`, and with `abort` or `drain` a contradiction, as is `true` with `skip`.
    /// What the preset says unless given.
    pub required: Option<bool>,
    /// True if the step may overlap with others that are `async`, in a plan that is `parallel`. False if the document says so
    /// and if it says nothing: the two have one digest.
    pub is_async: bool,
    /// Milliseconds of one attempt, 1 to 86,400,000.
    pub timeout_ms: Option<u64>,
    /// Repetition of units.
    pub retry: RetrySpec,
    /// The step to go on with after success; always a later one.
    pub on_success: Option<StepIndex>,
    /// What a final failure leads to. What the preset says unless given.
    pub on_failure: Option<OnFailure>,
    /// What a failed dependency leads to. What the preset says unless given.
    pub on_dependency_failure: Option<OnDependencyFailure>,
    /// A call that judges the step's result while the run is verified; its arguments may refer to all steps.
    pub verify: Option<Call>,
    /// True if what it read counts for the whole run, so that a later revision need not read it again.
    pub is_fresh_for_run: bool,
    /// The caller's own.
    pub metadata: Opaque,
}

/// What a step does, with what it needs.
#[derive(Clone, Debug)]
pub enum StepKind {
    /// One call of an action.
    ToolCall(Call),
    /// A question to a language model.
    LlmDecision(LlmDecision),
    /// A question to a person.
    UserInput(UserInput),
    /// A branch.
    Condition(Condition),
    /// Several calls, in batches.
    Parallel(Parallel),
    /// One call, repeated.
    Loop(Loop),
    /// Another plan as a run of its own.
    SubPlan(SubPlan),
}

/// A call of an action.
#[derive(Clone, Debug)]
pub struct Call {
    /// The action, 1 to 100 code points.
    pub tool_name: String,
    /// A template of an object.
    pub tool_args: Opaque,
}

/// `llm_decision`.
#[derive(Clone, Debug)]
pub struct LlmDecision {
    /// A template of a text.
    pub prompt: String,
    /// The answers that count, at most 100 of at most 1,000 code points; any answer counts if there are none.
    pub choices: Vec<String>,
    /// Which earlier results the model is shown; all unless given.
    pub context: LlmContext,
    /// Actions that the model may call, at most 256.
    pub tools: Vec<String>,
    /// The model; what the run says unless given.
    pub model: Option<String>,
    /// Turns, 1 to 100; what the run says unless given.
    pub max_iterations: Option<u32>,
}

/// Which earlier results a model is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LlmContext {
    /// Those of all earlier steps that completed.
    All,
    /// Those of the dependencies.
    Dependencies,
    /// Those of these steps, ascending.
    Steps(Vec<StepIndex>),
    /// None.
    None,
}

/// `user_input`.
#[derive(Clone, Debug)]
pub struct UserInput {
    /// A template of a text.
    pub question: String,
    /// What counts as an answer; a text unless given.
    pub input_type: InputType,
    /// The options of a choice, 1 to 100 templates of texts; empty for other types.
    pub options: Vec<String>,
    /// Milliseconds for the answer, 1 to 31,536,000,000; what the run says unless given.
    pub timeout_ms: Option<u64>,
    /// The answer if none came in time: an encoded `google.protobuf.Value`. Without it the step fails.
    pub default_answer: Option<Bytes>,
}

/// What counts as an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputType {
    /// A text.
    Text,
    /// One of the options.
    Choice,
    /// Yes or no.
    Confirm,
    /// An object.
    Form,
}

/// `condition`.
#[derive(Clone, Debug)]
pub struct Condition {
    /// What is asked.
    pub condition: Expression,
    /// Where a true value leads; on to the next step unless given.
    pub true_step: Option<StepIndex>,
    /// Where a false value leads; on to the next step unless given.
    pub false_step: Option<StepIndex>,
}

impl Condition {
    /// The target of the side that the value takes, and that of the other one.
    pub fn sides(&self, value: bool) -> (Option<StepIndex>, Option<StepIndex>) {
        match value {
            true => (self.true_step, self.false_step),
            false => (self.false_step, self.true_step),
        }
    }
}

/// An expression of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    /// `true` or `false`.
    Literal(bool),
    /// `result:<key>`: whether that step completed with a value that is not null, false, 0 or the empty text.
    ResultOf(StepIndex),
    /// Any other text, at most 4 KiB: evaluated outside.
    Text(String),
}

/// `parallel`.
#[derive(Clone, Debug)]
pub struct Parallel {
    /// 0 to 256 calls.
    pub items: Vec<Call>,
    /// Calls at a time, 1 to 256; what the run says unless given.
    pub batch_size: Option<u32>,
    /// False: the step completes with the first success.
    pub wait_all: bool,
}

/// `loop`.
#[derive(Clone, Debug)]
pub struct Loop {
    /// What is repeated.
    pub call: Call,
    /// True if its arguments get `iteration`, from 0. An action that refuses arguments that it does not know needs false.
    pub pass_iteration: bool,
    /// 0 to 1,000; what the run says unless given.
    pub max_iterations: Option<u32>,
    /// Asked after each iteration; the loop goes on while it is true.
    pub loop_condition: Option<Expression>,
}

/// `sub_plan`.
#[derive(Clone, Debug)]
pub struct SubPlan {
    /// The saved plan, a UUID; or else `revision_digest` is given.
    pub plan_id: Option<String>,
    /// The revision, `sha256:` and 64 hexadecimal digits.
    pub revision_digest: Option<String>,
    /// A template of the child's input.
    pub input: Opaque,
}

/// Repetition of units; each field is what the preset says unless given.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RetrySpec {
    /// Additional attempts, 0 to 100.
    pub max_retries: Option<u32>,
    /// Milliseconds before the first retry, 0 to 86,400,000.
    pub backoff_ms: Option<u64>,
    /// What each further delay is multiplied with, 1 to 10.
    pub multiplier: Option<f64>,
    /// The longest delay in milliseconds, 0 to 86,400,000.
    pub max_backoff_ms: Option<u64>,
    /// True if a person is asked for more retries when they are used up.
    pub escalate: Option<bool>,
}

/// What a final failure of a step leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFailure {
    /// Nothing further starts, and the revision fails.
    Abort,
    /// Dependents are skipped, independent steps go on, then the revision fails.
    Drain,
    /// The run goes on.
    Skip,
    /// The run goes on with that step; always a later one.
    Jump(StepIndex),
}

/// What a dependency that failed, or was skipped because of a failure, leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDependencyFailure {
    /// The step is skipped.
    Skip,
    /// The step runs, and references to the dependency are null.
    NullInput,
    /// The step runs, and references to the dependency are the text `(FAILED: CODE: message)`.
    Synthetic,
    /// The step never runs.
    Block,
}
