//! Lists of saved plans.

use escapement_runs_shell::RunsHandle;
use escapement_runs_shell::saved::{SavedPlan, decoded};
use escapement_store::StoreFault;
use escapement_store::runs::{
    Definition, DefinitionKey, DefinitionKind, ListCount, Listing, RunReader, RunSummary, Scope,
};
use escapement_wire::runs::v1;

use super::draft::Shown;
use super::draft::{newest_run, retries_of};
use super::view::{STATUSES, plan_view, status};
use crate::caller::Caller;
use crate::errors::Rejection;
use crate::fields::Fields;
use crate::paging::{Room, key_of, place_and_total, place_of, token_with};
use crate::totals::{CHUNK, CHUNKS_MAX, size, total, total_of_records};

/// One page.
///
/// # Errors
/// [`Rejection`].
pub(crate) async fn list(
    runs: &RunsHandle,
    request: v1::ListPlansRequest,
    caller: &Caller,
) -> Result<v1::ListPlansResponse, Rejection> {
    let mut fields = Fields::default();
    let page_size = fields.page_size(request.page_size, 20, 200);
    for (field, note) in [
        ("user_id", &request.user_id),
        ("goal_id", &request.goal_id),
        ("trigger_id", &request.trigger_id),
    ] {
        fields.note(field, note);
    }
    if !request.status.is_empty() {
        fields.word("status", &request.status, &STATUSES.map(|word| (word, ())));
    }
    fields.conclude()?;
    let filters = (
        "plans",
        request.user_id.clone(),
        request.status.clone(),
        request.goal_id.clone(),
        request.trigger_id.clone(),
        request.namespace.clone(),
    );
    let (before, known) = place_and_total(&request.page_token, &filters)?;
    let scopes = caller.listed(&request.namespace, &request.user_id)?;
    let read = move |reader: &dyn RunReader| {
        let scopes = scopes.as_deref();
        let page = page(reader, &request, scopes, before.map(key_of), page_size)?;
        Ok((page, counted(reader, &request, scopes, known)?))
    };
    let ((plans, next), total) = runs.readers().read(read).await?;
    Ok(v1::ListPlansResponse {
        plans: plans.iter().map(plan_view).collect(),
        next_page_token: next.map_or_else(String::new, |next| token_with(place_of(next), total, &filters)),
        total_size: size(total),
        total_is_at_least: total.is_at_least,
    })
}

fn counted(
    reader: &dyn RunReader,
    request: &v1::ListPlansRequest,
    scopes: Option<&[Scope]>,
    known: Option<ListCount>,
) -> Result<ListCount, StoreFault> {
    let kind = DefinitionKind::SavedPlan;
    let of_records = [&request.goal_id, &request.trigger_id, &request.status];
    if of_records.into_iter().all(String::is_empty) {
        return total(reader, known, Listing::Definitions { kind, scopes });
    }
    let is_wanted = |found: &Definition| Ok(matching(reader, request, found)?.is_some());
    total_of_records(reader, known, kind, scopes, is_wanted)
}

/// Looks at a bounded number of plans; the key of the last one that was looked at, if there may be more.
fn page(
    reader: &dyn RunReader,
    request: &v1::ListPlansRequest,
    scopes: Option<&[Scope]>,
    mut before: Option<DefinitionKey>,
    page_size: usize,
) -> Result<(Vec<Shown>, Option<DefinitionKey>), StoreFault> {
    let (mut plans, mut n_seen, mut room) = (Vec::new(), 0, Room::default());
    loop {
        let found = reader.definitions(DefinitionKind::SavedPlan, scopes, before, CHUNK)?;
        let next = found.next();
        for definition in found.definitions {
            let (key, n_bytes) = (definition.key(), definition.record.len());
            n_seen += 1;
            if let Some(plan) = wanted(reader, request, definition)? {
                if !room.takes(n_bytes) {
                    return Ok((plans, before));
                }
                plans.push(plan);
            }
            before = Some(key);
            if plans.len() == page_size {
                return Ok((plans, before));
            }
        }
        if next.is_none() || n_seen >= SEEN_MAX {
            return Ok((plans, next));
        }
    }
}

fn wanted(
    reader: &dyn RunReader,
    request: &v1::ListPlansRequest,
    definition: Definition,
) -> Result<Option<Shown>, StoreFault> {
    let Some((saved, newest_run)) = matching(reader, request, &definition)? else {
        return Ok(None);
    };
    Ok(Some(Shown {
        definition,
        saved,
        document: None,
        retry_count: retries_of(reader, newest_run.as_ref())?,
        newest_run,
        step_key: String::new(),
    }))
}

/// Reads a plan and its newest run, if the filters let it through.
fn matching(
    reader: &dyn RunReader,
    request: &v1::ListPlansRequest,
    definition: &Definition,
) -> Result<Option<(SavedPlan, Option<RunSummary>)>, StoreFault> {
    let saved = match decoded(definition) {
        Ok(saved) => saved,
        // Lists leave out what is damaged.
        Err(StoreFault::CorruptDefinition { .. }) => return Ok(None),
        Err(fault) => return Err(fault),
    };
    let is = |wanted: &str, found: &str| wanted.is_empty() || wanted == found;
    if !is(&request.goal_id, &saved.goal_id) || !is(&request.trigger_id, &saved.trigger_id) {
        return Ok(None);
    }
    let newest_run = newest_run(reader, &definition.name)?;
    let is_status = is(&request.status, status(newest_run.as_ref()));
    Ok(is_status.then_some((saved, newest_run)))
}

/// Plans that are looked at for one page.
const SEEN_MAX: usize = CHUNK * CHUNKS_MAX;
