//! An artifact as a message.

use super::words::{signed, uuid_text};
use escapement_model::RunId;
use escapement_model::hex;
use escapement_run::journal::{ArtifactCreated, ArtifactVerified};
use escapement_run::plan::Plan;
use escapement_run::state::{ArtifactState, Verdict};
use escapement_wire::runs::v1;

/// What is said of an artifact. `plan`: that of its revision; `at`: when it was said.
pub(crate) fn artifact_view(run_id: RunId, plan: &Plan, created: &ArtifactCreated, at: i64) -> v1::Artifact {
    let step = created.unit.and_then(|unit| plan.steps.get(unit.step as usize));
    v1::Artifact {
        artifact_id: uuid_text(&created.id),
        r#type: created.artifact_type.clone(),
        mime_type: created.mime_type.clone(),
        path: created.path.clone(),
        sha256: hex::text(&created.sha256),
        size_bytes: signed(created.size_bytes.unwrap_or(0)),
        preview_url: created.preview_url.clone(),
        run_id: run_id.to_string(),
        step_key: step.map_or_else(String::new, |step| step.key.clone()),
        created_at: at,
        name: created.name.clone(),
        verdict: verdict_word(Verdict::Unknown).to_owned(),
        problem: String::new(),
    }
}

/// An artifact as a run has it.
pub(crate) fn artifact_of(run_id: RunId, plan: &Plan, artifact: &ArtifactState) -> v1::Artifact {
    let mut view = artifact_view(run_id, plan, &artifact.created, artifact.created_at);
    let verified = ArtifactVerified {
        number: artifact.created.number,
        problem: artifact.problem.clone(),
        size_bytes: artifact.size_bytes,
        sha256: artifact.sha256.clone(),
        again_at: artifact.again_at,
    };
    if artifact.verdict() != Verdict::Unknown || !artifact.problem.is_empty() {
        was_verified(&mut view, &verified);
    }
    view
}

/// Adds what was found out.
pub(crate) fn was_verified(view: &mut v1::Artifact, verified: &ArtifactVerified) {
    let verdict = match (verified.again_at, verified.problem.is_empty()) {
        (0, true) => Verdict::Right,
        (0, false) => Verdict::Wrong,
        _ => Verdict::Unknown,
    };
    verdict_word(verdict).clone_into(&mut view.verdict);
    view.problem.clone_from(&verified.problem);
    if !verified.sha256.is_empty() {
        view.sha256 = hex::text(&verified.sha256);
        view.size_bytes = signed(verified.size_bytes);
    }
}

fn verdict_word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Unknown => "unknown",
        Verdict::Right => "right",
        Verdict::Wrong => "wrong",
    }
}
