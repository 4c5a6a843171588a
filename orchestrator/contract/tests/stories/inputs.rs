//! what an execution was told is logged so that a replay ends in the same way.
//! Every story replays itself when it ends, so here stand the ends of what a log can hold.

use crate::story::{Story, completed, failed, failure, output, plan, reported, steps};
use escapement_contract::{Evidence, Execution, Input, Interruption, Moment, Outcome, Reported, Settlement};
use escapement_model::limits::{
    ERROR_CONTEXT_BYTES_MAX, INPUT_LOG_BYTES_MAX, OUTPUT_BYTES_MAX, WARNINGS_MAX,
};
use escapement_model::opaque::StructBuilder;
use escapement_model::{Opaque, Severity};
use std::sync::Arc;

/// More than the limit of the plan of a story.
const BEYOND_THE_LIMIT_MS: u64 = 2_000;

fn context_of(n_bytes: usize) -> Opaque {
    StructBuilder::new().text("dump", &"x".repeat(n_bytes)).build()
}

/// How the story ends if nothing more happens to it.
fn end_at_limit(story: &Story) -> Arc<Settlement> {
    let mut story = story.clone();
    story.at(BEYOND_THE_LIMIT_MS).tick();
    story.persisted.expect("the limit of the plan ran out")
}

/// Hands an attempt out and takes it back until the log has room for so many bytes.
fn fill(story: &mut Story, n_bytes_left: usize) {
    let mut used = end_at_limit(story).inputs.bytes() - tick_bytes();
    let pair_bytes = 2 * tick_bytes();
    while INPUT_LOG_BYTES_MAX - used > n_bytes_left {
        let missing = INPUT_LOG_BYTES_MAX - used - n_bytes_left;
        // What is left for the last pair must be enough for one.
        let label = if missing > (1 << 20) + 2 * pair_bytes {
            1 << 20
        } else {
            missing - pair_bytes
        };
        let input = Input::Assigned {
            step: story.index("a"),
            attempt: 1,
            worker: "w".repeat(label).into(),
        };
        story.ok(input).give_back("a", Evidence::Rejected);
        used += label + pair_bytes;
    }
    assert_eq!(INPUT_LOG_BYTES_MAX - used, n_bytes_left);
}

/// What an input takes that has no texts.
fn tick_bytes() -> usize {
    let log = end_at_limit(&steps("a").running()).inputs.clone();
    // The start, its write, and the limit.
    assert_eq!(log.inputs.len(), 3);
    log.bytes() / 3
}

//
#[test]
fn a_log_that_is_full_says_so_and_leads_as_far_as_it_goes() {
    let mut story = steps("a; b").at_a_time(2).running();
    fill(&mut story, tick_bytes());
    assert!(end_at_limit(&story).inputs.is_complete, "one more fits");
    story.assign("a");
    let kept = end_at_limit(&story).inputs.clone();
    assert!(!kept.is_complete, "a worker's label does not fit any more");
    // What follows is smaller and might fit, but a log has no gaps.
    let (step, attempt) = (story.index("a"), 1);
    story.ok(Input::AttemptStarted { step, attempt });
    story.complete("a").complete("b");
    let settlement = story.persisted.clone().unwrap();
    assert!(!settlement.inputs.is_complete && !settlement.inputs.is_cut_short());
    assert_eq!(settlement.inputs.inputs, kept.inputs);
    assert_eq!(settlement.inputs.decisions, kept.decisions);
    assert_eq!(settlement.inputs.bytes(), INPUT_LOG_BYTES_MAX - tick_bytes());
    assert!(
        settlement.inputs.inputs.len() < 100,
        "nothing is kept beyond the limit"
    );
}

//
#[test]
fn an_input_that_is_refused_leaves_a_full_log_complete() {
    let mut story = steps("a").running();
    fill(&mut story, tick_bytes());
    let stray = story.ended("a", 7, failed("X", None));
    story.feed(stray).unwrap_err();
    assert!(
        end_at_limit(&story).inputs.is_complete,
        "what was refused needs no room"
    );
}

//
#[test]
fn a_note_in_place_of_a_context_never_overfills_the_log() {
    let spec = steps("a; b retry").attempts(500, 0, &["*"]);
    let mut story = spec.at_a_time(2).running();
    // Until nothing fits: the notes count as well.
    for n_bytes in [[15 << 10; 69].as_slice(), &[200; 100]].concat() {
        story.end("b", failure("X", context_of(n_bytes)));
    }
    story.hand("b");
    // No context at all, and the note needs room all the same.
    let ended = story.ended("b", 170, failure("X", Opaque::default()));
    fill(&mut story, 8 << 10);
    let mut n_kept = 0;
    // Too little for the failure, enough without its note, enough for both.
    for n_bytes_more in [4, 60, 160] {
        let mut story = story.clone();
        fill(&mut story, 2 * tick_bytes() + n_bytes_more);
        // It is replayed when it ends.
        story.ok(ended.clone()).at(BEYOND_THE_LIMIT_MS).tick();
        let log = &story.persisted.as_ref().unwrap().inputs;
        assert!(log.bytes() <= INPUT_LOG_BYTES_MAX);
        let last = log.inputs.iter().rev().find(|logged| logged.input != Input::Tick);
        n_kept += usize::from(matches!(last.unwrap().input, Input::AttemptEnded { .. }));
    }
    assert_eq!(n_kept, 1);
}

//
#[test]
fn contexts_that_were_dropped_are_dropped_again() {
    let mut story = steps("a retry").attempts(500, 0, &["*"]).running();
    for n in 0..200 {
        // Sizes in turn, so that a small one fits if a large one does not.
        let n_bytes = [15 << 10, 9 << 10, 300, 0, 60, ERROR_CONTEXT_BYTES_MAX, 20 << 10][n % 7];
        let context = if n_bytes == 0 {
            Opaque::default()
        } else {
            context_of(n_bytes)
        };
        story.end(
            "a",
            failure(if n % 3 == 0 { "X" } else { "STEP_TIMEOUT" }, context),
        );
        if n % 5 == 0 {
            story.end("a", Outcome::Lost);
        }
    }
    story.end("a", failure("", context_of(ERROR_CONTEXT_BYTES_MAX - 20)));
    let settlement = story.persisted.unwrap();
    assert!(settlement.inputs.is_complete);
    assert!(
        settlement.inputs.bytes() < 2 << 20,
        "{}",
        settlement.inputs.bytes()
    );
}

//
#[test]
fn a_report_beyond_every_limit_counts_the_same_without_what_is_cut_off() {
    let deep = (0..200).fold(Opaque::default(), |inner, _| {
        StructBuilder::new().object("in", inner.as_encoded()).build()
    });
    for context in [
        context_of(ERROR_CONTEXT_BYTES_MAX - 10),
        context_of(ERROR_CONTEXT_BYTES_MAX),
        context_of(1 << 20),
        deep,
        Opaque::from_encoded(vec![0xff; 9].into()),
    ] {
        for chars in [49, 50, 51, 999, 1000, 1001, 300_000] {
            let mut story = steps("a; b skip").running();
            let report = Reported {
                code: "\u{1f9ed}".repeat(chars),
                message: "\u{e9}".repeat(chars),
                severity: Some(Severity::Warn),
                context: context.clone(),
            };
            let outcome = Outcome::Completed {
                output: output("a"),
                warnings: vec![report.clone(); WARNINGS_MAX + 1],
            };
            story.end("a", outcome).end("b", Outcome::Failed(report));
            assert_room(&story.persisted.unwrap());
        }
    }
}

/// What is kept holds no room of what was cut off.
fn assert_room(settlement: &Settlement) {
    for logged in &settlement.inputs.inputs {
        let reports: &[Reported] = match &logged.input {
            Input::AttemptEnded {
                outcome: Outcome::Completed { warnings, .. },
                ..
            } => {
                assert!(warnings.capacity() <= WARNINGS_MAX, "{}", warnings.capacity());
                warnings
            }
            Input::AttemptEnded {
                outcome: Outcome::Failed(report),
                ..
            } => std::slice::from_ref(report),
            _ => &[],
        };
        for report in reports {
            assert!(report.code.capacity() <= 4000, "{}", report.code.capacity());
            assert!(report.message.capacity() <= 4000, "{}", report.message.capacity());
            assert!(report.context.len() <= ERROR_CONTEXT_BYTES_MAX);
        }
    }
}

//
#[test]
fn an_output_that_was_refused_is_refused_again() {
    let large = context_of(OUTPUT_BYTES_MAX);
    let malformed = Opaque::from_encoded(vec![0x0a, 0x7f].into());
    for output in [large, malformed] {
        let mut story = steps("a").running();
        let outcome = Outcome::Completed {
            output,
            warnings: vec![reported("W", None)],
        };
        story.end("a", outcome);
        assert!(story.persisted.unwrap().result.error.is_some());
    }
    // What is refused for want of room in the result.
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m"];
    let mut story = names.iter().fold(plan(), |spec, name| spec.step(name)).running();
    for name in names {
        if story.persisted.is_none() {
            let outcome = Outcome::completed(context_of(OUTPUT_BYTES_MAX - 100));
            story.end(name, outcome);
        }
    }
    assert_eq!(story.persisted.unwrap().result.steps_executed, 12);
}

//
#[test]
fn what_time_did_before_a_refused_input_is_logged() {
    let mut story = steps("a retry limit=20; b").attempts(3, 5, &["*"]).running();
    story.hand("a").at(33);
    // The attempt ran out at 20, and the next one waits since 25.
    let late = story.ended("a", 1, completed("a"));
    story.feed(late).unwrap_err();
    story.complete("a").complete("b");
    let log = &story.persisted.as_ref().unwrap().inputs;
    let ticks: Vec<u64> = log
        .inputs
        .iter()
        .filter(|logged| logged.input == Input::Tick)
        .map(|logged| logged.at.monotonic_ms)
        .collect();
    assert_eq!(ticks, [33]);
}

//
#[test]
fn limits_in_every_phase_and_clocks_that_are_set_replay() {
    for shift_ms in [-3_000_000, -1, 0, 1, 3_000_000, i64::MIN / 2, i64::MAX / 2] {
        let shifted = |story: &mut Story, ms: u64| {
            story.at(ms);
            story.now.unix_ms = story.now.unix_ms.saturating_add(shift_ms);
        };
        // In the queue, while the start is written, while steps run.
        let mut queued = steps("a").queued();
        shifted(&mut queued, 2_000);
        queued.feed(Input::Start).unwrap_err();
        assert!(queued.persisted.is_some());

        let mut starting = steps("a").queued();
        starting.ok(Input::Start);
        shifted(&mut starting, 1_000);
        // it came at the instant at which the limit ran out.
        starting.ok(Input::StartPersisted);
        assert!(starting.persisted.is_some());

        let mut running = steps("a limit=100 retry; b").attempts(9, 50, &["*"]).running();
        shifted(&mut running, 10);
        running.hand("a");
        running.at(110).tick();
        shifted(&mut running, 400);
        running.feed(Input::Start).unwrap_err();
        shifted(&mut running, 1_000);
        running.tick();
        assert!(running.persisted.is_some());

        let mut started_late = steps("a").queued();
        shifted(&mut started_late, 300);
        started_late.ok(Input::Start);
        if started_late.persisted.is_none() {
            started_late.at(310).ok(Input::StartPersisted).complete("a");
        }
        assert!(started_late.persisted.is_some());
    }
}

//
#[test]
fn an_execution_that_was_interrupted_replays_whatever_the_clock_says() {
    let story = steps("a").queued();
    let old = &story.execution;
    let restarted = Interruption::Restarted {
        started_at: old.accepted_at() + 5,
    };
    let clocks = [0, old.accepted_at(), old.deadline() + 1, i64::MIN, i64::MAX];
    let both = |unix_ms| [restarted, Interruption::Restored].map(|interruption| (unix_ms, interruption));
    for (unix_ms, interruption) in clocks.into_iter().flat_map(both) {
        let now = Moment {
            monotonic_ms: 3,
            unix_ms,
        };
        let execution = Execution::recover(
            Arc::clone(old.request()),
            old.execution_id(),
            old.accepted_at(),
            old.deadline(),
            interruption,
            now,
        );
        let mut recovered = story.clone();
        recovered.execution = execution;
        recovered.now = now;
        // Time has nothing to do any more; its effects come out all the same.
        recovered.tick();
        let log = recovered.persisted.as_ref().unwrap().inputs.clone();
        assert_eq!(log.interruption, Some(interruption));
        assert!(log.inputs.is_empty());
    }
}
