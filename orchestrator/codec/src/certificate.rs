//! Certificates of plans: from the contract to the wire and to the record of an acceptance, and from there to the wire.
//! Computes none.

use crate::execution::count;
use escapement_contract::{CERTIFICATE_REVISION, Certificate, DurationBound, Plan};
use escapement_model::hex;
use escapement_wire::v1;

/// Returns the certificate of a plan, as callers are told it.
pub fn certificate(plan: &Plan, certificate: &Certificate) -> v1::PlanCertificate {
    let Certificate {
        content_digest,
        canonical_order,
        max_concurrent_steps,
        worst_case_duration_ms,
        duration_bound,
        worst_case_attempts,
        worst_case_result_bytes,
        critical_path,
        critical_path_ms,
    } = certificate;
    let in_order = canonical_order.iter();
    let canonical_order: Vec<String> = in_order.map(|step| plan.step(*step).id().to_string()).collect();
    let id = |index| canonical_order[usize::from(plan.position(index))].clone();
    v1::PlanCertificate {
        content_digest: digest(content_digest),
        max_concurrent_steps: count(*max_concurrent_steps),
        worst_case_duration_ms: number(*worst_case_duration_ms),
        duration_bound: bound(*duration_bound) as i32,
        worst_case_attempts: number(*worst_case_attempts),
        worst_case_result_bytes: number(*worst_case_result_bytes),
        critical_path: critical_path
            .iter()
            .map(|critical| v1::CriticalStep {
                step_id: id(critical.step),
                action: plan.step(critical.step).action().to_owned(),
                worst_case_ms: number(critical.worst_case_ms),
                worst_case_attempts: i64::from(critical.worst_case_attempts),
            })
            .collect(),
        critical_path_ms: number(*critical_path_ms),
        canonical_order,
    }
}

/// The same for the record of the acceptance, which has the plan as well.
pub fn to_store(certificate: &Certificate) -> v1::StoredCertificate {
    let Certificate {
        content_digest,
        canonical_order,
        max_concurrent_steps,
        worst_case_duration_ms,
        duration_bound,
        worst_case_attempts,
        worst_case_result_bytes,
        critical_path,
        critical_path_ms,
    } = certificate;
    let position =
        |index: escapement_contract::StepIndex| u32::try_from(index.as_usize()).unwrap_or(u32::MAX);
    // Most plans list their steps in canonical order.
    let canonical_order = if canonical_order.is_sorted() {
        Vec::new()
    } else {
        canonical_order.iter().map(|step| position(*step)).collect()
    };
    let path = critical_path.iter();
    v1::StoredCertificate {
        content_digest: content_digest.to_vec(),
        canonical_order,
        max_concurrent_steps: count(*max_concurrent_steps),
        worst_case_duration_ms: number(*worst_case_duration_ms),
        duration_bound: bound(*duration_bound) as i32,
        worst_case_attempts: number(*worst_case_attempts),
        worst_case_result_bytes: number(*worst_case_result_bytes),
        critical_steps: path.clone().map(|critical| position(critical.step)).collect(),
        critical_steps_ms: path
            .clone()
            .map(|critical| number(critical.worst_case_ms))
            .collect(),
        critical_steps_attempts: path
            .map(|critical| i64::from(critical.worst_case_attempts))
            .collect(),
        critical_path_ms: number(*critical_path_ms),
        revision: CERTIFICATE_REVISION,
    }
}

/// What the record of an acceptance says. `None` if it does not fit the plan.
pub fn from_store(plan: &v1::Plan, stored: &v1::StoredCertificate) -> Option<v1::PlanCertificate> {
    let v1::StoredCertificate {
        content_digest,
        canonical_order,
        max_concurrent_steps,
        worst_case_duration_ms,
        duration_bound,
        worst_case_attempts,
        worst_case_result_bytes,
        critical_steps,
        critical_steps_ms,
        critical_steps_attempts,
        critical_path_ms,
        // The caller is told what was said, whichever revision said it.
        revision: _,
    } = stored;
    let step = |position: &u32| plan.steps.get(usize::try_from(*position).ok()?);
    let canonical_order = if canonical_order.is_empty() {
        plan.steps.iter().map(|step| step.id.clone()).collect()
    } else {
        let steps = canonical_order.iter().map(step);
        steps.map(|step| Some(step?.id.clone())).collect::<Option<_>>()?
    };
    let n_critical = critical_steps.len();
    let fits = [critical_steps_ms.len(), critical_steps_attempts.len()] == [n_critical; 2];
    let numbers = critical_steps_ms.iter().zip(critical_steps_attempts);
    let critical_step = |(position, (worst_case_ms, worst_case_attempts)): (&u32, (&i64, &i64))| {
        let step = step(position)?;
        Some(v1::CriticalStep {
            step_id: step.id.clone(),
            action: step.action.clone(),
            worst_case_ms: *worst_case_ms,
            worst_case_attempts: *worst_case_attempts,
        })
    };
    let critical_path = critical_steps.iter().zip(numbers).map(critical_step);
    fits.then_some(v1::PlanCertificate {
        content_digest: digest(content_digest),
        canonical_order,
        max_concurrent_steps: *max_concurrent_steps,
        worst_case_duration_ms: *worst_case_duration_ms,
        duration_bound: *duration_bound,
        worst_case_attempts: *worst_case_attempts,
        worst_case_result_bytes: *worst_case_result_bytes,
        critical_path: critical_path.collect::<Option<_>>()?,
        critical_path_ms: *critical_path_ms,
    })
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex::text(bytes))
}

fn bound(bound: DurationBound) -> v1::plan_certificate::DurationBound {
    match bound {
        DurationBound::Steps => v1::plan_certificate::DurationBound::Steps,
        DurationBound::PlanLimit => v1::plan_certificate::DurationBound::PlanLimit,
    }
}

/// Returns the contract cuts what it adds up at the largest number that fits here.
fn number(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
