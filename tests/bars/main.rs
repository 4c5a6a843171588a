//! `cargo bars`: holds the release binaries against the speed bars of the design, each beside its physical limit in the same run.
//! Tests nothing else. Changes nothing outside a directory of its own, unless it is told to keep its figures beside this file.

#![allow(clippy::print_stdout, reason = "stdout is what this program is for")]

mod bars;
mod curves;
mod floor;
mod hoard;
mod load;
mod options;
mod plans;
mod process;
mod report;
mod rounds;
mod sessions;
mod stage;
mod statistics;

use std::process::ExitCode;

use escapement_tests::{Fault, interrupted};
use options::Task;

#[tokio::main]
async fn main() -> ExitCode {
    // Biased, so that a signal wins over work; dropping the work ends the processes.
    let outcome = tokio::select! {
        biased;
        why = interrupted() => Err(why),
        outcome = run() => outcome,
    };
    match outcome {
        Ok(code) => code,
        Err(fault) => {
            eprintln!("the bars cannot be measured: {fault}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<ExitCode, Fault> {
    match options::parse(std::env::args().skip(1))? {
        Task::Bars(options) => bars::measure(&options).await,
        Task::Curves(options) => curves::measure(&options).await,
        Task::FloorServer => floor::server::serve().await.map(|()| ExitCode::SUCCESS),
        Task::FloorWorker { url } => floor::worker::work(&url).await.map(|()| ExitCode::SUCCESS),
    }
}
