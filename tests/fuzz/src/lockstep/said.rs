//! Entries of the contract crate's audit trail in the words of the second interpreter. Decides nothing.

use super::Lockstep;
use super::border;
use escapement_contract::{AuditKind, Evidence, ExecutionError};
use escapement_model::{Severity, StepId};
use escapement_tests::reference::decided::Said;
use escapement_tests::reference::errors::Classified;

/// An error of a chain: code, place of its step, severity.
pub type Link = (String, Option<usize>, Severity);

/// The same entry. Of the texts only the codes are left.
pub(super) fn of(kind: &AuditKind, both: &Lockstep) -> Said {
    let place_of = |id: &StepId| both.place_of(*id);
    let classified = |error: &ExecutionError| classified(&chain_of(error, both));
    match kind {
        AuditKind::Accepted { .. } => panic!("an execution is accepted once"),
        AuditKind::Started { started_at } => Said::Started(*started_at),
        AuditKind::StepWaiting { step_id, attempt } => Said::Waiting(place_of(step_id), *attempt),
        AuditKind::AttemptAssigned { step_id, attempt, .. } => Said::Assigned(place_of(step_id), *attempt),
        AuditKind::AttemptStarted { step_id, attempt } => Said::AttemptStarted(place_of(step_id), *attempt),
        AuditKind::AttemptReturned {
            step_id,
            attempt,
            evidence,
        } => Said::Returned(place_of(step_id), *attempt, *evidence == Evidence::Refused),
        AuditKind::AttemptFailed {
            step_id,
            attempt,
            error,
        } => Said::Failed(place_of(step_id), *attempt, classified(error)),
        AuditKind::RetryScheduled {
            step_id,
            next_attempt,
            delay_ms,
        } => Said::Retry(place_of(step_id), *next_attempt, *delay_ms),
        AuditKind::StepCompleted {
            step_id,
            attempts,
            warnings,
        } => {
            assert!(
                warnings.iter().all(|warning| warning.severity == Severity::Warn),
                "R-4.3"
            );
            Said::Completed(place_of(step_id), *attempts)
        }
        AuditKind::StepNotCompleted {
            step_id,
            attempts,
            reason,
            error,
        } => {
            let reason = border::not_completed(*reason);
            Said::NotCompleted(place_of(step_id), *attempts, reason, classified(error))
        }
        AuditKind::MandatoryAction {
            rule_set,
            number,
            action,
        } => Said::Action(rule_set.as_str(), *number, action.as_str()),
        AuditKind::StepsIncomplete { step_ids } => Said::Incomplete(step_ids.iter().map(place_of).collect()),
        AuditKind::Settled { status } => Said::Settled(border::status(*status)),
    }
}

/// Returns true if both say the same in the same order; the incomplete steps may stand anywhere among the actions.
pub(super) fn is_the_same(found: &[Said], expected: &[Said]) -> bool {
    let is_list = |said: &&Said| matches!(said, Said::Incomplete(_));
    found.len() == expected.len()
        && found
            .iter()
            .filter(|said| !is_list(said))
            .eq(expected.iter().filter(|said| !is_list(said)))
        && found.iter().filter(is_list).eq(expected.iter().filter(is_list))
}

fn classified(chain: &[Link]) -> Classified {
    let (code, step, severity) = &chain[0];
    let cause = (chain.len() > 1).then(|| Box::new(classified(&chain[1..])));
    Classified {
        cause,
        ..Classified::new(code, *step, *severity)
    }
}

/// Returns a chain of the contract crate.
pub fn chain_of(error: &ExecutionError, both: &Lockstep) -> Vec<Link> {
    let chain = std::iter::successors(Some(error), |error| error.cause.as_deref());
    chain
        .map(|error| {
            let place = error.step_id.map(|id| both.place_of(id));
            (error.code.clone(), place, error.severity)
        })
        .collect()
}

/// Returns a chain of the second interpreter.
pub(super) fn links(error: &Classified) -> Vec<Link> {
    error
        .chain()
        .into_iter()
        .map(|error| (error.code.clone(), error.step, error.severity))
        .collect()
}
