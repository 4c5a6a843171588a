#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use escapement_transport::call_class::class_of;
use prost::Message;
use prost_types::FileDescriptorSet;

#[test]
fn exactly_the_calls_that_stream_requests_without_end_may_take_as_long_as_they_like() {
    let sets = [
        DESCRIPTORS,
        tonic_health::pb::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
    ];
    let mut n_calls = [0, 0];
    for set in sets {
        for file in FileDescriptorSet::decode(set).unwrap().file {
            for service in &file.service {
                for method in &service.method {
                    let path = format!("/{}.{}/{}", file.package(), service.name(), method.name());
                    let is_unlimited = class_of(&path).row().budget.is_none();
                    // An upload comes in pieces, and to an end.
                    let is_endless = method.client_streaming() && method.name() != "Upload";
                    assert_eq!(is_unlimited, is_endless, "{path}");
                    n_calls[usize::from(is_endless)] += 1;
                }
            }
        }
    }
    assert!(n_calls[0] > 10 && n_calls[1] == 3, "{n_calls:?}");
}
