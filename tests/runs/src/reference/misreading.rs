//! Ways to read the law wrong, each of which somebody may think is right. A test shows that each is noticed.

/// One wrong reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misreading {
    /// RUN-2.4: a run that shall pause is admitted.
    PausedRunsAreAdmitted,
    /// RUN-3.3: steps behind a branch start before it was taken.
    NoBarriers,
    /// RUN-3.5: a failed optional step satisfies its dependents.
    OptionalFailureSatisfies,
    /// RUN-3.5: a step that was skipped for a failure satisfies its dependents.
    SkipForFailureSatisfies,
    /// RUN-3.6: one skipped dependency is enough to skip.
    OneSkippedDependencySkips,
    /// RUN-3.7: only steps that are marked overlap, under every policy.
    OnlyMarkedStepsOverlap,
    /// RUN-3.7: the policy counts for a plan that marks some steps, too.
    MarksAreOverruled,
    /// RUN-3.7: a step that waits for a person takes room.
    WaitingStepsTakeRoom,
    /// RUN-3.8: the other arm of a condition still runs.
    OtherArmStays,
    /// RUN-4.8: a batch begins as soon as there is room.
    BatchesOverlap,
    /// RUN-4.8: the first item that fails for good fails the step.
    FirstFailedItemFails,
    /// RUN-5.2: what never ran counts as a retry.
    NeverRanCounts,
    /// RUN-5.2: an effect in doubt is repeated although the policy says fail.
    DoubtIsRetried,
    /// RUN-5.3: the first retry waits twice the base.
    FirstRetryWaitsTwice,
    /// RUN-5.6: a drain starts nothing further.
    DrainAborts,
    /// RUN-5.6: the last failure is the cause.
    LastFailureIsTheCause,
    /// RUN-6.3: an approval survives a rewind.
    ApprovalSurvivesRewind,
    /// RUN-6.5: a second answer replaces the first.
    LastAnswerWins,
    /// RUN-6.6: nobody's answer approves.
    SilenceApproves,
    /// RUN-6.8: an agent approves.
    AgentsApprove,
    /// RUN-6.11: a safety check that says nothing clears.
    SilentChecksClear,
    /// RUN-7.2: waiting for people is active time.
    WaitingIsActive,
    /// RUN-7.2: time in which the orchestrator stood still is active time.
    StallsAreActive,
    /// RUN-7.3: an attempt that begins is progress.
    DispatchIsProgress,
    /// RUN-7.4: an attempt whose time was cut has failed on its own.
    CutIsFailure,
    /// RUN-8.4: a rewind repeats completed effects.
    RewindRepeatsEffects,
    /// RUN-8.4: a condition that asks for a result stays taken when that is set back.
    DecisionsSurviveRewind,
    /// RUN-8.4, RUN-8.5: the arm that was not taken is set back although the condition is not.
    OtherArmComesBack,
    /// RUN-11.2: a generation whose attempt nobody knows of is over.
    LostGenerationsAreOver,
    /// RUN-11.6: a plan calls an action that failed for good.
    DisabledActionsArePlanned,
    /// RUN-11.8: no other plan follows one that failed.
    FailedPlansAreFinal,
    /// RUN-7.6: the fallback has what the revision before it left of its limit.
    FallbackKeepsTheClock,
    /// RUN-11.11: a run whose fallback completes has completed.
    FallbackCompletes,
    /// RUN-11.11: the run fails with what its fallback failed with.
    FallbackIsTheCause,
    /// RUN-11.11: an action that failed is called as the fallback.
    FallbackCallsWhatFailed,
    /// RUN-12.6: the fallback calls what has completed before.
    FallbackCallsAgain,
}

impl Misreading {
    /// All of them.
    pub const ALL: [Misreading; 36] = [
        Misreading::PausedRunsAreAdmitted,
        Misreading::NoBarriers,
        Misreading::OptionalFailureSatisfies,
        Misreading::SkipForFailureSatisfies,
        Misreading::OneSkippedDependencySkips,
        Misreading::OnlyMarkedStepsOverlap,
        Misreading::MarksAreOverruled,
        Misreading::WaitingStepsTakeRoom,
        Misreading::OtherArmStays,
        Misreading::BatchesOverlap,
        Misreading::FirstFailedItemFails,
        Misreading::NeverRanCounts,
        Misreading::DoubtIsRetried,
        Misreading::FirstRetryWaitsTwice,
        Misreading::DrainAborts,
        Misreading::LastFailureIsTheCause,
        Misreading::ApprovalSurvivesRewind,
        Misreading::LastAnswerWins,
        Misreading::SilenceApproves,
        Misreading::AgentsApprove,
        Misreading::SilentChecksClear,
        Misreading::WaitingIsActive,
        Misreading::StallsAreActive,
        Misreading::DispatchIsProgress,
        Misreading::CutIsFailure,
        Misreading::RewindRepeatsEffects,
        Misreading::DecisionsSurviveRewind,
        Misreading::OtherArmComesBack,
        Misreading::LostGenerationsAreOver,
        Misreading::DisabledActionsArePlanned,
        Misreading::FailedPlansAreFinal,
        Misreading::FallbackKeepsTheClock,
        Misreading::FallbackCompletes,
        Misreading::FallbackIsTheCause,
        Misreading::FallbackCallsWhatFailed,
        Misreading::FallbackCallsAgain,
    ];
}
