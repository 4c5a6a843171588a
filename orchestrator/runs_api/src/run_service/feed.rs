//! `ReadEvents`: how runs ended, each once and in the order of ending, from any place that is kept. Remembers one place.

use super::{Answers, Runs};
use crate::caller::Caller;
use crate::endings::{self, EVENT_TYPES};
use crate::errors::Rejection;
use crate::fields::Fields;
use crate::views::signed;
use escapement_model::{Namespace, RunId};
use escapement_store::StoreFault;
use escapement_store::runs::{RunReader, RunSummary};
use escapement_transport::refusal::{cursor_gone, event_damaged};
use escapement_wire::runs::v1;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

type Answer = v1::ReadEventsResponse;

impl Runs {
    /// What is wrong with the question is the answer to the call; everything else comes in the stream.
    pub(super) fn read(
        &self,
        request: v1::ReadEventsRequest,
        caller: Caller,
    ) -> Result<Answers<Answer>, Rejection> {
        let mut fields = Fields::default();
        fields.number("after_sequence", request.after_sequence, 0..=i64::MAX);
        let after_id = match request.after_id.is_empty() {
            true => None,
            false => fields.id::<RunId>("after_id", &request.after_id),
        };
        for name in &request.types {
            fields.word("types", name, &EVENT_TYPES.map(|name| (name, ())));
        }
        let wait_ms = request.wait_ms.inspect(|wait_ms| {
            fields.number("wait_ms", *wait_ms, 0..=WAIT_MS_MAX);
        });
        fields.conclude()?;
        let wanted = Wanted {
            types: request.types,
            namespaces: caller.listed_namespaces(&request.namespace)?,
            caller,
            source: Arc::clone(&self.event_source),
        };
        let (answers, received) = mpsc::channel(ANSWERS_AHEAD);
        let feed = Feed {
            runs: self.clone(),
            after: request.after_sequence.unsigned_abs(),
            after_id,
            told: request.after_sequence.unsigned_abs(),
            wait: wait_ms.map(|wait_ms| Duration::from_millis(wait_ms.unsigned_abs())),
            wanted: Arc::new(wanted),
            // Before the first look, so that nothing is missed between it and the wait.
            endings: self.runs.endings(),
            answers,
        };
        tokio::spawn(feed.tell());
        Ok(Box::pin(ReceiverStream::new(received)))
    }
}

/// Which ends a reader is told.
struct Wanted {
    types: Vec<String>,
    namespaces: Option<Vec<Namespace>>,
    caller: Caller,
    source: Arc<str>,
}

impl Wanted {
    fn has(&self, run: &RunSummary) -> bool {
        let (namespace, owner) = (&run.created.namespace, run.created.owner.as_deref());
        let is_of_type = |kind| self.types.is_empty() || self.types.iter().any(|wanted| wanted == kind);
        let namespaces = self.namespaces.as_ref();
        endings::event_type(run).is_some_and(is_of_type)
            && namespaces.is_none_or(|listed| listed.contains(namespace))
            && self.caller.sees(namespace, owner)
    }
}

struct Feed {
    runs: Runs,
    /// The place behind which is read next.
    after: u64,
    /// The run that the reader has seen there, until that is held against the store.
    after_id: Option<RunId>,
    /// The last place that the reader was told.
    told: u64,
    /// How long the stream stays open without an event; `None`: for ever.
    wait: Option<Duration>,
    wanted: Arc<Wanted>,
    /// Counts runs that end.
    endings: watch::Receiver<u64>,
    answers: mpsc::Sender<Result<Answer, Status>>,
}

/// Why nothing more is told.
enum Ended {
    /// All was told, or the reader has left.
    Quietly,
    /// The reader is told why.
    Because(Status),
}

impl From<Rejection> for Ended {
    fn from(rejection: Rejection) -> Self {
        Self::Because(rejection.into())
    }
}

impl Feed {
    async fn tell(mut self) {
        let gone = self.answers.clone();
        let ended = tokio::select! {
            biased; // A reader that has left takes no turn.
            () = gone.closed() => Ended::Quietly,
            ended = self.tell_all() => ended,
        };
        if let Ended::Because(status) = ended {
            // A reader that has left hears nothing.
            let _left = self.answers.send(Err(status)).await;
        }
    }

    async fn tell_all(&mut self) -> Ended {
        let mut quiet_since = Instant::now();
        let mut beat_at = quiet_since + HEARTBEAT;
        loop {
            self.endings.mark_unchanged();
            loop {
                let before = self.told;
                match self.tell_page().await {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(ended) => return ended,
                }
                if self.told > before {
                    quiet_since = Instant::now();
                    beat_at = quiet_since + HEARTBEAT;
                }
            }
            let end_at = self.wait.map(|wait| quiet_since + wait);
            let until = end_at.map_or(beat_at, |end_at| end_at.min(beat_at));
            tokio::select! {
                biased; // An end comes before another event.
                changed = self.endings.changed(), if end_at.is_none_or(|end_at| end_at > Instant::now()) => {
                    if changed.is_err() {
                        return Ended::Quietly;
                    }
                }
                () = sleep_until(until) => {
                    let is_over = end_at.is_some_and(|end_at| end_at <= Instant::now());
                    if is_over && self.told == self.after {
                        return Ended::Quietly;
                    }
                    if let Err(ended) = self.send(self.after, None).await {
                        return ended;
                    }
                    if is_over {
                        return Ended::Quietly;
                    }
                    beat_at = Instant::now() + HEARTBEAT;
                }
            }
        }
    }

    /// Tells the next page; false if there is nothing behind the last one.
    async fn tell_page(&mut self) -> Result<bool, Ended> {
        let (after, after_id) = (self.after, self.after_id);
        let read = || async {
            let wanted = Arc::clone(&self.wanted);
            let read = move |reader: &dyn RunReader| page(reader, after, after_id, &wanted);
            let page = self.runs.runs.readers().read(read).await;
            page.map_err(Rejection::from)
        };
        let page = self.runs.in_turn(read).await?;
        if after == 0 && page.removed > 0 {
            // The next look begins there.
            self.after = page.removed;
            return Ok(true);
        }
        if after < page.removed || after > page.last || !page.has_id {
            return Err(Ended::Because(cursor_gone(page.removed, page.last)));
        }
        self.after_id = None;
        if page.until == after {
            return match page.damaged {
                None => Ok(false),
                Some(place) => Err(Ended::Because(event_damaged("run", place))),
            };
        }
        for (place, event) in page.events {
            self.send(place, Some(event)).await?;
        }
        self.after = page.until;
        Ok(true)
    }

    async fn send(&mut self, place: u64, event: Option<v1::CloudEvent>) -> Result<(), Ended> {
        self.told = place;
        let answer = Answer {
            sequence: signed(place),
            event,
        };
        self.answers.send(Ok(answer)).await.map_err(|_| Ended::Quietly)
    }
}

/// A page, as a reader gets it.
struct Page {
    events: Vec<(u64, v1::CloudEvent)>,
    /// The place of the last run that was read; where the page began if there was none.
    until: u64,
    damaged: Option<u64>,
    last: u64,
    removed: u64,
    /// False if another run than the reader has seen stands where the page began.
    has_id: bool,
}

fn page(
    reader: &dyn RunReader,
    after: u64,
    after_id: Option<RunId>,
    wanted: &Wanted,
) -> Result<Page, StoreFault> {
    // Before the page: what is removed in between is seen to be removed.
    let has_id = match after_id {
        Some(id) => !endings::is_another_at(reader, after, id.as_bytes())?,
        None => true,
    };
    let page = reader.ended(after, PAGE)?;
    let mut events = Vec::new();
    for (place, run) in page.runs.iter().filter(|(_, run)| wanted.has(run)) {
        let event = endings::event(reader, run, &wanted.source, usize::MAX)?;
        events.extend(event.map(|event| (*place, event)));
    }
    Ok(Page {
        events,
        until: page.runs.last().map_or(after, |(place, _)| *place),
        damaged: page.damaged,
        last: page.last,
        removed: page.removed,
        has_id: has_id || after <= page.removed,
    })
}

/// How long a stream is silent at most.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// A day.
const WAIT_MS_MAX: i64 = 86_400_000;
/// Answers that wait for a reader. Each has some kilobytes at most: the texts of a run's row, and its error.
const ANSWERS_AHEAD: usize = 16;
/// Runs that are read at a time.
const PAGE: usize = 16;
