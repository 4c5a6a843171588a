//! The stores of the process as they are opened, and what looks through them. Serves nothing.

use crate::clock::Clock;
use crate::config::Config;
use crate::exit::{Failure, no_thread};
use escapement_commands::scrub::Scrub;
use escapement_metrics::Metrics;
use escapement_model::BootId;
use escapement_operators::Scribe;
use escapement_store::embedded::Converted;
use escapement_store::{Embedded, EmbeddedOptions};
use std::time::Duration;
use tracing::{info, warn};

/// Returns the store.
///
/// # Errors
/// [`Failure::Store`].
pub(super) fn open_store(config: &Config) -> Result<Embedded, Failure> {
    let options = EmbeddedOptions {
        accept_loss: config.accept_loss,
        ..EmbeddedOptions::default()
    };
    let store = Embedded::open(&config.store_path, options).map_err(Failure::Store)?;
    let opening = store.opening();
    info!(
        store_path = %opening.directory.display(),
        schema_version = opening.schema_version,
        is_new = opening.is_new,
        "store open"
    );
    if let Some(Converted { n_executions, n_runs }) = opening.converted {
        info!(n_executions, n_runs, "store converted from earlier version");
    }
    for repaired in &opening.repaired {
        warn!(repaired, "store repaired with the loss accepted");
    }
    if let Some(mode) = opening.mode_for_others {
        warn!(
            store_path = %opening.directory.display(),
            mode = format!("{mode:04o}"),
            "directory of the store is open to other users; its files are not"
        );
    }
    Ok(store)
}

/// Returns the look through the store in the background, if the operator wants it.
pub(super) fn start_scrub(
    config: &Config,
    store: &Embedded,
    metrics: Option<Metrics>,
) -> Result<Option<Scrub>, Failure> {
    if config.scrub_interval_ms == 0 {
        return Ok(None);
    }
    let examiner = store.examiner().map_err(Failure::Store)?;
    let interval = Duration::from_millis(config.scrub_interval_ms);
    let told = move |n_findings| metrics.iter().for_each(|metrics| metrics.scrubbed(n_findings));
    Scrub::start(examiner, interval, told)
        .map(Some)
        .map_err(no_thread)
}

/// What operators began before the last end has an outcome from now on: nobody knows it.
/// Returns what writes the acts of this lifetime.
pub(super) fn close_acts(
    config: &Config,
    boot_id: BootId,
    store: &mut Embedded,
    clock: Clock,
) -> Result<Scribe, Failure> {
    let scribe = Scribe {
        boot_id,
        keep_ms: Some(config.access.keep_operator_actions_ms),
    };
    let n_closed = scribe
        .close_open(store, clock.now().unix_ms)
        .map_err(Failure::Store)?;
    if n_closed > 0 {
        warn!(
            n_closed,
            "the last end cut short what operators did; whether it was done is not known"
        );
    }
    Ok(scribe)
}
