//! The child process that evaluates one jq filter or one template and ends.
//! Reads stdin, writes stdout, and touches neither files nor network.

mod filter;
mod template;

use crate::eval::parent::{EVALUATE_ARGUMENT, Program, Reply, Request};
use crate::limits::{EVALUATION_CPU_SECONDS_MAX, EVALUATION_MEMORY_BYTES_MAX};
use rustix::process::{Resource, Rlimit, setrlimit};
use std::io::{self, Read, Write};
use std::process::ExitCode;

/// Evaluates and says how to exit, if the first argument asks for it; otherwise the worker is meant.
pub fn exit_code_if_asked() -> Option<ExitCode> {
    let asked = std::env::args_os()
        .nth(1)
        .is_some_and(|argument| argument == EVALUATE_ARGUMENT);
    asked.then(|| match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    })
}

fn serve() -> io::Result<()> {
    limit(Resource::As, EVALUATION_MEMORY_BYTES_MAX)?;
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

fn limit(resource: Resource, value: u64) -> io::Result<()> {
    Ok(setrlimit(
        resource,
        Rlimit {
            current: Some(value),
            maximum: Some(value),
        },
    )?)
}
