//! Limits of steps, plans and simulations, ties between them, and times beyond all bounds.

use crate::scene::{T0, ends, execution_id, failed, plan, takes};
use escapement_contract::{AUDIT_ENTRIES_MAX, AuditKind, Reported};
use escapement_model::Opaque;
use escapement_simulator::{End, TooLong, simulate};
use std::time::{Duration, Instant};

//
#[test]
fn an_outcome_at_the_instant_of_a_limit_is_late() {
    let step = |takes_ms| plan().step("a limit=100").stub([takes(7, takes_ms)]).play();
    assert_eq!(step(99).result(), "success 1/1 at 106");
    assert_eq!(step(100).result(), "failure 0/1 STEP_TIMEOUT at 107");
    let whole = |takes_ms| plan().step("a").stub([takes(0, takes_ms)]).play();
    assert_eq!(whole(999).result(), "success 1/1 at 999");
    assert_eq!(whole(1000).result(), "failure 0/1 PLAN_TIMEOUT at 1000");
}

//
#[test]
fn what_a_withdrawn_attempt_would_have_said_is_never_heard() {
    let scene = plan()
        .attempts(2, 0, &["STEP_TIMEOUT"])
        .step("a retry limit=100")
        .stub([takes(0, 150), takes(0, 90)]);
    let played = scene.play();
    assert_eq!(played.result(), "success 1/1 at 190");
    played.says(
        "0 a#1 step_waiting attempt_assigned attempt_started, 100 a#1 attempt_failed, \
         100 a#2 retry_scheduled step_waiting attempt_assigned attempt_started, \
         190 a#2 step_completed",
    );
}

//
#[test]
fn a_halt_stops_attempts_that_run_and_attempts_that_wait() {
    let scene = plan()
        .at_a_time(3)
        .step("a")
        .stub([ends(0, 50, failed("BROKEN"))])
        .step("b")
        .stub([takes(0, 60)])
        .step("c")
        .stub([takes(60, 0)]);
    let played = scene.play();
    assert_eq!(played.result(), "failure 0/3 BROKEN at 50");
    assert_eq!(
        played.spans(&scene),
        [
            "a#1 running 0..50 BROKEN",
            "b#1 running 0..50 stopped",
            "c#1 waiting 0..50",
        ]
    );
}

#[test]
fn a_wait_does_not_count_against_the_limit_of_a_step() {
    let scene = plan().step("a limit=10").stub([takes(500, 9)]);
    assert_eq!(scene.play().result(), "success 1/1 at 509");
}

//
#[test]
fn a_deadline_that_leaves_no_time_ends_the_simulation_at_its_start() {
    for deadline in [i64::MIN, T0 - 1, T0, T0 + 999] {
        let mut scene = plan().step("a");
        scene.draft.deadline_ms = Some(deadline);
        assert_eq!(scene.play().result(), "failure 0/1 DEADLINE_EXCEEDED at 0");
    }
    let mut scene = plan().step("a");
    scene.draft.deadline_ms = Some(T0 + 1000);
    assert_eq!(scene.play().result(), "success 1/1 at 0");
}

#[test]
fn thirty_days_take_milliseconds() {
    let day_ms = 86_400_000;
    let scene = plan()
        .plan_limit(31 * day_ms)
        .attempts(720, 3_600_000, &["NOT_YET"])
        .step("poll retry")
        .stub(std::iter::repeat_n(ends(0, 1_000, failed("NOT_YET")), 600).chain([takes(0, 1_000)]))
        .step("rest after=poll")
        .stub([takes(0, 5 * day_ms as u64)]);
    let before = Instant::now();
    let played = scene.play();
    let took = before.elapsed();
    let expected = 600 * 3_600_000 + 601 * 1_000 + 5 * day_ms;
    assert_eq!(played.result(), format!("success 2/2 at {expected}"));
    assert!(expected > 30 * day_ms);
    // Played twice and replayed, without optimization.
    assert!(took < Duration::from_secs(2), "{took:?}");
}

#[test]
fn a_loop_without_end_ends_by_the_limit_of_inputs() {
    let endless = plan()
        .attempts(i32::MAX, 0, &["*"])
        .step("a retry")
        .stub([ends(0, 0, failed("AGAIN"))]);
    assert_eq!(
        endless.clone().inputs_max(50_000).try_play().unwrap_err(),
        TooLong { inputs_max: 50_000 }
    );
    let returned = plan().step("a").stub([ends(0, 0, End::Returned)]);
    let too_long = returned.inputs_max(50_000).try_play().unwrap_err();
    assert!(
        too_long
            .to_string()
            .starts_with("the simulation has more than 50000 inputs")
    );
}

#[test]
fn the_limit_of_inputs_is_kept_exactly() {
    let scene = plan().step("a");
    let n_inputs = scene.play().0.n_inputs;
    assert!(scene.clone().inputs_max(n_inputs).try_play().is_ok());
    for inputs_max in 0..n_inputs {
        let too_long = scene.clone().inputs_max(inputs_max).try_play();
        assert_eq!(too_long.unwrap_err(), TooLong { inputs_max });
    }
}

#[test]
fn diagnostic_data_counts_against_the_limit_of_inputs() {
    let with_context = |context| {
        let end = End::Failed(Reported {
            code: "BUSY".into(),
            context,
            ..Reported::default()
        });
        plan()
            .attempts(5, 0, &["*"])
            .step("a retry")
            .stub([ends(0, 0, end)])
    };
    let n_inputs = with_context(Opaque::default()).play().0.n_inputs;
    // What is dropped counts as much as the most that is kept.
    for (bytes, n_more) in [(63, 0), (64, 1), (6_400, 100), (16 << 10, 256), (1 << 20, 256)] {
        let context = Opaque::from_encoded([10, 0].repeat(bytes / 2).into());
        assert!(context.len().abs_diff(bytes) <= 1);
        let scene = with_context(context);
        let n_needed = n_inputs + 5 * n_more;
        assert_eq!(scene.clone().inputs_max(n_needed).play().0.n_inputs, n_inputs);
        assert!(scene.inputs_max(n_needed - 1).try_play().is_err());
    }
}

//
#[test]
fn where_the_record_leaves_out_attempts_the_timeline_is_cut() {
    let scene = plan()
        .plan_limit(1_000_000)
        .attempts(5_000, 1, &["*"])
        .step("a retry")
        .stub([ends(0, 1, failed("AGAIN"))]);
    let played = scene.play();
    assert_eq!(played.result(), "failure 0/1 AGAIN at 9999");
    let audit = &played.0.settlement.audit;
    assert!(audit.len() > AUDIT_ENTRIES_MAX);
    let timeline = &played.0.timeline;
    assert!(timeline.is_cut);
    // Five entries and two spans for each attempt; a wait of no time has no span.
    let n_attempts = AUDIT_ENTRIES_MAX / 5;
    assert!(
        timeline.spans.len().abs_diff(2 * n_attempts) <= 2,
        "{}",
        timeline.spans.len()
    );
    let last = timeline.spans.last().unwrap();
    let told_until = audit[AUDIT_ENTRIES_MAX - 1].at_unix_ms - T0;
    assert!(last.to_ms <= told_until as u64);
    let shorter = scene.clone().attempts(3_000, 1, &["*"]).play();
    assert!(!shorter.0.timeline.is_cut);
    assert_eq!(shorter.0.timeline.spans.len(), 2 * 3_000 - 1);
}

#[test]
fn times_saturate() {
    let far = i64::MAX;
    let scene = plan()
        .plan_limit(far - T0)
        .attempts(4, far, &["*"])
        .at_a_time(2)
        .step("a retry")
        .limit(far)
        .stub([ends(u64::MAX, 0, failed("X"))])
        .step("b retry")
        .stub([ends(3, u64::MAX, failed("X"))]);
    assert_eq!(
        scene.play().result(),
        format!("failure 0/2 PLAN_TIMEOUT at {}", far - T0)
    );
    for started_at in [1, T0, i64::MAX - 5, i64::MAX, 0, -5, i64::MIN] {
        for deadline in [i64::MIN, 0, i64::MAX] {
            let request = scene.request();
            let simulation = simulate(
                request,
                execution_id(),
                started_at,
                deadline,
                &scene.stubs,
                scene.inputs_max,
            );
            let settlement = simulation.unwrap().settlement;
            let last = settlement.audit.last().unwrap();
            assert!(matches!(last.kind, AuditKind::Settled { .. }));
        }
    }
}
