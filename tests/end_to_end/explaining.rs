//! `ExplainExecution`: what everything waits for, and why it ended as it did, with the rules behind it.

use crate::plans::{RequestWords, StepWords, WORK, plan, request, step, step_id};
use crate::status_details::{reason, violations};
use crate::world::{LIMIT, World};
use escapement_tests::{ScriptedWorker, fresh_id, wait_for};
use escapement_wire::v1::execution::State;
use escapement_wire::v1::execution_error::Severity;
use escapement_wire::v1::plan_result::Status;
use escapement_wire::v1::plan_step::OnFailure;
use escapement_wire::v1::step_explanation::State as StepState;
use escapement_wire::v1::{
    ExecutionExplanation, ExplainExecutionRequest, ExplainExecutionResponse, StepExplanation,
};
use prost::Message;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::LazyLock;
use tonic::Code;

/// The rules that there are.
static RULES: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
    let path = escapement_tests::checkout::root().join("orchestrator/contract/CONTRACT.md");
    let text = std::fs::read_to_string(path).unwrap();
    let ids = text
        .lines()
        .filter_map(|line| line.strip_prefix("**")?.split_once("**"));
    ids.map(|(id, _)| id.to_owned()).collect()
});

async fn try_explain(
    world: &World,
    execution_id: &str,
    step_ids: &[String],
) -> Result<ExplainExecutionResponse, tonic::Status> {
    let request = ExplainExecutionRequest {
        execution_id: execution_id.to_owned(),
        step_ids: step_ids.to_vec(),
    };
    let answer = world.orchestrator.plans().explain_execution(request).await?;
    Ok(answer.into_inner())
}

/// What every explanation has.
fn check(answer: ExplainExecutionResponse) -> (ExecutionExplanation, Vec<StepExplanation>) {
    let execution = answer.execution.unwrap();
    let texts = answer.steps.iter().map(|step| (&step.text, &step.rules));
    for (text, rules) in texts.chain([(&execution.text, &execution.rules)]) {
        assert!(text.ends_with('.') && !rules.is_empty(), "{text:?} {rules:?}");
        assert!(rules.iter().all(|rule| RULES.contains(rule)), "{rules:?}");
    }
    assert!(execution.at > 0);
    (execution, answer.steps)
}

async fn explain(world: &World, execution_id: &str) -> (ExecutionExplanation, Vec<StepExplanation>) {
    check(try_explain(world, execution_id, &[]).await.unwrap())
}

/// Explains one step once it is in this state.
async fn step_in(world: &World, execution_id: &str, number: usize, state: StepState) -> StepExplanation {
    let asked = async || {
        let (_, steps) = check(
            try_explain(world, execution_id, &[step_id(number)])
                .await
                .unwrap(),
        );
        let [step] = <[_; 1]>::try_from(steps).expect("one step was asked for");
        (step.state() == state).then_some(step)
    };
    wait_for("the state of a step", LIMIT, asked).await.unwrap()
}

fn first(rules: &[String]) -> &str {
    &rules[0]
}

//
#[tokio::test]
async fn a_step_says_which_worker_it_waits_for_and_which_has_it() {
    let world = World::start().await;
    let without_slots = ScriptedWorker::connect(&world.orchestrator, &[WORK, "other"], 0).await;
    let waiting = request(plan([step(0, WORK), step(1, "other"), step(2, "other")])).concurrent(2);
    world.submit(&waiting).await;
    step_in(&world, &waiting.id(), 0, StepState::Waiting).await;
    without_slots.goodbye().await;
    let without_worker = async || {
        let step = step_in(&world, &waiting.id(), 0, StepState::Waiting).await;
        (step.workers == Some(0)).then_some(step)
    };
    let nobody = wait_for("the worker to be gone", LIMIT, without_worker)
        .await
        .unwrap();
    assert_eq!(nobody.queue_position, Some(0));
    assert!(nobody.action_expires_in_ms.unwrap() > 500_000);
    assert_eq!(nobody.rules, ["R-2.15", "R-2.14"]);
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    let assigned = step_in(&world, &waiting.id(), 0, StepState::Assigned).await;
    assert_eq!(assigned.worker_id.as_deref(), Some("scripted"));
    let assignment = worker.started().await;
    let started = step_in(&world, &waiting.id(), 0, StepState::Started).await;
    assert!(started.text.contains("scripted"), "{}", started.text);
    assert_eq!((started.attempt, started.attempts_max), (Some(1), Some(1)));

    let second = request(plan([step(0, WORK)]));
    world.submit(&second).await;
    let busy = step_in(&world, &second.id(), 0, StepState::Waiting).await;
    assert_eq!(
        (
            busy.workers,
            busy.action_free_slots,
            busy.queue_position,
            busy.action_expires_in_ms
        ),
        (Some(1), Some(0), Some(0), None)
    );
    let (execution, steps) = explain(&world, &waiting.id()).await;
    assert_eq!(
        (execution.state(), execution.free_slots),
        (State::Running, Some(0))
    );
    assert_eq!((steps[2].state(), steps[2].turn), (StepState::Pending, Some(0)));
    assert_eq!(first(&steps[2].rules), "R-2.3");
    worker.succeed(&assignment, json!({})).await;
    let done = step_in(&world, &waiting.id(), 0, StepState::Completed).await;
    assert_eq!((done.attempt, done.ends_in_ms), (Some(1), None));
}

//
#[tokio::test]
async fn a_settled_failure_says_what_stopped_it_and_what_that_meant_for_each_step() {
    let world = World::start().await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    let steps = [
        step(0, WORK).on_failure(OnFailure::Skip),
        step(1, WORK).on_failure(OnFailure::Skip).after(&[0]),
        step(2, WORK).on_failure(OnFailure::Skip).after(&[1]),
        step(3, WORK),
        step(4, WORK),
        step(5, WORK).after(&[4]),
    ];
    let failing = request(plan(steps));
    world.submit(&failing).await;
    let assignment = worker.started().await;
    worker.fail(&assignment, "BROKEN", Severity::Error).await;
    worker.complete_next(json!({})).await;
    let assignment = worker.started().await;
    worker.fail(&assignment, "WORSE", Severity::Error).await;
    world.result_of(&failing.id()).await;

    let (execution, steps) = explain(&world, &failing.id()).await;
    assert_eq!(
        (execution.state(), execution.status()),
        (State::Settled, Status::Failure)
    );
    assert_eq!(execution.rules, ["R-4.6", "R-4.12", "R-5.6"]);
    assert_eq!(execution.cause_step_id, Some(step_id(4)));
    assert_eq!(
        (execution.error_code.as_deref(), execution.ends_in_ms),
        (Some("WORSE"), None)
    );
    assert_eq!(
        execution.at,
        world.execution(&failing.id()).await.settled_at.unwrap()
    );
    let told: Vec<_> = steps
        .iter()
        .map(|step| {
            let cause = step.cause_step_id.as_deref().map(crate::plans::step_number);
            (
                step.state(),
                step.reason.as_deref(),
                step.attempt,
                first(&step.rules),
                cause,
            )
        })
        .collect();
    let expected = [
        (StepState::NotCompleted, Some("skipped"), Some(1), "R-4.5", None),
        (
            StepState::NotCompleted,
            Some("skipped"),
            Some(0),
            "R-2.5",
            Some(0),
        ),
        (
            StepState::NotCompleted,
            Some("skipped"),
            Some(0),
            "R-2.5",
            Some(0),
        ),
        (StepState::Completed, None, Some(1), "R-6.2", None),
        (StepState::NotCompleted, Some("failed"), Some(1), "R-4.6", None),
        (StepState::Stopped, None, Some(0), "R-3.9", Some(4)),
    ];
    assert_eq!(told, expected);
    assert_eq!(steps[0].error_code.as_deref(), Some("BROKEN"));
}

//
#[tokio::test]
async fn what_a_restart_interrupts_is_explained_afterwards() {
    let mut world = World::start_with(|settings| settings.flag("--max-running-executions", 1)).await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    let running = request(plan([step(0, WORK), step(1, WORK)]));
    world.submit(&running).await;
    worker.started().await;
    let queued = request(plan([step(0, WORK)]));
    world.submit(&queued).await;
    world.crash_and_restart().await;
    world.result_of(&running.id()).await;
    let (execution, steps) = explain(&world, &running.id()).await;
    assert_eq!(first(&execution.rules), "R-9.6");
    for step in steps {
        assert_eq!(
            (step.state(), step.attempt),
            (StepState::Stopped, None),
            "what it did is unknown"
        );
        assert_eq!(step.rules, ["R-3.9", "R-9.6"]);
    }
    let _without_slots = ScriptedWorker::connect(&world.orchestrator, &[WORK], 0).await;
    step_in(&world, &queued.id(), 0, StepState::Waiting).await;
}

#[tokio::test]
async fn what_is_not_there_is_refused() {
    let world = World::start().await;
    let waiting = request(plan([step(0, WORK), step(1, WORK)]));
    world.submit(&waiting).await;
    let unknown = try_explain(&world, &fresh_id(), &[]).await.unwrap_err();
    assert_eq!(reason(&unknown, Code::NotFound), "EXECUTION_NOT_FOUND");
    let malformed = try_explain(&world, "nonsense", &[]).await.unwrap_err();
    assert_eq!(violations(&malformed)[0].0, "execution_id");
    for wrong in [step_id(7), "nonsense".to_owned()] {
        let refused = try_explain(&world, &waiting.id(), &[step_id(1), wrong])
            .await
            .unwrap_err();
        assert_eq!(reason(&refused, Code::InvalidArgument), "INVALID_ARGUMENT");
        assert_eq!(violations(&refused)[0].0, "step_ids[1]");
    }
    let twice = [step_id(1), step_id(0), step_id(1).to_uppercase()];
    let (_, steps) = check(try_explain(&world, &waiting.id(), &twice).await.unwrap());
    let ids: Vec<_> = steps.into_iter().map(|step| step.step_id).collect();
    assert_eq!(ids, [step_id(0), step_id(1)], "each once, in canonical order");
}

//
#[tokio::test]
async fn a_removed_execution_is_not_explained() {
    let world =
        World::start_with(|settings| settings.flag("--keep-settled-ms", 1_000).switch("--no-runs")).await;
    let mut worker = ScriptedWorker::connect(&world.orchestrator, &[WORK], 1).await;
    let removed = request(plan([step(0, WORK)]));
    world.submit(&removed).await;
    worker.complete_next(json!({})).await;
    let id = removed.id();
    let asked = async || try_explain(&world, &id, &[]).await.err();
    let gone = wait_for("the removal of an execution", LIMIT, asked)
        .await
        .unwrap();
    assert_eq!(reason(&gone, Code::NotFound), "EXECUTION_REMOVED");
}

#[tokio::test]
async fn an_execution_is_explained_at_any_time_of_its_life() {
    let flags = [("--max-running-executions", 2), ("--max-queued-in-memory", 1)];
    let world = World::start_with(|settings| {
        flags
            .iter()
            .fold(settings, |settings, (name, value)| settings.flag(name, value))
    })
    .await;
    let _worker = world.stock_worker("stock", |settings| settings).await;
    let (mut ids, mut last) = (Vec::new(), Vec::new());
    let mut seen = BTreeSet::new();
    while ids.len() < 25 || last.iter().any(|state| *state != State::Settled) {
        if ids.len() < 25 {
            let steps = (0..3).map(|number| step(number, "delay").payload(json!({ "ms": 20 })));
            let request = request(plan(steps)).concurrent(2);
            world.submit(&request).await;
            ids.push(request.id());
            last.push(State::Queued);
        }
        for (id, last) in ids.iter().zip(&mut last) {
            let (execution, steps) = explain(&world, id).await;
            assert!(execution.state() as i32 >= *last as i32, "states only climb");
            *last = execution.state();
            let is_settled = execution.state() == State::Settled;
            assert_eq!(execution.status() == Status::Success, is_settled);
            let states = steps.iter().map(|step| step.state());
            assert_eq!(
                states.clone().all(|state| state == StepState::Completed),
                is_settled,
                "{execution:?}"
            );
            seen.extend(states.map(|state| state.as_str_name()));
        }
    }
    assert!(seen.len() >= 3, "{seen:?}");
}

#[tokio::test]
async fn the_largest_plan_is_explained_in_one_answer() {
    let world = World::start().await;
    let _without_slots = ScriptedWorker::connect(&world.orchestrator, &[WORK], 0).await;
    let chained = |number: usize| {
        let before: Vec<usize> = (number.saturating_sub(80)..number).collect();
        step(number, WORK).after(&before)
    };
    let large = request(plan((0..1_024).map(chained)));
    world.submit(&large).await;
    let (_, steps) = explain(&world, &large.id()).await;
    assert_eq!(steps.len(), 1_024);
    let last = &steps[1_023];
    assert_eq!(
        (last.waits_for_steps, last.waits_for_step_ids.len()),
        (Some(80), 32)
    );
    assert_eq!(last.waits_for_step_ids[0], step_id(943));
    let answer = ExplainExecutionResponse {
        execution: None,
        steps,
    };
    assert!(answer.encoded_len() < 4 << 20, "clients take 4 MiB");
}
