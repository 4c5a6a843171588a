//! When a slot was free for an action and nothing of it was handed out. Knows sessions only as a number of free slots.

use std::collections::BTreeMap;

/// An action by number.
pub(super) type ActionId = u32;

/// All actions that were ever named.
#[derive(Debug, Default)]
pub(super) struct Actions {
    ids: BTreeMap<String, ActionId>,
    idle: Vec<Idle>,
}

#[derive(Debug, Default)]
struct Idle {
    /// Sessions with a free slot.
    n_free: u32,
    /// Since when a slot is free without a hand-out.
    since: u64,
    /// Unix milliseconds from and to, in order.
    windows: Vec<(i64, i64)>,
}

impl Actions {
    pub(super) fn id(&mut self, name: &str) -> ActionId {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        let id = ActionId::try_from(self.idle.len()).expect("nobody names four thousand million actions");
        self.ids.insert(name.to_owned(), id);
        self.idle.push(Idle::default());
        id
    }

    /// One more, or one less, session has a free slot.
    pub(super) fn free(&mut self, action: ActionId, more: bool, clock: Clock) {
        let idle = &mut self.idle[action as usize];
        if more {
            idle.n_free += 1;
            if idle.n_free == 1 {
                idle.since = clock.t;
            }
        } else {
            idle.n_free -= 1;
            if idle.n_free == 0 {
                idle.close(clock);
            }
        }
    }

    /// An attempt of the action is handed out.
    pub(super) fn handed_out(&mut self, action: ActionId, clock: Clock) {
        let idle = &mut self.idle[action as usize];
        if idle.n_free > 0 {
            idle.close(clock);
            idle.since = clock.t;
        }
    }

    /// The process is over.
    pub(super) fn end(&mut self, clock: Clock) {
        for idle in self.idle.iter_mut().filter(|idle| idle.n_free > 0) {
            idle.close(clock);
            idle.n_free = 0;
        }
    }

    /// How long, within this time, a slot was free at a stretch without a hand-out: the longest stretch.
    pub(super) fn longest_idle(&self, action: ActionId, from: i64, to: i64) -> i64 {
        let windows = &self.idle[action as usize].windows;
        let first = windows.partition_point(|window| window.1 <= from);
        let within = windows[first..].iter().take_while(|window| window.0 < to);
        within
            .map(|window| window.1.min(to) - window.0.max(from))
            .max()
            .unwrap_or(0)
    }
}

impl Idle {
    fn close(&mut self, clock: Clock) {
        if let Some(boot_unix_ms) = clock.boot_unix_ms
            && clock.t - self.since >= clock.window_ms_min
        {
            let unix = |t: u64| boot_unix_ms + i64::try_from(t).unwrap_or(i64::MAX / 2);
            self.windows.push((unix(self.since), unix(clock.t)));
        }
    }
}

/// What time it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    pub(super) t: u64,
    /// The wall clock when `t` was 0, where it is known.
    pub(super) boot_unix_ms: Option<i64>,
    /// Shorter windows are forgotten.
    pub(super) window_ms_min: u64,
}
