//! Section 6: the result and the record.

use crate::story::{Story, T0, failed, failure, plan, reported, step_id, steps, value};
use escapement_contract::{AUDIT_ENTRIES_MAX, AuditKind, Evidence, Outcome, Reported};
use escapement_model::Severity;
use escapement_model::opaque::{StructBuilder, ValueView, entries, items};

/// Returns the kinds of the entries, in their order.
fn kinds(story: &Story) -> String {
    let audit = story.execution.audit().iter();
    let words = audit.map(|entry| {
        let debug = format!("{:?}", entry.kind);
        debug.split([' ', '{', '(']).next().unwrap().to_owned()
    });
    words.collect::<Vec<_>>().join(" ")
}

//
#[test]
fn the_record_is_numbered_without_gaps_and_ends_with_settled() {
    let mut story = steps("a retry; b skip").attempts(2, 10, &["*"]).running();
    story
        .assign("a")
        .give_back("a", Evidence::Rejected)
        .fail("a", "X");
    story.at(10).tick().complete("a").fail("b", "Y").settle();
    let audit = story.execution.audit();
    assert!(
        audit
            .iter()
            .map(|entry| entry.sequence)
            .eq(1..=audit.len() as u64)
    );
    assert!(matches!(audit.last().unwrap().kind, AuditKind::Settled { .. }));
    let expected = "Accepted Started StepWaiting AttemptAssigned AttemptReturned StepWaiting \
        AttemptAssigned AttemptStarted AttemptFailed RetryScheduled StepWaiting \
        AttemptAssigned AttemptStarted StepCompleted StepWaiting AttemptAssigned \
        AttemptStarted AttemptFailed StepNotCompleted ";
    assert!(kinds(&story).starts_with(expected), "{}", kinds(&story));
}

//
#[test]
fn the_steps_that_did_not_complete_are_listed_in_canonical_order() {
    let mut story = steps("a after=c; b skip; c skip; d").running();
    story.complete("b").fail("c", "X");
    let audit = &story.persisted.as_ref().unwrap().audit;
    let incomplete = audit.iter().find_map(|entry| match &entry.kind {
        AuditKind::StepsIncomplete { step_ids } => Some(step_ids.clone()),
        _ => None,
    });
    assert_eq!(incomplete.unwrap(), [step_id("c"), step_id("a"), step_id("d")]);
}

//
#[test]
fn each_error_of_the_run_says_all_that_is_known() {
    let mut story = steps("a skip; b after=a skip; c").running();
    let context = StructBuilder::new().text("disk", "full").build();
    story.at(5).end("a", failure("X", context)).complete("c");
    let context = story.error().context;
    assert!(
        value(&context, "disk").is_some(),
        "the error keeps its own context beside the errors"
    );
    let Some(ValueView::List(list)) = value(&context, "errors") else {
        panic!("no errors")
    };
    let show = |item: ValueView<'_>| -> String {
        let ValueView::Struct(error) = item else {
            panic!("no object")
        };
        let words = entries(error).map(|entry| match entry.unwrap() {
            (key, ValueView::Text(text)) => format!("{key}={text}"),
            (key, ValueView::Number(number)) => format!("{key}={number}"),
            (key, ValueView::Bool(flag)) => format!("{key}={flag}"),
            (key, ValueView::Struct(object)) => {
                let keys: Vec<&str> = entries(object).map(|entry| entry.unwrap().0).collect();
                format!("{key}={{{}}}", keys.join(" "))
            }
            other => panic!("{other:?}"),
        });
        words.collect::<Vec<_>>().join(", ")
    };
    let shown: Vec<String> = items(list).map(|item| show(item.unwrap())).collect();
    let (a, b) = (step_id("a"), step_id("b"));
    assert_eq!(
        shown,
        [
            format!(
                "error_code=X, message=X happened, step_id={a}, severity=error, recoverable=true, attempt=1, \
                 timestamp=1000005, context={{disk}}"
            ),
            format!(
                "error_code=STEP_SKIPPED, \
                 message=Skipped, because a step that it depends on did not complete., step_id={b}, \
                 severity=warn, recoverable=true, timestamp=1000005, cause={{error_code message}}"
            ),
        ]
    );
}

//
#[test]
fn contexts_stop_being_repeated_and_what_is_too_much_is_counted() {
    let steps = (0..1024).fold(plan(), |spec, n| spec.step(&format!("s{n}")).skip());
    let mut story = steps.running();
    let context = StructBuilder::new().text("blob", &"x".repeat(16_000)).build();
    for n in 0..1024 {
        let error = Reported {
            context: context.clone(),
            message: "ü".repeat(1000),
            ..reported("X", None)
        };
        story.end(&format!("s{n}"), Outcome::Failed(error));
    }
    // 65 contexts of 16 KB fill 1 MiB; 2 KB of each error remain, 3 MiB of them together.
    let error = story.error();
    assert!(
        error.context.len() < (3 << 20) + (64 << 10),
        "{}",
        error.context.len()
    );
    let n_errors = story.trace().len();
    let omitted = match value(&error.context, "errors_omitted") {
        Some(ValueView::Number(omitted)) => omitted as usize,
        _ => 0,
    };
    assert_eq!(n_errors + omitted, 1024);
    assert!(omitted > 0);
    error.context.check().unwrap();
}

//
#[test]
fn a_record_of_countless_attempts_is_bounded() {
    let mut story = steps("a retry").attempts(i32::MAX, 0, &["*"]).running();
    for _ in 0..AUDIT_ENTRIES_MAX {
        story.fail("a", "X");
    }
    story.complete("a").settle();
    let audit = story.execution.audit();
    assert!(audit.len() < AUDIT_ENTRIES_MAX + 20);
    assert!(
        audit
            .iter()
            .map(|entry| entry.sequence)
            .eq(1..=audit.len() as u64)
    );
    assert!(
        audit
            .iter()
            .any(|entry| matches!(entry.kind, AuditKind::StepCompleted { .. }))
    );
}

//
#[test]
fn an_error_stands_in_every_result_but_a_success() {
    let mut story = steps("a").running();
    assert_eq!(story.complete("a").settle().error, None);
    let mut story = steps("a skip; b").running();
    let partial = story.complete("a").fail("b", "X").settle();
    assert_eq!(partial.error.map(|error| error.severity), Some(Severity::Fatal));
    let mut story = steps("a skip; b skip").running();
    let partial = story.complete("a").fail("b", "X").settle();
    assert_eq!(partial.error.map(|error| error.severity), Some(Severity::Error));
    assert_eq!((partial.steps_executed, partial.steps_total), (1, 2));
}

//
#[test]
fn a_step_counts_once_whatever_its_attempts() {
    let mut story = steps("a retry").attempts(5, 0, &["*"]).running();
    let result = story.fail("a", "X").fail("a", "X").complete("a").settle();
    assert_eq!((result.steps_executed, result.steps_total), (1, 1));
}

//
#[test]
fn the_duration_runs_from_the_start_to_the_end() {
    let mut story = steps("a").running();
    let result = story.at(123).complete("a").at(500).settle();
    assert_eq!((result.completed_at, result.duration_ms), (T0 + 123, 123));
}

//
#[test]
fn an_attempt_in_flight_at_a_stop_adds_no_error() {
    let mut story = steps("a; b").at_a_time(2).running();
    story.hand("b").end("a", failed("X", Some(Severity::Fatal)));
    assert_eq!(story.trace(), ["X@a#1"]);
}
