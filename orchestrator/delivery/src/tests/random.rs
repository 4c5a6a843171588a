//! Random sinks over random endings, cut short at random moments: nothing is skipped, everything comes in order, and it ends.

use super::{EVEN, LIMITS, at, id};
use crate::{Answer, Came, Cursor, Delivery, Item, Limits, Next};
use alloc::vec::Vec;
use proptest::prelude::*;

/// What happens at one turn of the driver.
#[derive(Clone, Copy, Debug)]
enum Turn {
    Answer(Answer),
    /// The process is killed before the answer comes.
    Crash,
    /// The sink took it, and the process is killed before it knows.
    CrashBehind,
}

fn turn() -> impl Strategy<Value = Turn> {
    let failed = Answer::Failed { retry_after_ms: None };
    let asked = Answer::Failed {
        retry_after_ms: Some(7_000),
    };
    prop_oneof![
        4 => Just(Turn::Answer(Answer::Taken)),
        2 => Just(Turn::Answer(failed)),
        1 => Just(Turn::Answer(asked)),
        1 => Just(Turn::Answer(Answer::Refused)),
        1 => Just(Turn::Answer(Answer::Gone)),
        1 => Just(Turn::Crash),
        1 => Just(Turn::CrashBehind),
    ]
}

/// A driver in memory, and what the sink saw.
struct World {
    /// True if the sink wants the ending of each place, from 1 on.
    wanted: Vec<bool>,
    page: usize,
    limits: Limits,
    sink: Delivery<u64>,
    saved: Cursor,
    saves_fail: bool,
    now_ms: u64,
    /// Every event that was taken, repeats included.
    taken: Vec<u64>,
    given_up: Vec<u64>,
    n_disabled: u32,
}

impl World {
    fn items(&self, after: u64) -> Vec<Item<u64>> {
        let places = (after + 1..).zip(&self.wanted[usize::try_from(after).unwrap()..]);
        places
            .take(self.page)
            .map(|(place, wanted)| Item {
                place,
                id: Some(id(place)),
                content: wanted.then_some(place),
            })
            .collect()
    }

    fn crash(&mut self) {
        self.sink = Delivery::new(self.limits, self.saved);
    }

    /// One turn; false once nothing is left to do.
    fn turn(&mut self, turn: Turn) -> bool {
        let now = at(self.now_ms);
        match self.sink.poll(now) {
            Next::Save(cursor) => {
                if !self.saves_fail {
                    assert!(cursor.place >= self.saved.place, "a cursor never goes back");
                    self.saved = cursor;
                }
                self.sink.handle_saved(!self.saves_fail, now);
            }
            Next::Read(cursor) => {
                let items = self.items(cursor.place);
                assert!(items.len() <= self.page);
                self.sink.handle_page(items);
            }
            Next::Deliver(place) => {
                let place = *place;
                self.deliver(place, turn);
            }
            Next::Wait {
                until_ms: Some(until_ms),
                ..
            } => self.now_ms = until_ms,
            Next::Wait { until_ms: None, .. } => {
                if self.sink.reached().place == self.wanted.len() as u64 {
                    return false;
                }
                // Disabled: the operator has its file read again.
                self.n_disabled += 1;
                self.crash();
            }
        }
        true
    }

    fn deliver(&mut self, place: u64, turn: Turn) {
        assert!(self.wanted[usize::try_from(place).unwrap() - 1], "it is wanted");
        assert!(
            place > self.saved.place,
            "what is saved as done is not given again"
        );
        match turn {
            Turn::Crash => self.crash(),
            Turn::CrashBehind => {
                self.taken.push(place);
                self.crash();
            }
            Turn::Answer(answer) => match self.sink.handle_answer(answer, at(self.now_ms), EVEN) {
                Came::Delivered => self.taken.push(place),
                Came::GivenUp => self.given_up.push(place),
                Came::Again { .. } | Came::Disabled => {}
            },
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1_000) })]

    #[test]
    fn nothing_is_skipped_and_everything_comes_in_order(
        wanted in prop::collection::vec(any::<bool>(), 0..40),
        page in 1_usize..6,
        turns in prop::collection::vec((turn(), any::<bool>()), 0..200),
        give_up_after_ms in prop_oneof![Just(10_000), Just(LIMITS.give_up_after_ms)],
    ) {
        let limits = Limits { give_up_after_ms, ..LIMITS };
        let mut world = World {
            wanted,
            page,
            limits,
            sink: Delivery::new(limits, Cursor::default()),
            saved: Cursor::default(),
            saves_fail: false,
            now_ms: 0,
            taken: Vec::new(),
            given_up: Vec::new(),
            n_disabled: 0,
        };
        for (turn, saves_fail) in turns {
            world.saves_fail = saves_fail;
            if !world.turn(turn) {
                break;
            }
        }
        // A sink that is well again gets the rest.
        world.saves_fail = false;
        let n_steps_max = 8 * world.wanted.len() + 8;
        let is_done = (0..n_steps_max).any(|_| !world.turn(Turn::Answer(Answer::Taken)));
        prop_assert!(is_done, "it goes on to the end");
        prop_assert_eq!(world.saved.place, world.wanted.len() as u64, "and the end is saved");
        let mut firsts: Vec<u64> = Vec::new();
        for place in world.taken.iter().chain(&world.given_up) {
            if !firsts.contains(place) {
                firsts.push(*place);
            }
        }
        // One that was given up may be tried again after a restart, out of its turn.
        let taken: Vec<u64> = firsts.iter().copied().filter(|place| !world.given_up.contains(place)).collect();
        prop_assert!(taken.is_sorted(), "each for the first time in the order of settling: {:?}", world.taken);
        firsts.sort_unstable();
        let expected: Vec<u64> = (1..).zip(&world.wanted).filter(|(_, wanted)| **wanted).map(|(place, _)| place).collect();
        prop_assert_eq!(firsts, expected, "each wanted event was taken, or given up");
    }
}
