//! Questions, approvals, and who may answer them.

use bytes::Bytes;
use escapement_run::journal::Decision::{Answer, Approve, ApproveWithEdits, Deny};
use escapement_run::journal::OutcomeClass::{ApprovalRequired, Failed};
use escapement_run::journal::{RequestKind, RequestState, Responder, ResponderKind};
use escapement_run::outcome::{ContractEnd, ContractError, classify};
use escapement_run::presets::Preset;
use escapement_run::spec::Spec;
use escapement_run::{Input, RefusedReason};
use serde_json::{Value, json};

use crate::world::{World, and, call, json_of_value, opaque, spec, tool};

fn at_level(level: u32) -> Spec {
    Spec {
        autonomy_level: level,
        ..spec(Preset::Standard)
    }
}

fn question(more: Value) -> Value {
    json!({"key": "q", "type": "user_input", "config": and(json!({"question": "Which for ${input:/city}?"}), more)})
}

// RUN-6.4, RUN-6.5, RUN-2.2
#[test]
fn a_question_waits_for_an_answer_that_fits() {
    let step = question(json!({"input_type": "choice", "options": ["tea", "coffee"]}));
    let mut world = World::of(json!([step, call("a")]));
    assert_eq!(world.shows(), "waiting: q running, a pending");
    let request = world.asked();
    assert_eq!(
        (request.question.as_str(), request.options.len()),
        ("Which for Bern?", 2)
    );
    for wrong in [json!("milk"), json!(1), json!(null), json!(["tea"])] {
        let answer = world.answer_of(&request, "bob", Answer, wrong.clone());
        assert_eq!(
            world.refusal(Input::Answer(answer)),
            RefusedReason::AnswerInvalid,
            "{wrong}"
        );
    }
    let wrong = world.answer_of(&request, "bob", Approve, Value::Null);
    assert_eq!(world.refusal(Input::Answer(wrong)), RefusedReason::AnswerInvalid);
    world.answer(Answer, json!("tea"));
    assert_eq!(world.shows(), "running: q completed, a running");
    // The same again is the same; another one comes too late.
    let entries = world.journal.len();
    let same = world.answer_of(&request, "bob", Answer, json!("tea"));
    world.input(Input::Answer(same));
    assert_eq!(world.journal.len(), entries);
    let other = world.answer_of(&request, "eve", Answer, json!("coffee"));
    let refused = world.try_input(Input::Answer(other)).unwrap_err();
    assert_eq!(refused.reason, RefusedReason::AlreadyAnswered);
    assert!(refused.message.contains("bob"), "{}", refused.message);
}

// RUN-6.4
#[test]
fn a_question_that_is_too_long_is_not_asked() {
    let mut world = World::of(json!([call("a"), question(json!({"question": "${a:/x}"}))]));
    world.complete("a", json!({"x": "y".repeat(48 * 1024 + 1)}));
    assert_eq!(world.error().0, "INPUT_TOO_LARGE");
}

// RUN-6.5
#[test]
fn each_type_takes_its_own_values() {
    let table = [
        ("text", json!("x"), json!(true)),
        ("confirm", json!(false), json!("yes")),
        ("form", json!({"a": 1}), json!([1])),
    ];
    for (input_type, right, wrong) in table {
        let mut world = World::of(json!([question(json!({"input_type": input_type}))]));
        let refused = world.answer_of(&world.asked(), "bob", Answer, wrong);
        assert_eq!(
            world.refusal(Input::Answer(refused)),
            RefusedReason::AnswerInvalid,
            "{input_type}"
        );
        world.answer(Answer, right.clone());
        assert_eq!(world.output(), right);
    }
}

// RUN-6.6
#[test]
fn a_question_takes_its_default_or_fails_when_its_time_is_over() {
    let mut default = World::of(json!([
        question(json!({"timeout_ms": 500, "default_answer": "none"})),
        call("a")
    ]));
    default.pass(500);
    assert_eq!(default.shows(), "running: q completed, a running");
    let mut without = World::of(json!([question(json!({"timeout_ms": 500}))]));
    let request = without.asked();
    without.pass(500);
    assert_eq!(without.error().0, "INPUT_EXPIRED");
    let late = without.answer_of(&request, "bob", Answer, json!("tea"));
    assert_eq!(without.refusal(Input::Answer(late)), RefusedReason::RunEnded);
}

// RUN-6.5
#[test]
fn two_questions_are_answered_in_any_order() {
    let asynchronous = |key: &str| {
        and(
            question(json!({"input_type": "text"})),
            json!({"key": key, "async": true}),
        )
    };
    let after = |key: &str, on: &str| and(tool(key, "pure.work", &[on]), json!({"async": true}));
    let steps = json!([
        asynchronous("p"),
        asynchronous("q"),
        after("a", "p"),
        after("b", "q")
    ]);
    let document = json!({"schema": "escapement.plan/1", "name": "Story", "parallel": true, "steps": steps});
    let mut two = spec(Preset::Standard);
    two.limits.max_concurrency = 2;
    let mut world = World::document(document, two);
    let requests: Vec<_> = world.run.state().open_requests().cloned().collect();
    assert_eq!(requests.len(), 2);
    assert_ne!(requests[0].id, requests[1].id);
    let second = world.answer_of(&requests[1], "bob", Answer, json!("yes"));
    world.input(Input::Answer(second));
    assert_eq!(
        world.shows(),
        "running: p running, q completed, a pending, b running"
    );
}

// RUN-6.2
#[test]
fn the_gates_are_those_of_the_table() {
    let asks = |level: u32, action: &str| {
        let mut world = World::with(json!([tool("a", action, &[])]), at_level(level));
        if level == 1 {
            world.answer(Approve, Value::Null);
        }
        world.run.shown().as_str() == "waiting"
    };
    let table = [
        (0, [true, true, true]),
        (1, [false, true, true]),
        (2, [false, true, true]),
        (3, [false, false, true]),
        (4, [false, false, false]),
    ];
    for (level, expected) in table {
        let found = ["safe.write", "mail.send", "danger.erase"].map(|action| asks(level, action));
        assert_eq!(found, expected, "level {level}: safe, unusual, destructive");
    }
}

// RUN-6.1
#[test]
fn at_level_1_the_plan_is_approved_as_a_whole_first() {
    let mut world = World::with(json!([tool("a", "safe.write", &[])]), at_level(1));
    assert_eq!(world.shows(), "waiting: a pending");
    assert_eq!(
        (world.asked().kind(), world.asked().unit),
        (RequestKind::Approval, None)
    );
    world.answer(Approve, Value::Null);
    assert_eq!(world.shows(), "running: a running");
    let mut denied = World::with(json!([tool("a", "safe.write", &[])]), at_level(1));
    denied.answer(Deny, Value::Null);
    assert_eq!(
        (denied.run.shown().as_str(), denied.error().1.as_str()),
        ("cancelled", "plan_rejected")
    );
    let mut expired = World::with(json!([tool("a", "safe.write", &[])]), at_level(1));
    expired.pass(86_400_000);
    assert_eq!(expired.error().1, "plan_rejected");
    let only_questions = World::with(json!([question(json!({}))]), at_level(1));
    assert_eq!(only_questions.asked().kind(), RequestKind::Question);
}

// RUN-6.3
#[test]
fn an_approval_shows_what_will_be_sent_and_covers_its_retries() {
    let mut world = World::with(json!([tool("a", "mail.send", &[])]), at_level(2));
    let request = world.asked();
    assert_eq!(request.subject_digest.len(), 32);
    let wrong = escapement_run::Answer {
        subject_digest: Bytes::from_static(&[0; 32]),
        ..world.answer_of(&request, "bob", Approve, Value::Null)
    };
    assert_eq!(world.refusal(Input::Answer(wrong)), RefusedReason::DigestMismatch);
    world.answer(Approve, Value::Null);
    assert_eq!(world.payload("a"), json!({"of": "a"}));
    let called = world.run.state().steps[0].units[0].live.clone().unwrap();
    assert_eq!(called.subject_digest, request.subject_digest);
    world.fail("a", Failed).pass(1000);
    assert_eq!(world.shows(), "running: a running", "a retry is the same subject");
    assert_eq!(world.submitted(), 2);
}

// RUN-6.3, RUN-8.4
#[test]
fn an_approval_opens_nothing_for_another_epoch() {
    let mut world = World::with(json!([tool("a", "mail.send", &[])]), at_level(2));
    let first = world.asked();
    world.answer(Approve, Value::Null);
    world.input(Input::Rewind {
        step_key: "a".to_owned(),
        scope: escapement_run::RewindScope::Later,
        allow_repeat_effects: true,
    });
    assert_eq!(world.shows(), "waiting: a running");
    assert_ne!(world.asked().subject_digest, first.subject_digest);
}

// RUN-6.5, RUN-6.3
#[test]
fn an_approver_can_edit_what_is_sent() {
    let mut world = World::with(json!([tool("a", "mail.send", &[])]), at_level(2));
    let request = world.asked();
    world.answer(ApproveWithEdits, json!({"of": "somebody else"}));
    assert_eq!(world.payload("a"), json!({"of": "somebody else"}));
    let called = world.run.state().steps[0].units[0].live.clone().unwrap();
    assert_ne!(called.subject_digest, request.subject_digest);
    world.fail("a", Failed).pass(1000);
    assert_eq!(world.payload("a"), json!({"of": "somebody else"}));
}

// RUN-6.6
#[test]
fn a_denied_or_forgotten_approval_fails_the_step() {
    let mut denied = World::with(json!([tool("a", "mail.send", &[])]), at_level(2));
    denied.answer(Deny, Value::Null);
    assert_eq!(denied.error().0, "APPROVAL_DENIED");
    let mut forgotten = World::with(json!([tool("a", "mail.send", &[])]), at_level(2));
    forgotten.pass(86_400_000);
    assert_eq!(forgotten.error().0, "APPROVAL_DENIED");
}

// RUN-6.8
#[test]
fn agents_the_user_under_four_eyes_and_strangers_do_not_approve_and_may_deny() {
    let mut strict = at_level(2);
    strict.policy.four_eyes = true;
    strict.policy.approvers = vec!["ada".to_owned(), "bob".to_owned()];
    let mut world = World::with(json!([tool("a", "mail.send", &[])]), strict);
    let request = world.asked();
    for (who, kind, refused) in [
        ("bob", ResponderKind::Agent, RefusedReason::NotAnApprover),
        ("ada", ResponderKind::Person, RefusedReason::SelfApproval),
        ("eve", ResponderKind::Person, RefusedReason::NotAnApprover),
    ] {
        let mut answer = world.answer_of(&request, who, Approve, Value::Null);
        answer.responder.set_kind(kind);
        assert_eq!(world.refusal(Input::Answer(answer)), refused, "{who}");
    }
    let mut deny = world.answer_of(&request, "eve", Deny, Value::Null);
    deny.responder.set_kind(ResponderKind::Agent);
    world.input(Input::Answer(deny));
    assert_eq!(world.error().0, "APPROVAL_DENIED");
}

// RUN-6.8
#[test]
fn under_four_eyes_neither_the_one_that_fired_its_trigger_approves_nor_a_user_of_it() {
    let mut strict = at_level(2);
    strict.policy.four_eyes = true;
    strict.fired_by = Some(Box::new(Responder {
        id: "eve".to_owned(),
        verified: true,
        users: vec!["mallory".to_owned()],
        ..Responder::default()
    }));
    let mut world = World::with(json!([tool("a", "mail.send", &[])]), strict);
    let request = world.asked();
    for who in ["ada", "eve", "mallory"] {
        let answer = world.answer_of(&request, who, Approve, Value::Null);
        assert_eq!(
            world.refusal(Input::Answer(answer)),
            RefusedReason::SelfApproval,
            "{who}"
        );
    }
    world.answer(Approve, Value::Null);
    assert_eq!(world.shows(), "running: a running");
}

// RUN-6.8
#[test]
fn a_quorum_counts_different_responders() {
    let mut two = at_level(2);
    two.policy.quorum = 2;
    let mut world = World::with(json!([tool("a", "mail.send", &[])]), two);
    for _ in 0..2 {
        world.answer(Approve, Value::Null);
        assert_eq!(world.shows(), "waiting: a running");
    }
    let second = world.answer_of(&world.asked(), "eve", Approve, Value::Null);
    world.input(Input::Answer(second));
    assert_eq!(world.shows(), "running: a running");
}

// RUN-6.7
#[test]
fn a_handler_can_ask_for_an_approval_and_is_called_with_it() {
    let mut world = World::of(json!([tool("a", "mail.send", &[])]));
    world.fail("a", ApprovalRequired);
    let request = world.asked();
    assert_eq!(request.question, "it broke");
    world.answer(Approve, Value::Null);
    let id = escapement_run::ids::InputRequestId::from_bytes(request.id[..].try_into().unwrap()).unwrap();
    assert_eq!(
        world.environment("a")["escapement_run"]["approval"],
        json!(id.to_string())
    );
    world.fail("a", ApprovalRequired);
    assert_eq!(world.error().0, "APPROVAL_REQUIRED");
}

// RUN-6.2, RUN-6.7
#[test]
fn whoever_opened_the_gate_the_handler_has_the_approval_and_does_not_ask_in_vain() {
    for level in 0..=4 {
        for action in ["safe.write", "mail.send", "danger.erase"] {
            for handler_asks in [false, true] {
                let mut world = World::with(json!([tool("a", action, &[])]), at_level(level));
                if level == 1 {
                    world.answer(Approve, Value::Null);
                }
                let gate = world.run.state().open_requests().next().cloned();
                let mut approved = gate.map(|request| {
                    world.answer(Approve, Value::Null);
                    request.id
                });
                let has = |world: &World| world.environment("a")["escapement_run"]["approval"].clone();
                let id = |bytes: &Bytes| {
                    let id = escapement_run::ids::InputRequestId::from_bytes(bytes[..].try_into().unwrap());
                    json!(id.unwrap().to_string())
                };
                let case = format!("level {level}, {action}, handler asks: {handler_asks}");
                // A handler that wants an approval asks for one only if it was given none.
                if handler_asks && has(&world) == Value::Null {
                    world.fail("a", ApprovalRequired);
                    approved = Some(world.asked().id);
                    world.answer(Approve, Value::Null);
                }
                let expected = approved.as_ref().map_or(Value::Null, id);
                assert_eq!(has(&world), expected, "{case}");
                world.complete("a", json!({}));
                assert_eq!(world.run.shown().as_str(), "completed", "{case}");
            }
        }
    }
}

// RUN-6.7
#[test]
fn a_request_shows_what_the_handler_says_about_it() {
    let mut world = World::of(json!([tool("a", "mail.send", &[])]));
    let end = ContractEnd {
        output: Some(opaque(&json!({"cost": 12}))),
        error: Some(ContractError {
            retry_after_ms: 0,
            code: "APPROVAL_REQUIRED".to_owned(),
            message: "this costs 12 francs".to_owned(),
            fatal: false,
            reason: None,
        }),
        steps_executed: 1,
        assigned: true,
    };
    world.settle(world.live("a"), classify(&end, 1000, true));
    let request = world.asked();
    assert_eq!(request.question, "this costs 12 francs");
    assert_eq!(json_of_value(&request.data.unwrap().inline), json!({"cost": 12}));
    world.answer(Approve, Value::Null);
    assert_eq!(world.payload("a"), json!({"of": "a"}));
}

// RUN-6.5, RUN-8.1
#[test]
fn an_answer_to_a_paused_run_acts_when_it_goes_on() {
    let mut world = World::with(json!([tool("a", "mail.send", &[])]), at_level(2));
    world.input(Input::Pause {
        reason: String::new(),
    });
    assert_eq!(world.shows(), "paused: a running");
    world.answer(Approve, Value::Null);
    assert_eq!(
        (world.shows().as_str(), world.submitted()),
        ("paused: a running", 0)
    );
    world.input(Input::Resume {
        reason: String::new(),
    });
    assert_eq!(
        (world.shows().as_str(), world.submitted()),
        ("running: a running", 1)
    );
}

// RUN-10.3
#[test]
fn what_is_open_at_the_end_is_closed() {
    let mut world = World::of(json!([question(json!({}))]));
    world.input(Input::Cancel {
        reason: "user".to_owned(),
    });
    assert_eq!(world.run.state().requests[0].state(), RequestState::Closed);
}
