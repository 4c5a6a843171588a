//! Every state of every step, and of the execution, has its facts, its rules and its words.

use crate::story::{Spec, Story, completed, execution_id, failed, plan, reported, step_id};
use crate::walk::{Dice, random_input, random_plan};
use escapement_contract::{
    EndedBy, Evidence, Execution, ExecutionWhy, Explanation, Input, NotCompleted, Outcome, Phase, StepFacts,
    StepIndex, StepState, StepWhy, explain_settled,
};
use escapement_model::opaque::StructBuilder;
use escapement_model::{Opaque, Severity};
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

fn facts(story: &Story, name: &str) -> StepFacts {
    let index = story.index(name);
    let steps = explain(story).steps.into_iter();
    let mut steps = steps.filter(|facts| facts.step == index);
    steps.next().unwrap()
}

fn words(story: &Story, name: &str) -> String {
    facts(story, name).words(story.execution.request().plan())
}

fn rules(story: &Story, name: &str) -> Vec<&'static str> {
    facts(story, name).rules()
}

/// What must hold of any explanation of any execution, and which kinds of facts it shows.
fn check(story: &Story, seen: &mut BTreeSet<String>) {
    let execution = &story.execution;
    let plan = execution.request().plan();
    let explanation = explain(story);
    let order: Vec<_> = explanation.steps.iter().map(|facts| facts.step).collect();
    assert_eq!(order, plan.canonical_order(), "all steps, in canonical order");
    check_words(&explanation.execution.words(), &explanation.execution.rules());
    seen.insert(kind_of_execution(&explanation.execution.why));
    for facts in &explanation.steps {
        check_words(&facts.words(plan), &facts.rules());
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
        StepWhy::AwaitsDependencies { open, .. } => {
            assert!(open.n > 0 && open.first.len() == open.n.min(32) as usize);
            for dependency in &open.first {
                assert!(plan.step(facts.step).depends_on().contains(dependency));
                let state = execution.step_state(*dependency);
                assert!(!matches!(state, StepState::Completed | StepState::NotCompleted));
            }
        }
        StepWhy::BackingOff {
            in_ms, next_attempt, ..
        } => {
            assert!(facts.ends_in_ms.unwrap() <= *in_ms);
            assert!((2..=facts.attempts_max).contains(next_attempt));
        }
        StepWhy::Completed { attempts, .. } => assert!((1..=facts.attempts_max).contains(attempts)),
        StepWhy::NotCompleted {
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
        StepWhy::Stopped { attempts, .. } => {
            assert!(attempts.is_none_or(|attempts| attempts <= facts.attempts_max));
        }
        StepWhy::AwaitsExecution { .. }
        | StepWhy::AwaitsTurn { .. }
        | StepWhy::Waiting { .. }
        | StepWhy::Assigned { .. }
        | StepWhy::Started { .. }
        | StepWhy::Held(_) => {}
    }
}

/// Turns are counted from 0 in canonical order, and the first one comes when a slot is free.
//
fn check_turns(story: &Story, explanation: &Explanation) {
    let mut turn = 0;
    let mut next = None;
    for facts in &explanation.steps {
        if let StepWhy::AwaitsTurn { n_before, .. } = facts.why {
            assert_eq!(n_before, turn);
            turn += 1;
            next = next.or(Some(facts.step));
        }
    }
    let Some(next) = next else { return };
    let ExecutionWhy::Running { n_slots_free, .. } = explanation.execution.why else {
        panic!("turns are those of a running execution");
    };
    assert_eq!(n_slots_free, 0, "a turn is waited for while no slot is free");
    let started = explanation.steps.iter().find_map(|facts| match facts.why {
        StepWhy::Started { attempt, .. } => Some((facts.step, attempt)),
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

fn kind_of_execution(why: &ExecutionWhy) -> String {
    match why {
        ExecutionWhy::Queued(_) => "execution queued".into(),
        ExecutionWhy::Starting(_) => "execution starting".into(),
        ExecutionWhy::Running { .. } => "execution running".into(),
        ExecutionWhy::Settling { has_started, .. } => format!("execution settling, started {has_started}"),
        ExecutionWhy::Settled(end) => format!("execution settled by {:?}", end.by),
    }
}

fn kind_of_step(why: &StepWhy) -> String {
    let doomed = |root: &Option<_>| if root.is_some() { " doomed" } else { "" };
    match why {
        StepWhy::AwaitsExecution { .. } => "awaits execution".into(),
        StepWhy::AwaitsDependencies { doomed_by, .. } => format!("awaits dependencies{}", doomed(doomed_by)),
        StepWhy::AwaitsTurn { doomed_by, .. } => format!("awaits turn{}", doomed(doomed_by)),
        StepWhy::Waiting {
            returned, attempt, ..
        } => {
            format!("waiting, returned {}, retry {}", returned.is_some(), *attempt > 1)
        }
        StepWhy::Assigned { .. } => "assigned".into(),
        StepWhy::Started { .. } => "started".into(),
        StepWhy::BackingOff { .. } => "backing off".into(),
        StepWhy::Held(state) => {
            let state = format!("{state:?}");
            format!("held {}", state.split(' ').next().unwrap())
        }
        StepWhy::Completed { n_warnings, .. } => format!("completed, warned {}", *n_warnings > 0),
        StepWhy::NotCompleted {
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
        StepWhy::Stopped {
            was_under_way, end, ..
        } => format!("stopped {was_under_way:?} by {:?}", end.by),
    }
}

/// What is said of a step that has ended never changes, be it by the state of the execution or by its record.
fn check_memory(story: &Story, ended: &mut BTreeMap<StepIndex, StepWhy>) {
    for facts in explain(story).steps {
        if matches!(
            facts.why,
            StepWhy::Completed { .. } | StepWhy::NotCompleted { .. }
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
fn recovered() -> Story {
    let story = two_steps().queued();
    let execution = Execution::recover_started(
        Arc::clone(story.execution.request()),
        execution_id(),
        story.execution.accepted_at(),
        story.execution.deadline(),
        story.execution.accepted_at() + 5,
        story.now,
    );
    Story { execution, ..story }
}

fn two_steps() -> Spec {
    plan().step("a").step("b").after(&["a"])
}

/// The endings that no step brings about.
fn other_endings() -> Vec<Story> {
    let mut in_queue = two_steps().queued();
    in_queue.at(5_000).tick();
    let mut too_near = two_steps().deadline(1_000_500).queued();
    too_near.ok(Input::Start);
    let mut no_key = two_steps().environment(StructBuilder::new().build()).queued();
    no_key.ok(Input::Start);
    vec![in_queue, too_near, no_key, recovered()]
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
    let mut expected: BTreeSet<String> = [
        "execution queued",
        "execution starting",
        "execution running",
        "execution settling, started true",
        "execution settling, started false",
        "awaits execution",
        "awaits dependencies",
        "awaits dependencies doomed",
        "awaits turn",
        "awaits turn doomed",
        "waiting, returned false, retry false",
        "waiting, returned true, retry false",
        "waiting, returned false, retry true",
        "waiting, returned true, retry true",
        "assigned",
        "started",
        "backing off",
        "held Pending",
        "held Waiting",
        "held Assigned",
        "held Started",
        "held BackingOff",
        "completed, warned false",
        "completed, warned true",
        "Failed fatal, cascade false, not offered false",
        "Failed fatal, cascade false, not offered true",
        "Skipped error, cascade false, not offered false",
        "Skipped warn, cascade true, not offered false",
        "RetriesExhausted error, cascade false, not offered false",
        "NotRetryable error, cascade false, not offered false",
        "WarnedWithoutOutput warn, cascade false, not offered false",
        "DependencyUnresolved fatal, cascade true, not offered false",
        "Failed error, cascade false, not offered false",
    ]
    .map(str::to_owned)
    .into();
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

//
#[test]
fn a_step_that_is_ready_waits_for_its_turn_while_no_slot_is_free() {
    let mut story = plan()
        .step("a")
        .step("b")
        .step("c")
        .step("d")
        .after(&["a", "b"])
        .running();
    story.hand("a");
    assert_eq!(
        words(&story, "a"),
        "Its handler runs at a worker. A limit ends the attempt in 1000 ms at the latest."
    );
    assert_eq!(
        words(&story, "b"),
        "Waits for a step under way to end, as no more than 1 may be at a time; 0 steps have their turn before it."
    );
    assert_eq!(
        words(&story, "c"),
        "Waits for a step under way to end, as no more than 1 may be at a time; 1 step has its turn before it."
    );
    assert_eq!(rules(&story, "c"), ["R-2.3", "R-2.4", "R-2.2"]);
    let ids = [step_id("a"), step_id("b")];
    assert_eq!(
        words(&story, "d"),
        format!("Waits for step {} and 1 other to end.", ids[0])
    );
    story.complete("a").hand("b");
    assert_eq!(words(&story, "d"), format!("Waits for step {} to end.", ids[1]));
    assert_eq!(words(&story, "a"), "Completed after 1 attempt.");
    assert_eq!(
        explain(&story).execution.words(),
        "Runs: 1 of 4 steps have ended, 1 is under way of 1 at a time. The plan's limit ends it in 1000 ms at the \
         latest."
    );
}

//
#[test]
fn a_step_that_backs_off_says_which_retry_comes_when_and_what_happened_before() {
    let mut story = plan()
        .step("a")
        .retry()
        .step("b")
        .attempts(3, 40, &["X"])
        .running();
    story.at(10).fail("a", "X");
    story.at(15).tick();
    assert_eq!(
        words(&story, "a"),
        "Retry 1 of 2 in 35 ms. The attempt before it ended with X."
    );
    assert_eq!(rules(&story, "a"), ["R-4.4", "R-2.11", "R-3.12"]);
    assert_eq!(facts(&story, "a").ends_in_ms, Some(35));
    story.at(50).tick();
    assert_eq!(
        words(&story, "a"),
        "Retry 1 of 2. Waits for a worker that offers do_a."
    );
    story.fail("a", "X").at(999).tick();
    story.assign("a").at(999).end("a", failed("X", None));
    assert_eq!(
        words(&story, "a"),
        "Ended with X after 3 attempts, and no attempt is left; the plan went on."
    );
    assert_eq!(rules(&story, "a"), ["R-2.10", "R-2.9"]);
    assert_eq!(facts(&story, "b").ends_in_ms, Some(1));
}

//
#[test]
fn a_step_that_was_given_back_says_how_that_is_known() {
    let mut story = plan().step("a").limit(100).running();
    story.assign("a");
    assert_eq!(
        words(&story, "a"),
        "Handed to a worker, which has not said yet that the handler runs. A limit ends the attempt in 100 ms \
         at the latest."
    );
    story.give_back("a", Evidence::LeaseExpired);
    assert_eq!(
        words(&story, "a"),
        "Waits for a worker that offers do_a. It was handed out before and did not run: the worker's lease ran out \
         before it started."
    );
    assert_eq!(rules(&story, "a"), ["R-2.15", "R-2.17", "R-2.13"]);
    assert_eq!(
        facts(&story, "a").ends_in_ms,
        Some(1000),
        "its own limit is off until the next hand-out"
    );
}

//
#[test]
fn a_cascade_names_the_step_at_its_root_however_long_it_is() {
    let names = ["b", "c", "d", "e", "f", "g"];
    let mut spec = plan().step("a").skip();
    let mut before = "a";
    for name in names {
        spec = spec.step(name).skip().after(&[before]);
        before = name;
    }
    let mut story = spec
        .step("other")
        .step("last")
        .skip()
        .after(&["a", "other"])
        .running();
    story.fail("a", "X");
    assert_eq!(
        words(&story, "a"),
        "Ended with X after 1 attempt; its on_failure is skip, so the plan went on."
    );
    let root = step_id("a");
    for name in names {
        let skipped = format!("Skipped without an attempt, because step {root} did not complete.");
        assert_eq!(words(&story, name), skipped);
        assert_eq!(rules(&story, name), ["R-2.5", "R-2.6"]);
    }
    assert_eq!(
        words(&story, "last"),
        format!(
            "Waits for step {} to end. It will not run, because step {root} did not complete.",
            step_id("other")
        )
    );
    assert_eq!(rules(&story, "last"), ["R-2.3", "R-2.5"]);
    story.fail("other", "Y");
    story.settle();
    assert_eq!(
        words(&story, "last"),
        format!(
            "Never ran, as its execution ended before its turn came. Failure: the error Y of step {} stopped the \
             plan, as its on_failure is halt.",
            step_id("other")
        )
    );
    assert_eq!(rules(&story, "last"), ["R-3.9", "R-4.6"]);
}

//
#[test]
fn the_end_of_an_execution_is_not_explained_before_it_is_durable() {
    let mut story = plan().step("a").step("b").at_a_time(2).running();
    story.hand("a").hand("b");
    let n_shown = story.execution.audit().len();
    story.fail("a", "SECRET");
    let held = story.execution.explain(story.now, n_shown);
    for facts in &held.steps {
        assert_eq!(facts.why, StepWhy::Held(StepState::Started { attempt: 1 }));
        assert_eq!(facts.rules(), ["R-9.2"]);
    }
    assert!(!format!("{held:?}").contains("SECRET"));
    assert_eq!(
        held.execution.words(),
        "It is over; how it ended is told once that is durable."
    );
    story.settle();
    assert!(words(&story, "a").contains("SECRET"));
    assert_eq!(explain(&story).execution.rules(), ["R-4.6", "R-4.12", "R-5.6"]);
}

//
#[test]
fn a_record_that_leaves_attempts_out_still_explains_every_step() {
    let mut spec = plan()
        .step("a")
        .retry()
        .step("b")
        .skip()
        .step("c")
        .attempts(9_000, 0, &["*"]);
    spec.plan().timeout_ms = Some(1_000_000);
    let mut story = spec.running();
    for _ in 0..8_999 {
        story.fail("a", "X");
    }
    assert!(story.execution.audit().len() >= 16_384, "this record is full");
    story.fail("a", "X").fail("b", "ACTION_NOT_FOUND");
    assert_eq!(
        words(&story, "a"),
        "Ended with X after 9000 attempts, and no attempt is left; the plan went on."
    );
    story.settle();
    assert_eq!(
        words(&story, "b"),
        "Ended with ACTION_NOT_FOUND after 1 attempt, which stopped the plan."
    );
    assert!(words(&story, "c").starts_with("Its execution ended before it did. Failure: "));
}

//
#[test]
fn a_step_whose_action_nobody_offers_says_so() {
    let mut story = plan().step("a").running();
    let (step, attempt) = (story.index("a"), 1);
    story.ok(Input::ActionNotFound { step, attempt });
    story.settle();
    assert_eq!(
        words(&story, "a"),
        "No live worker offers do_a, which stopped the plan."
    );
    assert_eq!(rules(&story, "a"), ["R-2.14", "R-4.7"]);
}

//
#[test]
fn the_severity_of_an_error_names_the_rule_that_set_it() {
    let ended = |spec: Spec, outcome: Outcome| {
        let mut story = spec.running();
        story.end("a", outcome);
        story.settle();
        rules(&story, "a")
    };
    let one = || plan().step("a").skip();
    assert_eq!(ended(one(), failed("UNKNOWN_ERROR", None)), ["R-4.7", "R-4.1"]);
    assert_eq!(ended(one(), failed("X", Some(Severity::Fatal))), ["R-4.7"]);
    assert_eq!(ended(one(), failed("STEP_TIMEOUT", None)), ["R-4.7", "R-4.2"]);
    assert_eq!(ended(one(), failed("X", Some(Severity::Warn))), ["R-4.3"]);
    assert_eq!(
        ended(plan().step("a").retry(), failed("X", None)),
        ["R-2.10", "R-2.8"]
    );
}
