//! Runs jq filters and templates, which are programs of the plan's author, in a child process each.
//! Evaluates nothing in the worker itself.
//!
//! A filter may loop without a result, fill the memory or overflow the stack,
//! and none of that can be stopped in a thread.
//! A child process can be killed and limited; it costs about two milliseconds.

use crate::eval::budget::Budget;
use crate::limits::{EVALUATION_TIME_MAX, STDERR_TAIL_BYTES};
use crate::process;
use escapement_sdk::{StepContext, StepError, codes};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use tokio::process::Command;

/// What to evaluate; the document that it works on follows it on stdin.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Program {
    /// A jq filter; its input is any JSON.
    Jq {
        /// Text.
        filter: String,
        /// Number of results that it may have.
        results_max: usize,
    },
    /// A template; its data is a JSON object.
    Template {
        /// Text.
        template: String,
    },
}

/// The first line on the child's stdin.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Request {
    /// What to evaluate.
    pub program: Program,
    /// Bytes that the results may have as text.
    pub output_bytes_max: usize,
}

/// What the child writes to stdout.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// The results of a filter.
    Results(Vec<Value>),
    /// The text of a template.
    Text(String),
    /// The program is not well-formed. The text says where.
    Malformed(String),
    /// The document is not what the program works on.
    WrongInput(String),
    /// The program ran and failed.
    Failed(String),
}

/// Evaluates `request` on `document` (JSON text), in at most 10 s or what the step has left.
///
/// # Errors
/// `timeout_code` if the program takes too long;
/// `RESOURCE_EXHAUSTED` (fatal) if it ends the child process,
/// as one does that needs too much memory or stack;
/// `UNKNOWN_ERROR` (fatal) if the child cannot be started.
pub async fn evaluate(
    evaluator: &Path,
    budget: &Budget,
    request: &Request,
    document: &[u8],
    context: &StepContext,
    timeout_code: &str,
) -> Result<Reply, StepError> {
    let mut stdin = serde_json::to_vec(request).map_err(StepError::unknown)?;
    stdin.push(b'\n');
    stdin.extend_from_slice(document);
    // While it waits for others the step's own time runs, and nothing else.
    let share = budget.share(document.len()).await?;
    let mut command = Command::new(evaluator);
    // Nothing of the worker's environment: jq can read its own with `env`.
    let bytes = share.bytes.to_string();
    command
        .args([EVALUATE_ARGUMENT, &bytes])
        .env_clear()
        .current_dir("/");
    let time_max = EVALUATION_TIME_MAX.min(context.time_left());
    // Escaping in JSON makes at most six bytes of one.
    let reply_max = request
        .output_bytes_max
        .saturating_mul(6)
        .saturating_add(64 << 10);
    let running = process::run(command, stdin, reply_max, STDERR_TAIL_BYTES);
    let finished = match tokio::time::timeout(time_max, running).await {
        Ok(finished) => finished.map_err(|error| {
            StepError::new(
                codes::UNKNOWN_ERROR,
                format!("the evaluation cannot be started: {error}"),
            )
            .fatal()
        })?,
        Err(_) => {
            let message = format!("stopped after {} ms", time_max.as_millis());
            return Err(StepError::new(timeout_code, message).context(json!({ "reason": "time_limit" })));
        }
    };
    if !finished.status.success() {
        let how = finished
            .status
            .signal()
            .map_or("it ended abnormally".to_owned(), |n| format!("signal {n}"));
        let message =
            format!("the evaluation needs more memory, stack or processor time than it may have ({how})");
        let context = json!({ "stderr": finished.stderr.tail(STDERR_TAIL_BYTES) });
        return Err(StepError::new(codes::RESOURCE_EXHAUSTED, message)
            .context(context)
            .fatal());
    }
    serde_json::from_slice(&finished.stdout.bytes).map_err(StepError::unknown)
}

/// The first argument that turns the worker's program into an evaluator.
pub const EVALUATE_ARGUMENT: &str = "--evaluate-one-program-from-stdin";
