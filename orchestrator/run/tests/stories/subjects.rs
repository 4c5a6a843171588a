//! Subjects of requests, right answers, and answers that mean the same.

use bytes::Bytes;
use escapement_model::Opaque;
use escapement_model::opaque::StructBuilder;
use escapement_run::budget::Budget;
use escapement_run::journal::Decision::{
    self, Answer, Approve, ApproveWithEdits, Deny, DidNot, Extend, Fail, Happened,
};
use escapement_run::journal::OutcomeClass::{Failed, Unknown};
use escapement_run::journal::{AnswerType, Extension, InputRequest, RequestKind};
use escapement_run::outcome::value_of_object;
use escapement_run::presets::Preset;
use escapement_run::spec::Spec;
use escapement_run::{Input, RefusedReason, Run, SessionNews};
use serde_json::{Value, json};

use crate::world::{World, call, json_of, opaque, spec, tool};

fn level(level: u32) -> Spec {
    Spec {
        autonomy_level: level,
        ..spec(Preset::Standard)
    }
}

/// Returns a run with an effect of which it is not known whether it happened.
fn in_doubt() -> World {
    let mut world = World::of(json!([tool("a", "mail.send", &[])]));
    world.fail("a", Unknown);
    world
}

fn without_retries() -> World {
    let mut once = spec(Preset::Standard);
    (once.limits.max_retries, once.policy.escalate) = (1, true);
    let mut world = World::with(json!([call("a")]), once);
    world.fail("a", Failed).pass(1000).fail("a", Failed);
    world
}

fn without_budget() -> World {
    let budget = Budget {
        max_tool_calls: Some(1),
        ..Budget::default()
    };
    let poor = Spec {
        budget: Some(budget),
        ..spec(Preset::Standard)
    };
    let mut world = World::with(json!([call("a"), call("b")]), poor);
    world.complete("a", json!({}));
    world
}

fn asks(input_type: &str) -> World {
    let config = match input_type {
        "choice" => json!({"question": "?", "input_type": "choice", "options": ["tea", "tea", "coffee"]}),
        other => json!({"question": "?", "input_type": other}),
    };
    World::of(json!([{"key": "a", "type": "user_input", "config": config}]))
}

/// Returns each kind of request that is decided, with the decision that lets the run continue.
fn decided() -> Vec<(World, RequestKind, Decision)> {
    let call = World::with(json!([tool("a", "mail.send", &[])]), level(2));
    let plan = World::with(json!([tool("a", "safe.write", &[])]), level(1));
    vec![
        (call, RequestKind::Approval, Approve),
        (plan, RequestKind::Approval, Approve),
        (in_doubt(), RequestKind::AmbiguousEffect, DidNot),
        (without_retries(), RequestKind::RetryExtension, Extend),
        (without_budget(), RequestKind::BudgetExtension, Extend),
    ]
}

// RUN-6.12, RUN-6.5
#[test]
fn every_request_that_is_decided_has_a_digest_and_a_decision_names_it() {
    for (mut world, kind, decision) in decided() {
        let asked = world.asked();
        assert_eq!(asked.kind(), kind);
        assert_eq!(asked.subject_digest.len(), 32, "{kind:?}");
        let naming = |world: &World, digest: &[u8]| {
            let answer = world.answer_of(&asked, "bob", decision, Value::Null);
            Input::Answer(escapement_run::Answer {
                subject_digest: Bytes::copy_from_slice(digest),
                ..answer
            })
        };
        let other = naming(&world, &[7; 32]);
        assert_eq!(world.refusal(other), RefusedReason::DigestMismatch, "{kind:?}");
        let sent = world.submitted();
        let none = naming(&world, &[]);
        match kind {
            // As callers of earlier versions answer.
            RequestKind::RetryExtension => assert!(world.try_input(none).is_ok()),
            _ => {
                assert_eq!(world.refusal(none), RefusedReason::DigestMismatch, "{kind:?}");
                assert_eq!(world.submitted(), sent, "nothing is sent again: {kind:?}");
                let right = naming(&world, &asked.subject_digest);
                world.input(right);
                assert_eq!(world.run.state().open_requests().count(), 0, "{kind:?}");
            }
        }
    }
}

// RUN-6.12
#[test]
fn an_effect_in_doubt_shows_what_was_sent_and_not_what_would_be_now() {
    let shared = Spec {
        session_id: "s".to_owned(),
        ..spec(Preset::Standard)
    };
    let step = json!({"key": "a", "type": "tool_call",
        "config": {"tool_name": "mail.send", "tool_args": {"seen": "${session:/seen}"}}});
    let document = json!({"schema": "escapement.plan/1", "name": "Story", "steps": [step]});
    let news = |version, seen: u32| {
        Input::Session(SessionNews {
            state: Some((version, opaque(&json!({"seen": seen})))),
            health: None,
        })
    };
    let doubt = |later: bool| {
        let mut world = World::queued(document.clone(), shared.clone());
        world.input(news(4, 1)).input(Input::Admit);
        if later {
            world.input(news(5, 2));
        }
        world.fail("a", Unknown);
        world.asked()
    };
    let (asked, later) = (doubt(false), doubt(true));
    let subject = asked.subject.clone().unwrap().inline;
    assert_eq!(
        json_of(escapement_model::opaque::ValueView::Struct(&subject)),
        json!({"seen": 1})
    );
    assert_eq!((asked.action.as_str(), asked.attempt), ("mail.send", 1));
    assert_eq!(later.subject, asked.subject);
    assert_eq!(later.subject_digest, asked.subject_digest);
}

// RUN-3.7, RUN-6.12
#[test]
fn approvals_of_plans_keep_their_digest_if_steps_overlap() {
    let digest = |async_by_default| {
        let mut spec = level(1);
        spec.policy.async_by_default = async_by_default;
        let document = json!({"schema": "escapement.plan/1", "name": "Story", "parallel": true,
            "steps": [tool("a", "mail.send", &[]), tool("b", "mail.send", &[])]});
        let asked = World::document(document, spec).asked();
        assert_eq!(asked.kind(), RequestKind::Approval);
        asked.subject_digest
    };
    assert_eq!(digest(true), digest(false));
}

// RUN-6.12
#[test]
fn an_extension_shows_the_account_and_the_amounts() {
    let amounts = |world: &World| {
        let asked = world.asked();
        (asked.account(), asked.extension.unwrap(), asked.subject_digest)
    };
    let (account, extension, digest) = amounts(&without_retries());
    let of = |used, limit, extended| Extension {
        used,
        limit,
        extended,
    };
    assert_eq!((account, extension), ("retries", of(1, 1, 2)));
    let mut again = without_retries();
    again.answer(Extend, Value::Null);
    again.pass(60_000).fail("a", Failed);
    let (_, extension, next) = amounts(&again);
    assert_eq!(extension, of(2, 2, 3));
    assert_ne!(digest, next, "another amount is another subject");
    let (account, extension, _) = amounts(&without_budget());
    assert_eq!((account, extension), ("tool_calls", of(1, 1, 2)));
}

// RUN-6.12
#[test]
fn a_request_that_an_earlier_version_opened_is_answered_without_a_digest() {
    let world = in_doubt();
    let mut state = world.run.state().clone();
    let request = state.requests.last_mut().unwrap();
    (request.subject_digest, request.subject, request.attempt) = (Bytes::new(), None, 0);
    request.action = String::new();
    let request = request.clone();
    let mut run = Run::from_snapshot(state, world.run.plan().clone());
    let answer = world.answer_of(&request, "bob", DidNot, Value::Null);
    assert!(answer.subject_digest.is_empty());
    let commit = run.handle(Input::Answer(answer), world.now, &world.disk);
    assert!(!commit.unwrap().events.is_empty());
}

// RUN-6.5
#[test]
fn one_shape_of_an_answer_is_right_for_each_kind_and_the_refusal_names_it() {
    let named = |world: &World| {
        let asked = world.asked();
        asked.wrong_answer().message
    };
    let questions = [
        ("text", "only text is"),
        ("choice", "only choice,"),
        ("confirm", "only confirm,"),
        ("form", "only form,"),
    ];
    let all = [
        Answer,
        Approve,
        ApproveWithEdits,
        Deny,
        Decision::Revise,
        Extend,
        Happened,
        DidNot,
        Fail,
    ];
    let table = questions.map(|(input_type, word)| (asks(input_type), word, [Answer].to_vec()));
    let of_plan = "approve_with_edits and its document";
    let decided = decided().into_iter().map(|(world, kind, _)| {
        let of_step = world.asked().unit.is_some();
        let (word, right) = match kind {
            RequestKind::Approval if of_step => ("and its payload", vec![Approve, ApproveWithEdits, Deny]),
            // A plan that no planner made is not sent back.
            RequestKind::Approval => (of_plan, vec![Approve, ApproveWithEdits, Deny, Decision::Revise]),
            RequestKind::AmbiguousEffect => ("happened, did_not or fail", vec![Happened, DidNot, Fail]),
            _ => ("only extend,", vec![Extend, Fail]),
        };
        (world, word, right)
    });
    for (mut world, word, right) in table.into_iter().chain(decided) {
        assert!(named(&world).contains(word), "{}", named(&world));
        for decision in all.into_iter().filter(|decision| !right.contains(decision)) {
            let answer = world.answer_of(&world.asked(), "bob", decision, json!({}));
            let refused = world.try_input(Input::Answer(answer)).unwrap_err();
            assert_eq!(refused.reason, RefusedReason::AnswerInvalid, "{decision:?}");
            assert!(
                refused.message.contains(word),
                "{decision:?}: {}",
                refused.message
            );
        }
    }
}

// RUN-6.4
#[test]
fn an_option_that_comes_twice_is_one() {
    let world = asks("choice");
    let asked: InputRequest = world.asked();
    assert_eq!(asked.answer_type(), AnswerType::Choice);
    assert_eq!(asked.options, ["tea", "coffee"]);
}

// RUN-6.5
#[test]
fn the_same_answer_is_the_same_whatever_the_order_of_its_keys() {
    let object = |one: &str, other: &str| StructBuilder::new().text(one, "x").text(other, "x").build();
    let answered = |world: &mut World, request: &InputRequest, decision, value: Bytes| {
        let answer = escapement_run::Answer {
            value,
            ..world.answer_of(request, "bob", decision, Value::Null)
        };
        world
            .try_input(Input::Answer(answer))
            .map_err(|refused| refused.reason)
    };
    let after = |world: &World| world.journal.len();
    // A form, before a question that keeps the run alive.
    let form = json!({"key": "a", "type": "user_input", "config": {"question": "?", "input_type": "form"}});
    let next = json!({"key": "b", "type": "user_input", "config": {"question": "?", "input_type": "text"}});
    let mut world = World::of(json!([form, next]));
    let request = world.asked();
    let value = |one, other| value_of_object(&object(one, other));
    assert_eq!(answered(&mut world, &request, Answer, value("p", "q")), Ok(()));
    let n = after(&world);
    assert_eq!(answered(&mut world, &request, Answer, value("q", "p")), Ok(()));
    assert_eq!(after(&world), n, "it changes nothing");
    let other = answered(&mut world, &request, Answer, value("q", "r"));
    assert_eq!(other, Err(RefusedReason::AlreadyAnswered));

    // A payload that replaces another one.
    let mut world = World::with(json!([tool("a", "mail.send", &[])]), level(2));
    let request = world.asked();
    let edited = |object: Opaque| object.as_encoded().clone();
    let first = answered(&mut world, &request, ApproveWithEdits, edited(object("p", "q")));
    assert_eq!(first, Ok(()));
    let n = after(&world);
    let same = answered(&mut world, &request, ApproveWithEdits, edited(object("q", "p")));
    assert_eq!((same, after(&world)), (Ok(()), n));
    let other = answered(&mut world, &request, ApproveWithEdits, edited(object("q", "r")));
    assert_eq!(other, Err(RefusedReason::AlreadyAnswered));
}
