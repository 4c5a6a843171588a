//! The order of steps: cycles, jumps that lead back, canonical positions. Looks at links and order numbers only.

use super::links::Links;
use super::reading::Reading;
use super::violations::Code;
use super::{Expression, LlmContext, OnFailure, Step, StepIndex, StepKind};
use alloc::collections::BinaryHeap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;

// RUN-1.3, RUN-1.4
/// Returns the position of each step in canonical order; `None` if steps depend on each other in a cycle.
///
/// Notes cycles, and jumps that lead back. Messages call `new_step`, a place, `(new step)`.
pub(super) fn positions(
    reading: &mut Reading<'_>,
    steps: &[Step],
    links: &[Links],
    new_step: Option<usize>,
) -> Option<Vec<StepIndex>> {
    let mut n_open: Vec<usize> = links.iter().map(|links| links.before.len()).collect();
    let mut dependents = vec![Vec::new(); links.len()];
    for (step, links) in links.iter().enumerate() {
        for before in links.before.keys() {
            dependents[*before].push(step);
        }
    }
    // The ready step with the lowest order number comes first, then the first in the document.
    let number = |step: usize| Reverse((steps[step].order, step));
    let ready = (0..steps.len()).filter(|step| n_open[*step] == 0);
    let mut ready: BinaryHeap<_> = ready.map(number).collect();
    let mut positions = vec![0; steps.len()];
    let mut n_placed = 0;
    while let Some(Reverse((_, step))) = ready.pop() {
        positions[step] = n_placed;
        n_placed += 1;
        for dependent in &dependents[step] {
            n_open[*dependent] -= 1;
            if n_open[*dependent] == 0 {
                ready.push(number(*dependent));
            }
        }
    }
    if n_placed < steps.len() {
        note_cycles(reading, steps, links, new_step);
        return None;
    }
    for (step, links) in links.iter().enumerate() {
        for (target, place) in &links.jumps {
            if positions[*target] <= positions[step] {
                reading.violation_at(place.clone(), Code::BackwardJump, || {
                    let (from, to) = (&steps[step].key, &steps[*target].key);
                    format!("A jump leads to a later step, and {to:?} does not come after {from:?}.")
                });
            }
        }
    }
    Some(positions)
}

/// Puts the steps in canonical order, and replaces every place of a step by its position.
pub(super) fn sort(steps: &mut [Step], links: &[Links], positions: &[StepIndex]) {
    let position = |place: &mut usize| *place = positions[*place];
    for (step, links) in steps.iter_mut().zip(links) {
        let dependencies = links.before.iter().filter(|(_, before)| before.is_dependency);
        step.depends_on = dependencies.map(|(place, _)| positions[*place]).collect();
        step.depends_on.sort_unstable();
        step.on_success.iter_mut().for_each(position);
        if let Some(OnFailure::Jump(target)) = &mut step.on_failure {
            position(target);
        }
        match &mut step.kind {
            StepKind::Condition(condition) => {
                condition.true_step.iter_mut().for_each(position);
                condition.false_step.iter_mut().for_each(position);
                result_of(&mut condition.condition).into_iter().for_each(position);
            }
            StepKind::Loop(repeated) => {
                let condition = repeated.loop_condition.as_mut();
                condition.and_then(result_of).into_iter().for_each(position);
            }
            StepKind::LlmDecision(decision) => {
                if let LlmContext::Steps(shown) = &mut decision.context {
                    shown.iter_mut().for_each(position);
                    shown.sort_unstable();
                    shown.dedup();
                }
            }
            StepKind::ToolCall(_) | StepKind::UserInput(_) | StepKind::Parallel(_) | StepKind::SubPlan(_) => {
            }
        }
    }
    steps.sort_unstable_by_key(|step| positions[step.place]);
}

fn result_of(expression: &mut Expression) -> Option<&mut StepIndex> {
    match expression {
        Expression::ResultOf(step) => Some(step),
        Expression::Literal(_) | Expression::Text(_) => None,
    }
}

/// Notes each link that closes a cycle of a depth-first walk: without them there would be none.
fn note_cycles(reading: &mut Reading<'_>, steps: &[Step], links: &[Links], new_step: Option<usize>) {
    let (closing, came_from) = closing_links(links);
    for (step, before) in closing {
        let mut cycle = vec![step];
        while let Some(&last) = cycle.last()
            && last != before
        {
            cycle.push(came_from[last].expect("a walk leads to the step from the one that it closes at"));
        }
        // Each is followed by the one that it depends on, from the first in the document.
        cycle.reverse();
        let first = cycle.iter().enumerate().min_by_key(|(_, step)| **step);
        let (first, _) = first.expect("a cycle has steps");
        cycle.rotate_left(first);
        let item = links[step].before[&before].item;
        let place = match (item, &links[step].depends_on) {
            (Some(item), Some(depends_on)) => depends_on.item(item),
            _ => {
                let config = links[step].config.clone();
                config.expect("what is in no list is in a configuration")
            }
        };
        reading.violation_at(place, Code::CyclicDependency, || {
            cycle_message(steps, &cycle, new_step)
        });
    }
}

/// Returns the links that lead a depth-first walk back to a step on its path, each with the step that has it, and by step
/// the one that the walk came from.
fn closing_links(links: &[Links]) -> (Vec<(usize, usize)>, Vec<Option<usize>>) {
    #[derive(Clone, Copy, PartialEq)]
    enum Walk {
        NotSeen,
        OnPath,
        Done,
    }
    let mut closing = Vec::new();
    let mut came_from = vec![None; links.len()];
    let mut walks = vec![Walk::NotSeen; links.len()];
    for root in 0..links.len() {
        if walks[root] != Walk::NotSeen {
            continue;
        }
        walks[root] = Walk::OnPath;
        // The path of the walk, with what is left to follow; a stack of our own, since plans are deep.
        let mut path = vec![(root, links[root].before.keys())];
        while let Some((step, left)) = path.last_mut() {
            let step = *step;
            let Some(&next) = left.next() else {
                walks[step] = Walk::Done;
                path.pop();
                continue;
            };
            match walks[next] {
                Walk::NotSeen => {
                    walks[next] = Walk::OnPath;
                    came_from[next] = Some(step);
                    path.push((next, links[next].before.keys()));
                }
                Walk::OnPath => closing.push((step, next)),
                Walk::Done => {}
            }
        }
    }
    (closing, came_from)
}

/// Names the steps of a cycle, and the middle of a long one by its length.
fn cycle_message(steps: &[Step], cycle: &[usize], new_step: Option<usize>) -> String {
    let name = |step: usize| match &steps[step].name {
        _ if new_step == Some(step) => "(new step)".to_string(),
        name if name.is_empty() => format!("steps[{step}]"),
        name => name.clone(),
    };
    let mut message = String::from("Circular dependency detected: ");
    let n_left_out = cycle.len().saturating_sub(CYCLE_STEPS_NAMED_MAX);
    for (at, step) in cycle.iter().enumerate() {
        if at == CYCLE_STEPS_NAMED_MAX / 2 && n_left_out > 0 {
            message.push_str(&format!("({n_left_out} more) -> "));
        }
        if at < CYCLE_STEPS_NAMED_MAX / 2 || at >= CYCLE_STEPS_NAMED_MAX / 2 + n_left_out {
            message.push_str(&name(*step));
            message.push_str(" -> ");
        }
    }
    message.push_str(&name(cycle[0]));
    message
}

/// Steps of a cycle that a message names.
const CYCLE_STEPS_NAMED_MAX: usize = 12;
