//! Figures and probes: where they are served, and where what stands now is read.

use crate::config::Config;
use crate::exit::Failure;
use crate::host::handle::{EngineHandle, Lane};
use escapement_engine::Input;
use escapement_metrics::{Look, Metrics, Source};
use std::net::TcpListener;
use std::path::PathBuf;
use std::pin::Pin;
use tracing::info;

/// The figures, and the listener that shows them.
pub(super) struct Figures {
    pub(super) metrics: Metrics,
    listener: TcpListener,
}

impl Figures {
    /// Takes the address. `None` if none is given: then nothing is counted.
    ///
    /// # Errors
    /// [`Failure::Listen`].
    pub(super) fn listen(config: &Config) -> Result<Option<Self>, Failure> {
        let Some(address) = config.metrics_listen else {
            return Ok(None);
        };
        let listener = TcpListener::bind(address).map_err(|source| Failure::Listen { address, source })?;
        let metrics = Metrics::new(config.metrics_max_actions as usize, env!("CARGO_PKG_VERSION"));
        Ok(Some(Self { metrics, listener }))
    }

    /// Serves what was counted, and what the engine says.
    ///
    /// # Errors
    /// If the operating system gives no thread or no runtime.
    pub(super) fn serve(self, engine: EngineHandle, config: &Config) -> std::io::Result<()> {
        let address = self.listener.local_addr()?;
        let database = config.store_path.join("executions.db");
        let log = config.store_path.join("executions.db-wal");
        let files = [database, log];
        escapement_metrics::serve(self.listener, self.metrics, Now { engine, files })?;
        info!(%address, "metrics served");
        Ok(())
    }
}

/// What stands now.
#[derive(Debug)]
struct Now {
    engine: EngineHandle,
    /// Database and log of the store.
    files: [PathBuf; 2],
}

impl Source for Now {
    fn look(&self) -> Pin<Box<dyn Future<Output = Option<Look>> + Send + '_>> {
        Box::pin(async {
            let workers = self.engine.call(Lane::Control, Input::ListWorkers).await.ok()?;
            let actions = self.engine.call(Lane::Control, Input::ListActions).await.ok()?;
            let size = |file: &PathBuf| std::fs::metadata(file).map_or(0, |metadata| metadata.len());
            Some(Look {
                workers,
                actions,
                store_file_bytes: self.files.each_ref().map(size),
            })
        })
    }

    fn turns(&self) -> Pin<Box<dyn Future<Output = bool> + Send + '_>> {
        Box::pin(async {
            let asked = |caller| Input::FindAttempts {
                caller,
                tokens: Vec::new(),
            };
            self.engine.call(Lane::Control, asked).await.is_ok()
        })
    }
}
