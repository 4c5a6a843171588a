//! Figures and probes: where they are served, and where what stands now is read.

use crate::config::Config;
use crate::exit::Failure;
use crate::host::handle::{EngineHandle, Lane};
use crate::process::security::Security;
use escapement_engine::Input;
use escapement_metrics::{Figures, Look, Source};
use escapement_sinks::{Deliveries, DeliveryFigures};
use escapement_traces::Traces;
use escapement_transport::tls::TlsServer;
use std::pin::Pin;
use std::sync::Arc;
use tokio::sync::watch;

/// Takes the address. `None` if none is given: then nothing is counted.
///
/// # Errors
/// [`Failure::Listen`].
pub(super) fn listen(config: &Config) -> Result<Option<Figures>, Failure> {
    let figures = config.metrics_listen.map(|address| {
        Figures::listen(address, config.metrics_max_actions, env!("CARGO_PKG_VERSION"))
            .inspect(|figures| figures.metrics.set_executions_max(config.max_queued_executions))
            .map_err(|source| Failure::Listen { address, source })
    });
    figures.transpose()
}

/// Serves them, if an address is given, on a thread of their own.
///
/// # Errors
/// If there is no thread.
pub(super) fn serve(
    figures: Option<Figures>,
    engine: &EngineHandle,
    config: &Config,
    traces: Option<Traces>,
    security: &Security,
    deliveries: &Deliveries,
) -> std::io::Result<()> {
    let now = Now {
        engine: engine.clone(),
        traces,
        tls: security.tls.clone(),
        sinks: deliveries.figures(),
    };
    figures.map_or(Ok(()), |figures| figures.serve(config.store_path.clone(), now))
}

/// What stands now.
#[derive(Debug)]
struct Now {
    engine: EngineHandle,
    traces: Option<Traces>,
    tls: Option<watch::Receiver<Arc<TlsServer>>>,
    sinks: DeliveryFigures,
}

impl Source for Now {
    fn look(&self) -> Pin<Box<dyn Future<Output = Option<Look>> + Send + '_>> {
        Box::pin(async {
            let workers = self.engine.call(Lane::Control, Input::ListWorkers).await.ok()?;
            let actions = self.engine.call(Lane::Control, Input::ListActions).await.ok()?;
            Some(Look {
                workers,
                actions,
                lanes: self.engine.lane_depths(),
                traces_dropped: self.traces.as_ref().map_or(0, Traces::dropped),
                certificate_end_seconds: self.tls.as_ref().map(|tls| tls.borrow().end_seconds()),
                sinks: self.sinks.clone(),
            })
        })
    }

    fn turns(&self) -> Pin<Box<dyn Future<Output = bool> + Send + '_>> {
        Box::pin(turns(&self.engine))
    }
}

/// True once the engine has answered: it takes its inputs.
pub(super) async fn turns(engine: &EngineHandle) -> bool {
    let asked = |caller| Input::FindAttempts {
        caller,
        tokens: Vec::new(),
    };
    engine.call(Lane::Control, asked).await.is_ok()
}
