//! A call of the engine: when it is, and what is to be done in the end. Decides nothing.

use crate::answer::{Answer, Caller};
use crate::effect::{Effect, StoreWrite};
use crate::keys::WriteId;
use alloc::collections::VecDeque;
use escapement_contract::Moment;

/// The time, and the effects that the shell has not taken yet, in order.
#[derive(Debug)]
pub(crate) struct Turn {
    now: Moment,
    effects: VecDeque<Effect>,
    last_write: u64,
}

impl Turn {
    pub(crate) fn new(now: Moment) -> Self {
        Self {
            now,
            effects: VecDeque::new(),
            last_write: 0,
        }
    }

    /// Sets the time.
    ///
    /// # Panics
    /// When time runs backwards.
    pub(crate) fn advance(&mut self, now: Moment) {
        assert!(now.monotonic_ms >= self.now_ms(), "time runs forwards");
        self.now = now;
    }

    pub(crate) fn now(&self) -> Moment {
        self.now
    }

    /// Monotonic milliseconds.
    pub(crate) fn now_ms(&self) -> u64 {
        self.now.monotonic_ms
    }

    pub(crate) fn push(&mut self, effect: Effect) {
        self.effects.push_back(effect);
    }

    pub(crate) fn reply<A: Answer>(&mut self, caller: Caller<A>, answer: A) {
        self.push(Effect::Reply {
            caller: caller.id,
            reply: answer.into_reply(),
        });
    }

    /// Asks for a write under the next number.
    pub(crate) fn write(&mut self, content: StoreWrite) -> WriteId {
        self.last_write += 1;
        let write = WriteId(self.last_write);
        self.push(Effect::Write { write, content });
        write
    }

    /// Takes the first effect.
    pub(crate) fn poll(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }
}
