//! `GetRun` and `WaitRun`.

use super::Runs;
use crate::errors::Rejection;
use crate::fields::{self, Fields};
use crate::journal::backward;
use crate::revision_plans::RevisionPlans;
use crate::views::{Detail, event, run_view};
use escapement_model::RunId;
use escapement_wire::runs::v1;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

impl Runs {
    pub(super) async fn get_run(&self, request: v1::GetRunRequest) -> Result<v1::GetRunResponse, Rejection> {
        let run_id: RunId = fields::id("run_id", &request.run_id)?;
        let seen = self.look(run_id, |run, blobs| {
            (run_view(run, blobs, Detail::Full), RevisionPlans::of(run))
        });
        let (mut run, plans) = seen.await?;
        self.drop_ended(&mut run.orphans).await;
        let last = backward(&self.runs, run_id, u64::MAX - 1, LAST_EVENTS, LAST_EVENTS_BYTES).await?;
        let plans = plans.with_those_of(&self.runs, &last.entries).await?;
        let last_events = last.entries.iter();
        Ok(v1::GetRunResponse {
            last_events: last_events
                .map(|(entry, link)| event((run_id, plans.seed()), plans.at(entry.sequence), entry, link))
                .collect(),
            run: Some(run),
        })
    }

    pub(super) async fn wait_run(
        &self,
        request: v1::WaitRunRequest,
    ) -> Result<v1::WaitRunResponse, Rejection> {
        let mut fields = Fields::default();
        let run_id = fields.id::<RunId>("run_id", &request.run_id);
        let timeout_ms = request.timeout_ms.unwrap_or(TIMEOUT_MS);
        fields.number("timeout_ms", timeout_ms, 0..=TIMEOUT_MS_MAX);
        fields.conclude()?;
        let run_id = run_id.expect("an id that is missing is a problem");
        let patience = Duration::from_millis(u64::try_from(timeout_ms).unwrap_or(0));
        let until = Instant::now() + patience;
        let mut follow = self.runs.follow(run_id);
        while self.runs.is_live(run_id) && Instant::now() < until {
            match timeout_at(until, follow.moved()).await {
                Ok(moved) => moved.map_err(|error| Rejection::OfRun(run_id, error))?,
                Err(_elapsed) => break,
            };
        }
        let run = self.in_turn(|| self.look(run_id, |run, blobs| run_view(run, blobs, Detail::Usual)));
        let mut run = run.await?;
        self.drop_ended(&mut run.orphans).await;
        Ok(v1::WaitRunResponse { run: Some(run) })
    }

    /// Drops the executions of which the contract has the end on record.
    async fn drop_ended(&self, orphans: &mut Vec<String>) {
        let executions = orphans.iter().filter_map(|id| id.parse().ok()).collect();
        let mut records = self.runs.records_of(executions).await.into_iter();
        orphans.retain(|_| records.next().is_none_or(|record| record.outcome.is_empty()));
    }
}

/// Events that an answer brings with the run.
const LAST_EVENTS: usize = 20;
/// Bytes of the entries of these.
const LAST_EVENTS_BYTES: usize = 512 << 10;
/// How long a wait is unless the caller says.
const TIMEOUT_MS: i64 = 30_000;
/// How long a wait may be: an hour.
const TIMEOUT_MS_MAX: i64 = 3_600_000;
