//! What goes wrong with the orchestrator's disk, and between it and its callers.

use crate::world::World;

impl World {
    pub(crate) fn disk_is_slow(&mut self) {
        self.note_fault("slow disk", None);
        let ms = self.dice.between(500, 8_000);
        self.storage.slow_until_ms = self.storage.slow_until_ms.max(self.now_ms + ms);
    }

    pub(crate) fn disk_is_full(&mut self) {
        self.note_fault("full disk", None);
        let ms = *self.dice.pick(&[300, 3_000, 15_000]);
        let until_ms = self.now_ms + self.dice.between(ms / 2, ms);
        self.storage.full_until_ms = self.storage.full_until_ms.max(until_ms);
    }

    /// A write or a sync fails: the process may acknowledge nothing more, and exits.
    pub(crate) fn commit_fails(&mut self) {
        self.note_fault("failing commit", None);
        self.storage.next_commit_fails = true;
    }

    pub(crate) fn partition_a_caller(&mut self) {
        self.note_fault("silent caller", None);
        let caller = self.dice.index(self.callers.len());
        let until_ms = self.now_ms + self.dice.between(200, 20_000);
        let (asks, answers) = *self.dice.pick(&[(true, true), (true, false), (false, true)]);
        let caller = &mut self.callers[caller];
        if asks {
            caller.asks_stalled_until_ms = caller.asks_stalled_until_ms.max(until_ms);
        }
        if answers {
            caller.answers_stalled_until_ms = caller.answers_stalled_until_ms.max(until_ms);
        }
    }

    pub(crate) fn heal_disk_and_callers(&mut self) {
        (self.storage.full_until_ms, self.storage.slow_until_ms) = (0, 0);
        (self.storage.next_commit_fails, self.storage.next_commit_ends) = (false, None);
        self.storage.disk.heal();
        for caller in &mut self.callers {
            (caller.asks_stalled_until_ms, caller.answers_stalled_until_ms) = (0, 0);
        }
    }
}
