//! Entries of the contract crate's record in the words of the second interpreter. Decides nothing.

use crate::border;
use crate::pair::chain_of;
use crate::plans::place_of;
use escapement_contract::{AuditKind, Evidence};
use escapement_model::Severity;
use escapement_tests::reference::decided::Said;
use escapement_tests::reference::errors::Classified;

/// One error of a chain: code, place of its step, severity.
pub(crate) type Link = (String, Option<usize>, Severity);

/// The same entry. Of the texts only the codes are left.
pub(crate) fn of(kind: &AuditKind) -> Said {
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
        } => Said::Failed(place_of(step_id), *attempt, classified(&chain_of(error))),
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
            Said::NotCompleted(place_of(step_id), *attempts, reason, classified(&chain_of(error)))
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

/// True where both say the same in the same order; the incomplete steps may stand anywhere among the actions.
pub(crate) fn is_the_same(found: &[Said], expected: &[Said]) -> bool {
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

/// A chain of the second interpreter.
pub(crate) fn links(error: &Classified) -> Vec<Link> {
    error
        .chain()
        .into_iter()
        .map(|error| (error.code.clone(), error.step, error.severity))
        .collect()
}
