//! Flags of the operator for runs: they replace defaults of every preset.

use clap::Args;
use escapement_run::spec::{Limits, Policy, ResumePolicy};

/// Defaults of runs. The help takes the texts of the fields.
#[derive(Args, Clone, Debug, Default)]
// The group of the other flags of the crate that flattens this has the same name.
#[group(skip)]
pub struct RunSettings {
    /// Milliseconds that a planner has for one plan; 1000 to 600000. No request can change it.
    /// Default: 60000, and 5000 under the preset `execution`.
    #[arg(long, env = "ESCAPEMENT_PLANNER_LIMIT_MS", value_name = "MS",
          value_parser = clap::value_parser!(u64).range(1_000..=600_000))]
    pub planner_limit_ms: Option<u64>,

    /// Effect of a restart on runs whose request has none (`policy.resume`): retry_pending or discard. Default: retry_pending.
    /// Like the flags below, it replaces the default of every preset; requests and saved plans go before it.
    #[arg(long, env = "ESCAPEMENT_DEFAULT_RESUME", value_name = "POLICY", value_parser = parse_resume)]
    pub default_resume: Option<ResumePolicy>,

    /// Autonomy level of runs whose request and saved plan have none; 0 to 4. Default: that of the preset.
    #[arg(long, env = "ESCAPEMENT_DEFAULT_AUTONOMY_LEVEL", value_name = "LEVEL",
          value_parser = clap::value_parser!(u32).range(0..=4))]
    pub default_autonomy_level: Option<u32>,

    /// Milliseconds of one attempt, unless the step, its action's profile or the request says (`limits.attempt_ms`); 1 to 86400000.
    /// Default: that of the preset.
    #[arg(long, env = "ESCAPEMENT_DEFAULT_ATTEMPT_MS", value_name = "MS",
          value_parser = clap::value_parser!(u64).range(1..=86_400_000))]
    pub default_attempt_ms: Option<u64>,

    /// Additional attempts, unless the step or the request says (`limits.max_retries`); 0 to 100. Default: that of the preset.
    #[arg(long, env = "ESCAPEMENT_DEFAULT_MAX_RETRIES", value_name = "COUNT",
          value_parser = clap::value_parser!(u32).range(0..=100))]
    pub default_max_retries: Option<u32>,

    /// Turns of a language model in one step, unless the step or the request says (`limits.max_turns`); 1 to 100.
    /// Default: that of the preset.
    #[arg(long, env = "ESCAPEMENT_DEFAULT_MAX_TURNS", value_name = "COUNT",
          value_parser = clap::value_parser!(u32).range(1..=100))]
    pub default_max_turns: Option<u32>,

    /// Concurrent steps of a run, unless the request says (`limits.max_concurrency`); 1 to 1024. Default: that of the preset.
    #[arg(long, env = "ESCAPEMENT_DEFAULT_MAX_CONCURRENCY", value_name = "COUNT",
          value_parser = clap::value_parser!(u32).range(1..=1_024))]
    pub default_max_concurrency: Option<u32>,

    /// Concurrent items of a parallel step, unless the step or the request says (`limits.batch_size`); 1 to 256.
    /// Default: that of the preset.
    #[arg(long, env = "ESCAPEMENT_DEFAULT_BATCH_SIZE", value_name = "COUNT",
          value_parser = clap::value_parser!(u32).range(1..=256))]
    pub default_batch_size: Option<u32>,
}

impl RunSettings {
    // RUN-7.1
    /// Replaces the limits and the policy of a preset.
    pub(crate) fn replace(&self, limits: &mut Limits, policy: &mut Policy) {
        if let Some(attempt_ms) = self.default_attempt_ms {
            limits.attempt_ms = attempt_ms;
        }
        for (setting, limit) in [
            (self.default_max_retries, &mut limits.max_retries),
            (self.default_max_turns, &mut limits.max_turns),
            (self.default_max_concurrency, &mut limits.max_concurrency),
            (self.default_batch_size, &mut limits.batch_size),
        ] {
            *limit = setting.unwrap_or(*limit);
        }
        if let Some(resume) = self.default_resume {
            policy.set_resume(resume);
        }
    }
}

fn parse_resume(text: &str) -> Result<ResumePolicy, &'static str> {
    let found = RESUME.iter().find(|(word, _)| *word == text);
    found
        .map(|(_, policy)| *policy)
        .ok_or("give retry_pending or discard")
}

/// Policies for a restart, as requests and flags write them.
pub(crate) const RESUME: [(&str, ResumePolicy); 2] = [
    ("retry_pending", ResumePolicy::RetryPending),
    ("discard", ResumePolicy::Discard),
];
