//! The limits of a request, each within its range.

use crate::fields::Fields;
use escapement_run::spec::Limits;
use escapement_wire::runs::v1;

/// Puts the limits that a request names in the place of the preset's.
pub(super) fn override_limits(limits: &mut Limits, wanted: &v1::Limits, fields: &mut Fields) {
    let times = [
        ("attempt_ms", wanted.attempt_ms, &mut limits.attempt_ms, 1, DAY_MS),
        (
            "queue_wait_ms",
            wanted.queue_wait_ms,
            &mut limits.queue_wait_ms,
            1,
            DAY_MS,
        ),
        (
            "worker_wait_ms",
            wanted.worker_wait_ms,
            &mut limits.worker_wait_ms,
            1,
            DAY_MS,
        ),
        (
            "watchdog_ms",
            wanted.watchdog_ms,
            &mut limits.watchdog_ms,
            0,
            YEAR_MS,
        ),
        (
            "revision_ms",
            wanted.revision_ms,
            &mut limits.revision_ms,
            0,
            YEAR_MS,
        ),
        ("run_ms", wanted.run_ms, &mut limits.run_ms, 1, YEAR_MS),
        (
            "lifetime_ms",
            wanted.lifetime_ms,
            &mut limits.lifetime_ms,
            1,
            YEAR_MS,
        ),
        ("pause_ms", wanted.pause_ms, &mut limits.pause_ms, 1, YEAR_MS),
        (
            "question_ms",
            wanted.question_ms,
            &mut limits.question_ms,
            1,
            YEAR_MS,
        ),
        (
            "approval_ms",
            wanted.approval_ms,
            &mut limits.approval_ms,
            1,
            YEAR_MS,
        ),
        ("backoff_ms", wanted.backoff_ms, &mut limits.backoff_ms, 0, DAY_MS),
        (
            "max_backoff_ms",
            wanted.max_backoff_ms,
            &mut limits.max_backoff_ms,
            0,
            DAY_MS,
        ),
    ];
    for (name, wanted, limit, least, most) in times {
        if let Some(wanted) = wanted {
            fields.number(&format!("limits.{name}"), wanted, least..=most);
            *limit = u64::try_from(wanted).unwrap_or(0);
        }
    }
    override_counts(limits, wanted, fields);
}

fn override_counts(limits: &mut Limits, wanted: &v1::Limits, fields: &mut Fields) {
    let counts = [
        ("max_retries", wanted.max_retries, &mut limits.max_retries, 0, 100),
        (
            "max_concurrency",
            wanted.max_concurrency,
            &mut limits.max_concurrency,
            1,
            1024,
        ),
        ("batch_size", wanted.batch_size, &mut limits.batch_size, 1, 256),
        (
            "max_iterations",
            wanted.max_iterations,
            &mut limits.max_iterations,
            0,
            1000,
        ),
        ("max_turns", wanted.max_turns, &mut limits.max_turns, 1, 100),
        (
            "max_substitutions",
            wanted.max_substitutions,
            &mut limits.max_substitutions,
            0,
            100,
        ),
        (
            "max_generations",
            wanted.max_generations,
            &mut limits.max_generations,
            1,
            20,
        ),
    ];
    for (name, wanted, limit, least, most) in counts {
        if let Some(wanted) = wanted {
            fields.number(&format!("limits.{name}"), wanted, least..=most);
            *limit = u32::try_from(wanted).unwrap_or(0);
        }
    }
    if let Some(multiplier) = wanted.multiplier {
        fields.number("limits.multiplier", multiplier, 1.0..=10.0);
        limits.multiplier = multiplier;
    }
    if let Some(factor) = wanted.degraded_timeout_factor {
        fields.number("limits.degraded_timeout_factor", factor, 1.0..=10.0);
        limits.degraded_timeout_factor = factor;
    }
}

const DAY_MS: i64 = 86_400_000;
const YEAR_MS: i64 = 31_536_000_000;
