//! What becomes of a firing while runs of its trigger live. Counts none.

/// What a trigger wants if a run of it lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overlap {
    /// No run is made.
    #[default]
    Skip,
    /// The run is made once the others have ended.
    Queue,
    /// The run is made.
    Allow,
}

/// What becomes of a firing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Its run is made.
    Run,
    /// It waits.
    Wait,
    /// No run is made for it: a run of its trigger lives.
    Overlaps,
    /// No run is made for it: as many wait as may.
    QueueFull,
}

// TRIG-1.3
/// Decides about a firing. `lives`: whether a run of its trigger lives. `n_waiting`: firings of it that wait.
pub fn admit(overlap: Overlap, lives: bool, n_waiting: usize) -> Admission {
    match (overlap, lives, n_waiting) {
        (Overlap::Allow, _, _) | (Overlap::Skip | Overlap::Queue, false, 0) => Admission::Run,
        (Overlap::Skip, _, _) => Admission::Overlaps,
        (Overlap::Queue, _, QUEUED_MAX..) => Admission::QueueFull,
        (Overlap::Queue, _, _) => Admission::Wait,
    }
}

/// Firings of one trigger that wait at most.
pub const QUEUED_MAX: usize = 100;

#[cfg(test)]
mod tests {
    use super::{Admission, Overlap, QUEUED_MAX, admit};

    // TRIG-1.3
    #[test]
    fn each_policy_decides_about_a_firing_while_a_run_lives() {
        for (overlap, lives, n_waiting, expected) in [
            (Overlap::Skip, false, 0, Admission::Run),
            (Overlap::Skip, true, 0, Admission::Overlaps),
            (Overlap::Queue, false, 0, Admission::Run),
            (Overlap::Queue, true, 0, Admission::Wait),
            (Overlap::Queue, false, 1, Admission::Wait),
            (Overlap::Queue, true, QUEUED_MAX, Admission::QueueFull),
            (Overlap::Allow, true, 7, Admission::Run),
        ] {
            assert_eq!(
                admit(overlap, lives, n_waiting),
                expected,
                "{overlap:?} {lives} {n_waiting}"
            );
        }
    }
}
