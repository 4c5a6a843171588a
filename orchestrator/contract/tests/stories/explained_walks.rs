//! Every state of every step, and of the execution, is explained on random walks, and nothing contradicts another.

use crate::story::{Spec, Story, completed, execution_id, reported, steps};
use crate::walk::{Dice, random_input, random_plan};
use escapement_contract::{
    EndedBy, Execution, ExecutionReason, Explanation, Input, Interruption, NotCompleted, Outcome, Phase,
    StepFacts, StepIndex, StepReason, StepState, explain_settled,
};
use escapement_model::Opaque;
use escapement_model::opaque::StructBuilder;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

/// The rules that there are.
static RULES: LazyLock<BTreeSet<&str>> = LazyLock::new(|| {
    let lines = include_str!("../../CONTRACT.md").lines();
    lines
        .filter_map(|line| Some(line.strip_prefix("**")?.split_once("**")?.0))
        .collect()
});

fn explain(story: &Story) -> Explanation {
    let execution = &story.execution;
    execution.explain(story.now, execution.audit().len())
}

/// What must hold of any explanation of any execution, and which kinds of facts it shows.
fn check(story: &Story, seen: &mut BTreeSet<String>) {
    let execution = &story.execution;
    let plan = execution.request().plan();
    let explanation = explain(story);
    let order: Vec<_> = explanation.steps.iter().map(|facts| facts.step).collect();
    assert_eq!(order, plan.canonical_order(), "all steps, in canonical order");
    check_words(&explanation.execution.describe(), &explanation.execution.rules());
    seen.insert(kind_of_execution(&explanation.execution.why));
    for facts in &explanation.steps {
        check_words(&facts.describe(plan), &facts.rules());
        seen.insert(kind_of_step(&facts.why));
        check_step(story, facts);
    }
    check_turns(story, &explanation);
    // Whatever comes next by itself is what something waits for at the latest.
    let limits = explanation.steps.iter().map(|facts| facts.ends_in_ms);
    let first = limits.chain([explanation.execution.ends_in_ms]).flatten().min();
    let next = execution.next_due_ms();
    assert_eq!(first, next.map(|due_ms| due_ms - story.now.monotonic_ms));
}

fn check_words(words: &str, rules: &[&str]) {
    assert!(words.len() > 10 && words.ends_with('.'), "{words:?}");
    assert!(!words.contains("  ") && !words.contains(".."), "{words:?}");
    assert!(!rules.is_empty(), "{words:?} has no rule");
    for rule in rules {
        assert!(RULES.contains(rule), "{rule} is no rule");
    }
}

fn check_step(story: &Story, facts: &StepFacts) {
    let execution = &story.execution;
    let plan = execution.request().plan();
    let state = execution.step_state(facts.step);
    if execution.phase() != Phase::Settling {
        assert_eq!(facts.why.state(), state, "{facts:?}");
    }
    let is_live = execution.phase() < Phase::Settling;
    let has_ended = matches!(state, StepState::Completed | StepState::NotCompleted);
    assert_eq!(facts.ends_in_ms.is_some(), is_live && !has_ended, "{facts:?}");
    match &facts.why {
        StepReason::AwaitsDependencies { open, .. } => {
            assert!(open.n > 0 && open.first.len() == open.n.min(32) as usize);
            for dependency in &open.first {
                assert!(plan.step(facts.step).depends_on().contains(dependency));
                let state = execution.step_state(*dependency);
                assert!(!matches!(state, StepState::Completed | StepState::NotCompleted));
            }
        }
        StepReason::BackingOff {
            in_ms, next_attempt, ..
        } => {
            assert!(facts.ends_in_ms.unwrap() <= *in_ms);
            assert!((2..=facts.attempts_max).contains(next_attempt));
        }
        StepReason::Completed { attempts, .. } => assert!((1..=facts.attempts_max).contains(attempts)),
        StepReason::NotCompleted {
            attempts,
            reason,
            root,
            ..
        } => {
            assert!(*attempts <= facts.attempts_max);
            assert_eq!(
                *attempts == 0,
                root.is_some(),
                "what never ran did not for another's sake"
            );
            if let Some(root) = root {
                let root = plan.steps().iter().position(|step| step.id() == *root).unwrap();
                let root = plan.canonical_order().iter().find(|step| step.as_usize() == root);
                assert_eq!(execution.step_state(*root.unwrap()), StepState::NotCompleted);
            }
            let is_exhausted = *reason == NotCompleted::RetriesExhausted;
            assert!(!is_exhausted || *attempts == facts.attempts_max);
        }
        StepReason::Stopped { attempts, .. } => {
            assert!(attempts.is_none_or(|attempts| attempts <= facts.attempts_max));
        }
        StepReason::AwaitsExecution { .. }
        | StepReason::AwaitsTurn { .. }
        | StepReason::Waiting { .. }
        | StepReason::Assigned { .. }
        | StepReason::Started { .. }
        | StepReason::Held(_) => {}
    }
}

/// Turns are counted from 0 in canonical order, and the first one comes when a slot is free.
//
fn check_turns(story: &Story, explanation: &Explanation) {
    let mut turn = 0;
    let mut next = None;
    for facts in &explanation.steps {
        if let StepReason::AwaitsTurn { n_before, .. } = facts.why {
            assert_eq!(n_before, turn);
            turn += 1;
            next = next.or(Some(facts.step));
        }
    }
    let Some(next) = next else { return };
    let ExecutionReason::Running { n_slots_free, .. } = explanation.execution.why else {
        panic!("turns are those of a running execution");
    };
    assert_eq!(n_slots_free, 0, "a turn is waited for while no slot is free");
    let started = explanation.steps.iter().find_map(|facts| match facts.why {
        StepReason::Started { attempt, .. } => Some((facts.step, attempt)),
        _ => None,
    });
    let Some((step, attempt)) = started else { return };
    // Its end may make another step ready.
    let plan = story.execution.request().plan();
    if plan
        .steps()
        .iter()
        .any(|other| other.depends_on().contains(&step))
    {
        return;
    }
    let mut after = story.execution.clone();
    let outcome = completed("x");
    after
        .handle(
            story.now,
            Input::AttemptEnded {
                step,
                attempt,
                outcome,
            },
        )
        .unwrap();
    assert_ne!(
        after.step_state(next),
        StepState::Pending,
        "the first turn comes first"
    );
}

fn kind_of_execution(why: &ExecutionReason) -> String {
    match why {
        ExecutionReason::Queued(_) => "execution queued".into(),
        ExecutionReason::Starting(_) => "execution starting".into(),
        ExecutionReason::Running { .. } => "execution running".into(),
        ExecutionReason::Settling { has_started, .. } => format!("execution settling, started {has_started}"),
        ExecutionReason::Settled(end) => format!("execution settled by {:?}", end.by),
    }
}

fn kind_of_step(why: &StepReason) -> String {
    let doomed = |root: &Option<_>| if root.is_some() { " doomed" } else { "" };
    match why {
        StepReason::AwaitsExecution { .. } => "awaits execution".into(),
        StepReason::AwaitsDependencies { doomed_by, .. } => {
            format!("awaits dependencies{}", doomed(doomed_by))
        }
        StepReason::AwaitsTurn { doomed_by, .. } => format!("awaits turn{}", doomed(doomed_by)),
        StepReason::Waiting {
            returned, attempt, ..
        } => {
            format!("waiting, returned {}, retry {}", returned.is_some(), *attempt > 1)
        }
        StepReason::Assigned { .. } => "assigned".into(),
        StepReason::Started { .. } => "started".into(),
        StepReason::BackingOff { .. } => "backing off".into(),
        StepReason::Held(state) => {
            let state = format!("{state:?}");
            format!("held {}", state.split(' ').next().unwrap())
        }
        StepReason::Completed { n_warnings, .. } => format!("completed, warned {}", *n_warnings > 0),
        StepReason::NotCompleted {
            reason,
            severity,
            root,
            was_not_offered,
            ..
        } => {
            format!(
                "{reason:?} {severity}, cascade {}, not offered {was_not_offered}",
                root.is_some()
            )
        }
        StepReason::Stopped { was, end, .. } => {
            let was_under_way = was.map(|was| was != StepState::Pending);
            format!("stopped {was_under_way:?} by {:?}", end.by)
        }
    }
}

/// What is said of a step that has ended never changes, be it by the state of the execution or by its record.
fn check_memory(story: &Story, ended: &mut BTreeMap<StepIndex, StepReason>) {
    for facts in explain(story).steps {
        if matches!(
            facts.why,
            StepReason::Completed { .. } | StepReason::NotCompleted { .. }
        ) {
            let before = ended.entry(facts.step).or_insert_with(|| facts.why.clone());
            assert_eq!(*before, facts.why);
        } else {
            assert!(!ended.contains_key(&facts.step), "it had ended: {facts:?}");
        }
    }
}

/// One execution from its acceptance to its end, explained after every input.
fn explained_walk(seed: u64, seen: &mut BTreeSet<String>) {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut story = random_plan(&mut dice).queued();
    let mut ended = BTreeMap::new();
    let mut ms = dice.roll(3);
    story.at(ms);
    check(&story, seen);
    story.ok(Input::Start);
    check(&story, seen);
    ms += dice.roll(3);
    story.at(ms).ok(Input::StartPersisted);
    check(&story, seen);
    while story.execution.phase() < Phase::Settling {
        ms += dice.roll(4) * dice.roll(4) + if dice.roll(150) == 0 { 1_000 } else { 0 };
        story.at(ms);
        let input = match (random_input(&mut dice, &story), dice.roll(60)) {
            (Input::Assigned { step, attempt, .. }, 0) => Input::ActionNotFound { step, attempt },
            (Input::AttemptEnded { step, attempt, .. }, 0..6) => {
                let warnings = vec![reported("W", None)];
                let outcome = Outcome::Completed {
                    output: Opaque::default(),
                    warnings,
                };
                Input::AttemptEnded {
                    step,
                    attempt,
                    outcome,
                }
            }
            (input, _) => input,
        };
        let _may_be_refused = story.feed(input);
        check(&story, seen);
        check_memory(&story, &mut ended);
    }
    let settlement = story.persisted.clone().unwrap();
    if story.execution.phase() == Phase::Settling {
        story.settle();
        check(&story, seen);
    }
    check_memory(&story, &mut ended);
    // The record alone says the same.
    let entries = settlement.audit.iter().map(|entry| &entry.kind);
    let result = &settlement.result;
    let plan = story.execution.request().plan();
    let stored = explain_settled(plan, entries, result.status, result.error.as_ref());
    assert_eq!(stored, explain(&story), "seed {seed}");
}

//
fn recovered(interruption: Interruption) -> Story {
    let story = two_steps().queued();
    let execution = Execution::recover(
        Arc::clone(story.execution.request()),
        execution_id(),
        story.execution.accepted_at(),
        story.execution.deadline(),
        interruption,
        story.now,
    );
    Story { execution, ..story }
}

fn two_steps() -> Spec {
    steps("a; b after=a")
}

/// Returns the endings that no step brings about.
fn other_endings() -> Vec<Story> {
    let mut in_queue = two_steps().queued();
    in_queue.at(5_000).tick();
    let mut too_near = two_steps().deadline(1_000_500).queued();
    too_near.ok(Input::Start);
    let mut no_key = two_steps().environment(StructBuilder::new().build()).queued();
    no_key.ok(Input::Start);
    let restarted = Interruption::Restarted {
        started_at: no_key.execution.accepted_at() + 5,
    };
    let interrupted = [restarted, Interruption::Restored].map(recovered);
    [in_queue, too_near, no_key]
        .into_iter()
        .chain(interrupted)
        .collect()
}

#[test]
fn every_state_is_explained_on_every_walk() {
    let mut seen = BTreeSet::new();
    for seed in 1..600 {
        explained_walk(seed, &mut seen);
    }
    for mut story in other_endings() {
        check(&story, &mut seen);
        story.settle();
        check(&story, &mut seen);
    }
    let expected = "execution queued; execution starting; execution running; execution settling, started true; \
        execution settling, started false; awaits execution; awaits dependencies; \
        awaits dependencies doomed; awaits turn; awaits turn doomed; \
        waiting, returned false, retry false; waiting, returned true, retry false; \
        waiting, returned false, retry true; waiting, returned true, retry true; assigned; started; \
        backing off; held Pending; held Waiting; held Assigned; held Started; held BackingOff; \
        completed, warned false; completed, warned true; \
        Failed fatal, cascade false, not offered false; \
        Failed fatal, cascade false, not offered true; \
        Skipped error, cascade false, not offered false; \
        Skipped warn, cascade true, not offered false; \
        RetriesExhausted error, cascade false, not offered false; \
        NotRetryable error, cascade false, not offered false; \
        WarnedWithoutOutput warn, cascade false, not offered false; \
        DependencyUnresolved fatal, cascade true, not offered false; \
        Failed error, cascade false, not offered false";
    let mut expected: BTreeSet<String> = expected.split("; ").map(str::to_owned).collect();
    let ends = [
        EndedBy::AllCompleted,
        EndedBy::SomeCompleted,
        EndedBy::NoneCompleted,
        EndedBy::Halt,
        EndedBy::Fatal,
        EndedBy::DependencyUnresolved,
        EndedBy::PlanLimit,
        EndedBy::DeadlineInQueue,
        EndedBy::DeadlineTooNear,
        EndedBy::ContextMissing,
        EndedBy::Restart,
        EndedBy::Restore,
    ];
    expected.extend(ends.iter().map(|by| format!("execution settled by {by:?}")));
    for by in [
        EndedBy::Halt,
        EndedBy::Fatal,
        EndedBy::DependencyUnresolved,
        EndedBy::PlanLimit,
    ] {
        expected.insert(format!("stopped Some(false) by {by:?}"));
        expected.insert(format!("stopped Some(true) by {by:?}"));
    }
    expected.insert(format!("stopped None by {:?}", EndedBy::Restart));
    for by in [
        EndedBy::DeadlineInQueue,
        EndedBy::DeadlineTooNear,
        EndedBy::ContextMissing,
        EndedBy::Restore,
    ] {
        expected.insert(format!("stopped Some(false) by {by:?}"));
    }
    let missing: Vec<_> = expected.difference(&seen).collect();
    let unexpected: Vec<_> = seen.difference(&expected).collect();
    assert!(
        missing.is_empty() && unexpected.is_empty(),
        "missing {missing:?}, unexpected {unexpected:?}"
    );
}
