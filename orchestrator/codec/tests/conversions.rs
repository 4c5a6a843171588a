//! What goes through a conversion comes out as it went in.
#![allow(
    clippy::unwrap_used,
    missing_docs,
    reason = "a test fails by panicking and its name is its documentation"
)]

use bytes::Bytes;
use escapement_codec::certificate;
use escapement_codec::request;
use escapement_codec::session_in;
use escapement_codec::stored;
use escapement_contract::{Outcome, Request, validate_request};
use escapement_engine::{AttemptReport, FromWorker, ReleaseReason};
use escapement_model::opaque::StructBuilder;
use escapement_model::{ExecutionId, Opaque, SessionId, Severity, limits};
use escapement_wire::v1;
use escapement_wire::worker::v1 as worker;
use escapement_wire::worker::v1::session_request::Message;
use prost::Message as _;
use std::collections::BTreeMap;

fn uuid(number: u32) -> String {
    format!("00000000-0000-4000-8000-{number:012}")
}

#[test]
fn a_message_holds_few_texts_that_are_not_kept() {
    let texts = |bytes: usize| {
        let text = "t".repeat(bytes);
        let action = worker::ActionSpec {
            name: "a".into(),
            description: text.clone(),
            ..worker::ActionSpec::default()
        };
        let hello = worker::Hello {
            instance_id: vec![1; 16].into(),
            ..worker::Hello::default()
        };
        [
            Message::Drain(worker::Drain {
                reason: text.clone(),
                ..worker::Drain::default()
            }),
            Message::Goodbye(worker::Goodbye { reason: text.clone() }),
            Message::RegisterActions(worker::RegisterActions {
                actions: vec![action.clone(), action],
                ..worker::RegisterActions::default()
            }),
            Message::Hello(worker::Hello {
                build: text.clone(),
                ..hello.clone()
            }),
            Message::Hello(worker::Hello {
                labels: [(text.clone(), text)].into(),
                ..hello
            }),
        ]
    };
    let read = |message| {
        session_in::incoming(worker::SessionRequest {
            seq: 1,
            message: Some(message),
        })
    };
    assert!(texts(20_000).map(read).iter().all(Result::is_ok));
    assert!(texts(70_000).map(read).iter().all(Result::is_err));
}

fn object(key: &str) -> Opaque {
    StructBuilder::new()
        .text(key, "text")
        .number("n", 1.5)
        .null("nothing")
        .build()
}

fn step(number: u32, on_failure: i32, depends_on: &[u32]) -> v1::PlanStep {
    v1::PlanStep {
        id: uuid(number),
        action: format!("action-{number}"),
        payload: Some(if number == 2 {
            Opaque::default()
        } else {
            object("payload")
        }),
        depends_on: depends_on.iter().map(|number| uuid(*number)).collect(),
        on_failure,
        timeout_ms: (number == 3).then_some(250),
    }
}

/// Returns every field set to something else than its default.
fn full() -> v1::SubmitPlanRequest {
    v1::SubmitPlanRequest {
        plan: Some(v1::Plan {
            id: uuid(100),
            version: 1,
            created_at: 1_700_000_000_000,
            steps: vec![step(1, 0, &[]), step(2, 1, &[1]), step(3, 2, &[1, 2])],
            name: "every field".to_owned(),
            context_requirements: vec!["environment".to_owned()],
            priority: Some(-3),
            timeout_ms: Some(60_000),
            retry_policy: Some(v1::RetryPolicy {
                max_attempts: Some(4),
                backoff_ms: Some(10),
                backoff_multiplier: Some(1.75),
                max_backoff_ms: Some(900),
                retryable_error_codes: vec!["BUSY".to_owned(), "*".to_owned()],
            }),
            metadata: Some(object("metadata")),
            tags: vec!["a".to_owned(), "b".to_owned()],
            estimated_duration_ms: Some(1_234),
        }),
        environment: Some(object("environment")),
        execution_id: Some(uuid(200)),
        deadline_ms: Some(1_900_000_000_000),
        parent_execution_id: Some(uuid(300)),
        user_id: Some("user".to_owned()),
        request_id: Some("request".to_owned()),
        correlation_context: BTreeMap::from([("traceparent".to_owned(), "00-1-2-01".to_owned())]),
        options: Some(v1::ExecutionOptions {
            max_concurrent_steps: Some(7),
        }),
        // It is no part of what is asked for.
        namespace: String::new(),
    }
}

/// Only what is required.
fn lean() -> v1::SubmitPlanRequest {
    v1::SubmitPlanRequest {
        plan: Some(v1::Plan {
            id: uuid(100),
            version: 1,
            created_at: 1,
            steps: vec![step(2, 0, &[])],
            name: "lean".to_owned(),
            context_requirements: vec!["key".to_owned()],
            ..v1::Plan::default()
        }),
        ..v1::SubmitPlanRequest::default()
    }
}

fn validated(wire: v1::SubmitPlanRequest) -> Request {
    validate_request(request::request_draft(wire), 1_024).unwrap()
}

#[test]
fn a_request_comes_back_from_its_record_as_the_same_request() {
    for wire in [full(), lean()] {
        let accepted = validated(wire);
        let execution_id = accepted
            .execution_id()
            .unwrap_or(ExecutionId::from_random([5; 16]));
        let record = stored::encode_accepted(&accepted, execution_id);
        let recovered = stored::decode_accepted(&record).unwrap();
        assert_eq!(recovered.digest(), accepted.digest());
        assert_eq!(recovered.execution_id(), Some(execution_id));
        assert_eq!(recovered.plan(), accepted.plan());
        assert_eq!(recovered.environment(), accepted.environment());
        assert_eq!(recovered.deadline_ms(), accepted.deadline_ms());
        assert_eq!(recovered.correlation_context(), accepted.correlation_context());
        assert_eq!(recovered.max_concurrent_steps(), accepted.max_concurrent_steps());
    }
}

/// Returns a valid plan of exactly the largest size, which leaves out everything that has a default.
fn largest() -> v1::SubmitPlanRequest {
    let text = |bytes: usize| StructBuilder::new().text("text", &"x".repeat(bytes)).build();
    let mut wire = lean();
    let plan = wire.plan.as_mut().unwrap();
    let fills = [limits::PAYLOAD_BYTES_MAX - 200; 4].into_iter().chain([0]);
    plan.steps = (1..)
        .zip(fills)
        .map(|(number, fill)| v1::PlanStep {
            payload: Some(text(fill)),
            ..step(number, 0, &[])
        })
        .collect();
    while plan.encoded_len() < limits::PLAN_BYTES_MAX {
        let missing = limits::PLAN_BYTES_MAX - plan.encoded_len();
        // A length of a text takes more bytes as the text grows, so the last bytes go into a name.
        if missing > 200 {
            plan.steps[4].payload = Some(text(missing - 150));
        } else {
            plan.name.push('x');
        }
    }
    assert_eq!(plan.encoded_len(), limits::PLAN_BYTES_MAX);
    wire
}

#[test]
fn the_largest_plan_that_is_accepted_comes_back_from_its_record() {
    let accepted = validated(largest());
    let execution_id = ExecutionId::from_random([5; 16]);
    let record = stored::encode_accepted(&accepted, execution_id);
    let recovered = stored::decode_accepted(&record).unwrap();
    assert_eq!(recovered.digest(), accepted.digest());
}

#[test]
fn a_record_that_spells_defaults_out_is_not_too_large_for_that() {
    let accepted = validated(largest());
    let mut spelt_out = request::request_to_wire(&accepted, ExecutionId::from_random([5; 16]));
    let plan = spelt_out.plan.as_mut().unwrap();
    plan.priority = Some(0);
    plan.timeout_ms = Some(limits::PLAN_TIMEOUT_MS_DEFAULT);
    plan.retry_policy = Some(v1::RetryPolicy {
        max_attempts: Some(1),
        backoff_ms: Some(0),
        backoff_multiplier: Some(1.0),
        max_backoff_ms: Some(limits::BACKOFF_MS_MAX_DEFAULT),
        retryable_error_codes: Vec::new(),
    });
    plan.metadata = Some(Opaque::default());
    let record = Bytes::from(spelt_out.encode_to_vec());
    let recovered = stored::decode_accepted(&record).unwrap();
    assert_eq!(recovered.digest(), accepted.digest());
}

#[test]
fn a_request_without_what_has_defaults_goes_back_to_the_wire_without_it() {
    let plan = request::request_to_wire(&validated(lean()), uuid(200).parse().unwrap()).plan;
    assert_eq!(plan, lean().plan);
}

#[test]
fn a_full_request_goes_back_to_the_wire_unchanged() {
    let wire = full();
    let id = uuid(200).parse().unwrap();
    assert_eq!(request::request_to_wire(&validated(wire.clone()), id), wire);
}

#[test]
fn both_ways_of_handing_a_plan_in_mean_the_same_request() {
    let submit = full();
    let execute = v1::ExecutePlanRequest::decode(submit.encode_to_vec().as_slice()).unwrap();
    assert_eq!(request::submit_of_execute(execute), submit);
}

//
#[test]
fn the_certificate_comes_back_from_the_record_of_an_acceptance() {
    for wire in [full(), lean(), largest(), out_of_order()] {
        let accepted = validated(wire);
        let record = stored::encode_accepted(&accepted, ExecutionId::from_random([5; 16]));
        let plan = accepted.plan();
        let certified = plan.certificate(accepted.max_concurrent_steps());
        let expected = certificate::certificate(plan, &certified);
        assert_eq!(stored::accepted_certificate(&record).unwrap(), Some(expected));
        // It takes few bytes: no ids.
        let request = request::request_to_wire(&accepted, ExecutionId::from_random([5; 16]));
        let n_bytes = record.len() - request.encoded_len();
        assert!(n_bytes < 80 + 12 * plan.steps().len(), "{n_bytes}");
    }
}

/// Returns a plan whose canonical order is not that of its list.
fn out_of_order() -> v1::SubmitPlanRequest {
    let mut wire = lean();
    wire.plan.as_mut().unwrap().steps = vec![step(2, 0, &[3]), step(3, 0, &[])];
    wire
}

//
#[test]
fn what_an_earlier_version_accepted_has_no_certificate_and_is_read_as_before() {
    let accepted = validated(full());
    let execution_id = ExecutionId::from_random([5; 16]);
    let earlier = Bytes::from(request::request_to_wire(&accepted, execution_id).encode_to_vec());
    assert_eq!(stored::accepted_certificate(&earlier).unwrap(), None);
    assert_eq!(
        stored::decode_accepted(&earlier).unwrap().digest(),
        accepted.digest()
    );
    // An earlier version reads the record of this one in the same way: it is the same message with one field more.
    let record = stored::encode_accepted(&accepted, execution_id);
    assert!(record.starts_with(&earlier));
    let read = v1::SubmitPlanRequest::decode(record).unwrap();
    assert_eq!(read, request::request_to_wire(&accepted, execution_id));
}

#[test]
fn a_certificate_that_names_steps_beyond_the_plan_is_unreadable() {
    let accepted = validated(out_of_order());
    let certified = certificate::to_store(&accepted.plan().certificate(1));
    let beyond = |certificate| {
        let request = request::request_to_wire(&accepted, ExecutionId::from_random([5; 16]));
        let mut record = request.encode_to_vec();
        let certificate = Some(certificate);
        record.extend(
            v1::StoredAcceptance {
                certificate,
                ..v1::StoredAcceptance::default()
            }
            .encode_to_vec(),
        );
        stored::accepted_certificate(&Bytes::from(record))
    };
    assert!(beyond(certified.clone()).unwrap().is_some());
    let damaged = [
        v1::StoredCertificate {
            canonical_order: vec![0, 2],
            ..certified.clone()
        },
        v1::StoredCertificate {
            critical_steps: vec![0, 2],
            ..certified.clone()
        },
        v1::StoredCertificate {
            critical_steps_ms: vec![],
            ..certified.clone()
        },
        v1::StoredCertificate {
            critical_steps_attempts: vec![],
            ..certified
        },
    ];
    for certificate in damaged {
        assert!(beyond(certificate).is_err());
    }
}

#[test]
fn an_unknown_on_failure_reaches_the_contract_and_is_refused() {
    let mut wire = lean();
    wire.plan.as_mut().unwrap().steps[0].on_failure = 9;
    let violations = validate_request(request::request_draft(wire), 1_024).unwrap_err();
    assert_eq!(violations.first().field, "plan.steps[0].on_failure");
}

#[test]
fn a_record_that_is_cut_or_foreign_is_unreadable() {
    let accepted = validated(full());
    let record = stored::encode_accepted(&accepted, accepted.execution_id().unwrap());
    assert!(stored::decode_accepted(&record.slice(..record.len() - 1)).is_err());
    assert!(stored::decode_accepted(&Bytes::from_static(b"")).is_err());
}

fn outcomes(items: Vec<worker::AttemptOutcome>) -> session_in::Incoming {
    let message = Some(Message::Outcomes(worker::Outcomes { items }));
    session_in::incoming(worker::SessionRequest { seq: 1, message }).unwrap()
}

fn outcome(outcome: Option<worker::attempt_outcome::Outcome>) -> AttemptReport {
    let item = worker::AttemptOutcome {
        attempt_token: Bytes::from_static(&[3; 16]),
        run_time_ms: 5,
        outcome,
    };
    let FromWorker::Outcomes { mut items, .. } = outcomes(vec![item]).message else {
        panic!("not outcomes")
    };
    items.pop().unwrap().1
}

#[test]
fn an_outcome_that_cannot_be_read_is_undecodable() {
    use worker::attempt_outcome::Outcome as Wire;
    let garbage = Opaque::from_encoded(Bytes::from_static(&[0xff; 9]));
    let success = worker::Success {
        output: Some(garbage),
        warnings: Vec::new(),
    };
    for unreadable in [None, Some(Wire::Success(success))] {
        let report = outcome(unreadable);
        assert!(
            matches!(report, AttemptReport::Outcome(Outcome::Undecodable { .. })),
            "{report:?}"
        );
    }
}

#[test]
fn an_absent_output_counts_as_empty() {
    let success = worker::attempt_outcome::Outcome::Success(worker::Success::default());
    let AttemptReport::Outcome(Outcome::Completed { output, warnings }) = outcome(Some(success)) else {
        panic!("completed");
    };
    assert!(output.is_empty() && warnings.is_empty());
}

#[test]
fn a_severity_that_was_not_said_is_not_made_up() {
    use v1::execution_error::Severity as Wire;
    let table = [
        (Wire::Unspecified as i32, None),
        (99, None),
        (Wire::Warn as i32, Some(Severity::Warn)),
        (Wire::Error as i32, Some(Severity::Error)),
        (Wire::Fatal as i32, Some(Severity::Fatal)),
    ];
    for (severity, expected) in table {
        let failure = worker::Failure {
            code: "X".to_owned(),
            severity,
            ..worker::Failure::default()
        };
        let report = outcome(Some(worker::attempt_outcome::Outcome::Failure(failure)));
        let AttemptReport::Outcome(Outcome::Failed(reported)) = report else {
            panic!("failed")
        };
        assert_eq!(reported.severity, expected);
    }
}

#[test]
fn a_release_says_why() {
    use worker::released::Reason;
    for (reason, expected) in [
        (Reason::Drain, ReleaseReason::Drain),
        (Reason::LeaseExpired, ReleaseReason::LeaseExpired),
    ] {
        let released = worker::Released {
            reason: reason as i32,
        };
        let report = outcome(Some(worker::attempt_outcome::Outcome::Released(released)));
        assert!(matches!(report, AttemptReport::Released(said) if said == expected));
    }
}

#[test]
fn an_outcome_without_a_token_keeps_its_bytes_for_the_answer() {
    let item = |token: &'static [u8]| worker::AttemptOutcome {
        attempt_token: Bytes::from_static(token),
        ..worker::AttemptOutcome::default()
    };
    let incoming = outcomes(vec![item(b"short"), item(&[1; 16]), item(b"")]);
    let FromWorker::Outcomes { items, unreadable } = incoming.message else {
        panic!("not outcomes")
    };
    assert_eq!(items.len(), 1);
    assert_eq!(unreadable, [Bytes::from_static(b"short"), Bytes::new()]);
}

#[test]
fn an_unknown_arm_is_passed_on_as_unknown() {
    // Field 99 is no arm of this revision.
    let bytes: &[u8] = &[8, 1, 0x9a, 0x06, 0];
    let request = worker::SessionRequest::decode(bytes).unwrap();
    assert!(matches!(
        session_in::incoming(request).unwrap().message,
        FromWorker::Unknown
    ));
}

#[test]
fn a_hello_without_an_instance_id_ends_the_session() {
    let message = Some(Message::Hello(worker::Hello::default()));
    assert!(session_in::incoming(worker::SessionRequest { seq: 1, message }).is_err());
}

#[test]
fn a_hello_names_the_session_before_or_none() {
    let previous_of = |bytes: Vec<u8>| {
        let hello = worker::Hello {
            instance_id: vec![7; 16].into(),
            previous_session_id: bytes.into(),
            ..worker::Hello::default()
        };
        match read(Message::Hello(hello)) {
            FromWorker::Hello(hello) => hello.previous_session_id,
            other => panic!("a hello, not {other:?}"),
        }
    };
    assert_eq!(previous_of(vec![3; 16]), Some(SessionId::new([3; 16])));
    for none in [vec![], vec![3; 15], vec![3; 17]] {
        assert_eq!(previous_of(none), None);
    }
}

#[test]
fn what_a_worker_says_about_itself_is_cut_to_its_limits() {
    // Two bytes each, so that a cut between bytes would show.
    let long = "é".repeat(2_000);
    let spec = worker::ActionSpec {
        name: "copy".to_owned(),
        description: long.clone(),
        ..worker::ActionSpec::default()
    };
    let hello = worker::Hello {
        instance_id: vec![7; 16].into(),
        build: long.clone(),
        labels: [(long.clone(), long.clone()), ("a".to_owned(), "b".to_owned())].into(),
        actions: vec![spec.clone()],
        ..worker::Hello::default()
    };
    let FromWorker::Hello(hello) = read(Message::Hello(hello)) else {
        panic!("a hello");
    };
    let label = "é".repeat(limits::LABEL_CHARS_MAX);
    let description = "é".repeat(limits::MESSAGE_CHARS_MAX);
    assert_eq!(hello.build, label);
    let labels = [(label.clone(), label), ("a".to_owned(), "b".to_owned())];
    assert_eq!(hello.labels, labels.into());
    assert_eq!(hello.actions[0].description, description);

    let registered = worker::RegisterActions {
        revision: 1,
        actions: vec![spec],
    };
    let FromWorker::RegisterActions { actions, .. } = read(Message::RegisterActions(registered)) else {
        panic!("actions");
    };
    assert_eq!(actions[0].description, description);
}

fn read(message: Message) -> FromWorker {
    let request = worker::SessionRequest {
        seq: 1,
        message: Some(message),
    };
    session_in::incoming(request).unwrap().message
}
