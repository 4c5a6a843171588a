//! Who is next, by the queue alone.

use super::{NeedKey, Parked, Queue, Ticket};
use crate::arrivals::Arrivals;
use crate::clock::WallClock;
use crate::fixtures::{NOW, config, execution_id};
use crate::keys::{ActionKey, ExecutionKey, NamespaceKey};
use alloc::sync::Arc;
use alloc::vec::Vec;

const ACTION: ActionKey = ActionKey(1);
const ONE: NamespaceKey = NamespaceKey(1);

fn queue(running_max: usize, in_memory_max: usize) -> Queue {
    let mut config = config();
    config.max_running_executions = running_max;
    config.queued_in_memory_max = in_memory_max;
    Queue::new(Arc::new(config))
}

fn enter(queue: &mut Queue, priority: i32, key: u64) -> Ticket {
    queue.enter_at_once(ONE, priority, ExecutionKey(key), NeedKey::NONE)
}

fn park(queue: &mut Queue, priority: i32, key: u64, ticket: &Ticket) {
    let parked = Parked {
        key: ExecutionKey(key),
        namespace: ONE,
        digest: [0; 32],
        priority,
        clock: WallClock::set(NOW),
        due_ms: 1_000,
        need: ticket.need(),
        fetch: None,
    };
    queue.park(
        execution_id(u8::try_from(key).unwrap()),
        parked,
        ticket,
        Arrivals::default(),
    );
}

#[test]
fn the_highest_priority_starts_first_and_the_oldest_among_equals_while_there_are_slots() {
    let mut queue = queue(2, 10);
    let mut tickets: Vec<Ticket> = [(0, 1), (5, 2), (5, 3)]
        .map(|(priority, key)| enter(&mut queue, priority, key))
        .into();
    for (expected, at) in [(2, 1), (3, 1)] {
        assert_eq!(queue.next_to_start(), Some(ExecutionKey(expected)));
        assert_eq!(queue.start(tickets.remove(at)), None);
    }
    assert_eq!((queue.next_to_start(), queue.n_waiting()), (None, 1));
    queue.free_slot(ONE);
    assert_eq!(queue.next_to_start(), Some(ExecutionKey(1)));
}

#[test]
fn what_no_worker_could_begin_is_passed_over_until_one_could() {
    let mut queue = queue(1, 10);
    let first = queue.take_need(&[ACTION], ONE, |_| true);
    let second = queue.take_need(&[ACTION], ONE, |_| true);
    assert!(first.is_new && !second.is_new && second.is_held);
    let tickets = [(1, first), (2, second)]
        .map(|(key, taken)| queue.enter_at_once(ONE, 9, ExecutionKey(key), taken.need));
    let _other = enter(&mut queue, 0, 3);
    assert!(queue.holds_back_for(ACTION));
    assert_eq!(
        (queue.next_to_start(), queue.n_needing(ACTION)),
        (Some(ExecutionKey(3)), 2)
    );
    assert!(queue.switch(ACTION, false).is_empty());
    assert_eq!(queue.next_to_start(), Some(ExecutionKey(1)));
    let [first, second] = tickets;
    assert_eq!(queue.leave(first), None);
    assert_eq!(queue.leave(second).as_deref(), Some(&[ACTION][..]));
}

#[test]
fn what_is_beyond_memory_is_parked_from_the_end_and_is_not_overtaken() {
    let mut queue = queue(1, 1);
    let first = enter(&mut queue, 5, 1);
    let last = enter(&mut queue, 0, 2);
    assert_eq!(queue.next_to_park(), Some(ExecutionKey(2)));
    park(&mut queue, 0, 2, &last);
    assert_eq!((queue.next_to_park(), queue.n_parked()), (None, 1));
    assert!(!queue.is_open(ONE));
    queue.leave(first);
    let behind = enter(&mut queue, 0, 3);
    assert_eq!(queue.next_to_start(), None);
    assert_eq!(queue.next_to_park(), Some(ExecutionKey(3)));
    queue.pin(&behind);
    assert_eq!(queue.next_to_park(), None);
}

#[test]
fn a_reserved_place_counts_until_it_is_entered_or_given_back() {
    let mut queue = queue(1, 10);
    let reserved = queue.reserve(ONE, 0, ExecutionKey(1), NeedKey::NONE);
    assert!(!queue.is_open(ONE));
    assert_eq!((queue.n_waiting(), queue.next_to_start()), (1, None));
    let entered = queue.enter(reserved);
    assert_eq!(
        (queue.n_waiting(), queue.next_to_start()),
        (1, Some(ExecutionKey(1)))
    );
    queue.leave(entered);
    assert!(queue.is_open(ONE));
}
