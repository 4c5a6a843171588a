#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

extern crate std;

mod random;

use crate::pause::pause_ms;
use crate::{Answer, Came, Cursor, Delivery, Item, Limits, Next, Now};

const DAY_MS: u64 = 86_400_000;
const LIMITS: Limits = Limits {
    pause_max_ms: 14_400_000,
    give_up_after_ms: 3 * DAY_MS,
};
/// The middle between the shortest and the longest pause.
const EVEN: u32 = u32::MAX / 2;

fn at(ms: u64) -> Now {
    Now {
        monotonic_ms: ms,
        unix_ms: 1_700_000_000_000 + i64::try_from(ms).unwrap(),
    }
}

fn id(place: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[8..].copy_from_slice(&place.to_be_bytes());
    bytes
}

fn wanted(place: u64) -> Item<u64> {
    Item {
        place,
        id: Some(id(place)),
        content: Some(place),
    }
}

fn unwanted(place: u64) -> Item<u64> {
    Item {
        content: None,
        ..wanted(place)
    }
}

fn behind(place: u64) -> Cursor {
    Cursor {
        place,
        id: (place > 0).then(|| id(place)),
        refused_since_ms: None,
    }
}

/// Returns a sink that has read these items.
fn with(items: impl IntoIterator<Item = Item<u64>>) -> Delivery<u64> {
    let mut sink = Delivery::new(LIMITS, Cursor::default());
    assert_eq!(sink.poll(at(0)), Next::Read(Cursor::default()));
    sink.handle_page(items);
    sink
}

fn wait(until_ms: Option<u64>, for_news: bool) -> Next<'static, u64> {
    Next::Wait { until_ms, for_news }
}

const FAILED: Answer = Answer::Failed { retry_after_ms: None };

#[test]
fn events_go_one_by_one_and_what_is_not_wanted_is_passed() {
    let mut sink = with([unwanted(1), wanted(2), unwanted(3), wanted(4)]);
    assert_eq!(sink.poll(at(0)), Next::Save(behind(1)));
    sink.handle_saved(true, at(0));
    assert_eq!(sink.poll(at(0)), Next::Deliver(&2));
    assert_eq!(sink.handle_answer(Answer::Taken, at(1), EVEN), Came::Delivered);
    assert_eq!(sink.poll(at(1)), Next::Deliver(&4));
    assert_eq!(sink.handle_answer(Answer::Taken, at(2), EVEN), Came::Delivered);
    assert_eq!(sink.poll(at(2)), Next::Read(behind(4)));
    sink.handle_page([]);
    assert_eq!(
        sink.poll(at(3)),
        wait(Some(1_000), true),
        "a cursor is saved once a second"
    );
    assert_eq!(sink.poll(at(1_000)), Next::Save(behind(4)));
    sink.handle_saved(true, at(1_000));
    assert_eq!(sink.poll(at(1_000)), wait(None, true));
    sink.handle_news();
    assert_eq!(sink.poll(at(1_000)), Next::Read(behind(4)));
}

#[test]
fn a_sink_that_fails_gets_the_same_event_after_growing_pauses() {
    let mut sink = with([wanted(1), wanted(2)]);
    let mut now_ms = 0;
    for pause_ms in [
        5_000, 60_000, 300_000, 1_800_000, 7_200_000, 14_400_000, 14_400_000,
    ] {
        assert_eq!(sink.poll(at(now_ms)), Next::Deliver(&1));
        let came = sink.handle_answer(FAILED, at(now_ms), EVEN);
        let Came::Again { in_ms } = came else {
            panic!("{came:?}")
        };
        assert!(in_ms.abs_diff(pause_ms) <= 1, "{in_ms} and not {pause_ms}");
        assert_eq!(sink.poll(at(now_ms + 1)), wait(Some(now_ms + in_ms), false));
        now_ms += in_ms;
    }
    assert_eq!(sink.poll(at(now_ms)), Next::Deliver(&1));
    sink.handle_answer(Answer::Taken, at(now_ms), EVEN);
    assert_eq!(sink.reached(), behind(1));
    assert_eq!(sink.poll(at(now_ms)), Next::Save(behind(1)));
    sink.handle_saved(true, at(now_ms));
    assert_eq!(sink.poll(at(now_ms)), Next::Deliver(&2));
    let came = sink.handle_answer(FAILED, at(now_ms), 0);
    assert_eq!(
        came,
        Came::Again { in_ms: 4_000 },
        "the next event begins with the shortest"
    );
}

#[test]
fn pauses_are_spread_by_a_fifth_and_bounded() {
    let pause = |max, chance| {
        let limits = Limits {
            pause_max_ms: max,
            ..LIMITS
        };
        pause_ms(limits, 2, None, chance)
    };
    assert_eq!((pause(DAY_MS, 0), pause(DAY_MS, u32::MAX)), (48_000, 72_000));
    assert_eq!((pause(100, 0), pause(100, u32::MAX)), (80, 120));
}

#[test]
fn a_sink_that_asks_for_a_pause_gets_it_up_to_an_hour() {
    for (asked_ms, got_ms) in [(0, 5_000), (30_000, 30_000), (u64::MAX, 3_600_000)] {
        let mut sink = with([wanted(1)]);
        let _event = sink.poll(at(0));
        let asked = Answer::Failed {
            retry_after_ms: Some(asked_ms),
        };
        assert_eq!(
            sink.handle_answer(asked, at(0), EVEN),
            Came::Again { in_ms: got_ms }
        );
    }
}

#[test]
fn an_event_that_is_refused_for_long_is_given_up_also_across_restarts() {
    let mut sink = with([wanted(1), wanted(2)]);
    let _event = sink.poll(at(0));
    assert!(matches!(
        sink.handle_answer(Answer::Refused, at(0), EVEN),
        Came::Again { .. }
    ));
    let Next::Save(saved) = sink.poll(at(0)) else {
        panic!("the refusal is saved")
    };
    // Another process, which knows what was saved alone.
    let mut sink = Delivery::new(LIMITS, saved);
    assert_eq!(sink.poll(at(DAY_MS)), Next::Read(saved));
    sink.handle_page([wanted(1), wanted(2)]);
    let _event = sink.poll(at(3 * DAY_MS - 1));
    let again = sink.handle_answer(Answer::Refused, at(3 * DAY_MS - 1), EVEN);
    assert!(matches!(again, Came::Again { .. }));
    let _event = sink.poll(at(4 * DAY_MS));
    assert_eq!(
        sink.handle_answer(Answer::Refused, at(4 * DAY_MS), EVEN),
        Came::GivenUp
    );
    assert_eq!(sink.poll(at(4 * DAY_MS)), Next::Save(behind(1)));
    sink.handle_saved(true, at(4 * DAY_MS));
    assert_eq!(sink.poll(at(4 * DAY_MS)), Next::Deliver(&2));
}

#[test]
fn an_event_is_never_given_up_because_the_sink_cannot_be_reached() {
    let mut sink = with([wanted(1)]);
    for n in 0..100 {
        assert_eq!(sink.poll(at(n * DAY_MS)), Next::Deliver(&1));
        let came = sink.handle_answer(FAILED, at(n * DAY_MS), EVEN);
        assert!(matches!(came, Came::Again { .. }), "{came:?}");
    }
}

#[test]
fn an_outage_between_two_refusals_is_no_time_of_refusing() {
    let mut sink = with([wanted(1)]);
    let _event = sink.poll(at(0));
    sink.handle_answer(Answer::Refused, at(0), EVEN);
    assert!(matches!(sink.poll(at(0)), Next::Save(_)));
    sink.handle_saved(true, at(0));
    // For four days nobody answers.
    assert_eq!(sink.poll(at(DAY_MS)), Next::Deliver(&1));
    sink.handle_answer(FAILED, at(DAY_MS), EVEN);
    assert_eq!(
        sink.poll(at(DAY_MS)),
        Next::Save(behind(0)),
        "a restart must not count the outage either"
    );
    sink.handle_saved(true, at(DAY_MS));
    assert_eq!(sink.poll(at(4 * DAY_MS)), Next::Deliver(&1));
    let came = sink.handle_answer(Answer::Refused, at(4 * DAY_MS), EVEN);
    assert!(matches!(came, Came::Again { .. }), "{came:?}");
    assert!(matches!(sink.poll(at(4 * DAY_MS)), Next::Save(_)));
    sink.handle_saved(true, at(4 * DAY_MS));
    assert_eq!(sink.poll(at(7 * DAY_MS)), Next::Deliver(&1));
    let came = sink.handle_answer(Answer::Refused, at(7 * DAY_MS), EVEN);
    assert_eq!(came, Came::GivenUp, "three days of refusals alone");
}

#[test]
fn a_sink_that_is_gone_gets_nothing_more() {
    let mut sink = with([wanted(1)]);
    let _event = sink.poll(at(0));
    assert_eq!(sink.handle_answer(Answer::Gone, at(0), EVEN), Came::Disabled);
    sink.handle_news();
    assert_eq!(sink.poll(at(100 * DAY_MS)), wait(None, false));
    assert_eq!(
        sink.reached(),
        Cursor::default(),
        "a reload begins with the same event"
    );
}

#[test]
fn a_cursor_that_cannot_be_saved_holds_no_event_up() {
    let mut sink = with([wanted(1), wanted(2)]);
    let _event = sink.poll(at(0));
    sink.handle_answer(Answer::Taken, at(0), EVEN);
    assert_eq!(sink.poll(at(0)), Next::Save(behind(1)));
    sink.handle_saved(false, at(0));
    assert_eq!(sink.poll(at(0)), Next::Deliver(&2));
    sink.handle_answer(Answer::Taken, at(0), EVEN);
    assert_eq!(sink.unsaved(), Some(behind(2)));
    assert_eq!(sink.poll(at(1_000)), Next::Save(behind(2)));
}

#[test]
fn another_store_is_read_from_its_beginning_once_the_sink_knows() {
    let mut sink = Delivery::new(LIMITS, behind(90));
    assert_eq!(sink.poll(at(0)), Next::Read(behind(90)));
    sink.handle_other_store(3, 0);
    assert_eq!(sink.poll(at(0)), Next::Deliver(&0));
    assert_eq!(sink.reached(), behind(90), "a restart tells it again");
    sink.handle_answer(Answer::Taken, at(0), EVEN);
    let begin = Cursor {
        id: None,
        ..behind(3)
    };
    assert_eq!(sink.poll(at(0)), Next::Save(begin));
    sink.handle_saved(true, at(0));
    assert_eq!(sink.poll(at(0)), Next::Read(begin));
}

#[test]
#[should_panic(expected = "one thing at a time")]
fn two_events_are_never_under_way() {
    let mut sink = with([wanted(1), wanted(2)]);
    let _event = sink.poll(at(0));
    let _another = sink.poll(at(0));
}
