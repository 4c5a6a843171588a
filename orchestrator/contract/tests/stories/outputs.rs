//! Sections 4 and 6: outputs, and what becomes of them.

use crate::story::{Story, output, plan, step_id, steps, text, value};
use bytes::Bytes;
use escapement_contract::Outcome;
use escapement_model::limits::{OUTPUT_BYTES_MAX, RESULT_PAYLOAD_BYTES_MAX};
use escapement_model::opaque::{StructBuilder, ValueView};
use escapement_model::{Opaque, Severity};

/// Returns an object of exactly so many bytes.
fn object_of(bytes: usize) -> Opaque {
    let with = |n: usize| StructBuilder::new().text("t", &"x".repeat(n)).build();
    let overhead = with(bytes - 64).len() - (bytes - 64);
    let object = with(bytes - overhead);
    assert_eq!(object.len(), bytes);
    object
}

fn give(story: &mut Story, name: &str, output: Opaque) {
    story.end(name, Outcome::completed(output));
}

//
#[test]
fn an_output_at_the_limit_is_kept_and_one_above_it_is_fatal() {
    let mut story = steps("a skip").running();
    give(&mut story, "a", object_of(OUTPUT_BYTES_MAX));
    story.says("dispatch a#1, persist_result success 1/1");
    let mut story = steps("a skip").running();
    give(&mut story, "a", object_of(OUTPUT_BYTES_MAX + 1));
    story.says("dispatch a#1, persist_result failure 0/1 fatal RESOURCE_EXHAUSTED@a");
}

//
#[test]
fn outputs_that_exceed_the_result_together_are_fatal() {
    let mut story = (0..13)
        .fold(plan(), |spec, n| spec.step(&format!("s{n}")))
        .running();
    for n in 0..11 {
        give(&mut story, &format!("s{n}"), object_of(OUTPUT_BYTES_MAX));
    }
    // What is left: the entries so far have a key of 36 characters and 4 headers of up to 4 bytes.
    let entry = |n: usize| {
        StructBuilder::new()
            .object(&step_id("s0").to_string(), object_of(n).as_encoded())
            .build()
            .len()
    };
    let left = RESULT_PAYLOAD_BYTES_MAX - 11 * entry(OUTPUT_BYTES_MAX);
    let overhead = entry(left) - left;
    let mut fits = story.clone();
    give(&mut fits, "s11", object_of(left - overhead));
    assert!(fits.persisted.is_none());
    give(&mut story, "s11", object_of(left - overhead + 1));
    assert_eq!(story.error().code, "RESOURCE_EXHAUSTED");
    assert_eq!(story.settle().steps_executed, 11);
}

//
#[test]
fn the_room_of_an_output_is_counted_to_the_byte() {
    // The assertion of the payload panics if the count is wrong; the headers grow at these lengths.
    for n_chars in (0..200).chain(16_250..16_400) {
        let mut story = steps("a").running();
        give(
            &mut story,
            "a",
            StructBuilder::new().text("", &"x".repeat(n_chars)).build(),
        );
        assert_eq!(story.settle().steps_executed, 1);
    }
    let mut story = steps("a").running();
    give(&mut story, "a", Opaque::default());
    assert_eq!(story.settle().result_payload.entries().count(), 1);
}

//
#[test]
fn an_output_that_is_no_object_is_unknown_and_fatal() {
    let mut story = steps("a skip").running();
    give(
        &mut story,
        "a",
        Opaque::from_encoded(Bytes::from_static(b"\x0a\xff")),
    );
    story.says("dispatch a#1, persist_result failure 0/1 fatal UNKNOWN_ERROR@a");
    assert!(text(&story.error().context, "detail").contains("output"));
}

//
#[test]
fn the_payload_holds_the_completed_steps_in_canonical_order_byte_for_byte() {
    let spec = steps("c; b skip; a retry").attempts(2, 0, &["*"]).at_a_time(3);
    let mut story = spec.running();
    let odd = StructBuilder::new()
        .null("k")
        .text("k", "last wins, and both are kept")
        .build();
    story.fail("a", "FLAKY").complete("a").fail("b", "BROKEN");
    give(&mut story, "c", odd.clone());
    let result = story.settle();
    assert_eq!(
        (result.status.as_str(), result.steps_executed, result.steps_total),
        ("partial", 2, 3)
    );
    let keys: Vec<String> = result
        .result_payload
        .entries()
        .map(|entry| entry.unwrap().0.to_owned())
        .collect();
    assert_eq!(keys, [step_id("c").to_string(), step_id("a").to_string()]);
    let of = |name: &str| value(&result.result_payload, &step_id(name).to_string());
    assert_eq!(of("c"), Some(ValueView::Struct(odd.as_encoded())));
    assert_eq!(of("a"), Some(ValueView::Struct(output("a").as_encoded())));
}

//
#[test]
fn a_success_has_every_output() {
    let mut story = steps("a; b").running();
    let result = story.complete("a").complete("b").settle();
    let keys: Vec<String> = result
        .result_payload
        .entries()
        .map(|entry| entry.unwrap().0.to_owned())
        .collect();
    assert_eq!(keys, [step_id("a").to_string(), step_id("b").to_string()]);
}

//
#[test]
fn a_failure_keeps_what_completed() {
    let mut story = steps("a; b").running();
    story
        .complete("a")
        .end("b", crate::story::failed("BAD", Some(Severity::Fatal)));
    let result = story.settle();
    assert_eq!(result.result_payload.entries().count(), 1);
}
