//! What a session may not do, and that nobody who only does his work comes near it.

use crate::world::{World, action, in_flight, plan, success, token_of, wide};
use escapement_engine::{
    ActionSpec, FromWorker, InFlight, InFlightPhase, RejectReason, SessionErrorCode, ToWorker,
};
use escapement_model::{AttemptToken, limits};

fn is_limited(world: &mut World, session: u64) -> bool {
    let sent = world.take_sent(session);
    sent.iter().any(|message| {
        matches!(
            message,
            ToWorker::SessionError {
                code: SessionErrorCode::LimitExceeded,
                retry_after_ms: 1_000,
                ..
            }
        )
    })
}

fn chatter(world: &mut World, session: u64, n: usize) -> bool {
    (0..n).for_each(|_| world.say(session, FromWorker::Unknown));
    is_limited(world, session)
}

fn tokens(n: usize) -> Vec<AttemptToken> {
    let token = |n: usize| AttemptToken::new((n as u128).to_be_bytes());
    (0..n).map(token).collect()
}

#[test]
fn a_session_has_a_burst_of_messages_and_no_more() {
    let mut world = World::new();
    world.worker(1, 1, &["a"]);
    assert!(!chatter(&mut world, 1, 1_999), "the hello was one of 2,000");
    assert!(chatter(&mut world, 1, 1));
    assert_eq!(world.closed, [1]);
}

#[test]
fn time_gives_messages_back_up_to_the_burst() {
    let mut world = World::new();
    world.worker(1, 1, &["a"]);
    assert!(!chatter(&mut world, 1, 1_999));
    for _ in 0..10 {
        world.pass(100);
        assert!(!chatter(&mut world, 1, 20), "200 each second");
    }
    world.pass(5);
    assert!(!chatter(&mut world, 1, 1));
    world.pass(4);
    assert!(chatter(&mut world, 1, 1), "not even one too early");
    world.worker(2, 1, &["a"]);
    for _ in 0..20 {
        world.pass(3_000);
        world.alive(2);
    }
    assert!(
        chatter(&mut world, 2, 2_001),
        "a minute of silence saves nothing up"
    );
}

#[test]
fn one_worker_that_floods_harms_no_other() {
    let mut world = World::new();
    world.worker(1, 1, &["a"]);
    world.worker(2, 1, &["a"]);
    chatter(&mut world, 1, 3_000);
    world.run(1, plan(1, &["a"]));
    world.one_assignment(2);
}

#[test]
fn an_honest_worker_at_full_speed_meets_no_limit() {
    let mut world = World::new();
    world.worker(1, 4096, &["a"]);
    let n_plans: u64 = 40;
    for n in 1..=n_plans {
        world.run(n, wide(n, 1_024));
    }
    let mut n_done = 0;
    // Each answer and each outcome a message of its own, the outcome twice; 20 and more steps each millisecond.
    while n_done < n_plans as usize * 1024 {
        let all = world.assignments(1);
        assert!(!all.is_empty(), "stopped after {n_done} steps");
        for batch in all.chunks(20) {
            for item in batch {
                world.started(1, item.token);
                world.complete(1, item.token);
                world.complete(1, item.token);
                n_done += 1;
            }
            world.pass(1);
        }
        world.heartbeat(1, &[]);
        world.log.clear();
    }
    assert!(world.closed.is_empty());
}

#[test]
fn a_worker_that_comes_back_with_everything_meets_no_limit() {
    let mut world = World::new();
    world.worker(1, 4096, &["a"]);
    for n in 1..=4 {
        world.run(n, wide(n, 1_024));
    }
    let had = token_of(&world.assignments(1));
    assert_eq!(had.len(), 4096);
    world.close(1);
    let reported = had.iter().map(|token| in_flight(*token, InFlightPhase::Finished));
    let reported = reported.collect();
    world.hello(2, 1, 4096, vec![action("a")], reported);
    for token in &had {
        world.started(2, *token);
        world.complete(2, *token);
    }
    assert!(world.closed.is_empty());
    assert_eq!(world.replies.len(), 4);
}

#[test]
fn a_worker_that_comes_back_to_another_orchestrator_meets_no_limit() {
    let mut world = World::new();
    let strangers = tokens(4096);
    let reported = strangers
        .iter()
        .map(|token| in_flight(*token, InFlightPhase::Finished));
    let reported = reported.collect();
    world.hello(1, 1, 4096, vec![action("a")], reported);
    // As workers send what is ready: outputs of 16 KiB, a message of 256 KiB after the other.
    for batch in strangers.chunks(16) {
        let items = batch.iter().map(|token| (*token, success())).collect();
        world.outcomes(1, items);
    }
    world.say(
        1,
        FromWorker::AttemptAcks {
            started: vec![],
            rejected: vec![],
            stopped: strangers,
        },
    );
    assert!(world.closed.is_empty());
}

#[test]
fn a_worker_whose_attempts_are_all_cancelled_meets_no_limit() {
    let mut world = World::new();
    world.worker(1, 4096, &["a"]);
    for n in 1..=4 {
        world.run(n, wide(n, 1_024));
    }
    let had = token_of(&world.assignments(1));
    had.iter().for_each(|token| world.started(1, *token));
    for _ in 0..20 {
        world.pass(3_000);
        world.alive(1);
    }
    assert!(world.log_has("send 1 cancels"));
    had.iter().for_each(|token| world.stopped(1, *token));
    assert!(world.closed.is_empty());
    assert_eq!(world.workers()[0].in_flight, 0);
}

#[test]
fn an_assignment_entitles_to_8_messages_and_a_cancel_to_4() {
    let mut world = World::new();
    world.worker(1, 1, &["a"]);
    world.run(1, plan(1, &["a"]).limit(500));
    world.pass(500);
    assert!(world.log_has("send 1 cancels"));
    assert!(!chatter(&mut world, 1, 1_999 + 8 + 4));
    assert!(chatter(&mut world, 1, 1));
}

#[test]
fn what_work_entitled_to_goes_with_the_work() {
    let mut world = World::new();
    world.worker(1, 1024, &["a"]);
    for n in 1..=30 {
        world.run(n, wide(n, 1_024));
        let items = world
            .assignments(1)
            .iter()
            .map(|item| (item.token, success()))
            .collect();
        world.outcomes(1, items);
    }
    world.take_sent(1);
    assert!(!chatter(&mut world, 1, 2_000));
    assert!(chatter(&mut world, 1, 1), "30,720 attempts have ended");
}

#[test]
fn a_message_costs_more_by_what_is_in_it() {
    let names = |n: usize, bytes: usize| -> Vec<ActionSpec> {
        let spec = |n| ActionSpec {
            description: "x".repeat(bytes),
            ..action(&format!("action {n}"))
        };
        (0..n).map(spec).collect()
    };
    let register = |actions| FromWorker::RegisterActions { revision: 0, actions };
    let listed = listed(1_024);
    let messages = [
        (FromWorker::Unknown, 1),
        (register(names(15, 0)), 1),
        (register(names(16, 0)), 2),
        (register(names(1_024, 0)), 1 + 64),
        (register(names(1_024, 1_000)), 1 + 127),
        (
            FromWorker::Capacity {
                revision: 0,
                max_in_flight: 1,
                per_action: (0..1_024).map(|n| (format!("{n:0>100}"), 1)).collect(),
            },
            1 + 64 + 6,
        ),
        (
            FromWorker::AttemptAcks {
                started: tokens(1_024),
                rejected: vec![],
                stopped: tokens(1_024),
            },
            1 + 128,
        ),
        (
            FromWorker::Outcomes {
                items: vec![],
                unreadable: vec![vec![7; 16 << 10].into(); 32],
            },
            1 + 34,
        ),
        (
            FromWorker::Snapshot {
                n: 7,
                last_assignment_seq: 0,
                in_flight: listed,
            },
            1 + 64,
        ),
    ];
    for (message, cost) in messages {
        let mut world = World::new();
        world.worker(1, 1, &["a"]);
        world.say(1, message.clone());
        let left = 2_000 - 1 - cost;
        assert!(!chatter(&mut world, 1, left), "{message:?}");
        assert!(chatter(&mut world, 1, 1), "{message:?}");
    }
}

#[test]
fn attempts_that_a_worker_invents_entitle_to_nothing() {
    let mut world = World::new();
    world.hello(1, 1, 1, vec![action("a")], listed(16_000));
    // The snapshot that lists them is answered with a cancel for each.
    let in_flight = tokens(8_000)
        .into_iter()
        .map(|token| in_flight(token, InFlightPhase::Running));
    world.heartbeat(1, &tokens(3));
    world.heartbeat(1, &tokens(3));
    assert!(world.log_has("send 1 snapshot_request"));
    world.say(
        1,
        FromWorker::Snapshot {
            n: 1,
            last_assignment_seq: 0,
            in_flight: in_flight.collect(),
        },
    );
    assert!(world.log_has("send 1 cancels"));
    world.take_sent(1);
    assert!(!chatter(&mut world, 1, 2_000 - 1_001 - 2 + 1 - 501));
    assert!(chatter(&mut world, 1, 1));
}

#[test]
fn a_session_has_at_most_16384_attempts() {
    let mut world = World::new();
    let waiter = |name: &str| ActionSpec {
        waits: true,
        max_in_flight: limits::SESSION_IN_FLIGHT_MAX,
        ..action(name)
    };
    let waiters = ["w", "x", "y", "z"].map(waiter);
    let actions = waiters.into_iter().chain([action("a")]).collect();
    world.hello(1, 1, 4096, actions, vec![]);
    let names: Vec<&str> = ["w", "x", "y", "z", "a"]
        .into_iter()
        .cycle()
        .take(1_020)
        .collect();
    for n in 1..=20 {
        world.run(n, plan(n, &names).at_a_time(1_024));
    }
    assert_eq!(world.workers()[0].in_flight, 16_384);
    let had = token_of(&world.assignments(1));
    world.complete(1, had[0]);
    assert_eq!(world.workers()[0].in_flight, 16_384, "one goes, one comes");
    assert_eq!(world.assignments(1).len(), 1);
}

#[test]
fn lists_have_a_limit() {
    let acks = |started: usize, rejected: usize, stopped: usize| FromWorker::AttemptAcks {
        started: tokens(started),
        rejected: tokens(rejected)
            .into_iter()
            .map(|token| (token, RejectReason::Draining))
            .collect(),
        stopped: tokens(stopped),
    };
    let outcomes = |readable: usize, unreadable: usize| FromWorker::Outcomes {
        items: tokens(readable)
            .into_iter()
            .map(|token| (token, success()))
            .collect(),
        unreadable: vec![vec![1].into(); unreadable],
    };
    let snapshot = |n: usize| FromWorker::Snapshot {
        n: 0,
        last_assignment_seq: 0,
        in_flight: listed(n),
    };
    let at_limit = [
        acks(16_384, 0, 0),
        acks(0, 16_384, 0),
        acks(0, 0, 16_384),
        outcomes(16_384, 0),
        outcomes(8_192, 8_192),
        snapshot(16_384),
    ];
    let over = [
        acks(16_385, 0, 0),
        acks(0, 16_385, 0),
        acks(0, 0, 16_385),
        outcomes(16_385, 0),
        outcomes(8_192, 8_193),
        snapshot(16_385),
    ];
    let at_limit = at_limit.into_iter().map(|message| (message, false));
    for (message, is_over) in at_limit.chain(over.into_iter().map(|message| (message, true))) {
        let mut world = World::new();
        world.worker(1, 1, &["a"]);
        world.say(1, message);
        assert_eq!(is_limited(&mut world, 1), is_over);
    }
}

fn listed(n: usize) -> Vec<InFlight> {
    let item = |token| in_flight(token, InFlightPhase::Finished);
    tokens(n).into_iter().map(item).collect()
}

#[test]
fn a_hello_has_a_limit() {
    for (n, is_over) in [(16_384, false), (16_385, true)] {
        let mut world = World::new();
        world.hello(1, 1, 1, vec![action("a")], listed(n));
        assert_eq!(is_limited(&mut world, 1), is_over);
    }
}
