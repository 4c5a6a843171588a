//! The engine with a store that answers at once and workers that follow a script.

use crate::measured_by_callgrind;
use crate::plans::{Shape, action, execution_id};
use crate::world::{Handler, WaitFor, World, recovered, submission, watch};
use escapement_engine::{
    CallerId, ExplainAnswer, FromWorker, InFlight, InFlightPhase, Input, NamespaceKey, NamespaceShare,
    RecoveredParked, Reply, SessionKey,
};

workloads! {
    "engine-one-caller" execution => callers(1, 400);
    "engine-64-callers" execution => callers(64, 512);
    "engine-chain-3" step => plans(Shape::chain(3), 128);
    "engine-chain-64" step => plans(Shape::chain(64), 8);
    "engine-chain-1024" step => plans(Shape::chain(1024), 1);
    "engine-independent-1024" step => plans(Shape::independent(1024), 1);
    "engine-retry-3" attempt => retries();
    "engine-cancel-256" attempt => cancels();
    "engine-watched-chain-64" step => watched();
    "engine-accept-behind-10000" accept => accepts(10_000, 0);
    "engine-accept-behind-10000-parked" accept => accepts(100, 10_000);
    "engine-parked-to-settled" execution => parked_to_settled();
    "engine-recover-parked" execution => recover_parked();
    "engine-parked-of-100-namespaces" execution => parked_of_namespaces();
    "engine-hello" session => hellos();
    "engine-resume-256" attempt => resume();
    "engine-heartbeat-2000" heartbeat => heartbeats();
    "engine-hand-out-beside-busy" attempt => hand_outs();
    "engine-leave-500" caller => leaves(500);
    "engine-leave-8000" caller => leaves(8_000);
    "engine-explain-1024" step => explain(false);
    "engine-explain-1024-words" step => explain(true);
}

/// Executions of one step, submitted by so many callers at once, each of which waits for its result.
fn callers(at_once: u64, n_executions: u64) -> u64 {
    let mut world = World::new(|_| {});
    world.worker(1, 1, 256);
    let requests: Vec<_> = (0..N_WARM + n_executions)
        .map(|n| Shape::chain(1).request(n))
        .collect();
    for first in (0..N_WARM + n_executions).step_by(at_once as usize) {
        world.counts = first >= N_WARM;
        world.now_ms += 1;
        let range = first..first + at_once;
        let submissions = range.map(|n| submission(n, &requests[n as usize], WaitFor::Settled));
        world.inputs(submissions.collect());
    }
    assert_eq!(
        world.n_steps_completed,
        N_WARM + n_executions,
        "every step completes"
    );
    n_executions
}

/// Executions one after the other, from the submission to the result.
fn plans(shape: Shape, n_executions: u64) -> u64 {
    let mut world = World::new(|_| {});
    world.worker(1, 1, 256);
    world.inputs(vec![submission(0, &Shape::chain(1).request(0), WaitFor::Settled)]);
    let requests: Vec<_> = (1..=n_executions).map(|n| shape.request(n)).collect();
    world.counts = true;
    for (n, request) in (1..).zip(&requests) {
        world.now_ms += 1;
        world.inputs(vec![submission(n, request, WaitFor::Settled)]);
    }
    let n_steps = n_executions * shape.steps as u64;
    assert_eq!(world.n_steps_completed, 1 + n_steps, "every step completes");
    n_steps
}

/// Callers that wait for one execution and leave, the last one first.
fn leaves(n_callers: u64) -> u64 {
    let mut world = World::new(|_| {});
    world.inputs(vec![submission(
        1,
        &Shape::chain(1).request(1),
        WaitFor::Accepted,
    )]);
    let callers = 2..2 + n_callers;
    let wait = |n| Input::Wait {
        caller: CallerId(n).into(),
        execution_id: execution_id(1),
    };
    world.inputs(callers.clone().map(wait).collect());
    world.counts = true;
    world.inputs(callers.rev().map(|n| Input::CallerGone(CallerId(n))).collect());
    n_callers
}

/// Returns a chain as in `engine-chain-64`, with somebody who watches: what a step takes more is about what watching costs.
fn watched() -> u64 {
    let shape = Shape::chain(64);
    let mut world = World::new(|_| {});
    world.inputs(vec![submission(1, &shape.request(1), WaitFor::Settled)]);
    let hello = world.hello(1, 1, 256, Vec::new());
    world.counts = true;
    world.inputs(vec![watch(1)]);
    world.inputs(hello);
    assert_eq!(world.n_steps_completed, 64, "every step completes");
    assert!(world.n_entries > 4 * 64, "the watcher sees them");
    64
}

/// Steps that complete at their third attempt.
fn retries() -> u64 {
    let shape = Shape {
        attempts: 3,
        ..Shape::independent(128)
    };
    let mut world = World::new(|_| {});
    world.worker(1, 1, 256);
    world.handler = Handler::FailsBefore(3);
    let request = shape.request(1);
    world.counts = true;
    world.inputs(vec![submission(1, &request, WaitFor::Settled)]);
    while world.n_settled == 0 {
        world.pass();
    }
    assert_eq!(world.n_attempts, 3 * 128, "each step takes three attempts");
    world.n_attempts
}

/// Returns an execution whose time is over while all its steps run: its workers are told, and answer.
fn cancels() -> u64 {
    let mut world = World::new(|_| {});
    world.worker(1, 1, 256);
    world.handler = Handler::Holds;
    world.inputs(vec![submission(
        1,
        &Shape::independent(256).request(1),
        WaitFor::Settled,
    )]);
    world.counts = true;
    while world.n_settled == 0 {
        world.pass();
    }
    assert_eq!(world.n_stopped, 256, "every attempt is stopped");
    world.n_stopped
}

/// Submissions behind a long queue, one by one.
fn accepts(n_queued: u64, n_parked: u64) -> u64 {
    let n_in_memory_max = if n_parked > 0 { n_queued } else { 2 * n_queued };
    let mut world = World::new(|config| {
        config.max_running_executions = 1;
        config.queued_in_memory_max = n_in_memory_max as usize;
    });
    let queued: Vec<_> = (0..=n_queued)
        .map(|n| recovered(n, Shape::chain(1).request(n)))
        .collect();
    // One more than there is room for, until the first has started: the last is parked and read back.
    world.stored = queued
        .last()
        .map(|last| (last.execution_id, last.clone()))
        .into_iter()
        .collect();
    // Without a slot: the first one starts, and nothing ends.
    let worker = world.hello(1, 1, 0, Vec::new());
    world.inputs(worker);
    world.inputs(queued.into_iter().map(Input::Recover).collect());
    let behind = 1 + n_queued..1 + n_queued + n_parked;
    world.inputs(behind.map(|n| parked(n, [n as u8; 32])).collect());
    let first = 1 + n_queued + n_parked;
    let requests: Vec<_> = (first..first + N_ACCEPTED)
        .map(|n| Shape::chain(1).request(n))
        .collect();
    world.counts = true;
    for (n, request) in (first..).zip(&requests) {
        world.now_ms += 1;
        world.inputs(vec![submission(n, request, WaitFor::Accepted)]);
    }
    assert_eq!(world.n_accepted, N_ACCEPTED, "all are accepted");
    N_ACCEPTED
}

/// Executions whose requests stand in the store alone are read, run and settled.
fn parked_to_settled() -> u64 {
    let mut world = World::new(|config| {
        config.max_running_executions = 16;
        config.queued_in_memory_max = 64;
    });
    let stored = (0..N_ACCEPTED).map(|n| recovered(n, Shape::chain(1).request(n)));
    world.stored = stored.map(|one| (one.execution_id, one)).collect();
    let inputs = (0..N_ACCEPTED).map(|n| parked(n, *world.stored[&execution_id(n)].request.digest()));
    let mut inputs: Vec<_> = inputs.collect();
    inputs.extend(world.hello(1, 1, 256, Vec::new()));
    world.counts = true;
    world.inputs(inputs);
    assert_eq!(world.n_settled, N_ACCEPTED, "the queue runs dry");
    N_ACCEPTED
}

/// Executions are read and started while many are parked, by turns of their namespaces.
fn parked_of_namespaces() -> u64 {
    const N_NAMESPACES: u64 = 100;
    const N_PARKED_OF_EACH: u64 = 1_000;
    let mut world = World::new(|config| {
        config.max_running_executions = N_ACCEPTED as usize;
        config.queued_in_memory_max = 64;
    });
    world.handler = Handler::Holds;
    let share = |n, max_running_executions| NamespaceShare {
        max_running_executions,
        ..NamespaceShare::of(NamespaceKey(n))
    };
    let none_runs = (0..N_NAMESPACES).map(|n| share(n, Some(0)));
    let mut inputs = vec![Input::ShareOut(none_runs.collect())];
    for n in 0..N_NAMESPACES * N_PARKED_OF_EACH {
        // Those whose turns come have requests.
        if n % N_PARKED_OF_EACH < 8 {
            let one = recovered(n, Shape::chain(1).request(n));
            world.stored.insert(one.execution_id, one);
        }
        inputs.push(parked_of(NamespaceKey(n / N_PARKED_OF_EACH), n, [n as u8; 32]));
    }
    inputs.extend(world.hello(1, 1, N_ACCEPTED as u32, Vec::new()));
    world.inputs(inputs);
    world.counts = true;
    let all_run = (0..N_NAMESPACES).map(|n| share(n, None));
    world.inputs(vec![Input::ShareOut(all_run.collect())]);
    assert_eq!(world.held.len() as u64, N_ACCEPTED, "so many run");
    N_ACCEPTED
}

fn recover_parked() -> u64 {
    const N_PARKED: u64 = 20_000;
    let mut world = World::new(|_| {});
    let inputs = (0..N_PARKED).map(|n| parked(n, [n as u8; 32])).collect();
    world.recovers(inputs);
    N_PARKED
}

/// Sessions that open beside a hundred others.
fn hellos() -> u64 {
    const N_SESSIONS: u64 = 100;
    let mut world = World::new(|_| {});
    for n in 1..=2 * N_SESSIONS {
        let inputs = world.hello(n, n, 64, Vec::new());
        world.counts = n > N_SESSIONS;
        world.inputs(inputs);
    }
    assert_eq!(world.n_welcomes, 2 * N_SESSIONS, "all are welcome");
    N_SESSIONS
}

/// A worker loses its stream and comes back with everything that it had.
fn resume() -> u64 {
    let mut world = World::new(|_| {});
    world.worker(1, 1, 256);
    world.handler = Handler::Holds;
    let request = Shape::independent(256).request(1);
    world.inputs(vec![submission(1, &request, WaitFor::Settled)]);
    let in_flight = world.held.iter().map(|(_, token)| InFlight {
        token: *token,
        phase: InFlightPhase::Running,
    });
    let in_flight: Vec<_> = in_flight.collect();
    let back = world.hello(2, 1, 256, in_flight);
    world.counts = true;
    world.inputs(vec![Input::SessionClosed(SessionKey(1))]);
    world.inputs(back);
    assert_eq!((world.n_welcomes, world.n_stopped), (2, 0), "it goes on");
    world.held.len() as u64
}

/// Two thousand sessions with nothing to do say that they are there, each once.
fn heartbeats() -> u64 {
    const N_SESSIONS: u64 = 2_000;
    let mut world = World::new(|_| {});
    for n in 1..=N_SESSIONS {
        world.worker(n, n, 64);
    }
    world.counts = true;
    for n in 1..=N_SESSIONS {
        world.now_ms += u64::from(n % 2 == 0) * 3;
        let message = FromWorker::Heartbeat {
            n: 1,
            in_flight_hash: Some([0; 16]),
        };
        let heartbeat = world.says(SessionKey(n), message);
        world.inputs(vec![heartbeat]);
    }
    assert_eq!(world.n_heartbeats, N_SESSIONS, "all are acknowledged");
    N_SESSIONS
}

/// Attempts end one by one while every session is busy and steps wait for every action: each slot is taken again at once.
fn hand_outs() -> u64 {
    const N_SESSIONS: u64 = 200;
    const N_ACTIONS: u64 = 50;
    let mut world = World::new(|_| {});
    world.actions = (1..=N_ACTIONS).map(action).collect();
    for n in 1..=N_SESSIONS {
        world.worker(n, n, 1);
    }
    world.handler = Handler::Holds;
    let submit = |n: u64| {
        let shape = Shape {
            action: 1 + n % N_ACTIONS,
            ..Shape::chain(1)
        };
        submission(n, &shape.request(n), WaitFor::Settled)
    };
    world.inputs((0..N_SESSIONS + 2 * N_ACTIONS).map(submit).collect());
    let held = world.held.clone();
    assert_eq!(held.len() as u64, N_SESSIONS, "all are busy");
    world.counts = true;
    for (session, token) in held.into_iter().take(N_ACTIONS as usize) {
        world.now_ms += 1;
        world.complete(session, token);
    }
    assert_eq!(world.n_attempts, N_SESSIONS + N_ACTIONS, "no slot stays free");
    N_ACTIONS
}

/// Why the steps of a plan wait, of which a worker has a part. The facts are the engine's work, the words the contract's.
fn explain(counts_words: bool) -> u64 {
    let mut world = World::new(|_| {});
    world.worker(1, 1, 64);
    world.handler = Handler::Holds;
    world.inputs(vec![submission(
        1,
        &Shape::independent(1024).request(1),
        WaitFor::Settled,
    )]);
    world.counts = !counts_words;
    world.inputs(vec![Input::Explain {
        caller: CallerId(2).into(),
        execution_id: execution_id(1),
    }]);
    let Some(Reply::Explained(ExplainAnswer::Live(explained))) = world.reply.take() else {
        panic!("what is live is explained");
    };
    let steps = &explained.explanation.steps;
    if counts_words {
        measured_by_callgrind(&mut || {
            let plan = explained.request.plan();
            let words = steps.iter().map(|facts| facts.describe(plan).len());
            words.sum::<usize>() as u64
        });
    }
    steps.len() as u64
}

fn parked(n: u64, request_digest: [u8; 32]) -> Input {
    parked_of(NamespaceKey::default(), n, request_digest)
}

fn parked_of(namespace: NamespaceKey, n: u64, request_digest: [u8; 32]) -> Input {
    let one = RecoveredParked {
        namespace,
        execution_id: execution_id(n),
        request_digest,
        priority: 0,
        deadline_ms: 1_700_003_600_000,
    };
    Input::RecoverParked(one)
}

/// Executions before those that are counted, so that tables have their size.
const N_WARM: u64 = 64;
/// Submissions that are counted if a queue is long.
const N_ACCEPTED: u64 = 200;
