//! `WatchRun`: the events of a run without gaps, while they become durable. Remembers one number, and plans as long as the watcher reads.

use super::Runs;
use crate::errors::Rejection;
use crate::fields::Fields;
use crate::journal::forward;
use crate::revision_plans::RevisionPlans;
use crate::views::{event, signed};
use crate::watching::{self, AnswerStream, End, HEARTBEAT, Page, Paged, Teller};
use escapement_model::RunId;
use escapement_run::journal;
use escapement_runs_shell::Follow;
use escapement_store::runs::RunReader;
use escapement_transport::Recipient;
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::watch_run_response::Told;
use std::sync::Arc;
use tokio::time::timeout;

type Answer = v1::WatchRunResponse;

impl Runs {
    /// What is wrong with the question is the answer to the call; everything else comes in the stream.
    pub(super) async fn watch(
        &self,
        request: v1::WatchRunRequest,
        recipient: Recipient,
    ) -> Result<AnswerStream<Answer>, Rejection> {
        let mut fields = Fields::default();
        let run_id = fields.id::<RunId>("run_id", &request.run_id);
        fields.number("from_sequence", request.from_sequence, 0..=i64::MAX);
        fields.conclude()?;
        let run_id = run_id.expect("an id that is missing is a problem");
        let follow = self.runs.follow(run_id);
        let plans = self.in_turn(|| self.look(run_id, |run, _| RevisionPlans::of(run)));
        let plans = plans.await?;
        let from = u64::try_from(request.from_sequence).unwrap_or(0).max(1);
        self.in_turn(|| forward(&self.runs, run_id, from, 1, 1)).await?;
        let watched = WatchedRun {
            runs: Arc::new(self.clone()),
            run_id,
            plans: Some(plans),
            next: from,
            last: 0,
            has_ended: false,
        };
        Ok(watching::start(recipient, move |teller| {
            watched.told(follow, teller)
        }))
    }
}

#[derive(Clone)]
struct WatchedRun {
    runs: Arc<Runs>,
    run_id: RunId,
    /// `None` to read them again.
    plans: Option<RevisionPlans>,
    /// The number of the entry that is told next.
    next: u64,
    /// That of the last durable entry.
    last: u64,
    /// True behind the last entry of a run that has ended.
    has_ended: bool,
}

impl WatchedRun {
    async fn told(mut self, mut follow: Follow, teller: Teller<Answer>) -> End {
        loop {
            if let Err(end) = teller.tell(&mut self).await {
                return end;
            }
            match timeout(HEARTBEAT, follow.moved()).await {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return Rejection::OfRun(self.run_id, error).into(),
                Err(_elapsed) => {
                    let last_sequence = signed(self.last);
                    let heartbeat = answer(Told::Heartbeat(v1::Heartbeat { last_sequence }));
                    if let Err(end) = teller.send(heartbeat).await {
                        return end;
                    }
                }
            }
        }
    }

    /// A watcher that asked for what comes behind the last entry of a run that has ended waits for nothing.
    async fn end_behind_the_end(&self) -> Result<(), End> {
        let (runs, run_id, last) = (&self.runs.runs, self.run_id, self.last);
        let is_ended = move |reader: &dyn RunReader| {
            let summary = reader.summary(run_id)?;
            // An end that became durable just now is told first.
            let is_last = |behind: u64| behind == last + 1;
            Ok(summary.is_none_or(|run| run.progress.ended_at.is_some() && is_last(run.next_seq)))
        };
        let ended = || async {
            let ended = runs.readers().read(is_ended).await;
            ended.map_err(|error| Rejection::OfRun(run_id, error))
        };
        match self.runs.in_turn(ended).await? {
            true if self.next > last => Err(End::Quiet),
            _ => Ok(()),
        }
    }
}

impl Paged for WatchedRun {
    type Answer = Answer;

    async fn page(&mut self) -> Result<Page<Answer>, End> {
        if self.has_ended {
            return Err(End::Quiet);
        }
        let (run_id, next, known) = (self.run_id, self.next, self.plans.take());
        let runs = Arc::clone(&self.runs);
        let read = || async {
            let plans = match &known {
                Some(plans) => plans.clone(),
                None => runs.look(run_id, |run, _| RevisionPlans::of(run)).await?,
            };
            let stretch = forward(&runs.runs, run_id, next, usize::MAX, PAGE_BYTES).await?;
            let plans = plans.with_those_of(&runs.runs, &stretch.entries).await?;
            Ok((stretch, plans))
        };
        let (stretch, plans) = runs.in_turn(read).await?;
        self.last = stretch.last_sequence;
        let mut answers = Vec::new();
        for (entry, link) in &stretch.entries {
            let event = event((run_id, plans.seed()), plans.at(entry.sequence), entry, link);
            answers.push(answer(Told::Event(event)));
            self.next = entry.sequence + 1;
            self.has_ended = entry.event.as_ref().is_some_and(journal::Event::is_end);
            if self.has_ended {
                break;
            }
        }
        // A plan that was read for this watcher alone is not held for it.
        self.plans = plans.is_of_run().then_some(plans);
        if stretch.entries.is_empty() {
            self.end_behind_the_end().await?;
        }
        let has_more = !stretch.entries.is_empty() && (self.has_ended || self.next <= self.last);
        Ok(Page { answers, has_more })
    }

    fn rest(&mut self) {
        self.plans = None;
    }
}

fn answer(told: Told) -> Answer {
    v1::WatchRunResponse { told: Some(told) }
}

/// Bytes of the entries that are read at a time.
const PAGE_BYTES: usize = 256 << 10;
