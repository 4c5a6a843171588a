//! What operators see of sinks. Decides nothing.

use super::key::SinkKey;
use crate::Queues;
use escapement_delivery::Came;
use escapement_process::unix_ms;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// The figures of all sinks. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct DeliveryFigures {
    sinks: Arc<Mutex<BTreeMap<String, Counted>>>,
    queues: Queues,
}

/// The figures of one sink. Counters begin at 0 with the process.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct SinkFigures {
    /// Name.
    pub name: String,
    /// Events that it took.
    pub delivered: u64,
    /// Tries that it did not take.
    pub refused: u64,
    /// Events that it refused for too long.
    pub given_up: u64,
    /// Endings that were removed, or damaged, before it had their events.
    pub dropped: u64,
    /// Endings behind its cursor.
    pub lag_events: u64,
    /// Milliseconds since the first of these; 0 if there is none.
    pub lag_ms: u64,
}

#[derive(Clone, Debug)]
struct Counted {
    figures: SinkFigures,
    /// Counts what ends.
    ends: watch::Receiver<u64>,
    /// How far it is.
    place: u64,
    /// The highest place at the last look, and how many ends were counted before.
    newest: (u64, u64),
    /// When that ended whose event is tried, Unix milliseconds.
    waits_since: Option<i64>,
}

impl DeliveryFigures {
    pub(crate) fn new(queues: Queues) -> Self {
        Self {
            sinks: Arc::default(),
            queues,
        }
    }

    /// Bytes that wait for sinks that get what they get best effort, by their names: `webhook` and `error_handler`, if there are such.
    pub fn queue_bytes(&self) -> Vec<(&'static str, usize)> {
        self.queues.bytes()
    }

    /// Returns all of them, as they are now.
    pub fn look(&self) -> Vec<SinkFigures> {
        let unix_ms = unix_ms();
        let shown = |sink: &Counted| {
            let (newest, before) = sink.newest;
            let lag_events = newest.saturating_sub(sink.place) + sink.ends.borrow().saturating_sub(before);
            let waits = sink.waits_since.filter(|_| lag_events > 0);
            let lag_ms = waits.map_or(0, |since| unix_ms.saturating_sub(since));
            SinkFigures {
                lag_events,
                lag_ms: u64::try_from(lag_ms).unwrap_or(0),
                ..sink.figures.clone()
            }
        };
        self.lock().values().map(shown).collect()
    }

    /// Sinks that are not there any more are shown no more.
    pub(crate) fn keep(&self, sinks: &[SinkKey]) {
        let is_there = |name: &String| sinks.iter().any(|sink| sink.name == *name);
        self.lock().retain(|name, _| is_there(name));
    }

    /// Returns the way to the figures of one sink. `ends` counts the ends in its feed.
    pub(crate) fn of(&self, name: &str, ends: watch::Receiver<u64>) -> Figures {
        let mut sinks = self.lock();
        let counted = sinks.entry(name.to_owned()).or_insert_with(|| Counted {
            figures: SinkFigures {
                name: name.to_owned(),
                ..SinkFigures::default()
            },
            ends: ends.clone(),
            place: 0,
            newest: (0, 0),
            waits_since: None,
        });
        counted.ends = ends;
        Figures {
            all: self.clone(),
            name: name.to_owned(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Counted>> {
        self.sinks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The figures of one sink.
#[derive(Debug)]
pub(crate) struct Figures {
    all: DeliveryFigures,
    name: String,
}

impl Figures {
    /// Counts what came of an event.
    pub(crate) fn came(&self, came: Came) {
        self.change(|counted| {
            let figures = &mut counted.figures;
            match came {
                Came::Delivered => {
                    figures.delivered += 1;
                    counted.waits_since = None;
                }
                Came::Again { .. } | Came::Disabled => figures.refused += 1,
                Came::GivenUp => {
                    figures.refused += 1;
                    figures.given_up += 1;
                    counted.waits_since = None;
                }
            }
        });
    }

    /// So many endings are lost to the sink.
    pub(crate) fn dropped(&self, count: u64) {
        self.change(|counted| counted.figures.dropped += count);
    }

    /// How far the sink is.
    pub(crate) fn reached(&self, place: u64) {
        self.change(|counted| counted.place = place);
    }

    /// The highest place, as it was after so many ends at least.
    pub(crate) fn newest(&self, place: u64, ends: u64) {
        self.change(|counted| counted.newest = (place, ends));
    }

    /// The event that is tried now, by the time of the end, Unix milliseconds.
    pub(crate) fn waits_since(&self, ended_at: Option<i64>) {
        self.change(|counted| counted.waits_since = ended_at);
    }

    fn change(&self, change: impl FnOnce(&mut Counted)) {
        if let Some(counted) = self.all.lock().get_mut(&self.name) {
            change(counted);
        }
    }
}
