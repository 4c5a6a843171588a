//! Exported records: from the bytes of a file to a scene. Draws what a whole file says; whether that is true `verify` tells.

use super::json::Problem;
use super::scene::Scene;
use super::story::{Untold, with_entries};
use bytes::Bytes;
use escapement_codec::archive::file::{ArchiveFile, read};

/// The execution of a record file, with its plan.
///
/// # Errors
/// [`Problem`]: the file is not as it was written, its plan breaks rules, or its entries are about another one.
pub(super) fn scene(file: &[u8]) -> Result<Scene, Problem> {
    let read = read(&Bytes::copy_from_slice(file));
    let ArchiveFile { archive, faults } = read.map_err(|fault| damaged(&fault))?;
    if let Some(fault) = faults.first() {
        return Err(damaged(fault));
    }
    let request = archive
        .decode_request()
        .map_err(|unreadable| damaged(&unreadable))?;
    let result = archive
        .decode_result()
        .map_err(|unreadable| damaged(&unreadable))?;
    let entries = archive
        .decode_entries()
        .map_err(|unreadable| damaged(&unreadable))?;
    let told = with_entries(Scene::of_plan(request.plan()), &entries);
    let mut scene = told.map_err(|untold| match untold {
        Untold::UnknownStep(id) => damaged(&format!("its plan has no step {id}")),
        Untold::NoStepId { .. } => damaged(&"it names a step by what is no UUID v4"),
    })?;
    if let (Some(story), Some(error)) = (&mut scene.story, result.error) {
        story.error_code = error.error_code;
    }
    Ok(scene)
}

fn damaged(what: &dyn std::fmt::Display) -> Problem {
    Problem(format!(
        "the record is not as it was written ({what}); `orchestrator verify` says more"
    ))
}
