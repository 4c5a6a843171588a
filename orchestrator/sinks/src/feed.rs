//! Every event in the order of settling, read from the store, for readers that must not miss one. Remembers how far one reader is.

use crate::event::by_reference;
use crate::limits::{EVENT_DATA_BYTES_MAX, FEED_HEARTBEAT, FEED_PAGE, READ_WAIT_MS_MAX};
use crate::subscription::Subscribers;
use crate::turns::{Delivery, Turn, Wanted, stream};
use bytes::Bytes;
use escapement_codec::event_json::{self, Ending};
use escapement_codec::stored;
use escapement_codec::stored_execution;
use escapement_contract::Status as PlanStatus;
use escapement_model::{ExecutionId, InvalidId};
use escapement_store::{Reader, SettledPage, StoreFault, StoredExecution};
use escapement_transport::refusal::{cursor_gone, event_damaged};
use escapement_transport::response_budget::{ResponsePermit, TakeDeadline};
use escapement_wire::v1;
use futures_core::Stream;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tonic::Status;

/// Where settled executions are read.
pub trait FeedSource: Send + Sync + 'static {
    /// Reads on a thread that may block, once a reader of the store is free.
    fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&dyn Reader) -> Result<T, StoreFault> + Send + 'static,
    ) -> impl Future<Output = Result<T, Status>> + Send;
}

/// From where on a reader wants events, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct ReadFrom {
    /// The place behind which it begins; 0: the oldest one behind which nothing was removed.
    pub after: u64,
    /// The execution that it has seen at that place, if it says so.
    pub after_id: Option<ExecutionId>,
    /// How long the stream stays open without an event; `None`: for ever.
    pub wait: Option<Duration>,
}

impl ReadFrom {
    /// What a request says.
    ///
    /// # Errors
    /// The field that cannot be kept, and why.
    pub fn of(request: &v1::ReadEventsRequest) -> Result<Self, (&'static str, String)> {
        let after = u64::try_from(request.after_sequence);
        let after = after.map_err(|_| ("after_sequence", "must not be negative".to_owned()))?;
        let id = Some(request.after_id.as_str()).filter(|id| !id.is_empty());
        let after_id = id.map(str::parse).transpose();
        let after_id = after_id.map_err(|error: InvalidId| ("after_id", error.to_string()))?;
        let wait = request.wait_ms.map(|wait_ms| match u64::try_from(wait_ms) {
            Ok(wait_ms) if wait_ms <= READ_WAIT_MS_MAX => Ok(Duration::from_millis(wait_ms)),
            _ => Err(("wait_ms", format!("must be 0 to {READ_WAIT_MS_MAX}"))),
        });
        Ok(Self {
            after,
            after_id,
            wait: wait.transpose()?,
        })
    }
}

impl Subscribers {
    /// Returns the events behind a place, for a reader.
    pub fn read<S: FeedSource>(
        &self,
        source: S,
        from: ReadFrom,
        wanted: Wanted,
        delivery: Delivery,
    ) -> impl Stream<Item = Result<v1::ReadEventsResponse, Status>> + Send + use<S> {
        stream(Feed {
            source,
            from,
            wanted,
            delivery,
            settlements: self.settlements.clone(),
            event_source: Arc::clone(&self.source),
            told: from.after,
            quiet_since: Instant::now(),
            heartbeat_at: Instant::now() + FEED_HEARTBEAT,
            page: VecDeque::new(),
            on_its_way: None,
            has_ended: false,
        })
    }
}

struct Feed<S> {
    source: S,
    /// `after` moves on with each page.
    from: ReadFrom,
    wanted: Wanted,
    delivery: Delivery,
    settlements: watch::Receiver<u64>,
    event_source: Arc<str>,
    /// The last place that the reader was told.
    told: u64,
    quiet_since: Instant,
    heartbeat_at: Instant,
    /// What is read and not sent yet.
    page: VecDeque<v1::ReadEventsResponse>,
    /// The room of the page.
    on_its_way: Option<TakeDeadline>,
    has_ended: bool,
}

type Answer = Result<v1::ReadEventsResponse, Status>;

impl<S: FeedSource> Turn for Feed<S> {
    type Answer = v1::ReadEventsResponse;

    async fn next(mut self) -> Option<(Self, Answer)> {
        let answer = self.answer().await?;
        let now = Instant::now();
        self.heartbeat_at = now + FEED_HEARTBEAT;
        if let Ok(answer) = &answer {
            self.told = answer.sequence.unsigned_abs();
            if answer.event.is_some() {
                self.quiet_since = now;
            }
        }
        Some((self, answer))
    }
}

impl<S: FeedSource> Feed<S> {
    async fn answer(&mut self) -> Option<Answer> {
        loop {
            if let Some(answer) = self.page.pop_front() {
                return Some(Ok(answer));
            }
            self.on_its_way = None;
            if self.has_ended || *self.delivery.closing.borrow() {
                return None;
            }
            // Before the look, so that nothing is missed between it and the wait.
            self.settlements.mark_unchanged();
            match self.look().await {
                Ok(true) => {}
                Ok(false) => match self.wait().await {
                    Waited::News => {}
                    Waited::Silence => return Some(Ok(self.heartbeat())),
                    Waited::End => {
                        self.has_ended = true;
                        if self.told < self.from.after {
                            return Some(Ok(self.heartbeat()));
                        }
                    }
                },
                Err(status) => {
                    self.has_ended = true;
                    return Some(Err(status));
                }
            }
        }
    }

    /// Reads the next page; false if there is nothing behind the last one.
    async fn look(&mut self) -> Result<bool, Status> {
        let (from, wanted) = (self.from, self.wanted.clone());
        let (delivery, source) = (self.delivery.clone(), Arc::clone(&self.event_source));
        let read = move |reader: &dyn Reader| {
            let page = reader.settled(from.after, FEED_PAGE)?;
            let has_id = match from.after_id {
                Some(id) if from.after > page.removed => stands_at(reader, from.after, id)?,
                _ => true,
            };
            let owner = |id| stored_execution::owner(&reader.execution_or_ending(id).ok()??);
            Ok((has_id, told(page, from.after, &wanted, owner, &delivery, &source)))
        };
        let (has_id, page) = self.source.read(read).await?;
        let begins = from.after == 0 && page.removed > 0;
        if begins {
            // The next look begins there.
            self.from.after = page.removed;
            return Ok(true);
        }
        if from.after < page.removed || from.after > page.newest || !has_id {
            return Err(cursor_gone(page.removed, page.newest));
        }
        self.from.after_id = None;
        if page.until == from.after {
            return page
                .damaged
                .map_or(Ok(false), |sequence| Err(event_damaged("execution", sequence)));
        }
        self.from.after = page.until;
        self.page = page.answers;
        self.on_its_way = Some(self.delivery.recipient.until_taken(page.room));
        Ok(true)
    }

    async fn wait(&mut self) -> Waited {
        let mut closing = self.delivery.closing.clone();
        let end_at = self.from.wait.map(|wait| self.quiet_since + wait);
        let is_end_first = end_at.is_some_and(|end_at| end_at <= self.heartbeat_at);
        let (until, over) = match end_at {
            Some(end_at) if is_end_first => (end_at, Waited::End),
            _ => (self.heartbeat_at, Waited::Silence),
        };
        // Biased: an end comes before another event.
        tokio::select! {
            biased;
            _ = closing.wait_for(|closing| *closing) => Waited::End,
            changed = self.settlements.changed() => changed.map_or(Waited::End, |()| Waited::News),
            () = sleep_until(until) => over,
        }
    }

    fn heartbeat(&self) -> v1::ReadEventsResponse {
        v1::ReadEventsResponse {
            sequence: sequence(self.from.after),
            event: None,
        }
    }
}

/// What a wait ended with.
enum Waited {
    News,
    Silence,
    End,
}

/// A page, as a reader gets it.
struct Told {
    answers: VecDeque<v1::ReadEventsResponse>,
    room: ResponsePermit,
    /// The place of the last execution that was read; where the page began if there was none.
    until: u64,
    damaged: Option<u64>,
    newest: u64,
    removed: u64,
}

/// Makes events of the executions, while the reader of the store is held: no more of this is held without room than there are readers.
/// Without room the events say where their results are.
fn told(
    page: SettledPage,
    after: u64,
    wanted: &Wanted,
    owner: impl Fn(ExecutionId) -> Option<String>,
    delivery: &Delivery,
    source: &str,
) -> Told {
    let until = page.executions.last().map_or(after, |(place, _)| *place);
    let is_wanted = |(_, execution): &(u64, StoredExecution)| {
        let ending = ending(execution);
        ending.is_some_and(|ending| {
            let owner = || owner(execution.summary.execution_id);
            wanted.has(ending.status.event_type(), &execution.summary.namespace, owner)
        })
    };
    let mut wanted: Vec<_> = page.executions.into_iter().filter(is_wanted).collect();
    for (_, execution) in &mut wanted {
        //
        execution.result = execution
            .result
            .take()
            .filter(|result| result.len() <= EVENT_DATA_BYTES_MAX);
    }
    let results = wanted
        .iter()
        .filter_map(|(_, execution)| execution.result.as_ref());
    let n_bytes = results.map(Bytes::len).sum();
    let room = delivery.recipient.take(n_bytes);
    let events = wanted
        .into_iter()
        .map(|(place, execution)| v1::ReadEventsResponse {
            sequence: sequence(place),
            event: event(execution, source, room.is_ok()),
        });
    Told {
        answers: events.collect(),
        room: room.unwrap_or_default(),
        until,
        damaged: page.damaged,
        newest: page.last,
        removed: page.removed,
    }
}

fn event(execution: StoredExecution, source: &str, has_room: bool) -> Option<v1::CloudEvent> {
    let attributes = event_json::event_attributes(&ending(&execution)?, &execution.summary.namespace, source);
    let result = execution.result.filter(|_| has_room);
    // What does not decode is told when its execution is asked for.
    Some(
        match result.and_then(|result| stored::decode_result(&result).ok()) {
            Some(result) => v1::CloudEvent {
                data: Some(result),
                ..attributes
            },
            None => by_reference(attributes),
        },
    )
}

/// What the store says of the end; `None` for a status that this version does not know.
pub(crate) fn ending(execution: &StoredExecution) -> Option<Ending> {
    let summary = &execution.summary;
    let status = match summary.status {
        1 => PlanStatus::Success,
        2 => PlanStatus::Partial,
        3 => PlanStatus::Failure,
        _ => return None,
    };
    Some(Ending {
        execution_id: summary.execution_id,
        plan_id: summary.plan_id,
        status,
        completed_at: summary.settled_at?,
    })
}

/// True if that execution has that place, or what has it is damaged.
pub(crate) fn stands_at(reader: &dyn Reader, place: u64, id: ExecutionId) -> Result<bool, StoreFault> {
    let page = reader.settled(place.saturating_sub(1), 1)?;
    let found = page.executions.first();
    let is_there = found.is_some_and(|(at, execution)| *at == place && execution.summary.execution_id == id);
    Ok(is_there || page.damaged == Some(place))
}

fn sequence(place: u64) -> i64 {
    i64::try_from(place).unwrap_or(i64::MAX)
}
