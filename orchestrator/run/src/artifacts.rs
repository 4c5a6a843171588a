//! What an output says of artifacts, and whether an artifact is what it is said to be. Reads no file.

mod base64;
mod media;

use crate::fields::{field, first_items};
use crate::journal::ArtifactCreated;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use escapement_model::hex;
use escapement_model::limits::LABEL_CHARS_MAX;
use escapement_model::opaque::{ValueView, value};

/// An artifact as an output declares it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Declared {
    /// Its type.
    pub artifact_type: String,
    /// Its media type.
    pub mime_type: String,
    /// Its name; may be empty.
    pub name: String,
    /// Where it is, if its content is not given.
    pub path: String,
    /// Its content, if it is given.
    pub data: Option<Vec<u8>>,
    /// Its bytes, if that is said.
    pub size_bytes: Option<u64>,
    /// Its SHA-256, if that is said.
    pub sha256: Option<[u8; 32]>,
    /// Where a picture of it is; may be empty.
    pub preview_url: String,
}

/// What was found out about an artifact.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// True if it is there.
    pub exists: bool,
    /// Its bytes.
    pub size_bytes: u64,
    /// Its SHA-256.
    pub sha256: Option<[u8; 32]>,
    /// Its first bytes, up to 16.
    pub magic: Vec<u8>,
}

// RUN-12.7
/// The artifacts that an output declares under `$artifacts`; none if it does not have that key.
///
/// # Errors
/// A sentence that names the field.
pub fn declared(output: &[u8]) -> Result<Vec<Declared>, String> {
    let Ok(ValueView::Struct(object)) = value(output) else {
        return Ok(Vec::new());
    };
    let list = match field(object, KEY) {
        None | Some(ValueView::Null) => return Ok(Vec::new()),
        Some(ValueView::List(list)) => list,
        Some(_) => return Err(format!("{KEY} must be a list")),
    };
    let (artifacts, n_declared) = first_items(list, PER_OUTPUT_MAX);
    if n_declared > PER_OUTPUT_MAX {
        return Err(format!("{KEY} must have at most {PER_OUTPUT_MAX} entries"));
    }
    let read = |(at, item): (usize, &ValueView<'_>)| match item {
        ValueView::Struct(object) => one(object).map_err(|what| format!("{KEY}[{at}].{what}")),
        _ => Err(format!("{KEY}[{at}] must be an object")),
    };
    artifacts.iter().enumerate().map(read).collect()
}

fn one(object: &[u8]) -> Result<Declared, String> {
    let artifact_type = text(object, "type")?.unwrap_or_default();
    let mime_type = text(object, "mime_type")?.unwrap_or_default();
    let name = text(object, "name")?.unwrap_or_default();
    if let Some((field, what)) = misnamed(artifact_type, mime_type, name) {
        return Err(format!("{field} {what}"));
    }
    let preview_url = text(object, "preview_url")?.unwrap_or_default();
    if preview_url.len() > PREVIEW_URL_BYTES_MAX || has_control(preview_url) {
        return Err(format!(
            "preview_url must have at most {PREVIEW_URL_BYTES_MAX} bytes, and no control characters"
        ));
    }
    let (path, data) = match (text(object, "path")?, text(object, "data")?) {
        (Some(path), None) if is_relative(path) => (path.to_string(), None),
        (Some(_), None) => return Err("path must lead from the root downwards".to_string()),
        (None, Some(data)) => {
            let data = base64::decoded(data).ok_or("data must be base64")?;
            (String::new(), Some(data))
        }
        _ => return Err("path is required, or data instead".to_string()),
    };
    Ok(Declared {
        artifact_type: artifact_type.to_string(),
        mime_type: mime_type.to_string(),
        name: name.to_string(),
        path,
        data,
        size_bytes: whole(object, "size_bytes")?,
        sha256: digest(object)?,
        preview_url: preview_url.to_string(),
    })
}

/// The first field that is wrong, and the rest of a sentence that begins with it; `None` if an artifact may be called so.
pub fn misnamed(artifact_type: &str, mime_type: &str, name: &str) -> Option<(&'static str, String)> {
    if !(1..=LABEL_CHARS_MAX).contains(&artifact_type.chars().count()) || has_control(artifact_type) {
        let what = format!("must have 1 to {LABEL_CHARS_MAX} code points, and no control characters");
        return Some(("type", what));
    }
    if !media::is_media_type(mime_type) {
        let what = "must be a media type such as image/png";
        return Some(("mime_type", what.to_string()));
    }
    if name.chars().count() > LABEL_CHARS_MAX || has_control(name) {
        let what = format!("must have at most {LABEL_CHARS_MAX} code points, and no control characters");
        return Some(("name", what));
    }
    None
}

fn text<'a>(object: &'a [u8], key: &str) -> Result<Option<&'a str>, String> {
    match field(object, key) {
        None | Some(ValueView::Null) => Ok(None),
        Some(ValueView::Text(text)) => Ok(Some(text)),
        Some(_) => Err(format!("{key} must be a text")),
    }
}

fn whole(object: &[u8], key: &str) -> Result<Option<u64>, String> {
    match field(object, key) {
        None | Some(ValueView::Null) => Ok(None),
        // Whole numbers up to 2^53 are exact.
        Some(ValueView::Number(n)) if (0.0..=9_007_199_254_740_992.0).contains(&n) && n % 1.0 == 0.0 => {
            Ok(Some(n as u64))
        }
        Some(_) => Err(format!("{key} must be a whole number")),
    }
}

fn digest(object: &[u8]) -> Result<Option<[u8; 32]>, String> {
    let Some(text) = text(object, "sha256")? else {
        return Ok(None);
    };
    hex::array(text)
        .map(Some)
        .ok_or_else(|| "sha256 must be 64 hexadecimal digits".to_string())
}

/// True for a path that cannot lead out of the root that it is relative to.
fn is_relative(path: &str) -> bool {
    let is_odd = |c: char| c.is_control() || matches!(c, '\\' | ':');
    let is_part = |part: &str| !part.is_empty() && part != "." && part != "..";
    path.len() <= PATH_BYTES_MAX && !path.contains(is_odd) && path.split('/').all(is_part)
}

fn has_control(text: &str) -> bool {
    text.chars().any(char::is_control)
}

// RUN-12.9
/// What `file.stat` says of an artifact. `None` if it says too little.
pub fn found_by_stat(output: &[u8]) -> Option<Found> {
    let ValueView::Struct(object) = value(output).ok()? else {
        return None;
    };
    let exists = match field(object, "exists") {
        Some(ValueView::Bool(exists)) => exists,
        None => true,
        Some(_) => return None,
    };
    if !exists {
        return Some(Found::default());
    }
    let magic = hex::bytes(text(object, "magic_hex").ok()??)?;
    Some(Found {
        exists,
        size_bytes: whole(object, "size_bytes").ok()??,
        sha256: digest(object).ok()?,
        magic: magic.into_iter().take(MAGIC_BYTES).collect(),
    })
}

/// What is to be found out of given content.
pub fn found_in(content: &[u8]) -> Found {
    Found {
        exists: true,
        size_bytes: content.len() as u64,
        sha256: Some(escapement_model::encoder::sha256(content)),
        magic: content.iter().take(MAGIC_BYTES).copied().collect(),
    }
}

// RUN-12.9
/// What is wrong with an artifact, a sentence; `None` if it is what it is said to be.
pub fn problem(artifact: &ArtifactCreated, found: &Found) -> Option<String> {
    if !found.exists {
        return Some("it does not exist".to_string());
    }
    if found.size_bytes < BYTES_MIN {
        return Some(format!(
            "it has {} bytes, fewer than {BYTES_MIN}",
            found.size_bytes
        ));
    }
    if let Some(said) = artifact.size_bytes.filter(|said| *said != found.size_bytes) {
        return Some(format!("it has {} bytes and not {said}", found.size_bytes));
    }
    let said = &artifact.sha256;
    if !said.is_empty() && found.sha256.is_none_or(|digest| digest[..] != said[..]) {
        return Some("its SHA-256 is another one".to_string());
    }
    if !media::begins_as(&artifact.mime_type, &found.magic) {
        return Some(format!("it does not begin as {} does", artifact.mime_type));
    }
    if !media::is_of_type(&artifact.mime_type, &artifact.artifact_type) {
        return Some(format!(
            "{} is no media type of {:?}",
            artifact.mime_type, artifact.artifact_type
        ));
    }
    None
}

/// The key of an output under which artifacts are declared.
const KEY: &str = "$artifacts";
/// Artifacts that one output declares.
const PER_OUTPUT_MAX: usize = 16;
/// Artifacts of a run that count.
pub const PER_RUN_MAX: usize = 256;
/// Bytes of a path.
const PATH_BYTES_MAX: usize = 1024;
/// Bytes of an address of a picture.
const PREVIEW_URL_BYTES_MAX: usize = 2048;
/// Bytes of an artifact that is uploaded: 8 MiB.
pub const UPLOAD_BYTES_MAX: usize = 8 << 20;
/// Bytes of the smallest artifact.
const BYTES_MIN: u64 = 10;
/// First bytes that are looked at.
const MAGIC_BYTES: usize = 16;
