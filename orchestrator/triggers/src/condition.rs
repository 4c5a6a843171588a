//! Edges of conditions. Evaluates none.

/// What is known of a condition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// What it came to when it was asked last.
    pub was_true: bool,
    /// Edges so far.
    pub n_edges: u64,
    /// When it fired last, Unix milliseconds.
    pub fired_at: Option<i64>,
}

/// What becomes of a look at a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    /// It was as it is, or became false.
    None,
    /// It became true and fires: the edge of that number, from 1.
    Fires(u64),
    /// It became true too soon after it fired last: the edge of that number.
    Cools(u64),
}

// TRIG-4.1
/// Takes note of what a condition came to.
///
/// It fires if it was false and is true, at least `cooldown_ms` after it fired last; at the first look it was false.
pub fn look(seen: &mut Seen, is_true: bool, now_ms: i64, cooldown_ms: i64) -> Edge {
    let rises = is_true && !seen.was_true;
    seen.was_true = is_true;
    if !rises {
        return Edge::None;
    }
    seen.n_edges += 1;
    // A firing in the future was recorded by a clock that was ahead: its remaining cooldown is unknown.
    let cools = |fired_at: i64| fired_at <= now_ms && now_ms < fired_at.saturating_add(cooldown_ms);
    if seen.fired_at.is_some_and(cools) {
        return Edge::Cools(seen.n_edges);
    }
    seen.fired_at = Some(now_ms);
    Edge::Fires(seen.n_edges)
}

#[cfg(test)]
mod tests {
    use super::{Edge, Seen, look};

    // TRIG-4.1
    #[test]
    fn a_condition_fires_at_its_edges_and_not_before_its_cooldown() {
        let mut seen = Seen::default();
        let mut at = |now, is_true| look(&mut seen, is_true, now, 100);
        assert_eq!(at(1, false), Edge::None);
        assert_eq!(at(2, true), Edge::Fires(1));
        assert_eq!(at(3, true), Edge::None);
        assert_eq!(at(200, true), Edge::None, "it never became false");
        assert_eq!(at(201, false), Edge::None);
        assert_eq!(at(202, true), Edge::Fires(2));
        assert_eq!(at(203, false), Edge::None);
        assert_eq!(at(301, true), Edge::Cools(3));
        assert_eq!(at(302, false), Edge::None);
        assert_eq!(at(303, true), Edge::Fires(4));
    }

    #[test]
    fn no_time_overflows() {
        let mut seen = Seen {
            fired_at: Some(i64::MAX - 1),
            ..Seen::default()
        };
        assert_eq!(look(&mut seen, true, i64::MAX - 1, i64::MAX), Edge::Cools(1));
    }
}
