//! Opaque objects against the official types: same bytes, same meaning, same refusals.
#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

use bytes::Bytes;
use escapement_model::Opaque;
use escapement_model::limits::{ERROR_CONTEXT_NESTING_MAX, OBJECT_NESTING_MAX};
use escapement_model::opaque::{Malformed, check};
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

/// Returns the least limit under which the object passes.
fn nesting(object: &Opaque) -> usize {
    (0..)
        .find(|nesting_max| check(object.as_encoded(), *nesting_max).is_ok())
        .unwrap()
}

/// What a `Value` holds that lies `n` objects or lists deep.
fn deep(n: usize, innermost: Value, around: fn(Value) -> Value) -> Value {
    (0..n).fold(innermost, |inner, _| around(inner))
}

#[test]
fn an_object_costs_three_messages_a_list_two_and_an_empty_one_one() {
    for (value, messages) in [
        (json!({}), 0),
        (json!({ "a": 1 }), 2),
        (json!({ "a": null, "b": "text" }), 2),
        (json!({ "a": {} }), 3),
        (json!({ "a": { "b": 1 } }), 5),
        (json!({ "a": [] }), 3),
        (json!({ "a": [1, 2, 3] }), 4),
        (json!({ "a": [[1]] }), 6),
        (json!({ "a": [{ "b": 1 }] }), 7),
        (json!({ "a": [[], { "b": [{}] }, 1], "b": {} }), 10),
    ] {
        assert_eq!(nesting(&to_opaque(&object(value.clone()))), messages, "{value}");
    }
}

#[test]
fn nesting_is_bounded() {
    let objects = |n, innermost| to_opaque(&object(deep(n, innermost, |inner| json!({ "k": inner }))));
    for (fits, too_deep) in [
        (objects(30, json!({})), objects(31, json!({}))),
        (objects(30, json!(1)), objects(31, json!(1))),
        (
            objects(1, deep(44, json!(1), |inner| json!([inner]))),
            objects(1, deep(45, json!(1), |inner| json!([inner]))),
        ),
    ] {
        assert!((88..=OBJECT_NESTING_MAX).contains(&nesting(&fits)));
        assert_eq!(fits.check(), Ok(()));
        assert!(from_opaque(&fits).is_ok());
        let refused = Malformed::TooDeep {
            nesting_max: OBJECT_NESTING_MAX,
        };
        assert_eq!(too_deep.check(), Err(refused));
        assert_eq!(from_opaque(&too_deep), Err(refused));
    }
    let context = objects(27, json!(1));
    assert_eq!((nesting(&context), context.check_context()), (80, Ok(())));
    let context = objects(28, json!({}));
    let refused = Malformed::TooDeep {
        nesting_max: ERROR_CONTEXT_NESTING_MAX,
    };
    assert_eq!((nesting(&context), context.check_context()), (84, Err(refused)));
}

//
#[test]
fn eight_plans_inside_one_another_fit_and_a_ninth_does_not() {
    let payload = |n| {
        deep(
            n,
            json!({ "from": "the bottom" }),
            |inner| json!({ "plan": { "steps": [{ "payload": inner }] } }),
        )
    };
    let nesting = |n| nesting(&to_opaque(&object(payload(n))));
    assert_eq!(
        (nesting(8), nesting(9)),
        (OBJECT_NESTING_MAX, OBJECT_NESTING_MAX + 11)
    );
}

#[test]
fn messages_are_counted_as_a_decoder_counts_that_takes_a_hundred() {
    for n in 90..=110 {
        for innermost in [json!({}), json!([]), json!(1), json!([1])] {
            for around in [|inner| json!({ "k": inner }), |inner| json!([inner])] {
                for levels in [n / 3, n / 2] {
                    let value = object(json!({ "k": deep(levels, innermost.clone(), around) }));
                    let encoded = to_opaque(&value).as_encoded().clone();
                    let taken = prost_types::Struct::decode(encoded.clone()).is_ok();
                    assert_eq!(
                        check(&encoded, 100).is_ok(),
                        taken,
                        "{levels} levels around {innermost}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_value_that_a_later_one_replaces_is_checked_as_well() {
    let field = |key: u8, content: &[u8]| {
        let mut bytes = vec![key];
        prost::encoding::encode_varint(content.len() as u64, &mut bytes);
        bytes.extend_from_slice(content);
        bytes
    };
    let deep = to_opaque(&object(deep(40, json!({}), |inner| json!({ "k": inner }))));
    let key = field(0x0a, b"k");
    for (inner, why) in [
        (
            deep.as_encoded().as_ref(),
            Malformed::TooDeep {
                nesting_max: OBJECT_NESTING_MAX,
            },
        ),
        (&[0x0a, 0x03, 0x0a, 0x01, 0xff], Malformed::Utf8),
        (&[0x0a, 0x05, 0x0a], Malformed::Wire),
    ] {
        // An object and then a truth value in one `Value`, and two values in one entry.
        let value = [field(0x2a, inner), vec![0x20, 1]].concat();
        let twice = [field(0x12, &field(0x2a, inner)), field(0x12, &[0x20, 1])].concat();
        for entry in [
            [key.clone(), field(0x12, &value)].concat(),
            [key.clone(), twice].concat(),
        ] {
            let opaque = Opaque::from_encoded(Bytes::from(field(0x0a, &entry)));
            assert!(prost_types::Struct::decode(opaque.as_encoded().clone()).is_err());
            assert_eq!(opaque.check(), Err(why));
        }
    }
}

#[test]
fn an_object_or_a_list_in_parts_is_refused_for_others_put_the_parts_together() {
    let field = |key: u8, content: &[u8]| [&[key, content.len() as u8], content].concat();
    let key = field(0x0a, b"k");
    let one = to_opaque(&object(json!({ "a": 1 })));
    let two = to_opaque(&object(json!({ "b": 2 })));
    let (one, two) = (one.as_encoded(), two.as_encoded());
    let both = [field(0x2a, one), field(0x2a, two)].concat();
    for (entry, n_keys) in [
        // Two parts in one value, and a value in two parts.
        ([key.clone(), field(0x12, &both)].concat(), 2),
        (
            [
                key.clone(),
                field(0x12, &field(0x2a, one)),
                field(0x12, &field(0x2a, two)),
            ]
            .concat(),
            2,
        ),
        // What stands between replaces the first part.
        (
            [
                key.clone(),
                field(
                    0x12,
                    &[field(0x2a, one), vec![0x20, 1], field(0x2a, two)].concat(),
                ),
            ]
            .concat(),
            1,
        ),
    ] {
        let opaque = Opaque::from_encoded(Bytes::from(field(0x0a, &entry)));
        let official = prost_types::Struct::decode(opaque.as_encoded().clone()).unwrap();
        let Some(prost_types::value::Kind::StructValue(official)) = &official.fields["k"].kind else {
            panic!("it is an object")
        };
        assert_eq!(official.fields.len(), n_keys);
        let expected = if n_keys == 1 { Ok(()) } else { Err(Malformed::Wire) };
        assert_eq!(opaque.check(), expected);
    }
    let list = [field(0x32, &[]), field(0x32, &[])].concat();
    let opaque = Opaque::from_encoded(Bytes::from(field(0x0a, &[key, field(0x12, &list)].concat())));
    assert_eq!(opaque.check(), Err(Malformed::Wire));
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
