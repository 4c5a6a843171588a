//! `ListRevisions` and `GetRevision`.

use super::Runs;
use crate::caller::Caller;
use crate::errors::Rejection;
use crate::fields::Fields;
use crate::journal::{Linked, forward};
use crate::paging;
use crate::saved;
use crate::views::Document;
use escapement_model::hex;
use escapement_model::{Opaque, RunId};
use escapement_run::journal::{Event, PlanCreated};
use escapement_run::plan::{self, Plan};
use escapement_wire::runs::v1;
use std::sync::Arc;

impl Runs {
    pub(super) async fn list_revisions(
        &self,
        request: v1::ListRevisionsRequest,
    ) -> Result<v1::ListRevisionsResponse, Rejection> {
        let mut fields = Fields::default();
        let run_id = fields.id::<RunId>("run_id", &request.run_id);
        let page_size = fields.page_size(request.page_size, PAGE, PAGE_MAX);
        fields.conclude()?;
        let run_id = run_id.expect("an id that is missing is a problem");
        let filters = ("revisions", run_id);
        let mut next = paging::number(&request.page_token, &filters)?.unwrap_or(1);
        let total = self.look(run_id, |run, _| run.state().revision_number).await?;
        let mut revisions = Vec::new();
        let mut is_last = false;
        for _ in 0..STRETCHES_MAX {
            let stretch = forward(&self.runs, run_id, next, usize::MAX, SCAN_BYTES).await?;
            for entry in &stretch.entries {
                next = entry.0.sequence + 1;
                revisions.extend(revision(entry).map(|(revision, _)| revision));
                is_last = revisions
                    .last()
                    .map_or(total == 0, |last| last.number.cast_unsigned() >= total);
                if is_last || revisions.len() == page_size {
                    break;
                }
            }
            is_last |= next > stretch.last_sequence;
            if is_last || revisions.len() == page_size {
                break;
            }
        }
        Ok(v1::ListRevisionsResponse {
            revisions,
            next_page_token: match is_last {
                true => String::new(),
                false => paging::token([next, 0, 0], &filters),
            },
        })
    }

    pub(super) async fn get_revision(
        &self,
        request: v1::GetRevisionRequest,
        caller: &Caller,
    ) -> Result<v1::GetRevisionResponse, Rejection> {
        let run_id = request
            .revision
            .as_ref()
            .and_then(|name| name.run_id.parse().ok());
        let (revision, plan) = self.revision_named("revision", request.revision, caller).await?;
        let begun = u64::try_from(revision.sequence).unwrap_or(0);
        let result = match run_id {
            Some(run_id) if revision.number > 0 => {
                self.revision_result(run_id, begun, plan, caller.tenant()).await?
            }
            _ => None,
        };
        Ok(v1::GetRevisionResponse {
            revision: Some(revision),
            result,
        })
    }

    /// The revision of that name, with its document, and its plan.
    pub(super) async fn revision_named(
        &self,
        field: &str,
        name: Option<v1::RevisionName>,
        caller: &Caller,
    ) -> Result<(v1::Revision, Arc<Plan>), Rejection> {
        let mut fields = Fields::default();
        let name = name.unwrap_or_default();
        let digest = plan::revision_of(&name.revision_digest);
        if digest.is_none() && !name.revision_digest.is_empty() {
            let field = format!("{field}.revision_digest");
            fields.wrong(field, "must be sha256: and 64 hexadecimal digits");
        }
        fields.number(&format!("{field}.number"), name.number, 0..=i32::MAX);
        let run_id = match (name.run_id.is_empty(), name.revision_digest.is_empty()) {
            (true, false) => None,
            (true, true) => {
                fields.wrong(field, "must have a revision_digest or a run_id");
                None
            }
            (false, _) => fields.id::<RunId>(&format!("{field}.run_id"), &name.run_id),
        };
        fields.conclude()?;
        match (run_id, digest) {
            (Some(run_id), digest) => {
                caller.require_run(&self.runs, run_id).await?;
                self.revision_of(run_id, name.number, digest).await
            }
            (None, Some(digest)) => {
                let plan = saved::revision(&self.runs, digest, caller.scopes()).await?;
                Ok((revision_view(&plan, &digest), plan))
            }
            (None, None) => Err(not_found()),
        }
    }

    /// A revision of a run: of that digest, else of that number, else the newest.
    async fn revision_of(
        &self,
        run_id: RunId,
        number: i32,
        digest: Option<[u8; 32]>,
    ) -> Result<(v1::Revision, Arc<Plan>), Rejection> {
        let current = self.look(run_id, |run, _| run.state().revision_number).await?;
        let wanted = match number {
            0 => current,
            number => number.cast_unsigned(),
        };
        let is_wanted = |created: &PlanCreated| match digest {
            Some(digest) => created.digest[..] == digest,
            None => created.number == wanted,
        };
        let mut next = 1;
        loop {
            let stretch = forward(&self.runs, run_id, next, usize::MAX, SCAN_BYTES).await?;
            let Some((last, _)) = stretch.entries.last() else {
                return Err(not_found());
            };
            next = last.sequence + 1;
            let found = stretch.entries.iter().filter_map(any_revision);
            let found = { found }.find(|(_, created)| is_wanted(created));
            if let Some((mut revision, created)) = found {
                let loaded = self.look(run_id, move |_, blobs| created.document.load(blobs));
                let document = Opaque::from_encoded(loaded.await?);
                revision.document = Some(document.clone());
                let read = self.runs.readers().read(move |_| Ok(plan::read(&document)));
                let plan = read.await?.map_err(|_| not_found())?;
                return Ok((revision, Arc::new(plan)));
            }
        }
    }
}

/// A revision that lists show: what stands for a goal is none.
fn revision(entry: &Linked) -> Option<(v1::Revision, PlanCreated)> {
    any_revision(entry).filter(|(_, created)| created.number > 0)
}

fn any_revision((entry, _): &Linked) -> Option<(v1::Revision, PlanCreated)> {
    let Some(Event::PlanCreated(created)) = entry.event.as_ref() else {
        return None;
    };
    let revision = v1::Revision {
        revision_digest: format!("sha256:{}", hex::text(&created.digest)),
        number: i32::try_from(created.number).unwrap_or(i32::MAX),
        cause: created.cause.clone(),
        created_at: entry.at,
        total_steps: i32::try_from(created.n_steps).unwrap_or(i32::MAX),
        document: None,
        sequence: i64::try_from(entry.sequence).unwrap_or(i64::MAX),
        generation: i32::try_from(created.generation).unwrap_or(i32::MAX),
        parent_digest: match created.parent.is_empty() {
            true => String::new(),
            false => format!("sha256:{}", hex::text(&created.parent)),
        },
        failed_steps: created.failed_steps.clone(),
        disabled_actions: created.disabled.clone(),
    };
    Some((revision, created.clone()))
}

fn revision_view(plan: &Plan, digest: &[u8; 32]) -> v1::Revision {
    v1::Revision {
        revision_digest: plan::revision_text(digest),
        total_steps: i32::try_from(plan.steps.len()).unwrap_or(i32::MAX),
        document: Some(plan.document.clone()),
        ..v1::Revision::default()
    }
}

fn not_found() -> Rejection {
    Rejection::NotFound {
        reason: "REVISION_NOT_FOUND",
        message: "The run has no such revision.".to_owned(),
    }
}

const PAGE: i32 = 20;
const PAGE_MAX: i32 = 100;
/// Bytes of entries that are read at a time.
const SCAN_BYTES: usize = 1 << 20;
/// How often so much is read for one page.
const STRETCHES_MAX: usize = 8;
