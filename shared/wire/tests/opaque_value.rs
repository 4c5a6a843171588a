//! `google.protobuf.Value` as the bytes that came: what a worker sent is what a caller reads.
#![cfg(feature = "runs")]
#![allow(
    clippy::unwrap_used,
    missing_docs,
    reason = "a test fails by panicking and its name is its documentation"
)]

use escapement_model::OpaqueValue;
use escapement_wire::json::{from_opaque_value, to_opaque_value};
use escapement_wire::runs::v1::GetStepResultResponse;
use prost::Message;
use serde_json::json;

#[test]
fn a_value_keeps_its_bytes_through_a_message() {
    // A text, with a field that nobody knows behind it.
    let bytes = [&[0x1a, 2][..], b"ab", &[0x78, 7]].concat();
    let response = GetStepResultResponse {
        value: Some(OpaqueValue::from_encoded(bytes.clone().into())),
        ..GetStepResultResponse::default()
    };
    let encoded = response.encode_to_vec();
    assert_eq!(encoded.len(), response.encoded_len());
    let decoded = GetStepResultResponse::decode(encoded.as_slice()).unwrap();
    assert_eq!(decoded.value.unwrap().as_encoded(), &bytes);
    // The official type reads the same.
    let official = prost_types::Value::decode(bytes.as_slice()).unwrap();
    assert_eq!(
        official.kind,
        Some(prost_types::value::Kind::StringValue("ab".to_owned()))
    );
}

#[test]
fn every_kind_of_value_is_json_and_back() {
    for value in [
        json!(null),
        json!(true),
        json!(-1.5),
        json!("ä"),
        json!([1, [], {}]),
        json!({"a": [null]}),
    ] {
        let opaque = to_opaque_value(&value);
        assert_eq!(from_opaque_value(&opaque).unwrap(), value);
        let official = prost_types::Value::decode(&opaque.as_encoded()[..]).unwrap();
        assert_eq!(official.encode_to_vec(), opaque.as_encoded()[..]);
    }
}

#[test]
fn a_value_that_is_broken_or_too_deep_is_found() {
    let broken = OpaqueValue::from_encoded(vec![0x1a, 9, 0].into());
    assert!(broken.check().is_err());
    let mut deep = json!(1);
    for _ in 0..60 {
        deep = json!([deep]);
    }
    assert!(to_opaque_value(&deep).check().is_err());
}
