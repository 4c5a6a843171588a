//! Real messages to begin with, made here and never drawn at random. Targets add what only they understand.

use bytes::Bytes;
use escapement_codec::request::request_draft;
use escapement_codec::stored;
use escapement_contract::{
    Execution, Input, Moment, Outcome, Phase, Reported, Request, Settlement, validate_request,
};
use escapement_model::opaque::{ListBuilder, StructBuilder};
use escapement_model::{ExecutionId, Opaque};
use escapement_wire::v1;
use escapement_wire::worker::v1 as worker;
use std::sync::Arc;

/// When everything happens, in Unix milliseconds.
pub(crate) const UNIX_MS: i64 = 1_766_016_000_000;

/// Returns a UUID v4 that counts.
pub(crate) fn id(kind: u8, n: u8) -> String {
    let mut bytes = [0; 16];
    (bytes[0], bytes[15]) = (kind, n);
    ExecutionId::from_random(bytes).to_string()
}

/// Returns a key of Ed25519 that is nobody's, and always the same.
pub(crate) fn key_pair() -> rcgen::KeyPair {
    rcgen::KeyPair::from_pem(include_str!("ed25519.pem")).expect("the file holds a key")
}

fn step(n: u8, depends_on: &[u8]) -> v1::PlanStep {
    v1::PlanStep {
        id: id(2, n),
        action: ["a", "b"][usize::from(n % 2)].to_owned(),
        payload: Some(Opaque::default()),
        depends_on: depends_on.iter().map(|other| id(2, *other)).collect(),
        on_failure: i32::from(n % 3),
        timeout_ms: (n % 2 == 1).then_some(500),
    }
}

/// Valid requests: a small one, and one that says everything that can be said.
pub(crate) fn requests() -> Vec<v1::SubmitPlanRequest> {
    let plan = v1::Plan {
        id: id(1, 1),
        version: 1,
        created_at: UNIX_MS,
        steps: vec![step(0, &[])],
        name: "small".to_owned(),
        context_requirements: vec!["region".to_owned()],
        ..v1::Plan::default()
    };
    let small = v1::SubmitPlanRequest {
        plan: Some(plan.clone()),
        environment: Some(environment()),
        ..v1::SubmitPlanRequest::default()
    };
    let full = v1::SubmitPlanRequest {
        plan: Some(v1::Plan {
            steps: vec![step(0, &[1]), step(1, &[]), step(2, &[0, 1, 1]), step(3, &[])],
            priority: Some(-3),
            timeout_ms: Some(60_000),
            retry_policy: Some(v1::RetryPolicy {
                max_attempts: Some(3),
                backoff_ms: Some(100),
                backoff_multiplier: Some(2.0),
                max_backoff_ms: Some(1_000),
                retryable_error_codes: vec!["*".to_owned(), "BUSY".to_owned()],
            }),
            metadata: Some(environment()),
            tags: vec!["nightly".to_owned(), "x".to_owned()],
            estimated_duration_ms: Some(5_000),
            ..plan
        }),
        environment: Some(environment()),
        execution_id: Some(id(3, 1)),
        deadline_ms: Some(UNIX_MS + 600_000),
        parent_execution_id: Some(id(3, 2)),
        user_id: Some("desk-7".to_owned()),
        request_id: Some("request-9".to_owned()),
        namespace: "billing".to_owned(),
        correlation_context: [("traceparent".to_owned(), "00-1-2-01".to_owned())].into(),
        options: Some(v1::ExecutionOptions {
            max_concurrent_steps: Some(2),
        }),
    };
    vec![small, full]
}

/// Returns an environment with the key that the requests require.
pub(crate) fn environment() -> Opaque {
    StructBuilder::new().text("region", "eu").build()
}

/// Free-form objects with every kind of value.
pub(crate) fn objects() -> Vec<Opaque> {
    let list = ListBuilder::new()
        .null()
        .number(1.5)
        .text("t")
        .boolean(true)
        .object(environment().as_encoded())
        .list(ListBuilder::new().number(-0.0));
    let all = StructBuilder::new()
        .null("n")
        .number("i", 12.0)
        .number("d", f64::NAN)
        .text("t", "text")
        .boolean("b", false)
        .object("o", environment().as_encoded())
        .list("l", list);
    let deep = (0..29).fold(Opaque::default(), |inner, _| {
        StructBuilder::new().object("k", inner.as_encoded()).build()
    });
    // An entry with a value twice, and a value with two objects.
    let value = [&[0x2a, 16][..], environment().as_encoded()].concat();
    let doubled = |value: &[u8]| [&[0x12, u8::try_from(value.len()).expect("it is short")], value].concat();
    let entry = [&[0x0a, 1, b'k'][..], &doubled(&value), &doubled(&value.repeat(2))].concat();
    let parts = [
        &[0x0a, u8::try_from(entry.len()).expect("it is short")],
        &entry[..],
    ]
    .concat();
    let parts = Opaque::from_encoded(Bytes::from(parts));
    vec![Opaque::default(), environment(), all.build(), deep, parts]
}

/// Returns a stub of every kind.
pub(crate) fn simulation() -> v1::SimulatePlanRequest {
    use v1::attempt_stub::Outcome;
    let request = requests().swap_remove(1);
    let context = objects().swap_remove(2);
    let failure = v1::FailureStub {
        error_code: "BUSY".to_owned(),
        message: "Later.".to_owned(),
        severity: 2,
        context: Some(context.clone()),
    };
    let outcomes = [
        Outcome::Output(context),
        Outcome::Failure(failure),
        Outcome::Lost(true),
        Outcome::Returned(true),
        Outcome::Silent(true),
        Outcome::ActionNotFound(true),
    ];
    let attempts = outcomes.map(|outcome| v1::AttemptStub {
        waits_ms: 1,
        takes_ms: 300,
        outcome: Some(outcome),
    });
    v1::SimulatePlanRequest {
        plan: request.plan,
        environment: request.environment,
        options: request.options,
        namespace: "billing".to_owned(),
        started_at: Some(UNIX_MS),
        deadline_ms: None,
        stubs: vec![
            v1::StepStub {
                step_id: None,
                action: None,
                attempts: attempts.to_vec(),
            },
            v1::StepStub {
                step_id: None,
                action: Some("b".to_owned()),
                attempts: attempts[3..].to_vec(),
            },
            v1::StepStub {
                step_id: Some(id(2, 0)),
                action: None,
                attempts: attempts[1..4].to_vec(),
            },
        ],
    }
}

/// Returns a list request with every filter.
pub(crate) fn list_request() -> v1::ListExecutionsRequest {
    v1::ListExecutionsRequest {
        page_size: Some(3),
        page_token: "01".to_owned(),
        state: 3,
        status: 1,
        plan_name: Some("plan 1".to_owned()),
        tag: Some("all".to_owned()),
        user_id: Some("user 2".to_owned()),
        accepted_after: Some(UNIX_MS),
        accepted_before: Some(UNIX_MS + 1),
        parent_execution_id: Some(id(3, 2)),
        namespace: "billing".to_owned(),
    }
}

fn token(n: u8) -> Bytes {
    Bytes::copy_from_slice(&[n; 16])
}

fn failure(code: &str) -> worker::Failure {
    worker::Failure {
        code: code.to_owned(),
        message: "it did not work".to_owned(),
        severity: 2,
        context: Some(environment()),
        not_here: false,
    }
}

fn outcomes() -> Vec<worker::AttemptOutcome> {
    use worker::attempt_outcome::Outcome;
    let success = worker::Success {
        output: Some(environment()),
        warnings: vec![failure("SLOW")],
    };
    let all = [
        Outcome::Success(success),
        Outcome::Failure(failure("BUSY")),
        Outcome::Released(worker::Released { reason: 1 }),
    ];
    let item = |(n, outcome)| worker::AttemptOutcome {
        attempt_token: token(n),
        run_time_ms: 5,
        outcome: Some(outcome),
    };
    (1..).zip(all).map(item).collect()
}

/// Outcomes that come without a session.
pub(crate) fn reported_outcomes() -> worker::ReportOutcomesRequest {
    worker::ReportOutcomesRequest { items: outcomes() }
}

/// One message of each kind that workers send.
pub(crate) fn worker_messages() -> Vec<worker::SessionRequest> {
    use worker::session_request::Message;
    let action = |name: &str, waits| worker::ActionSpec {
        name: name.to_owned(),
        max_in_flight: 2,
        description: "does it".to_owned(),
        input_schema: "{}".to_owned(),
        waits,
        traits: Some(Box::new(v1::ActionTraits {
            output_schema: "{}".to_owned(),
            produces: vec!["image".to_owned()],
            ..v1::ActionTraits::default()
        })),
    };
    let in_flight = vec![worker::InFlight {
        attempt_token: token(1),
        phase: 2,
    }];
    let hello = worker::Hello {
        protocol_min: 1,
        protocol_max: 1,
        worker_id: "worker-1".to_owned(),
        instance_id: token(7),
        previous_session_id: token(8),
        boot_id_seen: token(9),
        actions: vec![action("a", false), action("b", true)],
        max_in_flight: 4,
        in_flight: in_flight.clone(),
        labels: [("zone".to_owned(), "1".to_owned())].into(),
        build: "build".to_owned(),
        hello_number: 1,
    };
    let rejected = worker::RejectedAttempt {
        attempt_token: token(2),
        reason: 2,
    };
    let messages = [
        Message::Hello(hello),
        Message::RegisterActions(worker::RegisterActions {
            revision: 1,
            actions: vec![action("a", false)],
        }),
        Message::Capacity(worker::Capacity {
            revision: 1,
            max_in_flight: 2,
            per_action: [("a".to_owned(), 1)].into(),
        }),
        Message::Heartbeat(worker::Heartbeat {
            n: 1,
            in_flight: 1,
            in_flight_hash: token(1),
        }),
        Message::AttemptAcks(worker::AttemptAcks {
            started: vec![token(1)],
            rejected: vec![rejected],
            stopped: vec![token(3)],
        }),
        Message::Outcomes(worker::Outcomes { items: outcomes() }),
        Message::Snapshot(worker::Snapshot {
            n: 1,
            last_assignment_seq: 2,
            in_flight,
        }),
        Message::Drain(worker::Drain::default()),
        Message::Goodbye(worker::Goodbye::default()),
    ];
    let request = |(seq, message)| worker::SessionRequest {
        seq,
        message: Some(message),
    };
    (1..).zip(messages).map(request).collect()
}

/// Messages to workers that have lists.
pub(crate) fn orchestrator_messages() -> Vec<worker::SessionResponse> {
    use worker::session_response::Message;
    let refusal = worker::ActionRefusal {
        name: "c".to_owned(),
        reason: "too long".to_owned(),
    };
    let verdict = worker::AttemptVerdict {
        attempt_token: token(1),
        verdict: 1,
    };
    let welcome = worker::Welcome {
        session_id: token(1),
        refused_actions: vec![refusal],
        verdicts: vec![verdict],
        peers: vec!["here:1".to_owned()],
        ..worker::Welcome::default()
    };
    let assignment = worker::Assignment {
        attempt_token: token(1),
        execution_id: id(3, 1),
        payload: Some(environment()),
        environment: Some(environment()),
        headers: [("a".to_owned(), "b".to_owned())].into(),
        ..worker::Assignment::default()
    };
    let ack = worker::OutcomeAck {
        attempt_token: token(1),
        verdict: 1,
    };
    let cancel = worker::Cancel {
        attempt_token: token(1),
        reason: 1,
        grace_ms: 5,
    };
    let messages = [
        Message::Welcome(welcome),
        Message::Assignments(worker::Assignments {
            items: vec![assignment],
        }),
        Message::OutcomeAcks(worker::OutcomeAcks { items: vec![ack] }),
        Message::Cancels(worker::Cancels { items: vec![cancel] }),
    ];
    let response = |message| worker::SessionResponse {
        seq: 1,
        message: Some(message),
    };
    messages.map(response).into()
}

/// Returns the request that says everything, validated.
pub(crate) fn full_request() -> Request {
    let full = requests().pop().expect("there are two");
    validate_request(request_draft(full), 256).expect("the seed is valid")
}

/// Returns an execution of that request that has ended with all sorts of errors.
pub(crate) fn settlement() -> Arc<Settlement> {
    let mut now = Moment {
        monotonic_ms: 1_000,
        unix_ms: UNIX_MS,
    };
    let request = Arc::new(full_request());
    let execution_id = request.execution_id().expect("the seed has one");
    let mut execution = Execution::accept(request, execution_id, UNIX_MS, UNIX_MS + 600_000, now);
    let mut take = |execution: &mut Execution, input| {
        now.monotonic_ms += 1;
        now.unix_ms += 1;
        execution.handle(now, input).expect("the seed's inputs fit");
    };
    take(&mut execution, Input::Start);
    take(&mut execution, Input::StartPersisted);
    while execution.phase() == Phase::Running {
        let mut dispatched = Vec::new();
        while let Some(effect) = execution.poll_effect() {
            if let escapement_contract::Effect::Dispatch { step, attempt } = effect {
                dispatched.push((step, attempt));
            }
        }
        assert!(
            !dispatched.is_empty(),
            "the seed has no delay that outlasts its steps"
        );
        for (step, attempt) in dispatched {
            let worker = "worker-1".into();
            take(
                &mut execution,
                Input::Assigned {
                    step,
                    attempt,
                    worker,
                },
            );
            let outcome = if step.as_usize() == 0 {
                Outcome::Failed(Reported {
                    code: "ODD".to_owned(),
                    message: "it did not work".to_owned(),
                    severity: None,
                    context: environment(),
                })
            } else {
                Outcome::Completed {
                    output: environment(),
                    warnings: vec![Reported::default()],
                }
            };
            if execution.phase() == Phase::Running {
                take(
                    &mut execution,
                    Input::AttemptEnded {
                        step,
                        attempt,
                        outcome,
                    },
                );
            }
        }
    }
    take(&mut execution, Input::SettlePersisted);
    Arc::clone(execution.settlement().expect("it has ended"))
}

/// Returns the result record and the audit record of that execution.
pub(crate) fn settled() -> (Vec<u8>, Vec<u8>) {
    let settlement = settlement();
    let result = stored::encode_result(&settlement.result);
    let audit = stored::encode_audit(&settlement.audit);
    (result.to_vec(), audit.to_vec())
}
