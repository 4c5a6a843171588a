//! Section 4: what an error counts as and what follows from it.

use crate::story::{Story, brief, completed, failed, failure, output, plan, reported, steps, text, value};
use bytes::Bytes;
use escapement_contract::{AuditKind, CAUSE_DEPTH_MAX, ExecutionError, Outcome, Reported, Status};
use escapement_model::opaque::StructBuilder;
use escapement_model::{Opaque, Severity, codes};

/// Returns the warnings that the record of a settled execution has.
fn warnings(story: &Story) -> impl Iterator<Item = &ExecutionError> {
    let audit = story.persisted.as_ref().unwrap().audit.iter();
    let kept = audit.filter_map(|entry| match &entry.kind {
        AuditKind::StepCompleted { warnings, .. } => Some(&warnings[..]),
        _ => None,
    });
    kept.flatten()
}

fn warned(warnings: Vec<Reported>) -> Outcome {
    let output = output("a");
    Outcome::Completed { output, warnings }
}

//
#[test]
fn a_reserved_code_has_its_own_severity_whatever_the_worker_says() {
    for (code, severity) in codes::RESERVED {
        for said in [
            None,
            Some(Severity::Warn),
            Some(Severity::Error),
            Some(Severity::Fatal),
        ] {
            let mut story = steps("a skip; b").running();
            story.end("a", failed(code, said));
            let expected = match severity {
                Severity::Fatal => format!("persist_result failure 0/2 fatal {code}@a"),
                Severity::Warn | Severity::Error => "dispatch b#1".into(),
            };
            story.says(&format!("dispatch a#1, {expected}"));
        }
    }
}

//
#[test]
fn any_other_code_has_the_severity_that_the_worker_says_or_error() {
    for (said, expected) in [
        (None, "persist_result failure 0/1 fatal ODD@a < error ODD@a"),
        (
            Some(Severity::Warn),
            "persist_result failure 0/1 fatal ODD@a < warn ODD@a",
        ),
        (
            Some(Severity::Error),
            "persist_result failure 0/1 fatal ODD@a < error ODD@a",
        ),
        (Some(Severity::Fatal), "persist_result failure 0/1 fatal ODD@a"),
    ] {
        let mut story = steps("a skip").running();
        story
            .end("a", failed("ODD", said))
            .says(&format!("dispatch a#1, {expected}"));
    }
}

//
#[test]
fn a_timeout_is_fatal_unless_it_is_listed() {
    let fatal = "persist_result failure 0/2 fatal STEP_TIMEOUT@a";
    for (codes, expected) in [
        (&[][..], fatal),
        (&["OTHER"], fatal),
        (&["STEP_TIMEOUT"], "dispatch b#1"),
        (&["*"], "dispatch b#1"),
    ] {
        let spec = || steps("a skip limit=10; b").attempts(1, 0, codes);
        let mut found_here = spec().running();
        found_here
            .hand("a")
            .at(10)
            .tick()
            .says(&format!("dispatch a#1, withdraw a#1 step_timeout, {expected}"));
        let mut found_by_the_worker = spec().running();
        found_by_the_worker
            .end("a", failed("STEP_TIMEOUT", Some(Severity::Error)))
            .says(&format!("dispatch a#1, {expected}"));
    }
}

//
#[test]
fn a_warning_with_an_output_completes_the_step() {
    let mut story = steps("a").running();
    let said = vec![
        reported("ODD", None),
        reported("UNKNOWN_ERROR", Some(Severity::Fatal)),
        reported("", None),
    ];
    story.end("a", warned(said));
    story.says("dispatch a#1, persist_result success 1/1");
    assert_eq!(
        warnings(&story).map(brief).collect::<Vec<_>>(),
        ["warn ODD@a", "warn UNKNOWN_ERROR@a", "warn UNKNOWN_ERROR@a"]
    );
}

//
#[test]
fn at_most_64_warnings_are_kept() {
    let mut story = steps("a").running();
    story.end("a", warned(vec![reported("ODD", None); 100]));
    assert_eq!(warnings(&story).count(), 64);
}

//
#[test]
fn the_warnings_of_an_execution_have_a_limit_together() {
    let context = StructBuilder::new().text("why", &"x".repeat(16_000)).build();
    let warning = Reported {
        context,
        ..reported("ODD", None)
    };
    let names: Vec<String> = (0..8).map(|n| format!("step {n}")).collect();
    let mut story = names.iter().fold(plan(), |spec, name| spec.step(name)).running();
    for name in &names {
        story.end(name, warned(vec![warning.clone(); 64]));
    }
    assert_eq!(story.settle().status, Status::Success);
    let kept = warnings(&story).count();
    assert!((250..=262).contains(&kept), "4 MiB of 16 KiB each, not {kept}");
}

//
#[test]
fn a_warning_without_an_output_leaves_the_step_not_completed() {
    for spec in [steps("a"), steps("a skip"), steps("a retry")] {
        let mut story = spec.step("b").attempts(3, 0, &["*"]).running();
        story
            .end("a", failed("ODD", Some(Severity::Warn)))
            .says("dispatch a#1, dispatch b#1");
        story.complete("b").says("persist_result partial 1/2 warn ODD@a");
    }
}

//
#[test]
fn an_error_of_a_step_with_skip_lets_the_plan_go_on() {
    let mut story = steps("a skip; b").running();
    story.fail("a", "BROKEN").complete("b");
    story.says("dispatch a#1, dispatch b#1, persist_result partial 1/2 error BROKEN@a");
}

//
#[test]
fn an_error_of_a_step_with_halt_stops_the_plan() {
    let mut story = steps("a; b; c").at_a_time(2).running();
    story
        .complete("a")
        .hand("b")
        .hand("c")
        .says("dispatch a#1, dispatch b#1, dispatch c#1");
    let error = Reported {
        context: StructBuilder::new().text("disk", "full").build(),
        ..reported("BROKEN", None)
    };
    story
        .end("b", Outcome::Failed(error))
        .says("withdraw c#1 execution_ended, persist_result failure 1/3 fatal BROKEN@b < error BROKEN@b");
    let error = story.error();
    assert_eq!(error.message, "BROKEN happened");
    assert_eq!(text(&error.context, "disk"), "full");
    assert_eq!(text(&error.cause.unwrap().context, "disk"), "full");
}

//
#[test]
fn a_handler_that_asks_for_a_halt_is_judged_like_any_error() {
    let mut story = steps("a").running();
    story.fail("a", "EXECUTION_HALTED");
    story
        .says("dispatch a#1, persist_result failure 0/1 fatal EXECUTION_HALTED@a < error EXECUTION_HALTED@a");
}

//
#[test]
fn a_fatal_error_stops_the_plan_whatever_on_failure_says() {
    for spec in [steps("a"), steps("a skip"), steps("a retry")] {
        let mut story = spec.step("b").attempts(3, 0, &["*"]).running();
        story.end("a", failed("RESOURCE_EXHAUSTED", None));
        story.says("dispatch a#1, persist_result failure 0/2 fatal RESOURCE_EXHAUSTED@a");
    }
}

//
#[test]
fn a_code_that_is_empty_or_too_long_is_unknown_and_kept() {
    for code in ["", &"X".repeat(51)] {
        let mut story = steps("a skip").running();
        story.end("a", failed(code, Some(Severity::Warn)));
        story.says("dispatch a#1, persist_result failure 0/1 fatal UNKNOWN_ERROR@a");
        assert_eq!(text(&story.error().context, "original_code"), code);
    }
    let mut story = steps("a").running();
    story.end("a", failed(&"ß".repeat(50), Some(Severity::Fatal)));
    assert_eq!(story.error().code, "ß".repeat(50));
}

//
#[test]
fn a_report_that_cannot_be_read_is_unknown_and_fatal() {
    let mut story = steps("a retry").attempts(3, 0, &["*"]).running();
    story.end(
        "a",
        Outcome::Undecodable {
            detail: "no outcome".into(),
        },
    );
    story.says("dispatch a#1, persist_result failure 0/1 fatal UNKNOWN_ERROR@a");
    assert_eq!(text(&story.error().context, "detail"), "no outcome");
}

//
#[test]
fn long_messages_are_cut_by_code_points() {
    let mut story = steps("a").running();
    story.end(
        "a",
        Outcome::Failed(Reported {
            message: "ü".repeat(1001),
            ..reported("X", None)
        }),
    );
    assert_eq!(story.error().message, "ü".repeat(1000));
}

//
#[test]
fn a_context_that_cannot_be_kept_is_replaced_by_a_note() {
    let large = StructBuilder::new().text("t", &"x".repeat(16 << 10)).build();
    let deep = (0..28).fold(Opaque::default(), |inner, _| {
        StructBuilder::new().object("t", inner.as_encoded()).build()
    });
    for context in [large, deep, Opaque::from_encoded(Bytes::from_static(b"\xff"))] {
        let mut story = steps("a").running();
        story.end("a", failure("X", context));
        assert!(value(&story.error().context, "context_dropped").is_some());
        assert!(value(&story.error().context, "t").is_none());
    }
}

//
#[test]
fn a_context_as_deep_as_allowed_leaves_the_result_no_deeper_than_other_objects() {
    let context = (0..27).fold(Opaque::default(), |inner, _| {
        StructBuilder::new().object("t", inner.as_encoded()).build()
    });
    let mut story = steps("a").running();
    let error = Reported {
        context,
        ..reported("X", None)
    };
    story.end("a", Outcome::Failed(error));
    assert!(value(&story.error().context, "t").is_some());
    story.error().context.check().unwrap();
}

//
#[test]
fn recoverable_follows_from_the_severity() {
    for (severity, recoverable) in [
        (Severity::Warn, true),
        (Severity::Error, true),
        (Severity::Fatal, false),
    ] {
        let mut story = steps("a skip; b").running();
        story.end("a", failed("X", Some(severity)));
        if story.persisted.is_none() {
            story.complete("b");
        }
        assert_eq!(story.error().recoverable(), recoverable);
    }
}

//
#[test]
fn a_partial_result_shows_the_worst_error_and_then_the_earliest() {
    let spec = steps("a skip; b skip; c skip; d skip after=a; e");
    let mut story = spec.running();
    story.end("a", failed("WARNED", Some(Severity::Warn)));
    story.fail("b", "FIRST").fail("c", "SECOND").complete("e");
    assert_eq!(brief(&story.error()), "error FIRST@b");
    assert_eq!(
        story.trace(),
        ["WARNED@a#1", "FIRST@b#1", "SECOND@c#1", "STEP_SKIPPED@d"]
    );
}

//
#[test]
fn a_skipped_consequence_never_hides_its_root() {
    let mut story = steps("z skip after=y; y skip; x").running();
    story
        .end("y", failed("WARNED", Some(Severity::Warn)))
        .complete("x");
    assert_eq!(brief(&story.error()), "warn WARNED@y");
}

//
#[test]
fn where_nothing_completed_the_earliest_error_is_promoted() {
    let mut story = steps("a skip; b skip; c after=a skip").at_a_time(2).running();
    story.says("dispatch a#1, dispatch b#1");
    story.fail("b", "SECOND").fail("a", "FIRST");
    story.says("persist_result failure 0/3 fatal FIRST@a < error FIRST@a");
    assert_eq!(story.trace(), ["SECOND@b#1", "FIRST@a#1", "STEP_SKIPPED@c"]);
}

//
#[test]
fn a_lost_worker_is_an_error_that_a_plan_may_list() {
    let mut story = steps("a retry").attempts(2, 0, &["WORKER_LOST"]).running();
    story.end("a", Outcome::Lost).says("dispatch a#1, dispatch a#2");
    let mut story = steps("a").running();
    story.end("a", Outcome::Lost);
    story.says("dispatch a#1, persist_result failure 0/1 fatal WORKER_LOST@a < error WORKER_LOST@a");
}

//
#[test]
fn a_long_cascade_makes_no_deep_chain_of_causes() {
    let chain = (1..1000).fold(steps("s0 skip; last"), |spec, n| {
        spec.step(&format!("s{n}"))
            .after(&[&format!("s{}", n - 1)])
            .skip()
    });
    let mut story = chain.running();
    story.fail("s0", "ROOT").end("last", completed("last"));
    let settlement = story.persisted.clone().unwrap();
    let mut n_skipped = 0;
    for entry in &settlement.audit {
        if let AuditKind::StepNotCompleted { error, .. } = &entry.kind {
            let chain: Vec<_> =
                std::iter::successors(Some(&**error), |error| error.cause.as_deref()).collect();
            assert!(chain.len() <= CAUSE_DEPTH_MAX + 1);
            assert_eq!(chain.last().unwrap().code, "ROOT");
            n_skipped += usize::from(error.code == "STEP_SKIPPED");
        }
    }
    assert_eq!(n_skipped, 999);
}
