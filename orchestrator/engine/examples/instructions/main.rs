//! Work for contract and engine whose instructions callgrind counts: `instructions NAME` does it, `instructions --list`
//! names all. Prints how many operations were counted; measures and judges nothing, `tests/instructions` does.
//!
//! Draws no random number and reads no clock, so that every run does the same.
#![allow(clippy::print_stdout, reason = "its answer is its output")]

/// The workloads of a module: name, what is counted, and the call that does it and returns their number.
macro_rules! workloads {
    ($($name:literal $operation:ident => $run:expr;)*) => {
        pub(crate) const WORKLOADS: &[crate::Workload] = &[$(crate::Workload {
            name: $name,
            operation: stringify!($operation),
            run: || $run,
        }),*];
    };
}

mod contract;
mod engine;
mod plans;
mod world;

use std::hint::black_box;
use std::process::ExitCode;

/// Some work.
struct Workload {
    name: &'static str,
    /// What is done several times.
    operation: &'static str,
    /// Does it and says how many operations were counted.
    run: fn() -> u64,
}

fn main() -> ExitCode {
    let workloads = || contract::WORKLOADS.iter().chain(engine::WORKLOADS);
    let name = std::env::args().nth(1).unwrap_or_default();
    if name == "--list" {
        workloads().for_each(|workload| println!("{}", workload.name));
        return ExitCode::SUCCESS;
    }
    let Some(workload) = workloads().find(|workload| workload.name == name) else {
        eprintln!("instructions NAME | --list: there is no workload \"{name}\"");
        return ExitCode::FAILURE;
    };
    println!("{} {}", (workload.run)(), workload.operation);
    ExitCode::SUCCESS
}

/// Everything that runs in here is counted, and nothing else: callgrind toggles at the name of this function.
#[inline(never)]
fn measured_by_callgrind(work: &mut dyn FnMut() -> u64) -> u64 {
    // What comes after the call keeps it from becoming a jump, behind which callgrind would go on counting.
    black_box(work())
}
