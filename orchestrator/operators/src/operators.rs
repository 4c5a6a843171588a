//! The way of an act: intent, act, outcome. Writes to no store itself.

use crate::act::{of_call, of_process, outcome};
use crate::recording::{Recorded, Recording, Unrecorded};
use escapement_store::OperatorDeed;
use serde_json::Value;
use std::fmt;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tokio::sync::oneshot;
use tonic::{Extensions, Status};
use tracing::{error, info};

/// Takes a recording to the writer; false if the writer has ended.
type Send = dyn Fn(Recording) -> bool + std::marker::Send + Sync;

/// Records what operators do. Cheap to clone.
#[derive(Clone)]
pub struct Operators {
    send: Arc<Send>,
}

impl fmt::Debug for Operators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operators").finish_non_exhaustive()
    }
}

impl Operators {
    /// `send` takes entries to the writer of the store, in their order, and says false once it has ended.
    pub fn new(send: impl Fn(Recording) -> bool + std::marker::Send + Sync + 'static) -> Self {
        Self { send: Arc::new(send) }
    }

    /// Writes down what a call is about to do, does it, and writes down what came of it: of an answer, the value beside it.
    /// It goes on to its end whether or not the caller waits.
    ///
    /// `extensions` are those of the call, `rpc` is `SERVICE/METHOD`, `request` what is asked for.
    ///
    /// # Errors
    /// [`Unrecorded`] as a status: then nothing was done. Otherwise as the act fails.
    pub async fn perform<T: std::marker::Send + 'static>(
        &self,
        extensions: &Extensions,
        rpc: &str,
        request: Value,
        act: impl Future<Output = Result<(T, Value), Status>> + std::marker::Send + 'static,
    ) -> Result<T, Status> {
        let intent = of_call(extensions, rpc, &request);
        info!(
            principal = intent.name,
            peer = intent.peer,
            rpc = intent.rpc,
            "operator acts"
        );
        let this = self.clone();
        let performed = tokio::spawn(async move {
            let number = this.send(OperatorDeed::Intent(intent)).await;
            let number = number.unwrap_or(Err(Unrecorded::Failed))?;
            let done = act.await;
            let outcome = outcome(done.as_ref().map(|(_, said)| said));
            let recorded = this
                .send(OperatorDeed::Outcome {
                    intent: number,
                    outcome,
                })
                .await;
            note(number, recorded.unwrap_or(Err(Unrecorded::Failed)));
            done.map(|(answer, _)| answer)
        });
        // What panicked has an intent without an outcome, as if the process had ended.
        performed
            .await
            .unwrap_or_else(|_| Err(Status::internal("The act did not come to its end.")))
    }

    /// Does something that nobody called for and that must happen in any case: writes it down before and behind, and if that cannot be
    /// done, says so in the log. Blocks, but for no longer than a few seconds on a disk that hangs; call it outside of a runtime.
    pub fn perform_in_any_case(&self, rpc: &str, request: &Value, act: impl FnOnce() -> Value) {
        let number = self.send_and_wait(OperatorDeed::Intent(of_process(rpc, request)));
        if let Err(unrecorded) = number {
            error!(rpc, %request, ?unrecorded, "this cannot be recorded, and happens all the same");
        }
        let said = act();
        if let Ok(number) = number {
            let outcome = outcome(Ok(&said));
            note(
                number,
                self.send_and_wait(OperatorDeed::Outcome {
                    intent: number,
                    outcome,
                }),
            );
        }
    }

    fn send(&self, deed: OperatorDeed) -> oneshot::Receiver<Result<u64, Unrecorded>> {
        let (recorded, wait) = oneshot::channel();
        let tell = move |number| {
            // Who waited may have been stopped with the process.
            let _gone = recorded.send(number);
        };
        self.hand_over(deed, Box::new(tell));
        wait
    }

    fn send_and_wait(&self, deed: OperatorDeed) -> Result<u64, Unrecorded> {
        let (recorded, wait) = mpsc::channel();
        let tell = move |number| {
            // Who waited may have gone on.
            let _gone = recorded.send(number);
        };
        self.hand_over(deed, Box::new(tell));
        wait.recv_timeout(PATIENCE).unwrap_or(Err(Unrecorded::Failed))
    }

    /// If the writer has ended, the way to who waits is dropped, which is an answer, too.
    fn hand_over(&self, deed: OperatorDeed, recorded: Recorded) {
        (self.send)(Recording { deed, recorded });
    }
}

/// Says what is not recorded of an act that is over.
fn note(intent: u64, recorded: Result<u64, Unrecorded>) {
    if let Err(unrecorded) = recorded {
        error!(
            intent,
            ?unrecorded,
            "outcome of what an operator did is not recorded"
        );
    }
}

/// How long what must happen waits for its entry.
const PATIENCE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests;
