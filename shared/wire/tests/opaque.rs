//! Opaque objects against the official types: same bytes, same meaning, same refusals.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

use bytes::Bytes;
use escapement_model::Opaque;
use escapement_model::limits::JSON_DEPTH_MAX;
use escapement_model::opaque::{Malformed, StructBuilder};
use escapement_wire::json::{from_opaque, to_opaque};
use escapement_wire::v1::PlanStep;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use prost::Message;
use serde_json::{Map, Value, json};

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        other => panic!("not an object: {other}"),
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        (-1_000_000_i64..1_000_000).prop_map(Value::from),
        any::<f64>()
            .prop_filter("JSON has no infinities", |n| n.is_finite() && n.fract() != 0.0)
            .prop_map(Value::from),
        ".{0,8}".prop_map(Value::String),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
            prop::collection::btree_map(".{0,6}", inner, 0..6)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

fn any_object() -> impl Strategy<Value = Map<String, Value>> {
    prop::collection::btree_map(".{0,6}", any_json(), 0..6).prop_map(|entries| entries.into_iter().collect())
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(1),
        ..ProptestConfig::default()
    })]

    #[test]
    fn json_comes_back_as_it_went(object in any_object()) {
        let opaque = to_opaque(&object);
        prop_assert_eq!(opaque.check(), Ok(()));
        prop_assert_eq!(from_opaque(&opaque).unwrap(), object);
    }

    #[test]
    fn the_official_decoder_reads_what_we_build(object in any_object()) {
        let official = prost_types::Struct::decode(to_opaque(&object).as_encoded().clone()).unwrap();
        let keys: Vec<&String> = official.fields.keys().collect();
        let mut expected: Vec<&String> = object.keys().collect();
        expected.sort();
        prop_assert_eq!(keys, expected);
        let again = Opaque::from_encoded(Bytes::from(official.encode_to_vec()));
        prop_assert_eq!(from_opaque(&again).unwrap(), object);
    }

    #[test]
    fn a_message_carries_the_very_bytes(object in any_object()) {
        let payload = to_opaque(&object);
        let step = PlanStep { payload: Some(payload.clone()), ..PlanStep::default() };
        let decoded = PlanStep::decode(Bytes::from(step.encode_to_vec())).unwrap();
        prop_assert_eq!(decoded.payload, Some(payload));
    }

    #[test]
    fn what_passes_the_check_passes_the_official_decoder(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let opaque = Opaque::from_encoded(Bytes::from(bytes.clone()));
        if opaque.check().is_ok() {
            prop_assert!(prost_types::Struct::decode(Bytes::from(bytes)).is_ok());
            prop_assert!(from_opaque(&opaque).is_ok());
        }
    }
}

#[test]
fn null_counts_as_present_and_a_nested_key_does_not() {
    let opaque = to_opaque(&object(json!({ "region": null, "outer": { "inner": 1 } })));
    assert!(opaque.has_key("region"));
    assert!(!opaque.has_key("inner"));
}

#[test]
fn nesting_is_bounded() {
    let nested = |levels: usize| {
        let inner = StructBuilder::new().build();
        (1..levels).fold(inner, |inner, _| {
            StructBuilder::new().object("k", inner.as_encoded()).build()
        })
    };
    assert_eq!(nested(JSON_DEPTH_MAX).check(), Ok(()));
    assert_eq!(nested(JSON_DEPTH_MAX + 1).check(), Err(Malformed::TooDeep));
}

#[test]
fn broken_bytes_are_refused() {
    for (bytes, why) in [
        (&[0x0a][..], Malformed::Wire),
        (&[0x0a, 0x05, 0x0a][..], Malformed::Wire),
        (&[0x08, 0x01][..], Malformed::Wire),
        (&[0x0b][..], Malformed::Wire),
        // A field number of more than 29 bits.
        (
            &[0x91, 0x80, 0x80, 0x80, 0x10, 0, 0, 0, 0, 0, 0, 0, 0][..],
            Malformed::Wire,
        ),
        (&[0x0a, 0x03, 0x0a, 0x01, 0xff][..], Malformed::Utf8),
    ] {
        assert_eq!(
            Opaque::from_encoded(Bytes::copy_from_slice(bytes)).check(),
            Err(why),
            "{bytes:?}"
        );
    }
}
