//! The thread that reads the requests of queued executions back, in the order in which the engine asks for them.
//! Decides nothing and changes nothing.

use crate::exit::ExitOnPanic;
use escapement_engine::LoadOutcome;
use escapement_host::recovery;
use escapement_model::ExecutionId;
use escapement_store::Reader;
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;
use tokio::sync::mpsc::UnboundedSender;

/// What came of one load.
pub(crate) type Loaded = (ExecutionId, LoadOutcome);

/// Starts the thread. It ends when the engine's end of `wanted` is gone.
///
/// Both channels are unbounded, for the reason given at `StoredReceiver`: the engine bounds what it has asked for.
///
/// # Errors
/// If the operating system gives no thread.
pub(crate) fn spawn(
    reader: Box<dyn Reader>,
    wanted: Receiver<Vec<ExecutionId>>,
    loaded: UnboundedSender<Loaded>,
) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new()
        .name("loader".to_owned())
        .spawn(move || {
            let _exit_on_panic = ExitOnPanic { thread: "loader" };
            for execution_id in wanted.iter().flatten() {
                let outcome = recovery::load(reader.as_ref(), execution_id);
                if loaded.send((execution_id, outcome)).is_err() {
                    // The engine has ended: nobody needs the rest.
                    return;
                }
            }
        })
}
