//! Figures and probes: where they are served, and where what stands now is read.

use crate::config::Config;
use crate::exit::Failure;
use crate::host::handle::{EngineHandle, Lane};
use crate::process::security::{Security, cannot_export};
use escapement_engine::Input;
use escapement_keys::Keys;
use escapement_metrics::{Endpoint, Figures, Look, Source};
use escapement_otlp::Export;
use escapement_sinks::{Deliveries, DeliveryFigures};
use escapement_traces::SERVICE_NAME;
use escapement_transport::tls::TlsServer;
use std::pin::Pin;
use std::sync::Arc;
use tokio::sync::watch;

/// Takes the address. `None` if nobody gets figures: then nothing is counted.
///
/// # Errors
/// [`Failure::Listen`], or what is wrong with the collector.
pub(super) fn listen(config: &Config) -> Result<Option<Figures>, Failure> {
    let version = env!("CARGO_PKG_VERSION");
    let take = |address| Endpoint::take(address).map_err(|source| Failure::Listen { address, source });
    let endpoint = config.metrics_listen.map(take).transpose()?;
    let push = config.traces.otlp.push(SERVICE_NAME, version);
    let push = push.map_err(|fault| cannot_export(config, fault))?;
    let sampling = config.traces.sampling();
    let figures = Figures::new(endpoint, push, config.metrics_max_actions, version, sampling);
    Ok(figures.inspect(|figures| figures.metrics.set_executions_max(config.max_queued_executions)))
}

/// Serves and pushes them, as is wanted, on a thread of their own.
///
/// # Errors
/// If there is no thread.
pub(super) fn serve(
    figures: Option<Figures>,
    engine: &EngineHandle,
    config: &Config,
    exported: Vec<Export>,
    security: &Security,
    deliveries: &Deliveries,
) -> std::io::Result<()> {
    let now = Now {
        engine: engine.clone(),
        exported,
        tls: security.tls.clone(),
        keys: security.keys.clone(),
        sinks: deliveries.figures(),
    };
    figures.map_or(Ok(()), |figures| figures.serve(config.store_path.clone(), now))
}

/// What stands now.
#[derive(Debug)]
struct Now {
    engine: EngineHandle,
    exported: Vec<Export>,
    tls: Option<watch::Receiver<Arc<TlsServer>>>,
    keys: Option<Keys>,
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
                exported: self.exported.clone(),
                certificate_end_seconds: self.tls.as_ref().map(|tls| tls.borrow().end_seconds()),
                keys_ages_ms: self.keys.as_ref().map_or_else(Vec::new, Keys::ages_ms),
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
