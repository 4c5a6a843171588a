//! Units: what is dispatched, by the numbers of a journal.

use crate::wire::Message;

/// A unit of a step in an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Unit {
    pub(crate) step: u32,
    pub(crate) index: u32,
    pub(crate) epoch: u32,
}

impl Unit {
    pub(crate) fn of(message: &Message<'_>) -> Self {
        Self {
            step: message.small(1),
            index: message.small(2),
            epoch: message.small(3),
        }
    }

    /// True for a generation of the planner; its index is the generation.
    pub(crate) fn is_generation(self) -> bool {
        self.step == u32::MAX
    }

    /// True for the safety check of another unit.
    pub(crate) fn is_check(self) -> bool {
        matches!(self.index / RANGE, 1 | 4)
    }

    /// True for the call of a tool that a model asks for.
    pub(crate) fn is_tool_call(self) -> bool {
        self.index / RANGE == 2
    }

    /// True for the look at an artifact; the rest of its index is the number of the artifact.
    pub(crate) fn is_look(self) -> bool {
        self.index / RANGE == 3
    }

    /// The nth call that this turn asks for.
    pub(crate) fn tool_call(self, n: u32) -> Self {
        let index = 2 * RANGE + 64 * self.index + n;
        Self { index, ..self }
    }
}

/// Units of each kind have as many numbers.
pub(crate) const RANGE: u32 = 1_000_000;
