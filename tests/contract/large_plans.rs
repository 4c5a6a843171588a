//! Plans of 1024 steps in three shapes, one after the other and many at a time.

use crate::documents::{CONCURRENCY_LIMIT, UNIX_MS, request, step, step_after};
use crate::endings::{ACCEPTED, accept};
use escapement_contract::{
    Effect, Execution, Input, Moment, Outcome, Phase, Request, Status, StepDraft, StepIndex, validate_request,
};
use escapement_model::Opaque;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

const N_STEPS: usize = 1024;

/// Returns each step after the one before.
fn chain() -> Vec<StepDraft> {
    (0..N_STEPS)
        .map(|n| if n == 0 { step(0) } else { step_after(n, &[n - 1]) })
        .collect()
}

/// Returns all steps after the first, and one after all.
fn fan_out() -> Vec<StepDraft> {
    let mut steps: Vec<StepDraft> = (0..N_STEPS - 1)
        .map(|n| if n == 0 { step(0) } else { step_after(n, &[0]) })
        .collect();
    steps.push(step_after(N_STEPS - 1, &(1..N_STEPS - 1).collect::<Vec<_>>()));
    steps
}

/// 32 layers of 32 steps, each after the whole layer before.
fn layers() -> Vec<StepDraft> {
    (0..N_STEPS)
        .map(|n| match n / 32 {
            0 => step(n),
            layer => step_after(n, &((layer - 1) * 32..layer * 32).collect::<Vec<_>>()),
        })
        .collect()
}

/// Returns the steps of each layer backwards and the last layer first, so that list order and canonical order differ.
fn backwards(steps: Vec<StepDraft>) -> Vec<StepDraft> {
    steps.into_iter().rev().collect()
}

struct Course {
    /// In the order of their dispatch.
    dispatched: Vec<StepIndex>,
    /// The most steps that were under way at a time.
    under_way_max: usize,
    execution: Execution,
}

/// Runs the plan to its end; attempts complete in the order of their dispatch, or the latest first.
fn run(steps: Vec<StepDraft>, n_slots: usize, latest_first: bool) -> (Arc<Request>, Course) {
    let mut draft = request();
    draft.plan.as_mut().unwrap().steps = steps;
    draft.max_concurrent_steps = Some(i32::try_from(n_slots).unwrap());
    let request = Arc::new(validate_request(draft, CONCURRENCY_LIMIT).unwrap());
    let mut execution = accept(&request, UNIX_MS + 600_000);
    let mut now = ACCEPTED;
    execution.handle(now, Input::Start).unwrap();
    execution.handle(now, Input::StartPersisted).unwrap();
    let mut course = Course {
        dispatched: Vec::new(),
        under_way_max: 0,
        execution,
    };
    let mut under_way: VecDeque<StepIndex> = VecDeque::new();
    loop {
        while let Some(effect) = course.execution.poll_effect() {
            if let Effect::Dispatch { step, attempt } = effect {
                assert_eq!(attempt, 1);
                course.dispatched.push(step);
                under_way.push_back(step);
                let worker = "worker-1".into();
                course
                    .execution
                    .handle(
                        now,
                        Input::Assigned {
                            step,
                            attempt,
                            worker,
                        },
                    )
                    .unwrap();
            }
        }
        course.under_way_max = course.under_way_max.max(under_way.len());
        now = Moment {
            monotonic_ms: now.monotonic_ms + 1,
            unix_ms: now.unix_ms + 1,
        };
        let next = if latest_first {
            under_way.pop_back()
        } else {
            under_way.pop_front()
        };
        let Some(step) = next else { break };
        let outcome = Outcome::Completed {
            output: Opaque::default(),
            warnings: vec![],
        };
        course
            .execution
            .handle(
                now,
                Input::AttemptEnded {
                    step,
                    attempt: 1,
                    outcome,
                },
            )
            .unwrap();
    }
    assert_eq!(course.execution.phase(), Phase::Settling);
    course.execution.handle(now, Input::SettlePersisted).unwrap();
    (request, course)
}

fn check_success(request: &Request, course: &Course) {
    let result = course.execution.result().unwrap();
    assert_eq!(result.status, Status::Success);
    assert_eq!(result.steps_executed as usize, N_STEPS);
    let keys: Vec<String> = result
        .result_payload
        .entries()
        .map(|entry| entry.unwrap().0.to_owned())
        .collect();
    let plan = request.plan();
    let expected: Vec<String> = plan
        .canonical_order()
        .iter()
        .map(|step| plan.step(*step).id().to_string())
        .collect();
    assert_eq!(keys, expected);
    assert_eq!(course.dispatched.iter().collect::<BTreeSet<_>>().len(), N_STEPS);
    assert_eq!(course.dispatched.len(), N_STEPS);
}

#[test]
fn plans_of_1024_steps_run_in_canonical_order() {
    //
    let shapes = [
        chain(),
        fan_out(),
        layers(),
        backwards(chain()),
        backwards(fan_out()),
        backwards(layers()),
    ];
    for (n, shape) in shapes.into_iter().enumerate() {
        for n_slots in [1, 8, 256] {
            let (request, course) = run(shape.clone(), n_slots, false);
            check_success(&request, &course);
            assert_eq!(
                course.dispatched,
                request.plan().canonical_order(),
                "shape {n} with {n_slots} slots"
            );
            let widest = [1, N_STEPS - 2, 32][n % 3];
            assert_eq!(
                course.under_way_max,
                widest.min(n_slots),
                "shape {n} with {n_slots} slots"
            );
        }
    }
}

#[test]
fn the_order_of_completion_changes_no_order_among_steps_that_are_ready() {
    //
    for n_slots in [1, 8, 256] {
        let (request, course) = run(fan_out(), n_slots, true);
        check_success(&request, &course);
        assert_eq!(course.dispatched, request.plan().canonical_order());
    }
}

#[test]
fn the_canonical_order_of_a_reversed_list_begins_with_the_lowest_ready_place() {
    // of the first layer, which stands last, the lowest place is the one that was written first of it.
    let (request, _) = run(backwards(layers()), 1, false);
    let order: Vec<usize> = request
        .plan()
        .canonical_order()
        .iter()
        .map(|step| step.as_usize())
        .collect();
    let expected: Vec<usize> = (0..32)
        .rev()
        .flat_map(|layer| layer * 32..(layer + 1) * 32)
        .collect();
    assert_eq!(order, expected);
}
