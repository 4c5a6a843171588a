//! Plans whose lists are not in canonical order are other plans with other names: each graph side by side with the one
//! whose list is in that order, so that `walks` may leave it out. Compares nothing with the rules.

use crate::key;
use crate::moves::{Kind, kind_of, that_fit};
use crate::plans::{Case, Options, Policy, STEPS_MAX, Shape, step_indices};
use crate::seen::Seen;
use escapement_contract::{AbstractState, Input, Outcome, Phase, StepIndex};
use escapement_fuzz::lockstep::Lockstep;
use escapement_fuzz::lockstep::said::{Link, chain_of};
use escapement_tests::reference::decided::Command;

#[test]
fn the_order_of_the_list_matters_through_the_canonical_order_alone() {
    //
    escapement_tests::planted::arm();
    let mut n_states = 0;
    for (n_steps, n_graphs) in [(1, 1), (2, 3), (3, 25), (4, 543)] {
        let graphs: Vec<_> = graphs_of(n_steps).collect();
        assert_eq!(
            graphs.len(),
            n_graphs,
            "acyclic graphs with names, of {n_steps} steps"
        );
        for depends_on in graphs {
            for on_failure in [[1, 1, 1, 1], [2, 1, 0, 2]] {
                let shape = Shape {
                    n_steps,
                    depends_on,
                    on_failure,
                };
                n_states += play(&with(shape));
            }
        }
    }
    println!("{n_states} states of plans and of those with other names");
}

fn with(shape: Shape) -> Case {
    Case {
        shape,
        options: Options {
            policy: Policy::Listed,
            n_slots: 2,
            has_step_limits: false,
        },
        context_is_missing: false,
    }
}

/// Returns every acyclic graph over the places of a list.
fn graphs_of(n_steps: usize) -> impl Iterator<Item = [u8; STEPS_MAX]> {
    let edges: Vec<(usize, usize)> = (0..n_steps)
        .flat_map(|step| {
            (0..n_steps)
                .filter(move |other| *other != step)
                .map(move |other| (step, other))
        })
        .collect();
    (0..1_u32 << edges.len()).filter_map(move |number| {
        let mut depends_on = [0; STEPS_MAX];
        for (bit, (step, other)) in edges.iter().enumerate() {
            depends_on[*step] |= ((number >> bit & 1) as u8) << other;
        }
        is_acyclic(n_steps, &depends_on).then_some(depends_on)
    })
}

fn is_acyclic(n_steps: usize, depends_on: &[u8; STEPS_MAX]) -> bool {
    let mut ended = 0_u8;
    for _ in 0..n_steps {
        let next = (0..n_steps).find(|step| ended >> step & 1 == 0 && depends_on[*step] & !ended == 0);
        let Some(step) = next else { return false };
        ended |= 1 << step;
    }
    true
}

/// The same plan with its list in canonical order.
fn renamed(shape: &Shape, order: &[usize]) -> Shape {
    let mut other = *shape;
    for (position, step) in order.iter().enumerate() {
        let depends = |at: &usize| shape.depends_on[*step] >> order[*at] & 1 == 1;
        other.depends_on[position] = (0..order.len()).filter(depends).fold(0, |set, at| set | 1 << at);
        other.on_failure[position] = shape.on_failure[*step];
    }
    other
}

/// Plays both through all states; how many there are.
fn play(case: &Case) -> usize {
    let index = step_indices();
    let first = case.accept();
    let order = first.reference.order.clone();
    let canonical = first.core.request().plan().canonical_order();
    assert!(
        canonical
            .iter()
            .map(|step| step.as_usize())
            .eq(order.iter().copied()),
        "R-2.1"
    );
    let other = with(renamed(&case.shape, &order));
    let seen = Seen::default();
    let mut stack = vec![(first, other.accept())];
    let mut n_states = 0;
    while let Some((pair, twin)) = stack.pop() {
        n_states += 1;
        let state = twin.abstract_state();
        for input in that_fit(&state, &index).into_iter().filter(is_played) {
            let (mut pair, mut twin) = (pair.clone(), twin.clone());
            let found = pair.feed(0, &named(&input, &index, &order));
            let expected = twin.feed(0, &input);
            assert!(found.is_accepted && expected.is_accepted, "{input:?} in {case:?}");
            assert_eq!(
                in_order(&found.state, &order),
                expected.state,
                "{input:?} in {case:?}"
            );
            let commands: Vec<_> = expected
                .commands
                .iter()
                .map(|command| told(command, &order))
                .collect();
            assert_eq!(found.commands, commands, "{input:?} in {case:?}");
            assert_eq!(
                shown(&pair, |step| step),
                shown(&twin, |step| order[step]),
                "{case:?}"
            );
            if seen.insert(key::whole(&expected.state)) {
                stack.push((pair, twin));
            }
        }
    }
    n_states
}

/// Enough to bring steps to each of their ends in each order.
fn is_played(input: &Input) -> bool {
    match input {
        Input::AttemptEnded {
            outcome: Outcome::Completed { warnings, .. },
            ..
        } => warnings.is_empty(),
        Input::AttemptEnded {
            outcome: Outcome::Failed(reported),
            ..
        } => reported.code == "BUSY",
        _ => !matches!(
            kind_of(input),
            Kind::Started | Kind::Returned | Kind::NotFound | Kind::Fatal | Kind::Lost
        ),
    }
}

/// Returns the input for the step of that canonical position.
fn named(input: &Input, index: &[StepIndex], order: &[usize]) -> Input {
    let mut input = input.clone();
    match &mut input {
        Input::Assigned { step, .. }
        | Input::AttemptStarted { step, .. }
        | Input::AttemptReturned { step, .. }
        | Input::AttemptEnded { step, .. }
        | Input::ActionNotFound { step, .. } => *step = index[order[step.as_usize()]],
        Input::Start | Input::StartPersisted | Input::Tick | Input::SettlePersisted => {}
    }
    input
}

/// With its steps by canonical position.
fn in_order(state: &AbstractState, order: &[usize]) -> AbstractState {
    let mut sorted = state.clone();
    if !state.steps.is_empty() {
        sorted.steps = order.iter().map(|step| state.steps[*step]).collect();
    }
    sorted
}

fn told(command: &Command, order: &[usize]) -> Command {
    match command {
        Command::Dispatch(step, attempt) => Command::Dispatch(order[*step], *attempt),
        Command::Withdraw(step, attempt, reason) => Command::Withdraw(order[*step], *attempt, *reason),
        other => other.clone(),
    }
}

/// Status, steps that completed, and the error with its causes, once it has ended.
fn shown(pair: &Lockstep, name: impl Fn(usize) -> usize) -> Option<(u8, u32, Vec<Link>)> {
    let result = &pair.settlement.as_ref()?.result;
    assert!(pair.abstract_state().phase >= Phase::Settling);
    let chain = result
        .error
        .as_ref()
        .map(|error| chain_of(error, pair))
        .unwrap_or_default();
    let chain = chain
        .into_iter()
        .map(|(code, step, severity)| (code, step.map(&name), severity));
    Some((result.status as u8, result.steps_executed, chain.collect()))
}
