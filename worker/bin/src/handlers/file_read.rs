//! `file.read`: the content of a file below the root. Lists no directories and follows no links.

use super::{Encoding, encode, invalid, root_of};
use crate::config::Config;
use crate::digest::sha256_hex;
use crate::limits::{CONTENT_BYTES_DEFAULT, CONTENT_BYTES_MAX};
use crate::output_size::fitting;
use escapement_sdk::{Action, Effect, Risk, StepContext, StepError};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::Arc;

/// Which file to read.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Below the root.
    pub path: String,
    /// Bytes that the file may have. Default 512 KiB, at most 1000 KiB.
    #[serde(default = "default_bytes_max")]
    pub bytes_max: usize,
}

/// The file.
#[derive(Clone, Debug, Serialize)]
pub struct Output {
    /// The path, as given.
    pub path: String,
    /// Content.
    pub content: String,
    /// How the content is written: text if it is UTF-8, Base64 otherwise.
    pub encoding: Encoding,
    /// Length.
    pub bytes: usize,
    /// The digest of its content.
    pub sha256: String,
}

/// Returns the action.
pub fn action() -> Action {
    Action::new(NAME)
        .description("Reads a file below the worker's root.")
        .effect(Effect::World)
        .risk(Risk::Safe)
        .input_schema(json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["path"],
            "properties": {
                "path": { "type": "string", "minLength": 1 },
                "bytes_max": {
                    "type": "integer",
                    "minimum": 0,
                    "maximum": CONTENT_BYTES_MAX,
                    "default": CONTENT_BYTES_DEFAULT
                }
            }
        }))
}

/// Reads the file.
///
/// # Errors
/// `INVALID_PAYLOAD`, `FILE_ACCESS_OFF`, `FILE_NOT_ALLOWED` (all fatal);
/// `FILE_NOT_FOUND`, `FILE_TOO_LARGE`, `FILE_FAILED`.
pub async fn run(input: Input, _context: StepContext, config: Arc<Config>) -> Result<Output, StepError> {
    if input.bytes_max > CONTENT_BYTES_MAX {
        return Err(invalid(format!("bytes_max is at most {CONTENT_BYTES_MAX}")));
    }
    let content = root_of(&config)?.read(&input.path, input.bytes_max).await?;
    let (bytes, sha256) = (content.len(), sha256_hex(&content));
    let (content, encoding) = encode(content);
    let output = Output {
        path: input.path,
        content,
        encoding,
        bytes,
        sha256,
    };
    // Base64 is a third longer than the file.
    fitting(output, "FILE_TOO_LARGE")
}

fn default_bytes_max() -> usize {
    CONTENT_BYTES_DEFAULT
}

/// Name.
pub const NAME: &str = "file.read";
