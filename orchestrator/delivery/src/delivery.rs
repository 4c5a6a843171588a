//! The state of one sink, and what is to be done next for it.

use crate::cursor::Cursor;
use crate::pause::{Limits, Now, pause_ms};
use alloc::collections::VecDeque;

/// What stands at a place behind the cursor.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Item<T> {
    /// Place; for several that are one item, the last one.
    pub place: u64,
    /// The id of what has the place; `None` if it is gone.
    pub id: Option<[u8; 16]>,
    /// What the sink is to get; `None` if it wants nothing of it.
    pub content: Option<T>,
}

/// What a sink made of an event.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Answer {
    /// It has it.
    Taken,
    /// It does not want this event, and will hardly want it later.
    Refused,
    /// It could not be reached, or cannot take any event now.
    Failed {
        /// How long it wants to be left alone, in milliseconds, if it said so.
        retry_after_ms: Option<u64>,
    },
    /// It wants no events any more.
    Gone,
}

/// What came of an answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Came {
    /// The cursor is behind the event.
    Delivered,
    /// The same event is tried again after so many milliseconds.
    Again {
        /// The pause.
        in_ms: u64,
    },
    /// The cursor is behind the event, which the sink did not take.
    GivenUp,
    /// Nothing more goes to the sink.
    Disabled,
}

/// What is to be done next, to be told by the function that its variant names.
#[derive(Debug, Eq, PartialEq)]
pub enum Next<'a, T> {
    /// Save the cursor, then [`Delivery::handle_saved`].
    Save(Cursor),
    /// Read what stands behind the cursor, then [`Delivery::handle_page`], [`Delivery::handle_other_store`] or
    /// [`Delivery::handle_unreadable`].
    Read(Cursor),
    /// Give it to the sink, then [`Delivery::handle_answer`].
    Deliver(&'a T),
    /// Ask again later.
    Wait {
        /// At this time of the clock that never jumps; `None`: at none.
        until_ms: Option<u64>,
        /// And after [`Delivery::handle_news`], as soon as something has ended.
        for_news: bool,
    },
}

/// A sink. `T` is what it gets, which stays unseen.
#[derive(Debug)]
pub struct Delivery<T> {
    limits: Limits,
    reached: Cursor,
    saved: Cursor,
    /// Time at which the cursor may be saved again.
    save_at_ms: u64,
    /// What stands behind `reached`, of one page.
    items: VecDeque<Item<T>>,
    stage: Stage,
    under_way: Option<UnderWay>,
    n_in_vain: u32,
}

/// True if the sink gets anything.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stage {
    /// What stands behind the cursor, as soon as it is read.
    Open,
    /// Nothing: all that there was is done.
    AtEnd,
    /// Nothing until then.
    Pausing { until_ms: u64 },
    /// Nothing any more.
    Disabled,
}

/// What was asked for and is not told yet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum UnderWay {
    Saving,
    Reading,
    Delivering,
}

impl<T> Delivery<T> {
    /// Goes on behind a cursor that is saved.
    pub fn new(limits: Limits, saved: Cursor) -> Self {
        Self {
            limits,
            reached: saved,
            saved,
            save_at_ms: 0,
            items: VecDeque::new(),
            stage: Stage::Open,
            under_way: None,
            n_in_vain: 0,
        }
    }

    /// How far the sink is, saved or not.
    pub fn reached(&self) -> Cursor {
        self.reached
    }

    /// What an end should save; `None` if it is saved.
    pub fn unsaved(&self) -> Option<Cursor> {
        (self.reached != self.saved).then_some(self.reached)
    }

    /// What is to be done now. Only one thing is under way at a time.
    ///
    /// # Panics
    /// What was to be done last is not told yet.
    pub fn poll(&mut self, now: Now) -> Next<'_, T> {
        assert_eq!(self.under_way, None, "one thing at a time");
        while self.items.front().is_some_and(|item| item.content.is_none()) {
            self.pass();
        }
        if let Some(cursor) = self.unsaved()
            && self.save_at_ms <= now.monotonic_ms
        {
            self.under_way = Some(UnderWay::Saving);
            return Next::Save(cursor);
        }
        let save_at_ms = self.unsaved().map(|_| self.save_at_ms);
        match self.stage {
            Stage::Disabled | Stage::AtEnd => {
                return Next::Wait {
                    until_ms: save_at_ms,
                    for_news: self.stage == Stage::AtEnd,
                };
            }
            Stage::Pausing { until_ms } if now.monotonic_ms < until_ms => {
                let until_ms = save_at_ms.map_or(until_ms, |save_at_ms| save_at_ms.min(until_ms));
                return Next::Wait {
                    until_ms: Some(until_ms),
                    for_news: false,
                };
            }
            Stage::Pausing { .. } | Stage::Open => self.stage = Stage::Open,
        }
        match self.items.front().and_then(|item| item.content.as_ref()) {
            Some(content) => {
                self.under_way = Some(UnderWay::Delivering);
                Next::Deliver(content)
            }
            None => {
                self.under_way = Some(UnderWay::Reading);
                Next::Read(self.reached)
            }
        }
    }

    /// Whether the cursor was saved. One that could not be is saved later, and meanwhile the sink gets events all the same.
    pub fn handle_saved(&mut self, is_saved: bool, now: Now) {
        assert_eq!(
            self.under_way.take(),
            Some(UnderWay::Saving),
            "nothing was to be saved"
        );
        if is_saved {
            self.saved = self.reached;
        }
        self.save_at_ms = now.monotonic_ms.saturating_add(SAVE_INTERVAL_MS);
    }

    /// The next items behind the cursor, in the order of their places; none if there is nothing.
    pub fn handle_page(&mut self, items: impl IntoIterator<Item = Item<T>>) {
        self.read();
        self.items.extend(items);
        let places = self.items.iter().map(|item| item.place);
        assert!(places.is_sorted(), "items come in their order");
        assert!(
            self.items
                .front()
                .is_none_or(|item| item.place > self.reached.place),
            "items stand behind the cursor"
        );
        if self.items.is_empty() {
            self.stage = Stage::AtEnd;
        }
    }

    /// What was read is not what the cursor was made of: the sink is told so, and goes on behind that place.
    pub fn handle_other_store(&mut self, place: u64, content: T) {
        self.read();
        self.items.push_back(Item {
            place,
            id: None,
            content: Some(content),
        });
    }

    /// Nothing could be read now.
    pub fn handle_unreadable(&mut self, now: Now) {
        self.read();
        self.pause(now, UNREADABLE_PAUSE_MS);
    }

    /// Something has ended.
    pub fn handle_news(&mut self) {
        match self.stage {
            Stage::AtEnd => self.stage = Stage::Open,
            // Read when its turn comes.
            Stage::Open | Stage::Pausing { .. } | Stage::Disabled => {}
        }
    }

    /// What the sink made of the event. `chance` is any number, drawn anew each time.
    pub fn handle_answer(&mut self, answer: Answer, now: Now, chance: u32) -> Came {
        assert_eq!(
            self.under_way.take(),
            Some(UnderWay::Delivering),
            "nothing was to be delivered"
        );
        let retry_after_ms = match answer {
            Answer::Taken => {
                self.pass();
                return Came::Delivered;
            }
            Answer::Gone => {
                self.stage = Stage::Disabled;
                return Came::Disabled;
            }
            Answer::Refused => {
                let since_ms = *self.reached.refused_since_ms.get_or_insert(now.unix_ms);
                let refused_ms = u64::try_from(now.unix_ms.saturating_sub(since_ms)).unwrap_or(0);
                if refused_ms >= self.limits.give_up_after_ms {
                    self.pass();
                    return Came::GivenUp;
                }
                None
            }
            Answer::Failed { retry_after_ms } => {
                // What counts is refusals in a row: an outage between two of them is none.
                self.reached.refused_since_ms = None;
                retry_after_ms
            }
        };
        self.n_in_vain = self.n_in_vain.saturating_add(1);
        let in_ms = pause_ms(self.limits, self.n_in_vain, retry_after_ms, chance);
        self.pause(now, in_ms);
        Came::Again { in_ms }
    }

    fn read(&mut self) {
        assert_eq!(
            self.under_way.take(),
            Some(UnderWay::Reading),
            "nothing was to be read"
        );
        assert!(self.items.is_empty(), "a page is read when the last one is done");
    }

    /// The cursor moves behind the first item.
    fn pass(&mut self) {
        let item = self.items.pop_front().expect("the caller saw one");
        self.reached = Cursor {
            place: item.place,
            id: item.id,
            refused_since_ms: None,
        };
        self.n_in_vain = 0;
    }

    fn pause(&mut self, now: Now, ms: u64) {
        self.stage = Stage::Pausing {
            until_ms: now.monotonic_ms.saturating_add(ms),
        };
    }
}

/// A second: a restart repeats what was delivered within it.
const SAVE_INTERVAL_MS: u64 = 1_000;
const UNREADABLE_PAUSE_MS: u64 = 1_000;
