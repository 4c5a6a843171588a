//! `file.stat`: what a file below the root is, without its content. Lists no directories and follows no links.

use super::root_of;
use crate::config::Config;
use crate::limits::{HASHED_BYTES_DEFAULT, HASHED_BYTES_MAX};
use crate::sandbox::Stat;
use escapement_sdk::{Action, Effect, Risk, StepContext, StepError};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::Arc;

/// Which file to look at.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Below the root.
    pub path: String,
    /// Bytes that a file may have and be read as a whole for its digest. Default 64 MiB, at most 1 GiB; 0: no digest.
    #[serde(default = "default_hashed_bytes_max")]
    pub hashed_bytes_max: u64,
}

/// What the file is.
#[derive(Clone, Debug, Serialize)]
pub struct Output {
    /// The path, as given.
    pub path: String,
    /// True if there is a regular file.
    pub exists: bool,
    /// Length. Absent, like all that follows, if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// The digest of its content; absent if it is larger than `hashed_bytes_max`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Its first 16 bytes in hexadecimal digits, or fewer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub magic_hex: Option<String>,
    /// What these bytes look like, `text/plain` for printable ASCII; absent if they say nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<&'static str>,
}

/// Returns the action.
pub fn action() -> Action {
    Action::new(NAME)
        .description("Says whether a file below the worker's root exists, its size, its digest and what it looks like.")
        .effect(Effect::World)
        .risk(Risk::Safe)
        .input_schema(json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["path"],
            "properties": {
                "path": { "type": "string", "minLength": 1 },
                "hashed_bytes_max": {
                    "type": "integer",
                    "minimum": 0,
                    "maximum": HASHED_BYTES_MAX,
                    "default": HASHED_BYTES_DEFAULT
                }
            }
        }))
}

/// Looks at the file.
///
/// # Errors
/// `INVALID_PAYLOAD`, `FILE_ACCESS_OFF`, `FILE_NOT_ALLOWED` (all fatal); `FILE_FAILED`.
pub async fn run(input: Input, context: StepContext, config: Arc<Config>) -> Result<Output, StepError> {
    if input.hashed_bytes_max > HASHED_BYTES_MAX {
        return Err(super::invalid(format!(
            "hashed_bytes_max is at most {HASHED_BYTES_MAX}"
        )));
    }
    let root = root_of(&config)?;
    let looking = root.stat(&input.path, input.hashed_bytes_max);
    let Some(Stat {
        size_bytes,
        sha256,
        magic,
    }) = super::until_cancelled(&context, looking).await?
    else {
        return Ok(Output {
            path: input.path,
            exists: false,
            size_bytes: None,
            sha256: None,
            magic_hex: None,
            mime_type: None,
        });
    };
    Ok(Output {
        path: input.path,
        exists: true,
        size_bytes: Some(size_bytes),
        sha256,
        magic_hex: Some(magic.iter().map(|byte| format!("{byte:02x}")).collect()),
        mime_type: mime_type(&magic),
    })
}

/// What a file is that begins with these bytes.
fn mime_type(magic: &[u8]) -> Option<&'static str> {
    let known = MAGICS.iter().find(|(at, bytes, _)| {
        let found = magic.get(*at..*at + bytes.len());
        found == Some(*bytes)
    });
    if let Some((_, _, mime_type)) = known {
        return Some(mime_type);
    }
    let is_text = |byte: &u8| matches!(byte, b'\t' | b'\n' | b'\r' | b' '..=b'~');
    (!magic.is_empty() && magic.iter().all(is_text)).then_some("text/plain")
}

fn default_hashed_bytes_max() -> u64 {
    HASHED_BYTES_DEFAULT
}

/// Name.
pub const NAME: &str = "file.stat";

/// Where the bytes stand, the bytes, and what they mean.
const MAGICS: [(usize, &[u8], &str); 17] = [
    (0, b"\x89PNG\r\n\x1a\n", "image/png"),
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, b"GIF87a", "image/gif"),
    (0, b"GIF89a", "image/gif"),
    (8, b"WEBP", "image/webp"),
    (8, b"WAVE", "audio/wav"),
    (0, b"%PDF-", "application/pdf"),
    (0, b"PK\x03\x04", "application/zip"),
    (0, b"\x1f\x8b", "application/gzip"),
    (0, b"\x28\xb5\x2f\xfd", "application/zstd"),
    (0, b"SQLite format 3\0", "application/vnd.sqlite3"),
    (0, b"\x7fELF", "application/x-elf"),
    (0, b"OggS", "audio/ogg"),
    (0, b"ID3", "audio/mpeg"),
    (4, b"ftyp", "video/mp4"),
    (0, b"<?xml ", "application/xml"),
    (0, b"<!DOCTYPE html", "text/html"),
];

#[cfg(test)]
mod tests {
    use super::mime_type;

    #[test]
    fn the_first_bytes_say_what_a_file_is_or_nothing() {
        for (magic, expected) in [
            (&b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"[..], Some("image/png")),
            (b"RIFF\x10\0\0\0WEBPVP8 ", Some("image/webp")),
            (b"RIFF\x10\0\0\0AVI LIST", None),
            (b"\0\0\0\x18ftypmp42\0\0\0\0", Some("video/mp4")),
            (b"PK\x03\x04", Some("application/zip")),
            (b"hello\n", Some("text/plain")),
            (b"h\0llo", None),
            (b"", None),
            (b"\x89PN", None),
        ] {
            assert_eq!(mime_type(magic), expected, "{magic:?}");
        }
    }
}
