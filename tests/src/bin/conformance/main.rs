//! `cargo conformance -- COMMAND`: plays the orchestrator, a hostile one too, and judges any worker from the outside.
//! Knows the documents of the protocol and no implementation of it.

#![allow(clippy::print_stdout, reason = "stdout is what this program is for")]

mod audit;
mod catalogue;
mod checks;
mod frames;
mod log;
mod messages;
mod options;
mod play;
mod runner;
mod scene;
mod session;
#[cfg(test)]
mod sources;
mod stage;
mod subject;
mod wire;

use std::process::ExitCode;

use escapement_tests::Fault;
use tokio::signal::unix::{SignalKind, signal};

use options::{Options, Request};

#[tokio::main]
async fn main() -> ExitCode {
    let options = match options::parse(std::env::args_os().skip(1)) {
        Ok(Request::List) => return list(),
        Ok(Request::Judge(options)) => options,
        Err(usage) => {
            eprintln!("{usage}");
            return ExitCode::from(BAD_USAGE);
        }
    };
    // Biased, so that a signal wins over work; dropping the work ends the workers.
    let outcome = tokio::select! {
        biased;
        why = interrupted() => Err(why),
        outcome = judge(options) => outcome,
    };
    outcome.unwrap_or_else(|fault| {
        eprintln!("the worker cannot be judged: {fault}");
        ExitCode::FAILURE
    })
}

fn list() -> ExitCode {
    let checks = catalogue::checks().map(|check| (check.name, check.claim, check.source));
    let rules = catalogue::RULES
        .iter()
        .map(|rule| (rule.name, rule.claim, rule.source));
    for (name, claim, source) in checks.chain(rules) {
        println!("| `{name}` | {claim} | {source} |");
    }
    ExitCode::SUCCESS
}

async fn judge(options: Options) -> Result<ExitCode, Fault> {
    let counts = runner::judge(options, |line| println!("{line}")).await?;
    println!(r#"{{"passed":{},"failed":{}}}"#, counts.passed, counts.failed);
    Ok(if counts.failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

async fn interrupted() -> Fault {
    match (signal(SignalKind::interrupt()), signal(SignalKind::terminate())) {
        (Ok(mut interrupt), Ok(mut terminate)) => {
            tokio::select! {
                _ = interrupt.recv() => "interrupted".into(),
                _ = terminate.recv() => "terminated".into(),
            }
        }
        (Err(fault), _) | (_, Err(fault)) => fault.into(),
    }
}

const BAD_USAGE: u8 = 64;
