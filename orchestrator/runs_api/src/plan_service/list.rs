//! Lists of saved plans.

use escapement_runs_shell::RunsHandle;
use escapement_runs_shell::saved::decoded;
use escapement_store::StoreFault;
use escapement_store::runs::{Definition, DefinitionKey, DefinitionKind, RunReader, Scope};
use escapement_wire::runs::v1;

use super::draft::Shown;
use super::saving::{newest_run, retries_of};
use super::view::{STATUSES, plan_view, status};
use crate::caller::Caller;
use crate::errors::Rejection;
use crate::fields::Fields;
use crate::paging::{Room, key_of, place, place_of, token};

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
    let before = place(&request.page_token, &filters)?.map(key_of);
    let scopes = caller.listed(&request.namespace, &request.user_id)?;
    let read = move |reader: &dyn RunReader| page(reader, &request, scopes.as_deref(), before, page_size);
    let (plans, next) = runs.readers().read(read).await?;
    Ok(v1::ListPlansResponse {
        plans: plans.iter().map(plan_view).collect(),
        next_page_token: next.map_or_else(String::new, |next| token(place_of(next), &filters)),
    })
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
    let saved = match decoded(&definition) {
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
    if !is(&request.status, status(newest_run.as_ref())) {
        return Ok(None);
    }
    Ok(Some(Shown {
        definition,
        saved,
        document: None,
        retry_count: retries_of(reader, newest_run.as_ref())?,
        newest_run,
        step_key: String::new(),
    }))
}

/// Plans that are read at a time.
const CHUNK: usize = 200;
/// Plans that are looked at for one page.
const SEEN_MAX: usize = 2000;
