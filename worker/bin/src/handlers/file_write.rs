//! `file.write`: a file below the root, as a whole or not at all. Deletes and appends nothing.

use super::{Encoding, decode, invalid, root_of};
use crate::config::Config;
use crate::limits::WRITE_BYTES_MAX;
use crate::sandbox::Written;
use escapement_sdk::{Action, Effect, Risk, StepContext, StepError};
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;

/// What to write where.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Below the root.
    pub path: String,
    /// The content, at most 1 MiB.
    pub content: String,
    /// How the content is written. Default: text.
    #[serde(default)]
    pub encoding: Encoding,
    /// Make the directories in between. Default: false.
    #[serde(default)]
    pub create_dirs: bool,
}

/// Returns the action.
pub fn action() -> Action {
    Action::new(NAME)
        .description("Writes a file below the worker's root, atomically.")
        .effect(Effect::SideEffect)
        .risk(Risk::Unusual)
        .idempotent()
        .input_schema(json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["path", "content"],
            "properties": {
                "path": { "type": "string", "minLength": 1 },
                "content": { "type": "string" },
                "encoding": { "enum": ["text", "base64"], "default": "text" },
                "create_dirs": { "type": "boolean", "default": false }
            }
        }))
}

/// Writes the file.
///
/// # Errors
/// `INVALID_PAYLOAD`, `FILE_ACCESS_OFF`, `FILE_NOT_ALLOWED` (all fatal); `FILE_NOT_FOUND`, `FILE_FAILED`.
pub async fn run(input: Input, _context: StepContext, config: Arc<Config>) -> Result<Written, StepError> {
    let root = root_of(&config)?;
    let content = decode(input.content, input.encoding)?;
    if content.len() > WRITE_BYTES_MAX {
        return Err(invalid(format!(
            "the content has {} bytes, more than {WRITE_BYTES_MAX}",
            content.len()
        )));
    }
    root.write(&input.path, content, input.create_dirs).await
}

/// Name.
pub const NAME: &str = "file.write";
