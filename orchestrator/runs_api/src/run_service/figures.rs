//! `GetRunStats`, `GetRunsStatus` and `DeleteRun`.

use super::Runs;
use super::export::not_ended;
use super::list::with_states;
use crate::caller::Caller;
use crate::errors::Rejection;
use crate::fields::{self, Fields};
use crate::journal::absent;
use crate::views::{STATES, percent, state_of, status_word};
use escapement_model::RunId;
use escapement_run::ShownState;
use escapement_run::journal::{Entry, Event};
use escapement_runs::Config;
use escapement_runs_host::state_byte;
use escapement_store::StoreFault;
use escapement_store::runs::{RunFilter, RunReader, RunRemoved, RunSummary};
use escapement_wire::runs::v1;
use prost::Message;

impl Runs {
    pub(super) async fn get_run_stats(
        &self,
        request: v1::GetRunStatsRequest,
        caller: &Caller,
    ) -> Result<v1::GetRunStatsResponse, Rejection> {
        let mut fields = Fields::default();
        fields.note("user_id", &request.user_id);
        fields.conclude()?;
        let filter = RunFilter {
            scopes: caller.listed(&request.namespace, &request.user_id)?,
            ..RunFilter::default()
        };
        let _one_of_few = self.heavy_place(caller.tenant()).await?;
        let counted = self.runs.readers().read(move |reader| count(reader, &filter));
        Ok(counted.await?)
    }

    pub(super) async fn get_runs_status(
        &self,
        request: v1::GetRunsStatusRequest,
        caller: &Caller,
    ) -> Result<v1::GetRunsStatusResponse, Rejection> {
        let within = RunFilter {
            scopes: caller.listed(&request.namespace, "")?,
            ..RunFilter::default()
        };
        if within.scopes.is_some() {
            let _one_of_few = self.heavy_place(caller.tenant()).await?;
            let config = self.config.clone();
            let read = self
                .runs
                .readers()
                .read(move |reader| status_within(reader, &within, &config));
            return Ok(read.await?);
        }
        let counts = self.runs.change(0, |host, _| {
            let runs = host.runs();
            Ok((runs.len(), runs.n_queued(), runs.n_under_way()))
        });
        let (live, queued, under_way) = counts.await?;
        let read = self.runs.readers().read(|reader| {
            let running = with_states(&RunFilter::default(), &[ShownState::Running]);
            Ok((reader.list(&running, None, RUNNING_MAX)?.runs, reader.counts()?))
        });
        let (running, counts) = read.await?;
        let n = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        let mut ids: Vec<String> = running.iter().map(|run| run.run_id.to_string()).collect();
        ids.sort();
        Ok(v1::GetRunsStatusResponse {
            running_run_ids: ids,
            live: n(live),
            queued: n(queued),
            under_way: n(under_way),
            under_way_max: n(self.config.max_live_runs),
            live_max: n(self.config.max_runs),
            ended: i64::try_from(counts.ended).unwrap_or(i64::MAX),
        })
    }

    pub(super) async fn delete_run(
        &self,
        request: v1::DeleteRunRequest,
    ) -> Result<v1::DeleteRunResponse, Rejection> {
        let run_id: RunId = fields::id("run_id", &request.run_id)?;
        let removed = self
            .runs
            .with_store(move |store, _, now| store.remove_run(run_id, now));
        match removed.await.map_err(|error| Rejection::OfRun(run_id, error))? {
            RunRemoved::Done => Ok(v1::DeleteRunResponse {}),
            RunRemoved::Live => Err(not_ended(run_id)),
            RunRemoved::NotFound => {
                let why = self.runs.readers().read(move |reader| absent(reader, run_id));
                Err(Rejection::OfRun(run_id, why.await?))
            }
        }
    }
}

/// The status of the runs that the filter lets through, by the store alone.
fn status_within(
    reader: &dyn RunReader,
    within: &RunFilter,
    config: &Config,
) -> Result<v1::GetRunsStatusResponse, StoreFault> {
    let mut status = v1::GetRunsStatusResponse {
        under_way_max: i64::try_from(config.max_live_runs).unwrap_or(i64::MAX),
        live_max: i64::try_from(config.max_runs).unwrap_or(i64::MAX),
        ..v1::GetRunsStatusResponse::default()
    };
    let most = usize::try_from(COUNTED_MAX).unwrap_or(usize::MAX);
    for state in STATES {
        let found = reader.list(&with_states(within, &[state]), None, most)?.runs;
        let n = i64::try_from(found.len()).unwrap_or(i64::MAX);
        match state {
            ShownState::Completed | ShownState::Failed | ShownState::Timeout | ShownState::Cancelled => {
                status.ended += n;
                continue;
            }
            ShownState::Queued => status.queued += n,
            ShownState::Planning | ShownState::Running | ShownState::Pausing => status.under_way += n,
            ShownState::Verifying | ShownState::Waiting | ShownState::Paused => {}
        }
        status.live += n;
        if state == ShownState::Running {
            let ids = found.iter().take(RUNNING_MAX).map(|run| run.run_id.to_string());
            status.running_run_ids = ids.collect();
            status.running_run_ids.sort();
        }
    }
    Ok(status)
}

/// Counts the runs that a list would show first.
fn count(reader: &dyn RunReader, filter: &RunFilter) -> Result<v1::GetRunStatsResponse, StoreFault> {
    let mut stats = v1::GetRunStatsResponse::default();
    let (mut duration_ms, mut n_completed) = (0_i64, 0_i64);
    let (mut n_steps, mut n_looked_at) = (0_u64, 0_u64);
    let most = usize::try_from(COUNTED_MAX).unwrap_or(usize::MAX);
    let page = reader.list(filter, None, most)?;
    for run in &page.runs {
        let Some(shown) = STATES
            .into_iter()
            .find(|state| state_byte(*state) == run.progress.state)
        else {
            continue;
        };
        let state = state_of(shown);
        stats.total += 1;
        *stats.by_state.entry(state.as_str_name().to_owned()).or_default() += 1;
        *stats.by_status.entry(status_word(state).to_owned()).or_default() += 1;
        if let (ShownState::Completed, Some(ended_at)) = (shown, run.progress.ended_at) {
            n_completed += 1;
            duration_ms = duration_ms.saturating_add(ended_at.saturating_sub(run.created.created_at));
        }
        if shown == ShownState::Completed
            && n_looked_at < STEPS_LOOKED_AT
            && let Some(steps) = steps_of(reader, run)?
        {
            n_looked_at += 1;
            n_steps += u64::from(steps);
        }
    }
    if page.next.is_some() {
        let more = reader.list(filter, page.next, 1)?;
        stats.incomplete = !more.runs.is_empty() || more.next.is_some();
    }
    let usize_of = |n: i64| usize::try_from(n).unwrap_or(0);
    stats.completion_rate = percent(usize_of(n_completed), usize_of(stats.total), 0.0);
    if n_completed > 0 {
        stats.avg_duration_ms = duration_ms / n_completed;
    }
    if n_looked_at > 0 {
        stats.avg_steps_per_run = n_steps as f64 / n_looked_at as f64;
    }
    Ok(stats)
}

/// The steps of a run's first revision.
fn steps_of(reader: &dyn RunReader, run: &RunSummary) -> Result<Option<u32>, StoreFault> {
    let page = match reader.journal(run.run_id, PLAN_CREATED, 1) {
        Ok(page) => page,
        Err(StoreFault::CorruptRun { .. }) => None,
        Err(fault) => return Err(fault),
    };
    let entry = page.and_then(|page| page.entries.into_iter().next());
    let entry = entry.and_then(|entry| Entry::decode(entry.bytes).ok());
    Ok(match entry.and_then(|entry| entry.event) {
        Some(Event::PlanCreated(created)) => Some(created.n_steps),
        _ => None,
    })
}

/// The entry of a run's first revision.
const PLAN_CREATED: u64 = 2;
/// Runs that are counted.
const COUNTED_MAX: i64 = 10_000;
/// Runs whose steps are looked at.
const STEPS_LOOKED_AT: u64 = 200;
/// Ids of running runs in a status.
const RUNNING_MAX: usize = 1_000;
