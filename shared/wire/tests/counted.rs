//! Every list of what workers and callers send is counted, whole messages, merged ones and malformed ones. Sends nothing.
#![allow(
    clippy::unwrap_used,
    missing_docs,
    reason = "a test fails by panicking and its name is its documentation"
)]

use escapement_model::limits::{PLAN_BYTES_MAX, STEPS_MAX};
use escapement_wire::DESCRIPTORS;
use escapement_wire::counted::{Counted, Holds, LIST_ENTRIES_MAX, Lists, has_more_entries};
use escapement_wire::externalscaler::{GetMetricsRequest, ScaledObjectRef};
use escapement_wire::v1::{
    ExecutePlanRequest, ExplainExecutionRequest, Plan, PlanStep, ReadEventsRequest, SimulatePlanRequest,
    SubmitPlanRequest, SubscribeEventsRequest, ValidatePlanRequest,
};
use escapement_wire::worker::v1::{
    ReportOutcomesRequest, ReportOutcomesResponse, SessionRequest, SessionResponse, session_request,
};
use prost::Message;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, FileDescriptorSet};
use std::collections::BTreeMap;

/// Returns the lists as the descriptors have them, as paths of tags; those of free-form objects are not decoded.
fn lists_of(message: &str, all: &BTreeMap<String, DescriptorProto>) -> Vec<Vec<i32>> {
    let mut found = Vec::new();
    for field in all.get(message).map_or(&[][..], |message| &message.field) {
        if field.label() == Label::Repeated {
            found.push(vec![field.number()]);
        }
        if field.r#type() == Type::Message && !field.type_name().starts_with(".google.") {
            let inside = lists_of(field.type_name(), all);
            found.extend(
                inside
                    .into_iter()
                    .map(|path| [vec![field.number()], path].concat()),
            );
        }
    }
    found.sort();
    found
}

fn counted(lists: Lists) -> Vec<Vec<i32>> {
    let mut found = Vec::new();
    for (tag, holds) in lists {
        let tag = i32::try_from(*tag).unwrap();
        let inner = match holds {
            Holds::Entries(inner) | Holds::Heavy(_, inner) => {
                found.push(vec![tag]);
                inner
            }
            Holds::One(inner) => inner,
        };
        found.extend(counted(inner).into_iter().map(|path| [vec![tag], path].concat()));
    }
    found.sort();
    found
}

#[test]
fn every_list_and_map_of_the_worker_protocol_is_counted() {
    let descriptors = FileDescriptorSet::decode(DESCRIPTORS).unwrap();
    let mut all = BTreeMap::new();
    for file in &descriptors.file {
        for message in &file.message_type {
            all.insert(format!(".{}.{}", file.package(), message.name()), message.clone());
        }
    }
    for (name, lists) in [
        ("SessionRequest", SessionRequest::LISTS),
        ("SessionResponse", SessionResponse::LISTS),
        ("ReportOutcomesRequest", ReportOutcomesRequest::LISTS),
        ("ReportOutcomesResponse", ReportOutcomesResponse::LISTS),
    ] {
        let expected = lists_of(&format!(".escapement.worker.v1.{name}"), &all);
        assert!(!expected.is_empty());
        assert_eq!(counted(lists), expected, "{name}");
    }
    // Of what callers and operators send, those that have lists.
    let with_lists = BTreeMap::from([
        ("SubmitPlanRequest", SubmitPlanRequest::LISTS),
        ("ExecutePlanRequest", ExecutePlanRequest::LISTS),
        ("ValidatePlanRequest", ValidatePlanRequest::LISTS),
        ("SimulatePlanRequest", SimulatePlanRequest::LISTS),
        ("ExplainExecutionRequest", ExplainExecutionRequest::LISTS),
        ("SubscribeEventsRequest", SubscribeEventsRequest::LISTS),
        ("ReadEventsRequest", ReadEventsRequest::LISTS),
    ]);
    let ours = descriptors
        .file
        .iter()
        .filter(|file| file.package() == "escapement.v1");
    let requests = ours
        .flat_map(|file| &file.service)
        .flat_map(|service| &service.method)
        .map(|method| method.input_type());
    for (name, lists) in [
        ("ScaledObjectRef", ScaledObjectRef::LISTS),
        ("GetMetricsRequest", GetMetricsRequest::LISTS),
    ] {
        assert_eq!(
            counted(lists),
            lists_of(&format!(".externalscaler.{name}"), &all),
            "{name}"
        );
    }
    let mut n_requests = 0;
    for request in requests {
        let name = request.rsplit('.').next().unwrap();
        let lists = with_lists.get(name).copied().unwrap_or_default();
        assert_eq!(counted(lists), lists_of(request, &all), "{name}");
        n_requests += 1;
    }
    assert!(n_requests > with_lists.len(), "{n_requests} requests");
}

#[cfg(feature = "runs")]
#[test]
fn every_list_and_map_of_the_api_of_runs_is_counted() {
    use escapement_wire::runs::v1;

    let descriptors = FileDescriptorSet::decode(DESCRIPTORS).unwrap();
    let ours: Vec<_> = descriptors
        .file
        .iter()
        .filter(|file| file.package() == "escapement.runs.v1")
        .collect();
    let all: BTreeMap<String, DescriptorProto> = ours
        .iter()
        .flat_map(|file| &file.message_type)
        .map(|message| (format!(".escapement.runs.v1.{}", message.name()), message.clone()))
        .collect();
    let with_lists = BTreeMap::from([
        ("CreateRunRequest", v1::CreateRunRequest::LISTS),
        ("PreviewRunRequest", v1::PreviewRunRequest::LISTS),
        ("ListRunEventsRequest", v1::ListRunEventsRequest::LISTS),
        ("ReadEventsRequest", v1::ReadEventsRequest::LISTS),
        ("ExplainRunRequest", v1::ExplainRunRequest::LISTS),
        ("CreatePlanRequest", v1::CreatePlanRequest::LISTS),
        ("ImportPlanRequest", v1::ImportPlanRequest::LISTS),
        ("AddPlanStepRequest", v1::AddPlanStepRequest::LISTS),
        ("CreateTriggerRequest", v1::CreateTriggerRequest::LISTS),
        ("UpdateTriggerRequest", v1::UpdateTriggerRequest::LISTS),
        ("PutActionProfileRequest", v1::PutActionProfileRequest::LISTS),
    ]);
    let requests: Vec<&str> = ours
        .iter()
        .flat_map(|file| &file.service)
        .flat_map(|service| &service.method)
        .map(|method| method.input_type())
        .collect();
    for request in &requests {
        let name = request.rsplit('.').next().unwrap();
        let lists = with_lists.get(name).copied().unwrap_or_default();
        assert_eq!(counted(lists), lists_of(request, &all), "{name}");
    }
    assert!(requests.len() > 40, "{} requests", requests.len());
}

#[test]
fn a_step_of_a_plan_counts_for_more_than_a_text_and_a_valid_plan_never_has_too_many() {
    let more_than = |plan: &Plan, max| {
        let request = ValidatePlanRequest {
            options: None,
            plan: Some(plan.clone()),
            environment: None,
            ..Default::default()
        };
        has_more_entries(&request.encode_to_vec(), ValidatePlanRequest::LISTS, max)
    };
    let one_step = Plan {
        steps: vec![PlanStep::default()],
        tags: vec![String::new()],
        ..Plan::default()
    };
    assert!(more_than(&one_step, 8) && !more_than(&one_step, 9));
    // As many dependencies as fit into the bytes of a plan.
    let id = "00000000-0000-4000-8000-000000000000".to_owned();
    let step = PlanStep {
        id: id.clone(),
        depends_on: vec![id; PLAN_BYTES_MAX / 38 / STEPS_MAX],
        ..PlanStep::default()
    };
    let largest = Plan {
        steps: vec![step; STEPS_MAX],
        ..Plan::default()
    };
    assert!(largest.encoded_len() >= PLAN_BYTES_MAX);
    assert!(!more_than(&largest, LIST_ENTRIES_MAX));
    let empty_steps = Plan {
        steps: vec![PlanStep::default(); 40 * STEPS_MAX],
        ..Plan::default()
    };
    assert!(more_than(&empty_steps, LIST_ENTRIES_MAX));
}

fn nested(tag: u8, bytes: &[u8]) -> Vec<u8> {
    let mut field = vec![tag << 3 | 2];
    prost::encode_length_delimiter(bytes.len(), &mut field).unwrap();
    field.extend(bytes);
    field
}

fn most_of(message: &[u8]) -> usize {
    let more_than = |max| has_more_entries(message, SessionRequest::LISTS, max);
    (0..100).find(|max| !more_than(*max)).unwrap()
}

#[test]
fn entries_are_counted_wherever_they_stand() {
    assert_eq!(most_of(&[]), 0);
    assert_eq!(most_of(&[8, 1]), 0);
    assert_eq!(most_of(&nested(7, &[10, 0].repeat(9))), 9);
    // An item, and five warnings in its success, which comes in two pieces.
    let success = [nested(3, &[18, 0].repeat(2)), nested(3, &[18, 0].repeat(3))].concat();
    assert_eq!(most_of(&nested(7, &nested(1, &success))), 6);
    // The same arm twice is merged, and two arms count together.
    let twice = [
        nested(7, &[10, 0].repeat(2)),
        nested(7, &[10, 0]),
        nested(8, &[26, 0]),
    ]
    .concat();
    assert_eq!(most_of(&twice), 4);
}

#[test]
fn what_is_not_known_hides_no_entry_and_free_form_objects_have_none() {
    let hidden = [
        vec![0xbb, 0x06, 8, 1, 0xbc, 0x06], // A group.
        vec![0xba, 0x06, 2, 10, 0],         // Bytes.
        vec![0xb8, 0x06, 0xff, 1],          // A number.
        vec![0xbd, 0x06, 1, 2, 3, 4],       // Four bytes.
        vec![0xb9, 0x06, 1, 2, 3, 4, 5, 6, 7, 8],
        nested(7, &[10, 0].repeat(3)),
    ];
    assert_eq!(most_of(&hidden.concat()), 3);
    let output = nested(3, &nested(1, &[18, 0].repeat(20)));
    assert_eq!(most_of(&nested(7, &nested(1, &output))), 1);
}

#[test]
fn a_message_that_is_cut_off_counts_as_far_as_it_goes() {
    let whole = nested(7, &[10, 0].repeat(9));
    assert_eq!(most_of(&whole[..2 + 8]), 4);
    assert_eq!(most_of(&[8, 1, 0x3a, 0xff, 0xff, 0xff]), 0);
}

#[test]
fn an_entry_of_a_map_counts_with_any_wire_type() {
    // `labels` of a hello, said to be numbers: the decoder reads them as entries all the same.
    let label = |key: u8| [0x50, 3, 0x0a, 1, key];
    let hello = nested(2, &[label(b'a'), label(b'b')].concat());
    let decoded = SessionRequest::decode(hello.as_slice()).unwrap();
    let Some(session_request::Message::Hello(decoded)) = decoded.message else {
        panic!("it is a hello")
    };
    assert_eq!(decoded.labels.len(), 2);
    assert_eq!(most_of(&hello), 2);
}

#[test]
fn a_field_that_reaches_beyond_its_message_is_counted_as_it_is_decoded() {
    // Outcomes of one item that ends behind the key of its success; the success itself follows, with many warnings.
    let warnings = [18, 0].repeat(40);
    let message = [&[0x3a, 3, 0x0a, 1, 0x1a, 80][..], &warnings].concat();
    assert!(SessionRequest::decode(message.as_slice()).is_err());
    assert_eq!(most_of(&message), 1 + 40);
}
