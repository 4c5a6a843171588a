//! Does for one sink what its delivery says. Decides nothing.

use super::cloud_event::message_of;
use super::cursors::Cursors;
use super::figures::Figures;
use super::file::{Begin, Sink};
use super::message::{Message, Posted};
use super::page::{Content, Found};
use super::sender::Sender;
use super::source::Source;
use crate::feed::FeedSource;
use escapement_delivery::{Answer, Came, Cursor, Delivery, Next, Now};
use escapement_process::unix_ms;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::{debug, info, warn};

/// What a sink needs of the others.
#[derive(Clone, Debug)]
pub(crate) struct Surroundings<S> {
    /// Where the ends are read that the sink gets.
    pub(crate) source: Source<S>,
    pub(crate) cursors: Arc<Cursors>,
    /// Counts these ends.
    pub(crate) ends: watch::Receiver<u64>,
    /// Where events say that they come from.
    pub(crate) event_source: Arc<str>,
    /// True once the sink must end.
    pub(crate) stop: watch::Receiver<bool>,
}

/// A sink that is served.
pub(crate) struct Task<S> {
    sink: Arc<Sink>,
    with: Surroundings<S>,
    figures: Figures,
    delivery: Delivery<Content>,
    sender: Sender,
    start: Instant,
    /// True until the cursor was held against the store.
    is_first_look: bool,
    /// The last place of those that are counted as lost.
    lost_until: u64,
    is_failing: bool,
    is_unsaved: bool,
}

/// What is to be done, with what it needs.
enum Step {
    Save(Cursor),
    Read(Cursor),
    Deliver(Message),
    Wait { until: Option<Instant>, for_news: bool },
}

impl<S: FeedSource> Task<S> {
    /// Serves a sink until it must end; then its cursor is saved.
    pub(crate) async fn run(sink: Sink, with: Surroundings<S>, figures: Figures) {
        let sink = Arc::new(sink);
        let mut stop = with.stop.clone();
        let begin = begin(&sink, &with);
        let saved = tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return,
            saved = begin => saved,
        };
        figures.reached(saved.place);
        let task = Self {
            delivery: Delivery::new(sink.limits, saved),
            sink,
            with,
            figures,
            sender: Sender::default(),
            start: Instant::now(),
            is_first_look: true,
            lost_until: 0,
            is_failing: false,
            is_unsaved: false,
        };
        task.serve(stop).await;
    }

    async fn serve(mut self, mut stop: watch::Receiver<bool>) {
        while !*stop.borrow() {
            match self.next() {
                Step::Save(cursor) => {
                    let is_saved = self.save(cursor).await;
                    let now = self.now();
                    self.delivery.handle_saved(is_saved, now);
                }
                Step::Read(cursor) => self.read(cursor).await,
                Step::Deliver(message) => {
                    let unix_ms = unix_ms();
                    let posted = tokio::select! {
                        biased;
                        posted = self.sender.give(&self.sink, &message, unix_ms) => posted,
                        () = over(stop.clone()) => break,
                    };
                    self.answered(&message, posted);
                }
                Step::Wait { until, for_news } => {
                    let news = async {
                        match for_news {
                            true => self.with.ends.changed().await.is_ok(),
                            false => std::future::pending().await,
                        }
                    };
                    // Biased: an end comes first.
                    tokio::select! {
                        biased;
                        _ = stop.wait_for(|stop| *stop) => {}
                        // Who counts them has ended: the rest comes after the next start.
                        true = news => self.delivery.handle_news(),
                        () = reached(until) => {}
                    }
                }
            }
            self.figures.reached(self.delivery.reached().place);
        }
        if let Some(cursor) = self.delivery.unsaved() {
            self.save(cursor).await;
        }
    }

    fn next(&mut self) -> Step {
        let now = self.now();
        match self.delivery.poll(now) {
            Next::Save(cursor) => Step::Save(cursor),
            Next::Read(cursor) => Step::Read(cursor),
            Next::Deliver(content) => {
                match content {
                    Content::Ending { execution, .. } => {
                        self.figures.waits_since(execution.summary.settled_at);
                    }
                    Content::RunEnding { ended_at, .. } => self.figures.waits_since(*ended_at),
                    Content::Lost { first, last } => {
                        let first = *first.max(&(self.lost_until + 1));
                        if first <= *last {
                            self.lost_until = *last;
                            tell_lost(&self.sink, &self.figures, first, *last);
                        }
                    }
                    Content::OtherStore { .. } => {}
                }
                Step::Deliver(message_of(content, &self.with.event_source))
            }
            Next::Wait { until_ms, for_news } => Step::Wait {
                until: until_ms.map(|until_ms| self.start + Duration::from_millis(until_ms)),
                for_news,
            },
        }
    }

    async fn read(&mut self, cursor: Cursor) {
        // Before the look, so that nothing is missed between it and the wait.
        let ends = *self.with.ends.borrow_and_update();
        let (source, event_source) = (&self.with.source, &self.with.event_source);
        let look = source.look(cursor, self.is_first_look, &self.sink, event_source);
        let Some(look) = look.await else {
            let now = self.now();
            return self.delivery.handle_unreadable(now);
        };
        self.is_first_look = false;
        self.figures.newest(look.newest, ends);
        match look.found {
            Found::Items(items) => self.delivery.handle_page(items),
            Found::OtherStore(begin) => {
                let (sink, place) = (&self.sink.name, cursor.place);
                warn!(
                    %sink,
                    place,
                    "the store is older than what this sink has had; it gets what there is from the beginning"
                );
                self.delivery
                    .handle_other_store(begin, Content::OtherStore { place });
            }
        }
    }

    fn answered(&mut self, message: &Message, (answer, said): Posted) {
        let now = self.now();
        let came = self.delivery.handle_answer(answer, now, chance());
        self.figures.came(came);
        let (sink, event) = (&self.sink.name, &message.id);
        match came {
            Came::Delivered => {
                if std::mem::take(&mut self.is_failing) {
                    info!(%sink, "sink takes events again");
                }
            }
            Came::Again { in_ms } => {
                debug!(%sink, %event, said, in_ms, "event is tried again");
                if !std::mem::replace(&mut self.is_failing, true) {
                    let is_refused = answer == Answer::Refused;
                    warn!(%sink, %event, said, is_refused, "sink does not take an event; it is tried again");
                }
            }
            Came::GivenUp => {
                let place = self.delivery.reached().place;
                warn!(%sink, %event, place, said, "event is given up: the sink refused it for too long");
            }
            Came::Disabled => {
                warn!(%sink, said, "sink wants no more events; it gets none until its file changes or the next start");
            }
        }
    }

    /// Returns true if it is saved. A failure is told once.
    async fn save(&mut self, cursor: Cursor) -> bool {
        let saved = save(&self.with.cursors, &self.sink, cursor).await;
        let is_unsaved = saved.is_err();
        let was_unsaved = std::mem::replace(&mut self.is_unsaved, is_unsaved);
        if let Err(error) = saved
            && !was_unsaved
        {
            let sink = &self.sink.name;
            warn!(%sink, %error, "how far a sink is cannot be saved; a restart would repeat events");
        }
        !is_unsaved
    }

    fn now(&self) -> Now {
        let elapsed = self.start.elapsed().as_millis();
        Now {
            monotonic_ms: u64::try_from(elapsed).unwrap_or(u64::MAX),
            unix_ms: unix_ms(),
        }
    }
}

/// How far the sink is; for one that has had nothing, where it begins, which is saved.
async fn begin<S: FeedSource>(sink: &Arc<Sink>, with: &Surroundings<S>) -> Cursor {
    if let Some(saved) = with.cursors.of(&sink.key()) {
        return saved;
    }
    loop {
        let newest = sink.begin == Begin::Newest && !with.cursors.is_unknown();
        if let Some((removed, last)) = with.source.bounds().await {
            let cursor = Cursor {
                place: if newest { last } else { removed },
                ..Cursor::default()
            };
            let saved = save(&with.cursors, sink, cursor).await;
            let (sink, place) = (&sink.name, cursor.place);
            match saved {
                Ok(()) => {
                    info!(%sink, place, "sink is new, and begins behind this place");
                    return cursor;
                }
                Err(error) => warn!(%sink, %error, "where a sink begins cannot be saved; it waits"),
            }
        }
        sleep(BEGIN_PAUSE).await;
    }
}

async fn save(cursors: &Arc<Cursors>, sink: &Sink, cursor: Cursor) -> std::io::Result<()> {
    let (cursors, sink) = (Arc::clone(cursors), sink.key());
    let saving = tokio::task::spawn_blocking(move || cursors.save(&sink, cursor));
    saving
        .await
        .unwrap_or_else(|error| Err(std::io::Error::other(error)))
}

fn tell_lost(sink: &Sink, figures: &Figures, first: u64, last: u64) {
    figures.dropped(last - first + 1);
    let sink = &sink.name;
    warn!(%sink, first, last, "endings were removed, or are damaged, before the sink had their events");
}

async fn reached(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until).await,
        None => std::future::pending().await,
    }
}

/// Comes a moment after the end was asked for: a try that is under way may end by itself.
async fn over(mut stop: watch::Receiver<bool>) {
    // A sender that is gone asks for the end, too.
    drop(stop.wait_for(|stop| *stop).await);
    sleep(LAST_TRY_GRACE).await;
}

/// Without randomness sinks are tried again at the same time, which is no reason to stop.
fn chance() -> u32 {
    getrandom::u32().unwrap_or_default()
}

const BEGIN_PAUSE: Duration = Duration::from_secs(1);
const LAST_TRY_GRACE: Duration = Duration::from_millis(500);
