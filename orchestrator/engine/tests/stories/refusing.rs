//! Steps that some workers may not do: who gets them instead, what it costs, and when it is over.

use crate::world::{World, action, plan};
use escapement_contract::{AuditKind, Evidence, Reported, Status, StepReason};
use escapement_engine::{Assignment, AttemptReport, CallerId, ExplainAnswer, FromWorker, Input};
use escapement_model::{AttemptToken, Opaque, Severity};

fn refused(worker: u64) -> AttemptReport {
    AttemptReport::Refused(Reported {
        code: "NOT_ALLOWED".into(),
        message: format!("not at worker {worker}"),
        severity: Some(Severity::Error),
        context: Opaque::default(),
    })
}

/// The worker begins the attempt and says that it may not do it.
fn refuse(world: &mut World, session: u64, token: AttemptToken) {
    world.started(session, token);
    let items = vec![(token, refused(session))];
    world.outcomes(session, items);
}

//
#[test]
fn what_one_worker_may_not_do_another_one_does() {
    let mut world = World::new();
    world.worker(1, 8, &["a"]);
    world.worker(2, 1, &["a"]);
    world.run(1, plan(1, &["a"]));
    let first = world.one_assignment(1);
    refuse(&mut world, 1, first.token);
    let second = world.one_assignment(2);
    assert_eq!((second.step, second.attempt), (first.step, 1), "uncounted");
    world.complete(2, second.token);
    assert_eq!(world.status(1), Status::Success);
    assert_eq!(world.evidence(1), ["refused"]);
    assert!(world.workers().iter().all(|worker| worker.in_flight == 0));
}

//
#[test]
fn what_each_worker_has_refused_ends_with_the_last_refusal() {
    let mut world = World::new();
    for session in 1..=3 {
        world.worker(session, 8, &["a"]);
    }
    world.worker(4, 8, &["b"]);
    world.run(1, plan(1, &["a"]));
    for session in 1..=3 {
        let token = world.one_assignment(session).token;
        refuse(&mut world, session, token);
    }
    let error = world.settlement(1).result.error.clone().unwrap();
    assert_eq!(
        (&*error.code, &*error.message),
        ("NOT_ALLOWED", "not at worker 3")
    );
    assert_eq!(world.evidence(1), ["refused"; 2]);
}

//
#[test]
fn a_refused_step_waits_for_the_worker_that_is_busy_and_holds_nobody_up() {
    let mut world = World::new();
    world.worker(1, 1, &["a"]);
    world.worker(2, 1, &["a"]);
    world.run(1, plan(1, &["a"]));
    world.run(2, plan(2, &["a"]));
    let (refusing, busy) = (world.one_assignment(1).token, world.one_assignment(2).token);
    let id = world.id();
    world.run(
        3,
        plan(3, &["a"]).draft(|draft| draft.execution_id = Some(id.to_string())),
    );
    refuse(&mut world, 1, refusing);
    // The one behind it passes, and is refused as well.
    let third = world.one_assignment(1);
    refuse(&mut world, 1, third.token);
    assert!(world.assignments(1).is_empty(), "never again to the same worker");
    let ExplainAnswer::Live(explained) = crate::explaining::ask(&mut world, id) else {
        panic!("it is explained")
    };
    let StepReason::Waiting { queue, returned, .. } = &explained.explanation.steps[0].why else {
        panic!("it waits")
    };
    assert_eq!(*returned, Some(Evidence::Refused));
    let queue = queue.unwrap();
    assert_eq!((queue.n_workers, queue.n_before), (2, 1));
    world.complete(2, busy);
    let first = world.one_assignment(2);
    world.complete(2, first.token);
    let last = world.one_assignment(2);
    world.complete(2, last.token);
    for caller in 1..=3 {
        assert_eq!(world.status(caller), Status::Success);
    }
}

//
#[test]
fn a_worker_without_its_stream_is_waited_for_and_one_that_drains_is_not() {
    let (mut world, Assignment { token: held, .. }) = World::with_one(1);
    world.started(1, held);
    world.close(1);
    world.worker(2, 1, &["a"]);
    world.run(2, plan(2, &["a"]));
    let token = world.one_assignment(2).token;
    refuse(&mut world, 2, token);
    assert!(
        !world.replies.contains_key(&2),
        "it waits for the one that may come back"
    );
    world.worker(3, 1, &["a"]);
    world.say(3, FromWorker::Drain);
    let token = world.one_assignment(3);
    refuse(&mut world, 3, token.token);
    assert!(!world.replies.contains_key(&2));
}

//
#[test]
fn one_attempt_is_refused_sixteen_times_at_the_most() {
    let mut world = World::new();
    let sessions = 1..=40;
    for session in sessions.clone() {
        world.worker(session, 8, &["a"]);
    }
    world.run(1, plan(1, &["a"]));
    let mut n_refused = 0;
    // The least loaded comes first, and of those the oldest session.
    for session in sessions {
        for assignment in world.assignments(session) {
            refuse(&mut world, session, assignment.token);
            n_refused += 1;
        }
    }
    assert_eq!(n_refused, 16);
    let settlement = world.settlement(1);
    assert_eq!(settlement.result.error.as_ref().unwrap().code, "NOT_ALLOWED");
    let is_of_attempt = |kind: &AuditKind| {
        matches!(
            kind,
            AuditKind::AttemptAssigned { .. }
                | AuditKind::AttemptStarted { .. }
                | AuditKind::AttemptReturned { .. }
        )
    };
    let n_entries = settlement
        .audit
        .iter()
        .filter(|entry| is_of_attempt(&entry.kind))
        .count();
    assert_eq!(n_entries, 16 * 3 - 1);
}

//
#[test]
fn a_process_that_refused_is_not_asked_again_under_its_next_session() {
    let mut world = World::new();
    world.hello(1, 1, 1, vec![action("a")], vec![]);
    world.hello(2, 2, 1, vec![action("a")], vec![]);
    world.run(1, plan(1, &["a"]));
    world.run(2, plan(2, &["a"]));
    let (token, busy) = (world.one_assignment(1).token, world.one_assignment(2).token);
    refuse(&mut world, 1, token);
    world.close(1);
    world.hello(3, 1, 1, vec![action("a")], vec![]);
    assert!(world.assignments(3).is_empty());
    world.complete(2, busy);
    let token = world.one_assignment(2).token;
    world.complete(2, token);
    assert_eq!(world.status(1), Status::Success);
}

//
#[test]
fn each_attempt_asks_anew() {
    let mut world = World::new();
    world.worker(1, 1, &["a"]);
    world.run(1, plan(1, &["a"]).retry(&["NOT_ALLOWED"]));
    for attempt in 1..=3 {
        let assignment = world.one_assignment(1);
        assert_eq!(assignment.attempt, attempt);
        refuse(&mut world, 1, assignment.token);
    }
    assert_eq!(world.code(1), "NOT_ALLOWED");
    assert!(world.evidence(1).is_empty());
}

//
#[test]
fn the_limits_of_the_plan_run_on_and_that_of_the_step_begins_anew() {
    let mut world = World::new();
    world.worker(1, 1, &["a"]);
    world.worker(2, 1, &["a"]);
    let request = plan(1, &["a"]).plan(|plan| {
        plan.timeout_ms = Some(1_000);
        plan.steps[0].timeout_ms = Some(600);
    });
    world.run(1, request);
    let first = world.one_assignment(1);
    world.pass(500);
    refuse(&mut world, 1, first.token);
    let second = world.one_assignment(2);
    assert_eq!(second.timeout_ms, 500);
    world.pass(500);
    assert_eq!(world.code(1), "PLAN_TIMEOUT");
    refuse(&mut world, 2, second.token);
}

//
#[test]
fn a_refusal_may_come_without_a_session() {
    let (mut world, Assignment { token, .. }) = World::with_one(1);
    world.worker(2, 1, &["a"]);
    let items = vec![(token, refused(1))];
    world.input(Input::ReportOutcomes {
        caller: CallerId(9).into(),
        items,
    });
    world.stopped(1, token);
    assert!(world.assignments(1).is_empty());
    let second = world.one_assignment(2);
    world.complete(2, second.token);
    assert_eq!(world.status(1), Status::Success);
}
