//! Messages of the API from JSON, by the rules that grpcurl reads it by. What is wrong is a [`Problem`] that names the field.

use escapement_wire::DESCRIPTORS;
use prost::Message;
use prost_reflect::{DescriptorPool, DeserializeOptions, DynamicMessage};
use serde_json::Value;
use std::fmt;
use std::sync::LazyLock;

/// Why an input cannot be drawn, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem(pub String);

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Problem {}

/// Reads what a caller wrote. A field that the message does not have is refused: a misspelt one would be missing in the drawing.
///
/// # Errors
/// [`Problem`] with the path of the field, below `path`.
pub(super) fn written<M: Message + Default>(name: &str, path: &str, value: &Value) -> Result<M, Problem> {
    message(name, path, value, &DeserializeOptions::new())
}

/// Reads what an orchestrator answered. A later one may have fields that are not known here.
///
/// # Errors
/// [`Problem`] with the path of the field, below `path`.
pub(super) fn answered<M: Message + Default>(name: &str, path: &str, value: &Value) -> Result<M, Problem> {
    message(
        name,
        path,
        value,
        &DeserializeOptions::new().deny_unknown_fields(false),
    )
}

fn message<M: Message + Default>(
    name: &str,
    path: &str,
    value: &Value,
    options: &DeserializeOptions,
) -> Result<M, Problem> {
    let descriptor = POOL.get_message_by_name(name).expect("the API has it");
    let mut track = serde_path_to_error::Track::new();
    let tracked = serde_path_to_error::Deserializer::new(value, &mut track);
    let read = DynamicMessage::deserialize_with_options(descriptor, tracked, options);
    let read = read.map_err(|error| {
        let field = track.path().to_string();
        let parts = [path, field.as_str()].into_iter();
        let place = parts
            .filter(|part| !matches!(*part, "" | "."))
            .collect::<Vec<_>>();
        match place.join(".").as_str() {
            "" => Problem(error.to_string()),
            place => Problem(format!("{place}: {error}")),
        }
    })?;
    read.transcode_to()
        .map_err(|error| Problem(format!("{path}: {error}")))
}

static POOL: LazyLock<DescriptorPool> =
    LazyLock::new(|| DescriptorPool::decode(DESCRIPTORS).expect("the build wrote a descriptor set"));
