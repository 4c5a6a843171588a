//! `WatchRun`: the events of a run without gaps, while they become durable. Holds one page of the journal for each watcher.

use super::{Answers, Runs};
use crate::errors::Rejection;
use crate::fields::Fields;
use crate::journal::forward;
use crate::revision_plans::RevisionPlans;
use crate::views::event;
use escapement_model::RunId;
use escapement_runs_shell::Follow;
use escapement_store::runs::RunReader;
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::watch_run_response::Told;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

impl Runs {
    /// What is wrong with the question is the answer to the call; everything else comes in the stream.
    pub(super) async fn watch(
        &self,
        request: v1::WatchRunRequest,
    ) -> Result<Answers<v1::WatchRunResponse>, Rejection> {
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
        let (answers, received) = mpsc::channel(ANSWERS_AHEAD);
        let watcher = Watcher {
            runs: self.clone(),
            run_id,
            plans,
            next: from,
            answers,
        };
        tokio::spawn(watcher.tell(follow));
        Ok(Box::pin(ReceiverStream::new(received)))
    }
}

struct Watcher {
    runs: Runs,
    run_id: RunId,
    plans: RevisionPlans,
    /// The number of the entry that is told next.
    next: u64,
    answers: mpsc::Sender<Result<v1::WatchRunResponse, Status>>,
}

/// Why nothing more is told.
enum Ended {
    /// All was told, or the watcher has left.
    Quietly,
    /// The watcher is told why.
    Because(Rejection),
}

impl From<Rejection> for Ended {
    fn from(rejection: Rejection) -> Self {
        Self::Because(rejection)
    }
}

impl Watcher {
    async fn tell(mut self, follow: Follow) {
        if let Err(Ended::Because(rejection)) = self.tell_all(follow).await {
            // A watcher that has left hears nothing.
            let _left = self.answers.send(Err(rejection.into())).await;
        }
    }

    async fn tell_all(&mut self, mut follow: Follow) -> Result<(), Ended> {
        loop {
            let gone = self.answers.clone();
            let last = tokio::select! {
                biased; // A watcher that has left takes no turn.
                () = gone.closed() => return Ok(()),
                last = self.tell_what_is_there() => last?,
            };
            let moved = tokio::select! {
                biased; // A watcher that has left waits for nothing.
                () = gone.closed() => return Ok(()),
                moved = timeout(HEARTBEAT, follow.moved()) => moved,
            };
            match moved {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return Err(Rejection::OfRun(self.run_id, error).into()),
                Err(_elapsed) => {
                    let last_sequence = i64::try_from(last).unwrap_or(i64::MAX);
                    self.send(Told::Heartbeat(v1::Heartbeat { last_sequence }))
                        .await?;
                }
            }
        }
    }

    /// Tells every entry that is durable, and returns the number of the last one.
    async fn tell_what_is_there(&mut self) -> Result<u64, Ended> {
        loop {
            let (runs, run_id) = (&self.runs.runs, self.run_id);
            let page = || async {
                let stretch = forward(runs, run_id, self.next, usize::MAX, PAGE_BYTES).await?;
                let plans = self.plans.with_those_of(runs, &stretch.entries).await?;
                Ok((stretch, plans))
            };
            let (stretch, plans) = self.runs.in_turn(page).await?;
            self.plans = plans;
            let is_all = stretch.entries.is_empty();
            for (entry, link) in &stretch.entries {
                let event = event(
                    (run_id, self.plans.seed()),
                    self.plans.at(entry.sequence),
                    entry,
                    link,
                );
                self.next = entry.sequence + 1;
                self.send(Told::Event(event)).await?;
                let what = entry.event.as_ref();
                if what.is_some_and(escapement_run::journal::Event::is_end) {
                    return Err(Ended::Quietly);
                }
            }
            if !is_all && self.next > stretch.last_sequence {
                return Ok(stretch.last_sequence);
            }
            if is_all {
                self.end_behind_the_end(stretch.last_sequence).await?;
                return Ok(stretch.last_sequence);
            }
        }
    }

    /// A watcher that asked for what comes behind the last entry of a run that has ended waits for nothing.
    async fn end_behind_the_end(&self, last: u64) -> Result<(), Ended> {
        let (runs, run_id) = (&self.runs.runs, self.run_id);
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
            true if self.next > last => Err(Ended::Quietly),
            _ => Ok(()),
        }
    }

    async fn send(&self, told: Told) -> Result<(), Ended> {
        let answer = v1::WatchRunResponse { told: Some(told) };
        self.answers.send(Ok(answer)).await.map_err(|_| Ended::Quietly)
    }
}

/// How long a stream is silent at most.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Answers that wait for a watcher.
const ANSWERS_AHEAD: usize = 16;
/// Bytes of the entries that are read at a time.
const PAGE_BYTES: usize = 256 << 10;
