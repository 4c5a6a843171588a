//! `ListRunEvents`: pages of a journal in both directions.

use super::Runs;
use crate::errors::Rejection;
use crate::fields::Fields;
use crate::journal::{FIRST_SEQUENCE, Linked, Stretch, backward, forward};
use crate::paging;
use crate::revision_plans::RevisionPlans;
use crate::views::event;
use escapement_model::RunId;
use escapement_wire::runs::v1;

impl Runs {
    pub(super) async fn list_run_events(
        &self,
        request: v1::ListRunEventsRequest,
    ) -> Result<v1::ListRunEventsResponse, Rejection> {
        let mut fields = Fields::default();
        let run_id = fields.id::<RunId>("run_id", &request.run_id);
        let page_size = fields.page_size(request.page_size, PAGE_EVENTS, PAGE_EVENTS_MAX);
        fields.number("from_sequence", request.from_sequence, 0..=i64::MAX);
        if request.event_types.len() > TYPES_MAX {
            fields.wrong("event_types", format!("must have at most {TYPES_MAX} entries"));
        }
        fields.conclude()?;
        let run_id = run_id.expect("an id that is missing is a problem");
        let filters = (
            "events",
            run_id,
            request.ascending,
            request.from_sequence,
            &request.event_types,
            &request.step_key,
        );
        let place = paging::number(&request.page_token, &filters)?;
        let plans = self.look(run_id, |run, _| RevisionPlans::of(run)).await?;
        let asked = u64::try_from(request.from_sequence).unwrap_or(0);
        let has_filter = !request.event_types.is_empty() || !request.step_key.is_empty();
        let n_read = if has_filter { SCANNED_MAX } else { page_size };
        let from = match (place, request.ascending, asked) {
            (Some(place), _, _) => place,
            (None, true, asked) => asked.max(1),
            (None, false, 0) => u64::MAX - 1,
            (None, false, asked) => asked,
        };
        let read = if request.ascending {
            forward(&self.runs, run_id, from, n_read, PAGE_BYTES).await?
        } else {
            backward(&self.runs, run_id, from, n_read, PAGE_BYTES).await?
        };
        let plans = plans.with_those_of(&self.runs, &read.entries).await?;
        let is_wanted = |(entry, _): &&Linked| {
            let event = entry.event.as_ref();
            let is_of_type = |wanted: &String| {
                event
                    .is_some_and(|event| event.name() == wanted || event.aliases().contains(&wanted.as_str()))
            };
            request.event_types.is_empty() || request.event_types.iter().any(is_of_type)
        };
        let shown = read.entries.iter().filter(is_wanted);
        let shown =
            shown.map(|(entry, link)| event((run_id, plans.seed()), plans.at(entry.sequence), entry, link));
        let events: Vec<v1::RunEvent> = shown
            .filter(|event| request.step_key.is_empty() || event.step_key == request.step_key)
            .take(page_size)
            .collect();
        let is_full = events.len() == page_size;
        let last_seen = match events.last() {
            Some(last) if is_full => u64::try_from(last.sequence).ok(),
            _ => read.entries.last().map(|(entry, _)| entry.sequence),
        };
        let next = last_seen.and_then(|last| behind(last, &read, request.ascending));
        Ok(v1::ListRunEventsResponse {
            events,
            next_page_token: next.map_or_else(String::new, |next| paging::token([next, 0, 0], &filters)),
            first_sequence: i64::try_from(FIRST_SEQUENCE).unwrap_or(i64::MAX),
            last_sequence: i64::try_from(read.last_sequence).unwrap_or(i64::MAX),
        })
    }
}

/// Where the next page begins; `None` if there is nothing there now.
fn behind(last: u64, read: &Stretch, ascending: bool) -> Option<u64> {
    match ascending {
        true => (last < read.last_sequence).then_some(last + 1),
        false => (last > FIRST_SEQUENCE).then(|| last - 1),
    }
}

const PAGE_EVENTS: i32 = 50;
const PAGE_EVENTS_MAX: i32 = 1000;
/// Types in a filter.
const TYPES_MAX: usize = 64;
/// Entries that a page with a filter goes through.
const SCANNED_MAX: usize = 4096;
/// Bytes of the entries that a page goes through: 2 MiB.
const PAGE_BYTES: usize = 2 << 20;
