//! The child process that evaluates one jq filter or one template and ends.
//! Reads stdin, writes stdout, and touches neither files nor network.

mod filter;
mod template;

use crate::eval::parent::{EVALUATE_ARGUMENT, Program, Reply, Request};
use crate::limits::EVALUATION_CPU_SECONDS_MAX;
use rustix::process::{Resource, Rlimit, setrlimit};
use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::process::ExitCode;

/// Evaluates and says how to exit, if the first argument asks for it; otherwise the worker is meant.
pub fn exit_code_if_asked() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let is_asked = arguments
        .next()
        .is_some_and(|argument| argument == EVALUATE_ARGUMENT);
    is_asked.then(|| match serve(arguments.next().as_deref()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    })
}

/// `memory`: how many bytes it may take beyond what it has as it begins.
fn serve(memory: Option<&OsStr>) -> io::Result<()> {
    let memory = memory
        .and_then(OsStr::to_str)
        .and_then(|bytes| bytes.parse().ok());
    let memory: u64 = memory.ok_or(io::ErrorKind::InvalidInput)?;
    // If the machine runs out of memory all the same, this process goes before anything else does.
    let _unchanged = std::fs::write("/proc/self/oom_score_adj", "1000");
    limit(Resource::As, own_bytes().saturating_add(memory))?;
    limit(Resource::Cpu, EVALUATION_CPU_SECONDS_MAX)?;
    limit(Resource::Core, 0)?;
    let mut input = Vec::new();
    io::stdin().lock().read_to_end(&mut input)?;
    let line_end = input
        .iter()
        .position(|byte| *byte == b'\n')
        .ok_or(io::ErrorKind::InvalidData)?;
    let request: Request = serde_json::from_slice(&input[..line_end])?;
    let reply = evaluate(&request, &input[line_end + 1..]);
    let mut stdout = io::stdout().lock();
    stdout.write_all(&serde_json::to_vec(&reply)?)?;
    stdout.flush()
}

fn evaluate(request: &Request, document: &[u8]) -> Reply {
    match &request.program {
        Program::Jq { filter, results_max } => {
            filter::run(filter, document, *results_max, request.output_bytes_max)
        }
        Program::Template { template } => template::render(template, document, request.output_bytes_max),
    }
}

/// Returns the address space that the program takes by itself, mostly as what it was mapped from.
fn own_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.map_or(OWN_BYTES_DEFAULT, |kib| kib << 10)
}

/// More than that, where it is not told.
const OWN_BYTES_DEFAULT: u64 = 256 << 20;

fn limit(resource: Resource, value: u64) -> io::Result<()> {
    Ok(setrlimit(
        resource,
        Rlimit {
            current: Some(value),
            maximum: Some(value),
        },
    )?)
}
