//! Reads back, before anything is served, what was accepted and is not settled. Settles nothing itself.

use crate::failure::Failure;
use crate::limits::RECOVERY_PAGE;
use crate::records;
use escapement_engine::Recovered;
use escapement_store::{Reader, StoreFault, StoredExecution};
use std::sync::Arc;
use tracing::warn;

/// Everything that is not settled, oldest first.
///
/// # Errors
/// Where the store does not read, or, unless the operator accepts the loss, where one execution does not.
pub fn unsettled(reader: &dyn Reader, accept_loss: bool) -> Result<Vec<Recovered>, Failure> {
    let mut all = Vec::new();
    let mut after = None;
    loop {
        let page = match reader.unsettled(after, RECOVERY_PAGE) {
            Ok(page) => page,
            Err(fault @ StoreFault::Corrupt { number, .. }) => {
                leave_unsettled(number, Box::new(fault), accept_loss)?;
                after = Some(number);
                continue;
            }
            Err(fault) => return Err(Failure::Store(fault)),
        };
        let Some(last) = page.last() else { return Ok(all) };
        after = Some(last.summary.number);
        for stored in page {
            let number = stored.summary.number;
            match recovered(stored) {
                Ok(recovered) => all.push(recovered),
                Err(unreadable) => leave_unsettled(number, Box::new(unreadable), accept_loss)?,
            }
        }
    }
}

fn recovered(stored: StoredExecution) -> Result<Recovered, records::Unreadable> {
    let request = records::decode_accepted(&stored.record)?;
    let summary = stored.summary;
    if *request.digest() != summary.request_digest {
        // It runs all the same; only a repeat of the request would be taken for another one.
        warn!(
            execution_id = %summary.execution_id,
            "recorded request has another digest than the accepted one"
        );
    }
    Ok(Recovered {
        execution_id: summary.execution_id,
        request: Arc::new(request),
        accepted_at: summary.accepted_at,
        deadline_ms: summary.deadline_ms,
        started_at: summary.started_at,
    })
}

fn leave_unsettled(
    number: u64,
    source: Box<dyn std::error::Error + Send + Sync>,
    accept_loss: bool,
) -> Result<(), Failure> {
    if !accept_loss {
        return Err(Failure::Unrecoverable { number, source });
    }
    warn!(
        number,
        error = source.as_ref() as &dyn std::error::Error,
        "execution cannot be read and stays unsettled"
    );
    Ok(())
}
