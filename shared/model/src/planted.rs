//! Faults that a test build can be told to have, so that the suites can show that they would be caught.
//!
//! They exist only if `debug_assertions` are on: in a release build [`is_on`] is the constant `false`, and nothing
//! can plant one. A process has at most one, for as long as it lives, and only its shell plants it.

#[cfg(debug_assertions)]
use core::sync::atomic::{AtomicUsize, Ordering};

/// The environment variable by which a test names the fault of a process.
pub const VARIABLE: &str = "ESCAPEMENT_PLANTED_BUG";

macro_rules! bugs {
    ($($(#[$doc:meta])* $bug:ident = $name:literal,)+) => {
        /// A fault that can be planted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Bug {
            $($(#[$doc])* $bug,)+
        }

        impl Bug {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$bug,)+];

            /// What the environment variable calls it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$bug => $name,)+
                }
            }
        }
    };
}

bugs! {
    // Many executions.
    /// An accept is acknowledged before it is durable.
    AckBeforePersist = "ack-before-persist",
    /// Steps are dispatched before the start is durable.
    DispatchBeforePersist = "dispatch-before-persist",
    /// A result is written twice.
    DoubleSettle = "double-settle",
    /// The same id with another request attaches.
    DigestIgnored = "digest-ignored",
    /// The admission queue forgets priorities.
    PriorityIgnored = "priority-ignored",
    /// The limit of live executions does not bind.
    QueueUnlimited = "queue-unlimited",
    /// A namespace that begins to wait keeps the turn that it had when it last did.
    NamespaceTagKept = "namespace-tag-kept",
    /// All namespaces weigh the same.
    NamespaceWeightIgnored = "namespace-weight-ignored",
    /// One more execution of a namespace runs than may.
    NamespaceQuotaOffByOne = "namespace-quota-off-by-one",
    /// A namespace whose next request is not in memory loses its turn.
    NamespaceParkedPassed = "namespace-parked-passed",
    /// A nested plan waits for a slot of its own parent's.
    NestedWaits = "nested-waits",
    /// A step may ask for any number of nested plans.
    ChildrenUnlimited = "children-unlimited",
    /// A restart runs again what had started.
    RegressOnReload = "regress-on-reload",
    // Workers.
    /// Any session may settle an attempt, whichever session it was handed to.
    ForeignToken = "foreign-token",
    /// A repeated outcome is accepted again.
    OutcomeTwice = "outcome-twice",
    /// Work is handed out beyond a session's credits.
    CreditsIgnored = "credits-ignored",
    /// What a worker started is handed out again when the worker is lost.
    StartedHandedOutAgain = "started-handed-out-again",
    /// The lease ends before the worker knows.
    LeaseTooShort = "lease-too-short",
    // The store.
    /// A commit returns before it is synced.
    SyncSkipped = "sync-skipped",
    /// A cut-off end of the write-ahead log is accepted.
    TornTailAccepted = "torn-tail-accepted",
    /// Records are given out without a look at their checksums.
    ChecksumIgnored = "checksum-ignored",
    /// A failed write is tried again as if nothing had happened.
    FatalRetried = "fatal-retried",
    /// A conflict is reported as done.
    ConflictIsDone = "conflict-is-done",
    /// A removed execution leaves nothing behind that refuses its ids.
    RemovedIdReusable = "removed-id-reusable",
    /// Removal takes what has not settled.
    LiveRemoved = "live-removed",
    // Runs.
    /// What a run wants done leaves before it is durable.
    RunEffectsEarly = "run-effects-early",
    /// An attempt is accepted before its intent is durable.
    RunAcceptEarly = "run-accept-early",
    /// A run has the outcome of an attempt before its execution has durably ended.
    RunOutcomeEarly = "run-outcome-early",
    /// Readers see entries that are not durable.
    RunShownEarly = "run-shown-early",
    /// Of the writes of a commit the last one is left out.
    RunWriteDropped = "run-write-dropped",
    /// The request that has made a run is not remembered.
    RunRequestForgotten = "run-request-forgotten",
    /// A start sends nothing again.
    RunRecoveryUnheard = "run-recovery-unheard",
    /// The timer of a run that changes is not armed again.
    RunTimerForgotten = "run-timer-forgotten",
    /// A paused run leaves the queue.
    RunPausedAdmitted = "run-paused-admitted",
    /// What may destroy something runs unasked.
    RunGateForgotten = "run-gate-forgotten",
    /// A decision counts whatever it is about.
    RunDigestUnchecked = "run-digest-unchecked",
    /// An agent approves.
    RunAgentApproves = "run-agent-approves",
    /// The user who started a run approves what it asks, with four eyes, too.
    RunFourEyesIgnored = "run-four-eyes-ignored",
    /// A person is a quorum.
    RunQuorumIgnored = "run-quorum-ignored",
    /// A question is answered as often as somebody answers it.
    RunAnswerTwice = "run-answer-twice",
    /// The outcome of an attempt that was fenced counts for the one that lives.
    RunFencedCounts = "run-fenced-counts",
    /// The outcome of an attempt counts for the next one, too.
    RunLateCounts = "run-late-counts",
    /// What comes after the end of a step changes its result.
    RunLateItemCounts = "run-late-item-counts",
    /// A run that fails does so twice.
    RunTwoEnds = "run-two-ends",
    /// Items that completed are done again after a restart.
    RunCompletedRepeated = "run-completed-repeated",
    /// A retry has the ids of the first attempt.
    RunIdReused = "run-id-reused",
    /// A step that was set back has the ids of its first epoch.
    RunEpochForgotten = "run-epoch-forgotten",
    /// Each child of a unit is the first one.
    RunChildReused = "run-child-reused",
    /// A payload has one entry more than its template.
    RunPayloadLeaks = "run-payload-leaks",
    /// An attempt's environment has the run's input in it.
    RunEnvironmentLeaks = "run-environment-leaks",
    /// A start makes requests anew instead of sending those that were intended.
    RunRequestRebuilt = "run-request-rebuilt",
    /// A pause holds nothing up.
    RunPauseLost = "run-pause-lost",
    /// No timer is armed for the end of a question.
    RunQuestionUntimed = "run-question-untimed",
    /// A unit is retried once more than allowed.
    RunRetryTooMany = "run-retry-too-many",
    /// An output is not that of the result.
    RunResultIgnored = "run-result-ignored",
    /// A run that is not durable as it is is parked.
    RunParkedEarly = "run-parked-early",
    /// A fork keeps nothing of what completed.
    RunForkForgets = "run-fork-forgets",
    /// Another plan or run makes an effect again of which nobody knows whether it happened.
    RunDoubtForgotten = "run-doubt-forgotten",
    /// A fork from a step makes effects of that step and of later ones again.
    RunForkRepeats = "run-fork-repeats",
    /// A step that is set back makes its effects again although nobody allows that.
    RunRewindRepeats = "run-rewind-repeats",
    /// What is in doubt of a child run is forgotten with its end.
    RunChildDoubtForgotten = "run-child-doubt-forgotten",
    /// A planner is asked once more than allowed.
    RunGenerationTooMany = "run-generation-too-many",
    /// A planner that has answered is asked again.
    RunPlannerAskedAgain = "run-planner-asked-again",
    /// A plan may call what the run does without.
    RunDisabledForgotten = "run-disabled-forgotten",
    /// A planner's plan need not keep to the constraints of its run.
    RunConstraintUnchecked = "run-constraint-unchecked",
    /// A run completes without a look at what it must have made.
    RunArtifactUnseen = "run-artifact-unseen",
    /// An artifact that was found to be wrong is taken for right.
    RunArtifactBelieved = "run-artifact-believed",
    /// A look at an artifact is repeated without a pause.
    RunLookAtOnce = "run-look-at-once",
    /// No budget binds.
    RunBudgetIgnored = "run-budget-ignored",
    /// No budget binds a planner.
    RunPlannerUnbudgeted = "run-planner-unbudgeted",
    /// A call of a model that has ended costs nothing.
    RunCostForgotten = "run-cost-forgotten",
    /// No timer is armed for the end of a generation.
    RunGenerationUntimed = "run-generation-untimed",
    /// What is said of a run with a planner before it starts counts no retries.
    RunCertificateShort = "run-certificate-short",
    /// A model has any tool that it asks for.
    RunToolUnchecked = "run-tool-unchecked",
    /// A model has one turn more than allowed.
    RunTurnTooMany = "run-turn-too-many",
    /// Any verdict of a safety check is a yes.
    RunSafetyUnheard = "run-safety-unheard",
    /// The patches of a step are merged in the wrong order.
    RunPatchesReversed = "run-patches-reversed",
    /// A run whose fallback completed is taken for one that reached its goal.
    RunFallbackCompletes = "run-fallback-completes",
    /// A revision loses what was uploaded.
    RunUploadForgotten = "run-upload-forgotten",
    /// A plan's marks count for nothing if the policy makes up for none.
    RunMarksOverruled = "run-marks-overruled",
    /// A child run spends without the budget that its parent gives it.
    RunChildUnbudgeted = "run-child-unbudgeted",
    /// A call of a model reserves no tokens.
    RunReservationSmall = "run-reservation-small",
    /// A fork with an edited plan goes on with the old one.
    RunForkUnedited = "run-fork-unedited",
    /// A run's lifetime begins anew with each of its entries.
    RunLifeAnew = "run-life-anew",
    /// What a child run used is forgotten.
    RunChildFree = "run-child-free",
    /// Runs use the wall clock.
    RunWallClock = "run-wall-clock",
    /// A start with an earlier clock extends delays.
    RunAheadForgotten = "run-ahead-forgotten",
    /// Stalls of the process count as active time.
    RunStallCounted = "run-stall-counted",
    /// A run writes down a stall and counts it as active time.
    RunStallIgnored = "run-stall-ignored",
    /// A limit fires before an outcome that arrived in time.
    RunTimeFirst = "run-time-first",
    /// Two runs of one saved plan live at a time.
    RunPlanTwice = "run-plan-twice",
    /// A firing is not written down with its run.
    RunFiringForgotten = "run-firing-forgotten",
    /// A trigger does not see that a run of it lives.
    RunOverlapUnseen = "run-overlap-unseen",
    /// What a schedule has missed is forgotten.
    RunMissForgotten = "run-miss-forgotten",
    // The shell.
    /// A full disk is taken for a write that went through.
    FullIsDurable = "full-is-durable",
    /// A watcher that asks for the next piece misses an entry.
    WatchSkipsOne = "watch-skips-one",
    /// A page of a list leaves one execution out.
    PageSkipsOne = "page-skips-one",
}

impl Bug {
    /// Returns the fault of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|bug| bug.name() == name)
    }
}

/// Place of the planted fault in `Bug::ALL`, counted from 1.
#[cfg(debug_assertions)]
static PLANTED: AtomicUsize = AtomicUsize::new(0);

/// Gives this process a fault, for good.
#[cfg(debug_assertions)]
pub fn plant(bug: Bug) {
    PLANTED.store(bug as usize + 1, Ordering::Relaxed);
}

/// Returns true if this process was given that fault.
#[cfg(debug_assertions)]
#[inline]
pub fn is_on(bug: Bug) -> bool {
    PLANTED.load(Ordering::Relaxed) == bug as usize + 1
}

/// False: a release build has none.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub const fn is_on(_bug: Bug) -> bool {
    false
}
