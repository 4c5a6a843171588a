//! Whatever carries an accepted object can be read by decoders that stop at 100 nested messages.
//! Walks the descriptors of both APIs, so a message that lies deeper tomorrow is found. Does not judge sizes.

use crate::documents::{nested_lists, nested_object, request};
use crate::endings::{completed, run, top};
use escapement_contract::{AuditKind, CAUSE_DEPTH_MAX, Execution, Outcome, Reported, Status};
use escapement_model::Opaque;
use escapement_model::limits::{ERROR_CONTEXT_NESTING_MAX, OBJECT_NESTING_MAX};
use escapement_model::opaque::{StructBuilder, ValueView};
use escapement_tests::documents::descriptors;
use prost::encoding::{
    DecodeContext, WireType, decode_key, decode_varint, encode_key, encode_varint, skip_field,
};
use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};

/// Where the decoders of C++, C#, Java and Python stop.
const DECODER_NESTING_MAX: usize = 100;

/// Messages around an output in `PlanResult.result_payload`: entry, value, object.
const AROUND_OUTPUT: usize = 3;

/// How deep the object in a field may be.
fn allowance(field: &FieldDescriptor) -> usize {
    match field.full_name() {
        "escapement.v1.ExecutePlanRequest.environment"
        | "escapement.v1.SubmitPlanRequest.environment"
        | "escapement.v1.ValidatePlanRequest.environment"
        | "escapement.v1.SimulatePlanRequest.environment"
        // What is deeper ends the simulated attempt, as it would a real one.
        | "escapement.v1.AttemptStub.output"
        | "escapement.v1.Plan.metadata"
        | "escapement.v1.PlanStep.payload"
        | "escapement.worker.v1.Assignment.environment"
        | "escapement.worker.v1.Assignment.payload"
        | "escapement.worker.v1.Success.output" => OBJECT_NESTING_MAX,
        "escapement.worker.v1.Failure.context" | "escapement.v1.FailureStub.context" => {
            ERROR_CONTEXT_NESTING_MAX
        }
        // With the contexts of all errors of the run in it.
        "escapement.v1.ExecutionError.context" => OBJECT_NESTING_MAX,
        "escapement.v1.PlanResult.result_payload" => AROUND_OUTPUT + OBJECT_NESTING_MAX,
        runs if runs.starts_with("escapement.runs.") => allowance_of_runs(field),
        other => panic!("say here how deep the object in {other} may be, and see that it is held to that"),
    }
}

/// How deep the object or the value in a field of the API of runs may be. What callers send, and what a handler answered, is held to
/// the limit of objects; a value has its object inside of it.
fn allowance_of_runs(field: &FieldDescriptor) -> usize {
    let value = |of_object: usize| VALUE + of_object;
    match field.full_name() {
        // Of a step with many units: the list of their outputs.
        "escapement.runs.v1.GetStepResultResponse.value" | "escapement.runs.v1.StepOutputRef.value" => {
            value(LISTED + OBJECT_NESTING_MAX)
        }
        // The same as an entry of an object.
        "escapement.runs.v1.RunEvent.data" | "escapement.runs.v1.RunStep.result_view" => {
            ENTRY + value(LISTED + OBJECT_NESTING_MAX)
        }
        _ if is_object(&field.kind()) => OBJECT_NESTING_MAX,
        _ => value(OBJECT_NESTING_MAX),
    }
}

fn is_object(kind: &Kind) -> bool {
    matches!(kind, Kind::Message(message) if message.full_name() == "google.protobuf.Struct")
}

/// Messages around the object in a value: the object itself.
const VALUE: usize = 1;
/// Messages around a value in a list of them: the list and the value.
const LISTED: usize = 2;
/// Messages around a value in an object: entry and value.
const ENTRY: usize = 2;

/// Returns every way from a message of a call to a free-form object.
fn ways() -> Vec<(MessageDescriptor, Vec<FieldDescriptor>)> {
    let mut found = Vec::new();
    for method in descriptors()
        .services()
        .flat_map(|service| service.methods().collect::<Vec<_>>())
    {
        for root in [method.input(), method.output()] {
            follow(&root, &root, &mut Vec::new(), &mut found);
        }
    }
    found
}

fn follow(
    root: &MessageDescriptor,
    message: &MessageDescriptor,
    way: &mut Vec<FieldDescriptor>,
    found: &mut Vec<(MessageDescriptor, Vec<FieldDescriptor>)>,
) {
    for field in message.fields() {
        let Kind::Message(inner) = field.kind() else {
            continue;
        };
        let n_times = way.iter().filter(|before| **before == field).count();
        let n_times_max = match field.full_name() {
            "escapement.v1.ExecutionError.cause" => CAUSE_DEPTH_MAX,
            _ => 1,
        };
        if n_times >= n_times_max {
            assert_eq!(n_times_max, CAUSE_DEPTH_MAX, "{} holds itself", field.full_name());
            continue;
        }
        way.push(field);
        if ["google.protobuf.Struct", "google.protobuf.Value"].contains(&inner.full_name()) {
            found.push((root.clone(), way.clone()));
        } else {
            follow(root, &inner, way, found);
        }
        way.pop();
    }
}

/// Messages on the deepest path inside of an encoded message, read field by field as decoders do.
fn nesting(message: &MessageDescriptor, mut encoded: &[u8]) -> usize {
    let mut deepest = 0;
    while !encoded.is_empty() {
        let (number, wire_type) = decode_key(&mut encoded).unwrap();
        match message.get_field(number).map(|field| field.kind()) {
            Some(Kind::Message(inner)) => {
                assert_eq!(wire_type, WireType::LengthDelimited);
                let length = usize::try_from(decode_varint(&mut encoded).unwrap()).unwrap();
                let (content, rest) = encoded.split_at(length);
                deepest = deepest.max(1 + nesting(&inner, content));
                encoded = rest;
            }
            _ => skip_field(wire_type, number, &mut encoded, DecodeContext::default()).unwrap(),
        }
    }
    deepest
}

fn nesting_of(object: &Opaque) -> usize {
    let descriptor = descriptors()
        .get_message_by_name("google.protobuf.Struct")
        .unwrap();
    nesting(&descriptor, object.as_encoded())
}

/// Returns the message that carries nothing but the encoded object or value.
fn carry(way: &[FieldDescriptor], object: &[u8]) -> Vec<u8> {
    way.iter().rev().fold(object.to_vec(), |content, field| {
        carried(field.number(), &content)
    })
}

/// Returns a message with nothing but this message in it.
fn carried(number: u32, content: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::new();
    encode_key(number, WireType::LengthDelimited, &mut encoded);
    encode_varint(content.len() as u64, &mut encoded);
    encoded.extend(content);
    encoded
}

#[test]
fn no_message_of_either_api_is_deeper_than_decoders_go() {
    let ways = ways();
    let mut deepest = 0;
    for (root, way) in &ways {
        let allowed = allowance(way.last().unwrap());
        let last = way.last().unwrap();
        let carried = match is_object(&last.kind()) {
            true => nested_object(allowed).as_encoded().to_vec(),
            // As a value: the object is its only content.
            false => carried(5, nested_object(allowed - VALUE).as_encoded()),
        };
        let n_messages = nesting(root, &carry(way, &carried));
        let names: Vec<&str> = way.iter().map(FieldDescriptor::name).collect();
        let shown = format!("{} {}", root.name(), names.join("."));
        assert_eq!(n_messages, way.len() + allowed, "{shown}");
        assert!(n_messages <= DECODER_NESTING_MAX, "{shown}: {n_messages}");
        deepest = deepest.max(n_messages);
    }
    // The walk reaches what lies deepest: the last events of the newest run of a saved plan.
    assert_eq!(deepest, 98);
    for reached in [
        "escapement.v1.PlanStep.payload",
        "escapement.v1.PlanResult.result_payload",
        "escapement.worker.v1.Assignment.payload",
        "escapement.worker.v1.Success.output",
        "escapement.worker.v1.Failure.context",
        "escapement.runs.v1.RunEvent.data",
        "escapement.runs.v1.RunStep.result_view",
    ] {
        let ends_there = |(_, way): &(_, Vec<FieldDescriptor>)| way.last().unwrap().full_name() == reached;
        assert!(ways.iter().any(ends_there), "{reached}");
    }
}

/// One step that runs, and skips what fails.
fn run_one(outcome: &Outcome) -> Execution {
    let mut draft = request();
    let plan = draft.plan.as_mut().unwrap();
    plan.steps.truncate(1);
    plan.steps[0].on_failure = 1;
    run(draft, |_| outcome.clone())
}

//
#[test]
fn an_output_at_the_limit_is_kept_and_a_deeper_one_is_not() {
    for output in [
        nested_object(OBJECT_NESTING_MAX),
        nested_lists(OBJECT_NESTING_MAX),
    ] {
        assert_eq!(nesting_of(&output), OBJECT_NESTING_MAX);
        let execution = run_one(&completed(output));
        let result = execution.result().unwrap();
        assert_eq!(result.status, Status::Success);
        assert_eq!(
            nesting_of(&result.result_payload),
            AROUND_OUTPUT + OBJECT_NESTING_MAX
        );
    }
    for output in [
        nested_object(OBJECT_NESTING_MAX + 1),
        nested_lists(OBJECT_NESTING_MAX + 2),
    ] {
        let execution = run_one(&completed(output));
        assert_eq!(execution.result().unwrap().status, Status::Failure);
        assert_eq!(top(&execution).code, "UNKNOWN_ERROR");
    }
}

//
#[test]
fn no_error_shows_more_than_its_allowance_whatever_workers_report() {
    let failed = |context: Opaque| {
        Outcome::Failed(Reported {
            code: "BUSY".into(),
            message: String::new(),
            severity: None,
            context,
        })
    };
    let at_the_limit = nested_object(ERROR_CONTEXT_NESTING_MAX);
    let execution = run_one(&failed(at_the_limit));
    assert!(top(&execution).context.has_key("in"));
    assert_eq!(nesting_of(&top(&execution).context), OBJECT_NESTING_MAX);
    for entry in execution.audit() {
        if let AuditKind::AttemptFailed { error, .. } = &entry.kind {
            assert_eq!(nesting_of(&error.context), ERROR_CONTEXT_NESTING_MAX);
        }
    }

    let execution = run_one(&failed(nested_object(ERROR_CONTEXT_NESTING_MAX + 1)));
    let context = &top(&execution).context;
    assert!(!context.has_key("in"));
    let mut entries = context.entries().map(Result::unwrap);
    let why = entries.find(|(key, _)| *key == "context_dropped").unwrap().1;
    let said = "is nested deeper than 82 protobuf messages";
    assert_eq!(why, ValueView::Text(said));
}

//
#[test]
fn a_warning_is_held_to_the_same_limit() {
    let warned = |context: Opaque| Outcome::Completed {
        output: Opaque::default(),
        warnings: vec![Reported {
            code: "ODD".into(),
            message: String::new(),
            severity: None,
            context,
        }],
    };
    for (n_messages, kept) in [
        (ERROR_CONTEXT_NESTING_MAX, true),
        (ERROR_CONTEXT_NESTING_MAX + 1, false),
    ] {
        let execution = run_one(&warned(nested_object(n_messages)));
        let warning = execution.audit().iter().find_map(|entry| match &entry.kind {
            AuditKind::StepCompleted { warnings, .. } => warnings.first().cloned(),
            _ => None,
        });
        assert_eq!(warning.unwrap().context.has_key("in"), kept);
    }
}

#[test]
fn the_count_sees_what_a_later_value_replaces() {
    let deep = nested_object(40 * 3);
    let shadowed = StructBuilder::new()
        .object("a", deep.as_encoded())
        .boolean("a", true)
        .build();
    assert_eq!(nesting_of(&shadowed), 3 + 40 * 3);
    assert!(shadowed.check().is_err());
}
