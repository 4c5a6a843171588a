//! What is due, found by looking at everything that may be. Fires nothing.

/// What fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timer {
    /// The deadline while queued, the plan's limit afterwards.
    Limit,
    /// A step's limit or the end of its sleep.
    Step(usize),
}

/// Returns the timer that fires first, with its instant.: the limit before steps, steps in canonical order.
pub fn first_due(limit: Option<u64>, steps: &[Option<u64>], order: &[usize]) -> Option<(u64, Timer)> {
    let mut first: Option<(u64, Timer)> = limit.map(|due| (due, Timer::Limit));
    for step in order {
        if let Some(due) = steps[*step]
            && first.is_none_or(|(earliest, _)| due < earliest)
        {
            first = Some((due, Timer::Step(*step)));
        }
    }
    first
}
