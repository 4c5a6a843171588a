//! What a session may not do, and that nobody who only does his work comes near it.

use crate::world::{World, action, plan, token_of};
use escapement_contract::Outcome;
use escapement_engine::{
    ActionSpec, AttemptReport, FromWorker, InFlight, InFlightPhase, Input, RejectReason, SessionErrorCode,
    SessionKey, ToWorker, WaitFor,
};
use escapement_model::{AttemptToken, Opaque, limits};

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

fn success() -> AttemptReport {
    AttemptReport::Outcome(Outcome::Completed {
        output: Opaque::default(),
        warnings: Vec::new(),
    })
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
    for n in 0..20 {
        world.pass(3_000);
        let in_flight_hash = None;
        world.say(2, FromWorker::Heartbeat { n, in_flight_hash });
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
    world.submit(1, &plan(1, &["a"]).build(), WaitFor::Settled);
    world.one_assignment(2);
}

fn wide(n: u64) -> std::sync::Arc<escapement_contract::Request> {
    plan(n, &vec!["a"; 1024])
        .draft(|draft| draft.max_concurrent_steps = Some(1_024))
        .build()
}

#[test]
fn an_honest_worker_at_full_speed_meets_no_limit() {
    let mut world = World::new();
    world.worker(1, 4096, &["a"]);
    let n_plans: u64 = 40;
    for n in 1..=n_plans {
        world.submit(n, &wide(n), WaitFor::Settled);
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
        world.submit(n, &wide(n), WaitFor::Settled);
    }
    let had = token_of(&world.assignments(1));
    assert_eq!(had.len(), 4096);
    world.input(Input::SessionClosed(SessionKey(1)));
    let reported = had.iter().map(|token| InFlight {
        token: *token,
        phase: InFlightPhase::Finished,
    });
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
    let reported = strangers.iter().map(|token| InFlight {
        token: *token,
        phase: InFlightPhase::Finished,
    });
    let reported = reported.collect();
    world.hello(1, 1, 4096, vec![action("a")], reported);
    for token in &strangers {
        world.complete(1, *token);
        world.stopped(1, *token);
    }
    assert!(world.closed.is_empty());
}

#[test]
fn a_worker_whose_attempts_are_all_cancelled_meets_no_limit() {
    let mut world = World::new();
    world.worker(1, 4096, &["a"]);
    for n in 1..=4 {
        world.submit(n, &wide(n), WaitFor::Settled);
    }
    let had = token_of(&world.assignments(1));
    had.iter().for_each(|token| world.started(1, *token));
    for n in 0..20 {
        world.pass(3_000);
        let in_flight_hash = None;
        world.say(1, FromWorker::Heartbeat { n, in_flight_hash });
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
    let request = plan(1, &["a"])
        .plan(|plan| plan.steps[0].timeout_ms = Some(500))
        .build();
    world.submit(1, &request, WaitFor::Settled);
    world.pass(500);
    assert!(world.log_has("send 1 cancels"));
    assert!(!chatter(&mut world, 1, 1_999 + 8 + 4));
    assert!(chatter(&mut world, 1, 1));
}

#[test]
fn what_work_entitles_to_is_bounded() {
    let mut world = World::new();
    world.worker(1, 1024, &["a"]);
    for n in 1..=30 {
        world.submit(n, &wide(n), WaitFor::Settled);
        let items = world
            .assignments(1)
            .iter()
            .map(|item| (item.token, success()))
            .collect();
        world.say(
            1,
            FromWorker::Outcomes {
                items,
                unreadable: vec![],
            },
        );
    }
    world.take_sent(1);
    assert!(!chatter(&mut world, 1, 199_000));
    assert!(
        chatter(&mut world, 1, 1_001),
        "30,720 assignments entitle to no more than 200,000"
    );
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
        let request = plan(n, &names)
            .draft(|draft| draft.max_concurrent_steps = Some(1_024))
            .build();
        world.submit(n, &request, WaitFor::Settled);
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
        acks(65_536, 65_536, 65_536),
        outcomes(65_536, 0),
        outcomes(32_768, 32_768),
        snapshot(65_536),
    ];
    let over = [
        acks(65_537, 0, 0),
        acks(0, 65_537, 0),
        acks(0, 0, 65_537),
        outcomes(65_537, 0),
        outcomes(32_768, 32_769),
        snapshot(65_537),
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
    let item = |token| InFlight {
        token,
        phase: InFlightPhase::Finished,
    };
    tokens(n).into_iter().map(item).collect()
}

#[test]
fn a_hello_has_a_limit() {
    for (n, is_over) in [(65_536, false), (65_537, true)] {
        let mut world = World::new();
        world.hello(1, 1, 1, vec![action("a")], listed(n));
        assert_eq!(is_limited(&mut world, 1), is_over);
    }
}
