//! The five presets: every default of a run, under the name of the way of working that it comes from. Knows no run.

use crate::spec::{
    DependencyDefault, FailureDefault, Fallback, FallbackKind, InDoubt, Limits, Policy, ResumePolicy,
    Templates,
};
use alloc::string::String;
use alloc::vec::Vec;

/// Defaults under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// What fits most callers.
    Standard,
    /// Tools in dependency order, drained on failure.
    Execution,
    /// Decomposed questions to language models.
    PlanMode,
    /// Ordered steps with gates, questions and branches.
    Autonomous,
    /// A strict watchdog.
    Protocol,
}

impl Preset {
    /// All of them.
    pub const ALL: [Preset; 5] = [
        Preset::Standard,
        Preset::Execution,
        Preset::PlanMode,
        Preset::Autonomous,
        Preset::Protocol,
    ];

    /// As requests spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Preset::Standard => "standard",
            Preset::Execution => "execution",
            Preset::PlanMode => "plan_mode",
            Preset::Autonomous => "autonomous",
            Preset::Protocol => "protocol",
        }
    }

    /// Returns the one that is spelled so.
    pub fn spelled(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|preset| preset.as_str() == text)
    }

    // RUN-7.1
    /// The limits; `n_cores` is what `execution` allows to overlap.
    pub fn limits(self, n_cores: u32) -> Limits {
        let standard = Limits {
            attempt_ms: 30_000,
            queue_wait_ms: 30_000,
            worker_wait_ms: 30_000,
            watchdog_ms: 0,
            revision_ms: 0,
            run_ms: 3_600_000,
            lifetime_ms: WEEK_MS,
            pause_ms: WEEK_MS,
            question_ms: DAY_MS,
            approval_ms: DAY_MS,
            max_retries: 3,
            backoff_ms: 1000,
            multiplier: 2.0,
            max_backoff_ms: 30_000,
            max_concurrency: 8,
            batch_size: 5,
            max_iterations: 10,
            max_turns: 5,
            max_generations: 5,
            max_substitutions: 3,
            degraded_timeout_factor: 1.0,
        };
        match self {
            Preset::Standard => standard,
            Preset::Execution => Limits {
                backoff_ms: 100,
                max_backoff_ms: DAY_MS,
                max_concurrency: n_cores.max(1),
                revision_ms: 60_000,
                run_ms: 325_000,
                max_substitutions: 0,
                ..standard
            },
            Preset::PlanMode => Limits {
                backoff_ms: 0,
                multiplier: 1.0,
                max_concurrency: 1,
                max_generations: 1,
                max_substitutions: 0,
                ..standard
            },
            Preset::Autonomous => Limits {
                attempt_ms: 60_000,
                max_concurrency: 1,
                max_generations: 1,
                max_substitutions: 0,
                ..standard
            },
            Preset::Protocol => Limits {
                attempt_ms: 60_000,
                max_retries: 0,
                max_concurrency: 1,
                watchdog_ms: 30_000,
                max_generations: 1,
                ..standard
            },
        }
    }

    // RUN-7.1
    /// What failure and doubt lead to.
    pub fn policy(self) -> Policy {
        let (ambiguity, ambiguous_timeout) = match self {
            Preset::Standard => (InDoubt::Ask, InDoubt::Ask),
            Preset::Execution | Preset::PlanMode | Preset::Protocol => (InDoubt::Fail, InDoubt::Retry),
            Preset::Autonomous => (InDoubt::Ask, InDoubt::Retry),
        };
        let on_failure = match self {
            Preset::Standard | Preset::Autonomous | Preset::Protocol => FailureDefault::Abort,
            Preset::Execution => FailureDefault::Drain,
            Preset::PlanMode => FailureDefault::Skip,
        };
        let on_dependency_failure = match self {
            Preset::Standard | Preset::Protocol => DependencyDefault::Skip,
            Preset::Execution => DependencyDefault::NullIfOptional,
            Preset::PlanMode => DependencyDefault::Synthetic,
            Preset::Autonomous => DependencyDefault::Block,
        };
        Policy {
            ambiguity: ambiguity.into(),
            ambiguous_timeout: ambiguous_timeout.into(),
            on_failure: on_failure.into(),
            on_dependency_failure: on_dependency_failure.into(),
            escalate: self == Preset::PlanMode,
            four_eyes: false,
            approvers: Vec::new(),
            quorum: 1,
            resume: ResumePolicy::RetryPending.into(),
            async_by_default: self == Preset::Standard,
        }
    }

    // RUN-7.1
    /// What a run with a planner has for an output if its plans failed.
    pub fn fallback(self) -> Option<Fallback> {
        let texts = match self {
            Preset::Execution => FALLBACK_TEXTS.map(String::from).into(),
            Preset::Standard | Preset::PlanMode | Preset::Autonomous | Preset::Protocol => return None,
        };
        let kind = FallbackKind::Templates(Templates { texts });
        Some(Fallback { kind: Some(kind) })
    }

    // RUN-7.1
    /// Returns the milliseconds that a planner has for one plan.
    pub fn generation_ms(self) -> u64 {
        match self {
            Preset::Execution => 5_000,
            Preset::Standard | Preset::PlanMode | Preset::Autonomous | Preset::Protocol => 60_000,
        }
    }

    // RUN-7.1
    /// Returns the autonomy level of a run with a document of its caller and without a planner, 0 to 4.
    pub fn own_autonomy_level(self) -> u32 {
        match self {
            Preset::Standard => 3,
            Preset::Execution | Preset::PlanMode | Preset::Autonomous | Preset::Protocol => {
                self.autonomy_level()
            }
        }
    }

    // RUN-7.1
    /// Returns the autonomy level of any other run, 0 to 4.
    pub fn autonomy_level(self) -> u32 {
        match self {
            Preset::Standard | Preset::Autonomous => 1,
            Preset::Execution | Preset::PlanMode | Preset::Protocol => 4,
        }
    }
}

/// What a run says whose plans failed.
const FALLBACK_TEXTS: [&str; 3] = [
    "This could not be done: {input}. Please try again later.",
    "No way was found to do it. Please say it in another way.",
    "None of the plans for \"{input}\" worked.",
];
const DAY_MS: u64 = 86_400_000;
const WEEK_MS: u64 = 7 * DAY_MS;
