//! How often an issuer is asked, over hours that pass at once.

use super::Schedule;
use crate::limits::{ASK_MS_MIN, KEEP_MS, REFRESH_MS};

/// Counts the looks while somebody asks every 10 ms from `from_ms` on.
fn looks_in_a_storm(schedule: &mut Schedule, from_ms: u64, for_ms: u64, succeeds: bool) -> u32 {
    let mut n_looks = 0;
    for now_ms in (from_ms..from_ms + for_ms).step_by(10) {
        schedule.ask(now_ms);
        if schedule.begin(now_ms) {
            n_looks += 1;
            match succeeds {
                true => schedule.succeeded(now_ms, 0),
                false => schedule.failed(now_ms),
            }
        }
    }
    n_looks
}

#[test]
fn an_issuer_is_asked_at_once_and_then_every_ten_minutes_with_jitter() {
    for (jitter, pause_ms) in [(0, REFRESH_MS), (u16::MAX, REFRESH_MS + REFRESH_MS / 10)] {
        let mut schedule = Schedule::new(7);
        assert_eq!(schedule.next_ms(), Some(7));
        assert!(schedule.begin(7));
        assert!(!schedule.begin(7), "one look at a time");
        assert_eq!(schedule.next_ms(), None);
        schedule.succeeded(100, jitter);
        assert_eq!(schedule.next_ms(), Some(100 + pause_ms));
        assert!(!schedule.begin(99 + pause_ms));
        assert!(schedule.begin(100 + pause_ms));
    }
}

#[test]
fn a_storm_of_unknown_keys_is_one_look_in_thirty_seconds() {
    for succeeds in [true, false] {
        let mut schedule = Schedule::new(0);
        assert!(schedule.begin(0));
        schedule.succeeded(50, 0);
        let n_looks = looks_in_a_storm(&mut schedule, 100, ASK_MS_MIN - 200, succeeds);
        assert_eq!(n_looks, 0);
        let n_looks = looks_in_a_storm(&mut schedule, ASK_MS_MIN, 10 * ASK_MS_MIN, succeeds);
        assert_eq!(n_looks, 10);
    }
}

#[test]
fn an_unknown_key_is_worth_a_look_unless_there_was_one_a_moment_ago() {
    let mut schedule = Schedule::new(0);
    assert!(schedule.ask(0), "nobody has asked yet");
    assert!(schedule.begin(0));
    assert!(schedule.ask(10), "the look is under way");
    schedule.succeeded(20, 0);
    assert!(!schedule.ask(ASK_MS_MIN - 1), "the keys are known to lack it");
    assert_eq!(schedule.next_ms(), Some(20 + REFRESH_MS));
    assert!(schedule.ask(ASK_MS_MIN));
    assert!(schedule.begin(ASK_MS_MIN));
    schedule.failed(ASK_MS_MIN + 5_000);
    assert!(
        schedule.ask(ASK_MS_MIN + 5_001),
        "who knows what the issuer would have said"
    );
    assert_eq!(schedule.next_ms(), Some(2 * ASK_MS_MIN));
}

#[test]
fn keys_are_believed_for_a_day_without_an_answer() {
    let mut schedule = Schedule::new(0);
    assert!(schedule.begin(0));
    schedule.succeeded(0, 0);
    let mut now_ms = REFRESH_MS;
    while schedule.begin(now_ms) {
        assert!(!schedule.is_stale(now_ms));
        schedule.failed(now_ms);
        now_ms = schedule.next_ms().unwrap();
        if now_ms >= KEEP_MS {
            break;
        }
    }
    assert_eq!(now_ms, KEEP_MS);
    assert!(schedule.is_stale(now_ms));
    schedule.forget();
    assert!(!schedule.is_stale(now_ms));
}
