//! Certificates: what is said of a plan before it runs, and runs that come as close to it as they can.

use crate::story::{Spec, completed, failed, plan, reported, step_id, steps};
use escapement_contract::{
    Certificate, DurationBound, Input, Outcome, Phase, Plan, StepState, validate_plan, validate_request,
};
use escapement_model::opaque::StructBuilder;
use escapement_model::{Opaque, PlanId, Severity};

fn valid(mut spec: Spec) -> Plan {
    validate_plan(std::mem::take(spec.plan())).unwrap()
}

fn certificate(spec: &Spec, n_slots: u32) -> Certificate {
    valid(spec.clone()).certificate(n_slots)
}

/// Duration, what it follows from, attempts.
fn worst(spec: &Spec, n_slots: u32) -> (u64, DurationBound, u64) {
    let certificate = certificate(spec, n_slots);
    (
        certificate.worst_case_duration_ms,
        certificate.duration_bound,
        certificate.worst_case_attempts,
    )
}

/// Returns the critical path as `name ms attempts`.
fn path(spec: &Spec, n_slots: u32) -> Vec<String> {
    let plan = valid(spec.clone());
    let path = plan.certificate(n_slots).critical_path;
    path.iter()
        .map(|critical| {
            let name = crate::story::name_of(plan.step(critical.step).id());
            format!(
                "{name} {} {}",
                critical.worst_case_ms, critical.worst_case_attempts
            )
        })
        .collect()
}

use DurationBound::{PlanLimit, Steps};

//
#[test]
fn the_same_plan_has_the_same_certificate_and_another_plan_has_another_digest() {
    let spec = || steps("a limit=10; b after=a limit=20");
    assert_eq!(certificate(&spec(), 3), certificate(&spec(), 3));
    let digest = |spec: Spec| certificate(&spec, 1).content_digest;
    assert_eq!(
        digest(spec()),
        certificate(&spec(), 3).content_digest,
        "slots are not of the plan"
    );
    let mut upper_case = spec();
    for step in &mut upper_case.plan().steps {
        step.id = step.id.to_uppercase();
    }
    assert_eq!(digest(upper_case), digest(spec()));
    assert_ne!(digest(spec().skip()), digest(spec()));
    let mut again = spec();
    again.plan().id = PlanId::from_random([8; 16]).to_string();
    assert_ne!(digest(again), digest(spec()));
}

//
#[test]
fn a_request_has_the_certificate_of_its_plan_whatever_else_it_says() {
    let digests = [1, 700, 40_000].map(|bytes| {
        let mut spec = steps("a limit=10; b after=a").at_a_time(2);
        spec.plan().steps[0].payload = Some(StructBuilder::new().text("k", &"x".repeat(bytes)).build());
        let mut said_more = spec.clone();
        said_more.0.user_id = Some("somebody".into());
        let certificate = certificate(&spec, 2);
        for Spec(draft) in [spec, said_more] {
            let request = validate_request(draft, 2).unwrap();
            assert_eq!(*request.certificate(), certificate, "{bytes} bytes");
        }
        certificate.content_digest
    });
    assert!(digests[0] != digests[1] && digests[1] != digests[2]);
}

//
#[test]
fn a_certificate_has_the_canonical_order() {
    let spec = steps("a after=c; b; c limit=7");
    let plan = valid(spec);
    let certificate = plan.certificate(2);
    assert_eq!(certificate.canonical_order, plan.canonical_order());
    let order: Vec<_> = certificate
        .canonical_order
        .iter()
        .map(|step| plan.step(*step).id())
        .collect();
    assert_eq!(order, ["b", "c", "a"].map(step_id));
    assert_eq!(certificate.max_concurrent_steps, 2);
}

//
#[test]
fn a_chain_takes_as_long_as_its_steps_however_many_slots_there_are() {
    let spec = steps("a limit=100; b after=a limit=200; c after=b limit=300");
    for n_slots in [1, 2, 3, 1024] {
        assert_eq!(worst(&spec, n_slots), (600, Steps, 3), "{n_slots} slots");
        assert_eq!(path(&spec, n_slots), ["a 100 1", "b 200 1", "c 300 1"]);
    }
}

//
#[test]
fn fewer_slots_than_steps_take_longer_and_more_do_not_help() {
    let spec = steps("a limit=100; b limit=60; c limit=50");
    assert_eq!(worst(&spec, 1).0, 210);
    // (210 + 100) / 2
    assert_eq!(worst(&spec, 2).0, 155);
    assert_eq!(worst(&spec, 3).0, 100);
    assert_eq!(worst(&spec, 1024), (100, Steps, 3));
    assert_eq!(
        path(&spec, 2),
        ["a 100 1"],
        "the longest chain, not what takes longest"
    );
}

//
#[test]
fn a_plan_of_few_chains_needs_few_slots() {
    // b and c after a, d after both, e before c: two chains have all five.
    let spec = steps("a limit=10; b after=a limit=50");
    let spec = spec
        .step("e")
        .after(&["a"])
        .limit(20)
        .step("c")
        .after(&["a", "e"])
        .limit(20);
    let spec = spec.step("d").after(&["b", "c"]).limit(5);
    assert_eq!(worst(&spec, 1).0, 105);
    for n_slots in [2, 3, 5, 9] {
        assert_eq!(worst(&spec, n_slots).0, 65, "{n_slots} slots");
    }
    // A third one that may run beside them makes steps wait for two slots: (125 + 65) / 2.
    let spec = spec.step("f").limit(20);
    assert_eq!(worst(&spec, 2).0, 95);
    assert_eq!(worst(&spec, 3).0, 65);
}

// with several slots the longest durations are not the worst ones.
#[test]
fn a_step_that_ends_early_can_make_the_plan_end_later_and_the_bound_holds() {
    let spec = || {
        let spec = steps("a limit=20; b limit=20; c after=a limit=10");
        spec.step("d")
            .after(&["a"])
            .limit(40)
            .step("e")
            .limit(20)
            .at_a_time(2)
    };
    let takes = |b_takes: u64| {
        let durations = [("a", 20), ("b", b_takes), ("c", 10), ("d", 40), ("e", 20)];
        let mut story = spec().running();
        let mut ends: Vec<(u64, &str)> = Vec::new();
        for now_ms in 0.. {
            // One ms before its limit a step has not exceeded it.
            story.at(now_ms);
            let ended: Vec<&str> = ends
                .iter()
                .filter(|(at, _)| *at == now_ms)
                .map(|(_, name)| *name)
                .collect();
            for name in ended {
                story.complete(name);
            }
            for (name, takes) in durations {
                if matches!(story.state(name), StepState::Waiting { .. }) {
                    story.hand(name);
                    ends.push((now_ms + takes - 1, name));
                }
            }
            if story.execution.phase() == Phase::Settling {
                return now_ms;
            }
        }
        unreachable!()
    };
    let (longest, shorter) = (takes(20), takes(10));
    assert!(longest < shorter, "{longest} {shorter}");
    // (110 + 60) / 2
    assert_eq!(worst(&spec(), 2).0, 85);
    assert!(shorter <= 85);
}

//
#[test]
fn all_attempts_and_delays_count_and_a_run_can_reach_the_bound() {
    let spec = steps("a retry limit=100; b skip limit=30").attempts(3, 40, &["STEP_TIMEOUT"]);
    assert_eq!(worst(&spec, 1), (3 * 100 + 2 * 40 + 30, Steps, 4));
    assert_eq!(path(&spec, 1), ["a 380 3"]);
    let mut story = spec.running();
    for attempt_starts_at in [0, 140, 280] {
        story.at(attempt_starts_at).tick().hand("a");
    }
    story.at(380).tick().hand("b");
    story.at(409).tick();
    assert_eq!(story.execution.phase(), Phase::Running);
    story.at(410).tick();
    assert_eq!(story.execution.phase(), Phase::Settling);
}

//
#[test]
fn what_is_never_attempted_again_counts_once() {
    let once = (100, Steps, 1);
    assert_eq!(worst(&steps("a limit=100").attempts(9, 9, &["*"]), 1), once);
    assert_eq!(worst(&steps("a skip limit=100").attempts(9, 9, &["*"]), 1), once);
    assert_eq!(worst(&steps("a retry limit=100").attempts(9, 9, &[]), 1), once);
    assert_eq!(
        worst(&steps("a retry limit=100").attempts(9, 9, &["PLAN_TIMEOUT"]), 1),
        once
    );
    assert_eq!(worst(&steps("a retry limit=100").attempts(1, 9, &["*"]), 1), once);
    for code in [
        "*",
        "STEP_TIMEOUT",
        "EXECUTION_HALTED",
        "WORKER_LOST",
        "ANY_OTHER",
    ] {
        let spec = steps("a retry limit=100").attempts(2, 9, &[code]);
        assert_eq!(worst(&spec, 1), (209, Steps, 2), "{code}");
    }
}

//
#[test]
fn a_step_without_a_limit_leaves_the_limit_of_the_plan() {
    let spec = steps("a limit=10; b after=a; c limit=10");
    for n_slots in [1, 2, 3] {
        assert_eq!(worst(&spec, n_slots), (1000, PlanLimit, 3));
    }
    assert_eq!(path(&spec, 3), ["a 10 1", "b 1000 1"]);
    assert_eq!(certificate(&spec, 3).critical_path_ms, 1010);
}

//
#[test]
fn where_both_end_together_the_limit_of_the_plan_comes_first() {
    assert_eq!(worst(&steps("a limit=999"), 1), (999, Steps, 1));
    let spec = steps("a limit=1000");
    assert_eq!(worst(&spec, 1), (1000, PlanLimit, 1));
    let mut story = spec.running();
    story.hand("a").at(1000).tick();
    assert_eq!(story.error().code, "PLAN_TIMEOUT");
}

//
#[test]
fn waiting_for_workers_and_attempts_given_back_do_not_count() {
    let spec = steps("a limit=100");
    assert_eq!(worst(&spec, 1), (100, Steps, 1));
    let mut story = spec.queued();
    story.ok(Input::Start);
    // The start is being written for 50 ms, a worker comes after 50 ms more and gives the attempt back 50 ms later.
    story.at(50).ok(Input::StartPersisted);
    story.at(100).assign("a");
    story
        .at(150)
        .give_back("a", escapement_contract::Evidence::Released)
        .assign("a");
    story.at(249).tick();
    assert_eq!(story.execution.phase(), Phase::Running);
    story.at(250).tick();
    assert_eq!(story.error().code, "STEP_TIMEOUT");
}

//
#[test]
fn the_largest_numbers_do_not_overflow() {
    let spec = || {
        let mut spec = plan();
        for n in 0..1024 {
            spec = spec.step(&format!("{n}")).retry().limit(i64::MAX);
            if n > 0 {
                spec = spec.after(&[&format!("{}", n - 1)]);
            }
        }
        spec.attempts(i32::MAX, i64::MAX, &["*"])
    };
    let mut without_end = spec();
    without_end.plan().timeout_ms = Some(i64::MAX);
    without_end.plan().retry_policy.as_mut().unwrap().max_backoff_ms = Some(i64::MAX);
    for n_slots in [1, 2, 1024, u32::MAX] {
        assert_eq!(worst(&spec(), n_slots), (1000, PlanLimit, 1024 * i32::MAX as u64));
        let certificate = certificate(&without_end, n_slots);
        let largest = i64::MAX as u64;
        assert_eq!(certificate.worst_case_duration_ms, largest);
        assert_eq!(
            (certificate.critical_path_ms, certificate.critical_path.len()),
            (largest, 1024)
        );
        assert_eq!(certificate.critical_path[0].worst_case_ms, largest);
    }
}

//
#[test]
fn no_result_has_more_than_sixteen_mebibytes() {
    let mut spec = plan();
    for n in 0..1024 {
        spec = spec.step(&format!("{n}")).retry();
    }
    let keys: Vec<String> = (0..1024).map(|n| format!("{n:0>4}").repeat(63)).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let spec = spec.attempts(i32::MAX, 0, &["*"]).requires(&keys);
    let bytes = certificate(&spec, 1024).worst_case_result_bytes;
    assert!((15 << 20..=16 << 20).contains(&bytes), "{bytes}");
    // One step cannot fill it.
    let bytes = certificate(&steps("a"), 1).worst_case_result_bytes;
    assert!((1 << 20..(1 << 20) + 256).contains(&bytes), "{bytes}");
}

/// Returns an object of so many bytes.
fn object_of(bytes: usize) -> Opaque {
    let object = |n_letters: usize| StructBuilder::new().text("k", &"x".repeat(n_letters)).build();
    let sizes = (0..32).map(|around| object(bytes - around));
    sizes.into_iter().find(|object| object.len() == bytes).unwrap()
}

//
#[test]
fn the_limit_of_a_result_is_not_far_above_what_workers_can_make_of_it() {
    // What `result_bytes` mirrors, on the side of the objects: the context with all errors, and two causes.
    let widest = "\u{10ffff}";
    let context = object_of(16 << 10);
    let failure = |code: &str| {
        Outcome::Failed(escapement_contract::Reported {
            message: widest.repeat(1000),
            context: context.clone(),
            ..reported(code, Some(Severity::Error))
        })
    };
    let spec = steps("a retry").attempts(40, 0, &["*"]);
    let mut story = spec.clone().running();
    for _ in 0..40 {
        story.end("a", failure(&widest.repeat(50)));
    }
    let error = story.error();
    let cause = error.cause.as_ref().unwrap();
    let bytes = error.context.len() + cause.context.len() + 2 * (4000 + 200);
    let bound = usize::try_from(certificate(&spec, 1).worst_case_result_bytes).unwrap();
    assert!(bytes <= bound && bound < bytes + bytes / 3, "{bytes} {bound}");
    // A completed plan has no error: the largest output is all.
    let output = object_of(1 << 20);
    let spec = steps("a");
    let mut story = spec.clone().running();
    story.end("a", Outcome::completed(output));
    let bytes = story.settle().result_payload.len();
    let bound = usize::try_from(certificate(&spec, 1).worst_case_result_bytes).unwrap();
    assert!(bytes <= bound && bound < bytes + 128, "{bytes} {bound}");
}

//
#[test]
fn steps_that_cannot_run_have_errors_without_attempts() {
    let spec = steps("a skip; b after=a skip; c after=b skip");
    let mut story = spec.clone().running();
    story.end("a", failed("BUSY", None));
    assert_eq!(story.trace(), ["BUSY@a#1", "STEP_SKIPPED@b", "STEP_SKIPPED@c"]);
    assert_eq!(certificate(&spec, 1).worst_case_attempts, 3);
    let mut story = spec.running();
    for name in ["a", "b", "c"] {
        story.end(name, completed(name));
    }
    assert_eq!(story.settle().steps_executed, 3);
}
