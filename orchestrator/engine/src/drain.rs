//! How the orchestrator stops: nothing new, what runs may end, then the workers are told. Stops nothing by itself.

/// True if a drain is under way, and how far.
#[derive(Debug, Default)]
pub(crate) struct Drain(Option<Underway>);

#[derive(Debug)]
struct Underway {
    /// Time at which the grace is over.
    due_ms: u64,
    /// The grace is over: what still runs is left to the restart.
    has_expired: bool,
    has_ended: bool,
}

impl Drain {
    /// Begins; returns false if it has begun before.
    pub(crate) fn start(&mut self, now_ms: u64, grace_ms: u64) -> bool {
        if self.0.is_some() {
            return false;
        }
        self.0 = Some(Underway {
            due_ms: now_ms.saturating_add(grace_ms),
            has_expired: false,
            has_ended: false,
        });
        true
    }

    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.0.as_ref().is_some_and(|drain| drain.has_ended)
    }

    /// Returns the time at which the grace ends, in monotonic milliseconds, if that is still of interest.
    pub(crate) fn next_due_ms(&self) -> Option<u64> {
        let drain = self.0.as_ref()?;
        (!drain.has_expired && !drain.has_ended).then_some(drain.due_ms)
    }

    /// The grace is over.
    pub(crate) fn handle_due(&mut self) {
        if let Some(drain) = &mut self.0 {
            drain.has_expired = true;
        }
    }

    /// How long it leaves a worker, in milliseconds; `None` without a drain.
    pub(crate) fn left_ms(&self, now_ms: u64) -> Option<u64> {
        let drain = self.0.as_ref()?;
        Some(match drain.has_ended {
            true => 0,
            false => drain.due_ms.saturating_sub(now_ms),
        })
    }

    /// Ends if nothing runs and nothing is being written, or if the grace is over. Returns true once.
    pub(crate) fn end_if_done(&mut self, is_idle: bool) -> bool {
        let drain = self.0.as_mut();
        let Some(drain) = drain.filter(|drain| !drain.has_ended && (drain.has_expired || is_idle)) else {
            return false;
        };
        drain.has_ended = true;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::Drain;

    #[test]
    fn it_ends_once_when_nothing_runs_or_when_its_grace_is_over() {
        let mut idle = Drain::default();
        assert!(!idle.end_if_done(true), "it has not begun");
        assert!(idle.start(100, 50) && !idle.start(120, 900));
        assert_eq!((idle.next_due_ms(), idle.left_ms(110)), (Some(150), Some(40)));
        assert!(!idle.end_if_done(false) && idle.end_if_done(true) && !idle.end_if_done(true));
        assert_eq!((idle.next_due_ms(), idle.left_ms(110)), (None, Some(0)));

        let mut busy = Drain::default();
        busy.start(100, 50);
        busy.handle_due();
        assert_eq!(busy.next_due_ms(), None);
        assert!(busy.end_if_done(false) && busy.has_ended());
    }
}
