//! The plan and the limits that the interpreter reads: indices in canonical order, milliseconds, and nothing of bytes.

/// A plan.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// True if steps that are `async` may overlap; all of them, if none is and the limits say so.
    pub parallel: bool,
    /// The steps in canonical order.
    pub steps: Vec<Step>,
}

/// A step.
#[derive(Clone, Debug)]
pub struct Step {
    /// What it does.
    pub kind: Kind,
    /// Earlier steps.
    pub depends_on: Vec<usize>,
    /// Unless given, what the policy says.
    pub required: Option<bool>,
    /// True if it may overlap.
    pub is_async: bool,
    /// Milliseconds of one attempt.
    pub timeout_ms: Option<u64>,
    /// Further attempts of a unit.
    pub max_retries: Option<u32>,
    /// The later step to go on with after success.
    pub on_success: Option<usize>,
    /// What its failure leads to.
    pub on_failure: Option<OnFailure>,
    /// What a failed dependency leads to.
    pub on_dependency_failure: Option<OnDependencyFailure>,
}

impl Step {
    /// A step of this kind that says nothing else.
    #[must_use]
    pub fn new(kind: Kind) -> Self {
        Self {
            kind,
            depends_on: Vec::new(),
            required: None,
            is_async: false,
            timeout_ms: None,
            max_retries: None,
            on_success: None,
            on_failure: None,
            on_dependency_failure: None,
        }
    }
}

/// What a step does.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// One call.
    Call(Action),
    /// One question to a model, with the answers that count.
    Decision(Vec<String>),
    /// A question to a person: whether an answer stands in for one that does not come.
    Question {
        /// True if there is a default.
        has_default: bool,
    },
    /// A branch.
    Condition {
        /// What is asked.
        expression: Expression,
        /// Where true leads.
        true_step: Option<usize>,
        /// Where false leads.
        false_step: Option<usize>,
    },
    /// Calls in batches.
    Parallel {
        /// How many.
        n_items: usize,
        /// How many at a time.
        batch_size: usize,
        /// False: the first success is enough.
        wait_all: bool,
        /// What each calls.
        action: Action,
    },
    /// One call, repeated.
    Loop {
        /// At most so often.
        max_iterations: usize,
        /// Asked between two.
        condition: Option<Expression>,
        /// What each calls.
        action: Action,
    },
    /// A run of its own.
    Child,
}

/// What is known of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Action {
    /// True for pure, world, llm and idempotent.
    pub repeatable: bool,
    /// True if its completion is an effect that a rewind would repeat.
    pub has_effect: bool,
    /// How risky a call is.
    pub risk: Risk,
}

/// How risky a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Risk {
    /// Safe.
    Safe,
    /// Unusual, or unknown.
    Unusual,
    /// Destructive.
    Destructive,
}

/// What is asked of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expression {
    /// `true` or `false`.
    Literal(bool),
    /// `result:` of a step.
    ResultOf(usize),
    /// Evaluated outside.
    Outside,
}

/// What a failure leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFailure {
    /// Nothing further starts.
    Abort,
    /// What still can run does.
    Drain,
    /// On.
    Skip,
    /// On with that step.
    Jump(usize),
}

/// What a failed dependency leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDependencyFailure {
    /// Skipped.
    Skip,
    /// Started with null.
    Null,
    /// Started with a text.
    Synthetic,
    /// Left for ever.
    Block,
    /// A policy's word: skipped if what failed was required, blocked or skipped for a failure, else started with null.
    ByRequired,
}

/// A policy for effects in doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// A person is asked.
    Ask,
    /// The unit fails.
    Fail,
    /// It is retried.
    Retry,
}

/// What a run has once its plan failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// An object that is given.
    Output,
    /// What an action comes to.
    Call(Action),
}

/// Who makes plans, and which it may come up with.
#[derive(Clone, Debug)]
pub struct Planner {
    /// True if a run begins without a plan.
    pub is_goal: bool,
    /// Milliseconds of a generation.
    pub limit_ms: u64,
    /// How many there may be.
    pub max_generations: u32,
    /// Its plans, by their numbers: calls alone.
    pub plans: Vec<Plan>,
}

/// All that is resolved when a run is made.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Milliseconds of an attempt.
    pub attempt_ms: u64,
    /// Milliseconds that an execution waits for its turn.
    pub queue_wait_ms: u64,
    /// Milliseconds that an execution waits for a worker.
    pub worker_wait_ms: u64,
    /// Further attempts of a unit.
    pub max_retries: u32,
    /// Milliseconds before the first retry.
    pub backoff_ms: u64,
    /// The factor of each further delay.
    pub multiplier: f64,
    /// The longest delay in milliseconds.
    pub max_backoff_ms: u64,
    /// True if a person is asked for more.
    pub escalate: bool,
    /// For outcomes that are unknown.
    pub unknown: Doubt,
    /// For attempts that timed out.
    pub timed_out: Doubt,
    /// What failure leads to unless the step says.
    pub on_failure: OnFailure,
    /// What failed dependencies lead to unless the step says.
    pub on_dependency_failure: OnDependencyFailure,
    /// Steps at a time.
    pub max_concurrency: usize,
    /// True if all steps of a parallel plan count as `async` where none is.
    pub async_by_default: bool,
    /// Milliseconds of the watchdog, if given.
    pub watchdog_ms: Option<u64>,
    /// Active milliseconds of a revision.
    pub revision_ms: Option<u64>,
    /// Active milliseconds of the run.
    pub run_ms: u64,
    /// Milliseconds of a pause.
    pub pause_ms: u64,
    /// Milliseconds of the run.
    pub lifetime_ms: u64,
    /// Milliseconds for a question's answer.
    pub question_ms: u64,
    /// Milliseconds for any other answer.
    pub approval_ms: u64,
    /// 0 to 4.
    pub autonomy: u8,
    /// True if a safety action is named.
    pub checks: bool,
    /// Different people that must approve.
    pub quorum: usize,
    /// True if the user of the run does not approve.
    pub four_eyes: bool,
    /// Who may approve; everybody if empty.
    pub approvers: Vec<u8>,
    /// True if a restart cancels the run.
    pub discards: bool,
    /// Who makes another plan if there is none, or one failed.
    pub planner: Option<Planner>,
    /// What is left once no further plan can be made.
    pub fallback: Option<Fallback>,
    /// True if it is not known at first what the actions of the plan are like.
    pub learns: bool,
}

impl Plan {
    /// Whether a step holds back all behind it: RUN-3.3.
    #[must_use]
    pub fn is_barrier(&self, step: usize) -> bool {
        let step = &self.steps[step];
        let is_condition = matches!(step.kind, Kind::Condition { .. });
        is_condition || step.on_success.is_some() || matches!(step.on_failure, Some(OnFailure::Jump(_)))
    }
}

impl Limits {
    /// RUN-5.5: what a step's failure leads to.
    #[must_use]
    pub fn on_failure_of(&self, step: &Step) -> OnFailure {
        match (step.on_failure, step.required) {
            (Some(word), _) => word,
            (None, Some(false)) => OnFailure::Skip,
            (None, Some(true)) if self.on_failure == OnFailure::Skip => OnFailure::Abort,
            (None, _) => self.on_failure,
        }
    }

    /// Whether a step is required: its failure fails the revision.
    #[must_use]
    pub fn is_required(&self, step: &Step) -> bool {
        matches!(self.on_failure_of(step), OnFailure::Abort | OnFailure::Drain)
    }

    /// RUN-5.3: the delay before the kth retry.
    #[must_use]
    pub fn delay_ms(&self, k: u32) -> u64 {
        let mut delay = self.backoff_ms as f64;
        for _ in 1..k {
            delay *= self.multiplier;
        }
        delay.min(self.max_backoff_ms as f64) as u64
    }
}
