//! What explains a settled execution survives its storage, and what is explained reaches the wire whole.
#![allow(
    clippy::unwrap_used,
    missing_docs,
    reason = "a test fails by panicking and its name is its documentation"
)]

use escapement_codec::audit_from_wire;
use escapement_codec::explanation::{execution, step};
use escapement_codec::request::request_draft;
use escapement_codec::stored;
use escapement_contract::{
    Effect, Evidence, Execution, Input, Moment, Outcome, Reported, Request, Settlement, StepIndex, StepState,
    explain_settled, validate_request,
};
use escapement_model::{ExecutionId, Opaque, Severity};
use escapement_wire::v1;
use escapement_wire::v1::execution::State;
use escapement_wire::v1::step_explanation::State as StepStateOnWire;
use std::collections::BTreeSet;
use std::sync::Arc;

/// SplitMix64.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }
}

fn uuid(number: u64) -> String {
    format!("00000000-0000-4000-8000-{number:012}")
}

fn request(dice: &mut Dice) -> Arc<Request> {
    let steps = (0..6).map(|number| v1::PlanStep {
        id: uuid(number),
        action: "work".to_owned(),
        payload: Some(Opaque::default()),
        depends_on: (0..number).filter(|_| dice.roll(4) == 0).map(uuid).collect(),
        on_failure: [0, 1, 1, 2, 2, 2][dice.roll(6) as usize],
        timeout_ms: None,
    });
    let plan = v1::Plan {
        id: uuid(100),
        version: 1,
        created_at: 1,
        steps: steps.collect(),
        name: "explained".to_owned(),
        context_requirements: vec!["region".to_owned()],
        timeout_ms: Some(60_000),
        retry_policy: Some(v1::RetryPolicy {
            max_attempts: Some(3),
            backoff_ms: Some(20),
            retryable_error_codes: vec!["BUSY".to_owned()],
            ..v1::RetryPolicy::default()
        }),
        ..v1::Plan::default()
    };
    let environment = escapement_model::opaque::StructBuilder::new()
        .text("region", "eu")
        .build();
    let request = v1::SubmitPlanRequest {
        plan: Some(plan),
        environment: Some(environment),
        options: Some(v1::ExecutionOptions {
            max_concurrent_steps: Some(1 + dice.roll(3) as i32),
        }),
        ..v1::SubmitPlanRequest::default()
    };
    Arc::new(validate_request(request_draft(request), 64).unwrap())
}

fn outcome(dice: &mut Dice) -> Outcome {
    let failed = |code: &str, severity| {
        Outcome::Failed(Reported {
            code: code.to_owned(),
            severity,
            ..Reported::default()
        })
    };
    match dice.roll(16) {
        0..4 => failed("BUSY", None),
        4 => failed("OTHER", None),
        5 => failed("MEH", Some(Severity::Warn)),
        6 => failed("WORSE", Some(Severity::Fatal)),
        _ => {
            let warned = Reported {
                code: "W".to_owned(),
                ..Reported::default()
            };
            Outcome::Completed {
                output: Opaque::default(),
                warnings: if dice.roll(2) == 0 {
                    vec![warned]
                } else {
                    Vec::new()
                },
            }
        }
    }
}

/// One execution to its end; `look` sees every state on the way.
fn walk(seed: u64, mut look: impl FnMut(&Execution, Moment)) -> (Arc<Request>, Arc<Settlement>) {
    let mut dice = Dice(seed);
    let request = request(&mut dice);
    let mut now = Moment {
        monotonic_ms: 0,
        unix_ms: 1_000,
    };
    let id = ExecutionId::from_random([7; 16]);
    let mut live = Execution::accept(Arc::clone(&request), id, 1_000, 10_000_000, now);
    look(&live, now);
    live.handle(now, Input::Start).unwrap();
    look(&live, now);
    live.handle(now, Input::StartPersisted).unwrap();
    loop {
        look(&live, now);
        while let Some(effect) = live.poll_effect() {
            if let Effect::PersistResult(settlement) = effect {
                look(&live, now);
                live.handle(now, Input::SettlePersisted).unwrap();
                look(&live, now);
                return (request, settlement);
            }
        }
        let ms = dice.roll(8) + if dice.roll(200) == 0 { 60_000 } else { 0 };
        now = Moment {
            monotonic_ms: now.monotonic_ms + ms,
            unix_ms: now.unix_ms + ms as i64,
        };
        let steps: &[StepIndex] = request.plan().canonical_order();
        let step = steps[dice.roll(steps.len() as u64) as usize];
        let input = match (live.step_state(step), dice.roll(8)) {
            (StepState::Waiting { attempt }, 0) if dice.roll(10) == 0 => {
                Input::ActionNotFound { step, attempt }
            }
            (StepState::Waiting { attempt }, _) => Input::Assigned {
                step,
                attempt,
                worker: "w".into(),
            },
            (StepState::Assigned { attempt }, 0) => Input::AttemptReturned {
                step,
                attempt,
                evidence: Evidence::ALL[dice.roll(7) as usize],
            },
            (StepState::Assigned { attempt }, _) => Input::AttemptStarted { step, attempt },
            (StepState::Started { attempt }, _) => Input::AttemptEnded {
                step,
                attempt,
                outcome: outcome(&mut dice),
            },
            _ => Input::Tick,
        };
        // The time that has passed may have ended the attempt.
        let _late = live.handle(now, input);
    }
}

#[test]
fn an_execution_is_explained_by_its_stored_records_as_by_itself() {
    let mut kinds = BTreeSet::new();
    for seed in 0..400 {
        let mut last = None;
        let (request, settlement) = walk(seed, |live, now| {
            last = Some(live.explain(now, live.audit().len()))
        });
        let accepted = stored::encode_accepted(&request, ExecutionId::from_random([7; 16]));
        let audit = stored::encode_audit(&settlement.audit);
        let result = stored::encode_result(&settlement.result);

        let request = stored::decode_accepted(&accepted).unwrap();
        let result = stored::decode_result(&result).unwrap();
        let entries = stored::decode_audit(&audit).unwrap();
        let read = entries
            .iter()
            .cloned()
            .map(|entry| audit_from_wire::kind(entry.event.unwrap()).unwrap());
        let read: Vec<_> = read.collect();
        kinds.extend(read.iter().map(|kind| kind.name()));
        let error = result
            .error
            .clone()
            .map(|error| audit_from_wire::error(error).unwrap());
        let status = audit_from_wire::status(result.status()).unwrap();
        let stored = explain_settled(request.plan(), read.iter(), status, error.as_ref());
        assert_eq!(stored, last.unwrap(), "seed {seed}");
    }
    assert_eq!(kinds.len(), 13, "every kind of entry: {kinds:?}");
}

#[test]
fn every_state_reaches_the_wire_with_rules_words_and_what_belongs_to_it() {
    let mut states = BTreeSet::new();
    for seed in 0..400 {
        walk(seed, |live, now| {
            let explanation = live.explain(now, live.audit().len());
            let plan = live.request().plan();
            let whole = execution(
                live.execution_id(),
                State::Running,
                now.unix_ms,
                &explanation.execution,
            );
            assert!(!whole.text.is_empty() && !whole.rules.is_empty());
            for facts in &explanation.steps {
                let told = step(plan, facts);
                states.insert(told.state().as_str_name());
                check(&told);
            }
        });
    }
    assert_eq!(states.len(), 8, "{states:?}");
}

fn check(told: &v1::StepExplanation) {
    assert!(!told.text.is_empty() && !told.rules.is_empty(), "{told:?}");
    assert!(told.attempts_max.is_some() && told.action == "work");
    let is_pending = told.state() == StepStateOnWire::Pending;
    let is_asleep = told.state() == StepStateOnWire::BackingOff;
    let is_not_completed = told.state() == StepStateOnWire::NotCompleted;
    let has = [
        told.waits_for_steps.is_some() || told.ends_in_ms.is_none(),
        told.next_attempt_in_ms.is_some() || told.ends_in_ms.is_none(),
        told.reason.is_some() && told.error_code.is_some(),
    ];
    match told.state() {
        StepStateOnWire::Pending => assert!(has[0], "{told:?}"),
        StepStateOnWire::BackingOff => assert!(has[1], "{told:?}"),
        StepStateOnWire::NotCompleted => assert!(has[2], "{told:?}"),
        StepStateOnWire::Completed => assert!(told.attempt.unwrap() >= 1 && told.ends_in_ms.is_none()),
        StepStateOnWire::Stopped => assert!(told.ends_in_ms.is_none()),
        StepStateOnWire::Waiting | StepStateOnWire::Assigned | StepStateOnWire::Started => {
            assert!(told.attempt.is_some());
        }
        StepStateOnWire::Unspecified => panic!("it is never sent"),
    }
    assert!(is_pending || told.waits_for_step_ids.is_empty() && told.turn.is_none());
    assert!(is_asleep || told.next_attempt_in_ms.is_none());
    assert!(is_not_completed || told.reason.is_none() && told.error_code.is_none());
}
