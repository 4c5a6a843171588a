//! `process.run`: one of the allowed programs with any arguments, to its end. Starts no shell by itself.
//!
//! An allowed program is trusted with whatever it can do: this handler is a gate, not a sandbox.

use super::{invalid, own_limit, read_input, root_of, until_cancelled};
use crate::config::Config;
use crate::limits::{CAPTURE_BYTES_DEFAULT, CONTENT_BYTES_MAX, OUTPUT_FILE_BYTES_MAX, STDERR_TAIL_BYTES};
use crate::output_size::fitting;
use crate::process::{self, Finished};
use crate::sandbox::{Directory, Written};
use escapement_sdk::{Action, Effect, Risk, StepContext, StepError};
use escapement_wire::json::outside;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use tokio::process::Command;

/// What to run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// A program, spelled as `--allow-program` spells it.
    pub program: String,
    /// Arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// Text on its stdin.
    pub stdin: Option<String>,
    /// A file below the root on its stdin.
    pub stdin_file: Option<String>,
    /// Environment variables that `--allow-variable` names.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// The directory below the root that it starts in. Default: the root, or `/` if there is none.
    pub cwd: Option<String>,
    /// Exit codes that count as success. Default: 0 only.
    #[serde(default = "default_exit_codes")]
    pub expected_exit_codes: Vec<i32>,
    /// Parse stdout as JSON into `json`. Default: false.
    #[serde(default)]
    pub parse_json: bool,
    /// Write stdout, up to 16 MiB, into this file below the root instead of into the output.
    pub stdout_file: Option<String>,
    /// Bytes of each of stdout and stderr in the output. Default 256 KiB, at most 500 KiB.
    #[serde(default = "default_output_bytes_max")]
    pub output_bytes_max: usize,
    /// Milliseconds, at least 1. Default and at most: what the step has left.
    pub timeout_ms: Option<u64>,
}

/// How it went.
#[derive(Clone, Debug, Serialize)]
pub struct Output {
    /// Exit code.
    pub exit_code: i32,
    /// The beginning of its stdout; empty with `stdout_file`.
    pub stdout: String,
    /// The beginning of its stderr.
    pub stderr: String,
    /// True if stdout had more.
    pub stdout_truncated: bool,
    /// True if stderr had more.
    pub stderr_truncated: bool,
    /// Stdout as JSON, with `parse_json`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json: Option<Value>,
    /// The file, with `stdout_file`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdout_file: Option<Written>,
    /// Milliseconds that it ran.
    pub duration_ms: u64,
}

/// Returns the action.
pub fn action() -> Action {
    Action::new(NAME)
        .description("Runs a program that the worker allows, to its end.")
        .effect(Effect::SideEffect)
        .risk(Risk::Destructive)
        .input_schema(json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["program"],
            "properties": {
                "program": { "type": "string", "minLength": 1 },
                "args": { "type": "array", "items": { "type": "string" } },
                "stdin": { "type": "string" },
                "stdin_file": { "type": "string", "minLength": 1 },
                "env": { "type": "object", "additionalProperties": { "type": "string" } },
                "cwd": { "type": "string" },
                "expected_exit_codes": { "type": "array", "items": { "type": "integer" }, "default": [0] },
                "parse_json": { "type": "boolean", "default": false },
                "stdout_file": { "type": "string", "minLength": 1 },
                "output_bytes_max": {
                    "type": "integer",
                    "minimum": 0,
                    "maximum": CONTENT_BYTES_MAX / 2,
                    "default": CAPTURE_BYTES_DEFAULT
                },
                "timeout_ms": { "type": "integer", "minimum": 1 }
            }
        }))
}

/// Runs the program. On a cancellation or at its limit it is killed with all its children.
///
/// # Errors
/// `PROCESS_NOT_ALLOWED`, `INVALID_PAYLOAD` and the file codes; `PROCESS_NOT_STARTED`, `PROCESS_EXIT`,
/// `PROCESS_TIMEOUT`, `PROCESS_OUTPUT`.
pub async fn run(input: Input, context: StepContext, config: Arc<Config>) -> Result<Output, StepError> {
    check(&input)?;
    check_variables(&input, &config)?;
    let directory = directory(&input, &config)?;
    let command = command(&input, &config, directory.as_ref())?;
    let stdin = match (&input.stdin, &input.stdin_file) {
        (Some(_), Some(_)) => return Err(invalid("stdin and stdin_file exclude each other")),
        (Some(text), None) => text.clone().into_bytes(),
        (None, Some(path)) => read_input(&config, path).await?,
        (None, None) => Vec::new(),
    };
    if input.stdout_file.is_some() {
        root_of(&config)?;
    }
    let stdout_max = if input.stdout_file.is_some() {
        OUTPUT_FILE_BYTES_MAX
    } else {
        input.output_bytes_max
    };
    let time_max = own_limit(input.timeout_ms);
    let begin = Instant::now();
    let running = process::run(command, stdin, stdout_max, input.output_bytes_max);
    let finished = until_cancelled(&context, async {
        let running = tokio::time::timeout(time_max, running).await.map_err(|_| {
            StepError::new(
                "PROCESS_TIMEOUT",
                format!("killed after {} ms", time_max.as_millis()),
            )
        })?;
        running.map_err(|error| StepError::new("PROCESS_NOT_STARTED", format!("{}: {error}", input.program)))
    });
    let hidden = config.secrets.now();
    let mut finished = finished.await?;
    for stream in [&mut finished.stdout, &mut finished.stderr] {
        stream.bytes = hidden.bytes(std::mem::take(&mut stream.bytes));
    }
    // Held open until here: the child enters it by its descriptor.
    drop(directory);
    let duration_ms = u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX);
    let exit_code = judge(&input, &finished)?;
    let output = finish(&input, &config, finished, exit_code, duration_ms).await?;
    fitting(output, "PROCESS_OUTPUT")
}

fn check(input: &Input) -> Result<(), StepError> {
    if input.output_bytes_max > CONTENT_BYTES_MAX / 2 {
        return Err(invalid(format!(
            "output_bytes_max is at most {}",
            CONTENT_BYTES_MAX / 2
        )));
    }
    if input.timeout_ms == Some(0) {
        return Err(invalid("timeout_ms is at least 1"));
    }
    let texts = input
        .args
        .iter()
        .chain(input.env.keys())
        .chain(input.env.values());
    if texts.into_iter().any(|text| text.contains('\0')) {
        return Err(invalid("an argument or a variable holds a zero byte"));
    }
    Ok(())
}

/// Refuses a variable that the operator has not named: many of them make a program load code, and no list has them all.
fn check_variables(input: &Input, config: &Config) -> Result<(), StepError> {
    let Some(name) = input.env.keys().find(|name| !config.variables.contains(*name)) else {
        return Ok(());
    };
    let allowed: Vec<&str> = config.variables.iter().map(String::as_str).collect();
    let message = format!(
        "the variable {name:?} cannot be set here; this worker has --allow-variable {}",
        allowed.join(",")
    );
    Err(StepError::new("PROCESS_NOT_ALLOWED", message).not_here())
}

/// Returns the directory to start in, held open; none means `/`.
fn directory(input: &Input, config: &Config) -> Result<Option<Directory>, StepError> {
    match (&input.cwd, &config.root) {
        (None, None) => Ok(None),
        (cwd, _) => Ok(Some(root_of(config)?.directory(cwd.as_deref().unwrap_or("."))?)),
    }
}

fn command(input: &Input, config: &Config, directory: Option<&Directory>) -> Result<Command, StepError> {
    let path = config.programs.get(&input.program).ok_or_else(|| {
        let allowed: Vec<&str> = config.programs.keys().map(String::as_str).collect();
        let message = format!(
            "{:?} is not allowed here; this worker has --allow-program {}",
            input.program,
            allowed.join(",")
        );
        StepError::new("PROCESS_NOT_ALLOWED", message).not_here()
    })?;
    let mut command = Command::new(path);
    command
        .args(&input.args)
        .current_dir(directory.map_or(Path::new("/"), AsRef::as_ref))
        .env_clear();
    let allowed = config.variables.iter().map(String::as_str);
    let kept = INHERITED
        .into_iter()
        .chain(allowed)
        .filter_map(|name| Some((name, std::env::var_os(name)?)));
    command.envs(kept).envs(&input.env);
    Ok(command)
}

fn judge(input: &Input, finished: &Finished) -> Result<i32, StepError> {
    let exit_code = finished.status.code();
    if let Some(code) = exit_code.filter(|code| input.expected_exit_codes.contains(code)) {
        return Ok(code);
    }
    let how = match (exit_code, finished.status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, signal) => format!("ended by signal {}", signal.unwrap_or_default()),
    };
    Err(
        StepError::new("PROCESS_EXIT", format!("{}: {how}", input.program)).context(json!({
            "exit_code": exit_code,
            "signal": finished.status.signal(),
            "stderr": finished.stderr.tail(STDERR_TAIL_BYTES),
            "stdout": finished.stdout.tail(STDERR_TAIL_BYTES),
        })),
    )
}

async fn finish(
    input: &Input,
    config: &Config,
    finished: Finished,
    exit_code: i32,
    duration_ms: u64,
) -> Result<Output, StepError> {
    let stdout_truncated = finished.stdout.truncated;
    if stdout_truncated && (input.parse_json || input.stdout_file.is_some()) {
        return Err(StepError::new(
            "PROCESS_OUTPUT",
            "stdout has more bytes than may be kept",
        ));
    }
    let json = match input.parse_json {
        true => Some(outside::value(&finished.stdout.bytes).map_err(|error| {
            let context = json!({ "stdout": finished.stdout.tail(STDERR_TAIL_BYTES) });
            StepError::new("PROCESS_OUTPUT", format!("stdout is no JSON: {error}")).context(context)
        })?),
        false => None,
    };
    let stderr = finished.stderr.text();
    let (stdout, stdout_file) = match &input.stdout_file {
        Some(path) => (
            String::new(),
            Some(root_of(config)?.write_output(path, finished.stdout.bytes).await?),
        ),
        None => (finished.stdout.text(), None),
    };
    let stderr_truncated = finished.stderr.truncated;
    Ok(Output {
        exit_code,
        stdout,
        stderr,
        stdout_truncated,
        stderr_truncated,
        json,
        stdout_file,
        duration_ms,
    })
}

fn default_exit_codes() -> Vec<i32> {
    vec![0]
}

fn default_output_bytes_max() -> usize {
    CAPTURE_BYTES_DEFAULT
}

/// Name.
pub const NAME: &str = "process.run";
const INHERITED: [&str; 3] = ["PATH", "HOME", "LANG"];
