//! What goes in comes out: `echo` with everything that an object may hold.

use std::time::Duration;

use escapement_model::Opaque;
use escapement_tests::Fault;
use escapement_wire::json::{from_opaque, to_opaque};
use escapement_wire::worker::v1::attempt_outcome::Outcome;
use serde_json::{Map, Value, json};

use crate::catalogue::{Check, check};
use crate::messages::{assignment, output, shown};
use crate::play::{Play, demand, outcome_of};
use crate::scene::Scene;
use crate::session::Session;

pub(super) const CHECKS: &[Check] = &[
    check!(
        echo_returns_nested_values,
        "Objects, lists, nulls, booleans and empty values come back as they were.",
        "session.proto, Assignment.payload: The step's payload, the bytes that the caller sent."
    ),
    check!(
        echo_returns_numbers,
        "Numbers come back as the same doubles, from the smallest to the largest.",
        "session.proto, Assignment.payload: The step's payload, the bytes that the caller sent."
    ),
    check!(
        echo_returns_unicode,
        "Keys and texts of any script come back unchanged: surrogate pairs, combining marks, controls, and none of it normalised.",
        "session.proto, Assignment.payload: The step's payload, the bytes that the caller sent."
    ),
    check!(
        echo_returns_a_mebibyte,
        "A payload of exactly 1 MiB comes back as a success.",
        "session.proto, Success.output: At most 1 MiB encoded ..."
    ),
    check!(
        an_output_above_a_mebibyte_is_a_failure,
        "An output of one byte more is a failure with the code `RESOURCE_EXHAUSTED`.",
        "session.proto, Success.output: a larger one MUST be reported as a failure with code RESOURCE_EXHAUSTED."
    ),
    check!(
        echo_returns_the_deepest_object,
        "Objects and lists as deep as the protocol lets them be come back.",
        "PROTOCOL.md, section 10: ... the limit is 90, and 82 for the context of a failure, which is dropped beyond it."
    ),
    check!(
        echo_returns_nothing_for_nothing,
        "An assignment without a payload gives an empty output.",
        "session.proto, Success.output: Absent counts as empty."
    ),
];

async fn echo_returns_nested_values(scene: Scene) -> Result<(), Fault> {
    let payload = json!({
        "object": { "a": { "b": { "c": [1, [2, [3, { "d": null }]], {}] } }, "empty": {} },
        "list": [null, true, false, "", [], {}, [[]], [{}]],
        "null": null, "true": true, "false": false, "text": "x", "": "a key may be empty",
    });
    echoes(scene, payload).await
}

async fn echo_returns_numbers(scene: Scene) -> Result<(), Fault> {
    let numbers = [
        0.0,
        1.0,
        -1.0,
        0.1,
        1.0 / 3.0,
        -273.15,
        9_007_199_254_740_991.0,
        9_007_199_254_740_994.0,
        1e21,
        f64::MAX,
        f64::MIN,
        f64::MIN_POSITIVE,
        5e-324,
        f64::EPSILON,
        1_795_232_041_505.0,
    ];
    echoes(scene, json!({ "numbers": numbers })).await
}

async fn echo_returns_unicode(scene: Scene) -> Result<(), Fault> {
    let payload = json!({
        "schlüssel": "grüße", "🔑": "👩‍👩‍👧‍👦 𝄞", "nfc": "\u{e9}", "nfd": "e\u{301}", "rtl": "שלום", "cjk": "漢字かな交じり文",
        "controls": "\u{0}\u{1}\t\r\n\u{7f}\u{85}\u{2028}", "edge": "\u{d7ff}\u{e000}\u{fffd}\u{ffff}\u{10ffff}", "bom": "\u{feff}x",
        "quotes": "\"\\'`$(){}%s\0",
    });
    echoes(scene, payload).await
}

async fn echo_returns_a_mebibyte(scene: Scene) -> Result<(), Fault> {
    let (_play, session) = Play::begin(&scene).await?;
    returns(&session, filled(OUTPUT_BYTES_MAX)).await
}

async fn an_output_above_a_mebibyte_is_a_failure(scene: Scene) -> Result<(), Fault> {
    let (mut play, session) = Play::begin(&scene).await?;
    let mut item = assignment("echo", json!({}));
    item.payload = Some(filled(OUTPUT_BYTES_MAX + 1));
    let item = outcome_of(&session, &item, LARGE_LIMIT).await?;
    let exhausted =
        matches!(&item.outcome, Some(Outcome::Failure(failure)) if failure.code == "RESOURCE_EXHAUSTED");
    demand(exhausted, || {
        format!(
            "expected a failure RESOURCE_EXHAUSTED, got {}",
            shown(item.outcome.as_ref())
        )
    })?;
    play.must_still_work(&session).await
}

async fn echo_returns_the_deepest_object(scene: Scene) -> Result<(), Fault> {
    // The object itself costs 1, each further one 3, each list 2, and a value in an object 2.
    let objects = (0..29).fold(json!(1), |inner, _| json!({ "o": inner }));
    let lists = (0..43).fold(json!(1), |inner, _| json!([inner]));
    let (_play, session) = Play::begin(&scene).await?;
    returns(&session, crate::messages::object(&json!({ "o": objects }))).await?;
    returns(&session, crate::messages::object(&json!({ "l": lists }))).await
}

async fn echo_returns_nothing_for_nothing(scene: Scene) -> Result<(), Fault> {
    let (_play, session) = Play::begin(&scene).await?;
    let mut item = assignment("echo", json!({}));
    item.payload = None;
    item.environment = None;
    item.headers.clear();
    let output = output(&outcome_of(&session, &item, LARGE_LIMIT).await?)?;
    demand(output == json!({}), || {
        format!("expected an empty output, got {output}")
    })
}

async fn echoes(scene: Scene, payload: Value) -> Result<(), Fault> {
    let (_play, session) = Play::begin(&scene).await?;
    returns(&session, crate::messages::object(&payload)).await
}

async fn returns(session: &Session, payload: Opaque) -> Result<(), Fault> {
    let mut item = assignment("echo", json!({}));
    item.payload = Some(payload.clone());
    let output = output(&outcome_of(session, &item, LARGE_LIMIT).await?)?;
    let payload = Value::Object(from_opaque(&payload)?);
    demand(output == payload, || {
        format!("expected {}, got {}", cut(&payload), cut(&output))
    })
}

/// Returns an object of exactly so many bytes, encoded.
fn filled(bytes: usize) -> Opaque {
    let with = |fill: usize| {
        to_opaque(&Map::from_iter([(
            "fill".to_owned(),
            Value::from("x".repeat(fill)),
        )]))
    };
    let around = with(bytes).len() - bytes;
    let object = with(bytes - around);
    assert_eq!(
        object.len(),
        bytes,
        "lengths near a limit take the same number of bytes"
    );
    object
}

fn cut(value: &Value) -> String {
    value.to_string().chars().take(300).collect()
}

const OUTPUT_BYTES_MAX: usize = 1 << 20;
/// For a build without optimisation on a busy machine.
const LARGE_LIMIT: Duration = Duration::from_secs(10);
