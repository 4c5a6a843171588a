//! The snapshots of a session: what was asked, what is known, when to ask next. Asks nothing itself.

/// At most one request is unanswered.
#[derive(Debug)]
pub(super) struct Snapshots {
    /// Number of the last request; 0 for none.
    n: u64,
    is_unanswered: bool,
    /// Time at which the worker was asked last; its hello counts, since it says what the worker has.
    asked_at_ms: u64,
    /// The worker said what it has of all assignments up to this number.
    covered_seq: u64,
    /// Something was assigned or released since the last heartbeat.
    books_changed: bool,
    /// Hash of the books and of the heartbeat that the last request was about.
    asked_about: Option<(u128, u128)>,
    /// Time at which the engine looks again.
    pub(super) due_ms: Option<u64>,
}

/// The times that snapshots keep to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Patience with an assignment, and the least time between two requests.
    pub(super) after_ms: u64,
    /// Time between two requests that nothing new asks for.
    pub(super) pause_ms: u64,
}

impl Snapshots {
    pub(super) fn new(now_ms: u64) -> Self {
        Self {
            n: 0,
            is_unanswered: false,
            asked_at_ms: now_ms,
            covered_seq: 0,
            books_changed: true,
            asked_about: None,
            due_ms: None,
        }
    }

    pub(super) fn books_changed(&mut self) {
        self.books_changed = true;
    }

    /// Counts a request and returns its number.
    pub(super) fn ask(&mut self, now_ms: u64) -> u64 {
        self.n += 1;
        self.is_unanswered = true;
        self.asked_at_ms = now_ms;
        self.n
    }

    /// Takes the answer to the last request, which covers assignments up to `seq`; false for any other.
    pub(super) fn answered(&mut self, n: u64, seq: u64) -> bool {
        if !self.is_unanswered || n != self.n {
            return false;
        }
        self.is_unanswered = false;
        self.covered_seq = seq;
        true
    }

    /// When to ask again, if the last request is unanswered.
    pub(super) fn repeat_at_ms(&self, pace: Pace) -> Option<u64> {
        self.is_unanswered
            .then(|| self.asked_at_ms.saturating_add(pace.after_ms.saturating_mul(2)))
    }

    /// When to ask on account of an assignment that is not answered.
    pub(super) fn ask_about_at_ms(&self, assignment_seq: u64, assigned_at_ms: u64, pace: Pace) -> u64 {
        if assignment_seq <= self.covered_seq {
            // The worker said that it has it.
            return self.asked_at_ms.saturating_add(pace.pause_ms);
        }
        let patience_ends_ms = assigned_at_ms.saturating_add(pace.after_ms);
        patience_ends_ms.max(self.may_ask_at_ms(pace))
    }

    /// Compares a heartbeat with the books; true if messages on their way do not explain the difference.
    pub(super) fn differs(&mut self, books: u128, heartbeat: u128, pace: Pace, now_ms: u64) -> bool {
        let was_quiet = !core::mem::replace(&mut self.books_changed, false);
        if books == heartbeat || self.is_unanswered || now_ms < self.may_ask_at_ms(pace) {
            return false;
        }
        // The same difference again would get the same answer.
        let is_new = self.asked_about != Some((books, heartbeat));
        let is_due = now_ms >= self.asked_at_ms.saturating_add(pace.pause_ms);
        let asks = (was_quiet && is_new) || is_due;
        if asks {
            self.asked_about = Some((books, heartbeat));
        }
        asks
    }

    /// Requests keep a distance, or a worker's heartbeats would decide how much work its snapshots are.
    fn may_ask_at_ms(&self, pace: Pace) -> u64 {
        if self.n == 0 {
            return 0;
        }
        self.asked_at_ms.saturating_add(pace.after_ms)
    }
}
