//! More and more callers, and more and more workers, for plans of one step. Measures rates only.

use std::process::Command;
use std::time::Duration;

use escapement_tests::{ChildProcess, Fault, WorkerSettings};

use super::Size;
use super::data::{Curve, Role};
use crate::load::closed_loop;
use crate::plans::Template;
use crate::stage::Stage;

/// Executions per second by callers, with one worker.
pub(super) async fn by_callers(size: &Size) -> Result<Vec<(&'static str, Curve)>, Fault> {
    let stage = Stage::start().await?;
    let template = Template::single();
    let most = CALLERS[CALLERS.len() - 1];
    let (product, floor) = (stage.channels(most)?, stage.floor.channels(most)?);
    // Connects them all.
    closed_loop(floor.clone(), &template, size.span / 4).await?;
    closed_loop(product.clone(), &template, size.span / 4).await?;
    let mut curve = Curve::default();
    for _ in 0..size.rounds {
        for n_callers in CALLERS {
            let of_floor = closed_loop(floor[..n_callers].to_vec(), &template, size.span).await?;
            let of_product = closed_loop(product[..n_callers].to_vec(), &template, size.span).await?;
            let x = n_callers as f64;
            curve.note(("Escapement", Role::Product, RATE), x, of_product.rate);
            curve.note(("Escapement", Role::Floor, RATE), x, of_floor.rate);
        }
    }
    Ok(vec![("callers", curve)])
}

/// Executions per second by workers, with 64 callers. Each round begins with an orchestrator of its own.
pub(super) async fn by_workers(size: &Size) -> Result<Vec<(&'static str, Curve)>, Fault> {
    let template = Template::single();
    let mut curve = Curve::default();
    for _ in 0..size.rounds {
        let stage = Stage::start().await?;
        let (product, floor) = (stage.channels(N_CALLERS)?, stage.floor.channels(N_CALLERS)?);
        closed_loop(floor.clone(), &template, size.span / 4).await?;
        closed_loop(product.clone(), &template, size.span / 4).await?;
        let (mut more, mut more_of_floor) = (Vec::new(), Vec::new());
        for n_workers in WORKERS {
            // The stage has the first one.
            while more.len() + 1 < n_workers {
                let (id, folder) = (format!("more-{}", more.len()), stage.directory());
                let settings = WorkerSettings::new(&stage.orchestrator.url(), &id, folder, folder);
                more_of_floor.push(floor_worker(&stage).await?);
                more.push(settings.flag("--max-in-flight", IN_FLIGHT_MAX).connect().await?);
            }
            let of_floor = closed_loop(floor.clone(), &template, size.span).await?;
            let of_product = closed_loop(product.clone(), &template, size.span).await?;
            let x = n_workers as f64;
            curve.note(("Escapement", Role::Product, RATE), x, of_product.rate);
            curve.note(("Escapement", Role::Floor, RATE), x, of_floor.rate);
        }
    }
    Ok(vec![("workers", curve)])
}

/// Returns another worker of the floor.
async fn floor_worker(stage: &Stage) -> Result<ChildProcess, Fault> {
    let mut command = Command::new(std::env::current_exe()?);
    let stderr = stage.directory().join("floor.stderr");
    let command = command.args(["floor-worker", stage.floor.url()]);
    let mut worker = ChildProcess::start("floor-worker", command, &stderr)?;
    worker.announcement("connected", START_LIMIT).await?;
    Ok(worker)
}

const CALLERS: [usize; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];
const WORKERS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
const N_CALLERS: usize = 64;
const IN_FLIGHT_MAX: u32 = 1_024;
const START_LIMIT: Duration = Duration::from_secs(30);
const RATE: &str = "executions/s";
