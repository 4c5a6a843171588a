//! `ListRuns`: pages out of the index of the store.

use super::Runs;
use crate::caller::Caller;
use crate::errors::Rejection;
use crate::fields::Fields;
use crate::journal::{spec_of, stored_entry};
use crate::paging::{self, Room};
use crate::totals::{size, total};
use crate::views::{STATES, listed, state_of, state_of_byte, status_word};
use escapement_model::{PlanId, RunId};
use escapement_run::ShownState;
use escapement_runs_host::state_byte;
use escapement_store::StoreFault;
use escapement_store::runs::{Listing, RunFilter, RunKey, RunOrder, RunReader, RunSummary};
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::run::State;
use prost::Message;

impl Runs {
    pub(super) async fn list_runs(
        &self,
        request: v1::ListRunsRequest,
        caller: &Caller,
    ) -> Result<v1::ListRunsResponse, Rejection> {
        let mut fields = Fields::default();
        let page_size = fields.page_size(request.page_size, PAGE_RUNS, PAGE_RUNS_MAX);
        let states = states(&request, &mut fields);
        let mut filter = filter(&request, &mut fields);
        fields.conclude()?;
        filter.scopes = caller.listed(&request.namespace, &request.user_id)?;
        if states.is_empty() {
            return Ok(v1::ListRunsResponse::default());
        }
        let filters = (&states, &filter);
        let (behind, known) = paging::place_and_total(&request.page_token, &filters)?;
        let wanted = with_states(&filter, &states);
        let read = self.runs.readers().read(move |reader| {
            let page = reader.list(&wanted, behind.map(key_of), page_size)?;
            let total = total(reader, known, Listing::Runs(&wanted))?;
            let (mut runs, mut room) = (Vec::new(), Room::default());
            let mut last = None;
            for summary in &page.runs {
                let (run, n_bytes) = shown(reader, summary)?;
                if !room.takes(n_bytes) {
                    return Ok((runs, last, total));
                }
                runs.push(run);
                last = Some(summary.key());
            }
            Ok((runs, page.next, total))
        });
        let (runs, next, total) = read.await?;
        let token = |next| paging::token_with(place_of(next), total, &filters);
        Ok(v1::ListRunsResponse {
            runs,
            next_page_token: next.map_or_else(String::new, token),
            total_size: size(total),
            total_is_at_least: total.is_at_least,
        })
    }
}

/// The states that are asked for, in an order of their own.
fn states(request: &v1::ListRunsRequest, fields: &mut Fields) -> Vec<ShownState> {
    let wanted = State::try_from(request.state).unwrap_or_else(|_| {
        fields.wrong("state", "is no state of a run");
        State::Unspecified
    });
    let words = [
        "",
        "pending",
        "running",
        "paused",
        "completed",
        "failed",
        "cancelled",
    ];
    let status = &request.plan_status;
    fields.word("plan_status", status, &words.map(|word| (word, ())));
    let is_wanted = |state: &ShownState| {
        let shown = state_of(*state);
        (wanted == State::Unspecified || wanted == shown)
            && (status.is_empty() || *status == status_word(shown))
            && (!request.live || !is_end(*state))
    };
    STATES.into_iter().filter(is_wanted).collect()
}

fn is_end(state: ShownState) -> bool {
    match state {
        ShownState::Queued
        | ShownState::Planning
        | ShownState::Running
        | ShownState::Verifying
        | ShownState::Waiting
        | ShownState::Pausing
        | ShownState::Paused => false,
        ShownState::Completed | ShownState::Failed | ShownState::Timeout | ShownState::Cancelled => true,
    }
}

fn filter(request: &v1::ListRunsRequest, fields: &mut Fields) -> RunFilter {
    let mut note = |field: &str, text: &String| {
        fields.note(field, text);
        (!text.is_empty()).then(|| text.clone())
    };
    note("user_id", &request.user_id);
    let goal = note("goal_id", &request.goal_id);
    let trigger = note("trigger_id", &request.trigger_id);
    let plan = match request.plan_id.is_empty() {
        true => None,
        false => fields.id::<PlanId>("plan_id", &request.plan_id),
    };
    let parent = match request.parent_run_id.is_empty() {
        true => None,
        false => fields.id::<RunId>("parent_run_id", &request.parent_run_id),
    };
    RunFilter {
        plan: plan.map(|plan| plan.to_string()),
        goal,
        trigger,
        parent,
        ..RunFilter::default()
    }
}

/// The same with the states. Those that wait for admission are shown as they come out: the highest priority first, then the
/// oldest.
pub(crate) fn with_states(filter: &RunFilter, states: &[ShownState]) -> RunFilter {
    let is_any = states.len() == STATES.len();
    RunFilter {
        states: match is_any {
            true => Vec::new(),
            false => states.iter().map(|state| state_byte(*state)).collect(),
        },
        is_live: !states.iter().any(|state| is_end(*state)),
        order: match states {
            [ShownState::Queued] => RunOrder::OldestFirst,
            _ => RunOrder::NewestFirst,
        },
        ..filter.clone()
    }
}

/// A run out of its index columns, its first entry, and its last one if it has ended; and the bytes of these.
fn shown(reader: &dyn RunReader, summary: &RunSummary) -> Result<(v1::Run, usize), StoreFault> {
    let spec = spec_of(reader, summary.run_id)?;
    let last = match summary.progress.ended_at {
        Some(_) => stored_entry(reader, summary.run_id, summary.next_seq.saturating_sub(1))?,
        None => None,
    };
    let state = state_of_byte(summary.progress.state).unwrap_or(State::Unspecified);
    let n_bytes = |part: Option<usize>| part.unwrap_or_default();
    Ok((
        listed(summary, spec.as_ref(), last.as_ref(), state),
        n_bytes(spec.as_ref().map(Message::encoded_len)) + n_bytes(last.as_ref().map(Message::encoded_len)),
    ))
}

fn place_of(key: RunKey) -> paging::Place {
    let priority = u64::from(key.priority.cast_unsigned());
    [priority, key.created_at.cast_unsigned(), key.number]
}

fn key_of([priority, created_at, number]: paging::Place) -> RunKey {
    RunKey {
        priority: i32::try_from(priority).unwrap_or(i32::MAX),
        created_at: created_at.cast_signed(),
        number,
    }
}

const PAGE_RUNS: i32 = 20;
const PAGE_RUNS_MAX: i32 = 200;
