//! The wish of whoever started a program that it end. For programs that have started others and must not leave them behind.

use tokio::signal::unix::{SignalKind, signal};

use crate::Fault;

/// Resolves when somebody interrupts the program or tells it to end, or where that cannot be heard.
pub async fn interrupted() -> Fault {
    let interrupt =
        signal(SignalKind::interrupt()).and_then(|one| Ok((one, signal(SignalKind::terminate())?)));
    match interrupt {
        Ok((mut interrupt, mut terminate)) => {
            tokio::select! {
                biased; // Either ends the program; the order decides nothing.
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            "interrupted".into()
        }
        Err(fault) => fault.into(),
    }
}
