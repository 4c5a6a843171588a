//! Hours of random runs in one command: `cargo campaign -- --minutes 60`. Simulated seeds on the cores, kill rounds beside them;
//! a campaign that begins anew first kills and fails a real orchestrator at every system call that changes a file.
//! Judges nothing itself: the test programs do, and this one adds up what they say and goes on where it stopped.
//!
//! What is done stands in `<target>/campaign/state.json`, which is whole at every moment: an interrupted campaign goes on there.

#![allow(clippy::print_stdout, reason = "stdout is what this program is for")]

mod child;
mod lanes;
mod options;
mod programs;
mod state;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

use options::Options;
use state::State;

/// Something in the world failed. Its text is meant for whoever runs the campaign.
type Fault = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    match campaign() {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(fault) => {
            eprintln!("cargo campaign cannot go on: {fault}");
            ExitCode::FAILURE
        }
    }
}

/// Runs for the time that was asked for. Says how many violations there were.
fn campaign() -> Result<u64, Fault> {
    // The alias ends with two dashes, and so does what people type before their words.
    let options = Options::of(std::env::args().skip(1).filter(|argument| argument != "--"))?;
    let target = programs::target_folder()?;
    let programs = programs::build(&target)?;
    let folder = target.join("campaign");
    std::fs::create_dir_all(&folder)?;
    let state = State::load(&folder, options.seed)?;
    println!(
        "seeds from {}, kill rounds from {}",
        state.next_seed, state.next_round
    );
    if state.is_new() && !child::sweep(&programs, &folder)? {
        return Ok(1);
    }
    let n_cores = std::thread::available_parallelism()?.get();
    let ended = lanes::run(&programs, &folder, state, options.duration, n_cores)?;
    for violation in &ended.violations {
        println!("\n{violation}");
    }
    println!("since the campaign began: {}", ended.state.totals);
    println!("{}", ended.totals);
    Ok(ended.totals.violations)
}
