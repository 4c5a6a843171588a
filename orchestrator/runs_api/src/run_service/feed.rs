//! `ReadEvents`: how runs ended, each once and in the order of ending, from any place that is kept. Remembers one place.

use super::Runs;
use crate::caller::Caller;
use crate::endings::{self, EVENT_TYPES};
use crate::errors::Rejection;
use crate::fields::Fields;
use crate::views::signed;
use crate::watching::{self, AnswerStream, End, HEARTBEAT, Page, Paged, Teller};
use escapement_model::{Namespace, RunId};
use escapement_store::StoreFault;
use escapement_store::runs::{RunReader, RunSummary};
use escapement_transport::Recipient;
use escapement_transport::refusal::{cursor_gone, event_damaged};
use escapement_wire::runs::v1;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

type Answer = v1::ReadEventsResponse;

impl Runs {
    /// What is wrong with the question is the answer to the call; everything else comes in the stream.
    pub(super) fn read(
        &self,
        request: v1::ReadEventsRequest,
        caller: Caller,
        recipient: Recipient,
    ) -> Result<AnswerStream<Answer>, Rejection> {
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
        let wait = wait_ms.map(|wait_ms| Duration::from_millis(wait_ms.unsigned_abs()));
        let feed = Feed {
            runs: Arc::new(self.clone()),
            after: request.after_sequence.unsigned_abs(),
            after_id,
            told: request.after_sequence.unsigned_abs(),
            wanted: Arc::new(wanted),
        };
        // Before the first look, so that nothing is missed between it and the wait.
        let endings = self.runs.endings();
        Ok(watching::start(recipient, move |teller| {
            feed.tell(wait, endings, teller)
        }))
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

#[derive(Clone)]
struct Feed {
    runs: Arc<Runs>,
    /// The place behind which is read next.
    after: u64,
    /// The run that the reader has seen there, until that is held against the store.
    after_id: Option<RunId>,
    /// The last place that the reader was told.
    told: u64,
    wanted: Arc<Wanted>,
}

impl Feed {
    /// Sends the events. `wait` is how long the stream stays open without one, `None` for ever. `endings` counts runs that end.
    async fn tell(
        mut self,
        wait: Option<Duration>,
        mut endings: watch::Receiver<u64>,
        teller: Teller<Answer>,
    ) -> End {
        let mut quiet_since = Instant::now();
        let mut beat_at = quiet_since + HEARTBEAT;
        loop {
            endings.mark_unchanged();
            match teller.tell(&mut self).await {
                Ok(true) => {
                    quiet_since = Instant::now();
                    beat_at = quiet_since + HEARTBEAT;
                }
                Ok(false) => {}
                Err(end) => return end,
            }
            let end_at = wait.map(|wait| quiet_since + wait);
            let until = end_at.map_or(beat_at, |end_at| end_at.min(beat_at));
            tokio::select! {
                biased; // An end comes before another event.
                changed = endings.changed(), if end_at.is_none_or(|end_at| end_at > Instant::now()) => {
                    if changed.is_err() {
                        return End::Quiet;
                    }
                }
                () = sleep_until(until) => {
                    let is_over = end_at.is_some_and(|end_at| end_at <= Instant::now());
                    if is_over && self.told == self.after {
                        return End::Quiet;
                    }
                    self.told = self.after;
                    if let Err(end) = teller.send(answer(self.after, None)).await {
                        return end;
                    }
                    if is_over {
                        return End::Quiet;
                    }
                    beat_at = Instant::now() + HEARTBEAT;
                }
            }
        }
    }
}

impl Paged for Feed {
    type Answer = Answer;

    async fn page(&mut self) -> Result<Page<Answer>, End> {
        let (after, after_id) = (self.after, self.after_id);
        let read = || async {
            let wanted = Arc::clone(&self.wanted);
            let read = move |reader: &dyn RunReader| stretch(reader, after, after_id, &wanted);
            let stretch = self.runs.runs.readers().read(read).await;
            stretch.map_err(Rejection::from)
        };
        let stretch = self.runs.in_turn(read).await?;
        if after == 0 && stretch.removed > 0 {
            // The next look begins there.
            self.after = stretch.removed;
            return Ok(Page {
                answers: Vec::new(),
                has_more: true,
            });
        }
        if after < stretch.removed || after > stretch.last || !stretch.has_id {
            return Err(End::Because(cursor_gone(stretch.removed, stretch.last)));
        }
        self.after_id = None;
        let has_more = stretch.until != after;
        if let Some(place) = stretch.damaged.filter(|_| !has_more) {
            return Err(End::Because(event_damaged("run", place)));
        }
        self.after = stretch.until;
        self.told = stretch.events.last().map_or(self.told, |(place, _)| *place);
        let events = stretch.events.into_iter();
        Ok(Page {
            answers: events.map(|(place, event)| answer(place, Some(event))).collect(),
            has_more,
        })
    }
}

fn answer(place: u64, event: Option<v1::CloudEvent>) -> Answer {
    Answer {
        sequence: signed(place),
        event,
    }
}

/// Runs that ended one after the other.
struct Stretch {
    events: Vec<(u64, v1::CloudEvent)>,
    /// The place of the last run that was read; where the page began if there was none.
    until: u64,
    damaged: Option<u64>,
    last: u64,
    removed: u64,
    /// False if another run than the reader has seen stands where the page began.
    has_id: bool,
}

fn stretch(
    reader: &dyn RunReader,
    after: u64,
    after_id: Option<RunId>,
    wanted: &Wanted,
) -> Result<Stretch, StoreFault> {
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
    Ok(Stretch {
        events,
        until: page.runs.last().map_or(after, |(place, _)| *place),
        damaged: page.damaged,
        last: page.last,
        removed: page.removed,
        has_id: has_id || after <= page.removed,
    })
}

/// A day.
const WAIT_MS_MAX: i64 = 86_400_000;
/// Runs that are read at a time.
const PAGE: usize = 16;
