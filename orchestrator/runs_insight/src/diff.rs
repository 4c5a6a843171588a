//! What two revisions of a plan differ in, step by step. Says nothing about what a difference means.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use escapement_run::plan::{Plan, Step, StepIndex};

/// What is different.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diff {
    /// Keys of steps that only the second plan has, in its canonical order.
    pub added: Vec<String>,
    /// Keys of steps that only the first plan has, in its canonical order.
    pub removed: Vec<String>,
    /// Steps that both have and that say different things, in the canonical order of the second plan.
    pub changed: Vec<ChangedStep>,
    /// Fields of the plan itself that differ, sorted.
    pub changed_fields: Vec<&'static str>,
}

/// A step that says different things.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedStep {
    /// The key.
    pub key: String,
    /// Fields that differ, sorted, as documents name them.
    pub fields: Vec<&'static str>,
}

impl Diff {
    /// Returns true if both plans say the same.
    pub fn is_empty(&self) -> bool {
        *self == Diff::default()
    }
}

/// Compares two plans. Steps are the same if their keys are; templates are compared as they are written.
pub fn diff(from: &Plan, to: &Plan) -> Diff {
    let (before, after) = (positions(from), positions(to));
    let only_in = |plan: &Plan, other: &Positions<'_>| {
        let steps = plan.steps.iter();
        let lacked = steps.filter(|step| !other.contains_key(&*step.key));
        lacked.map(|step| step.key.clone()).collect()
    };
    // Steps of the first plan keep their positions; those that only the second one has come behind them.
    let in_both = |at: StepIndex| {
        let known = before.get(&*to.steps[at].key).copied();
        known.unwrap_or(from.steps.len() + at)
    };
    let steps = to.steps.iter();
    let in_both = steps.filter_map(|step| changed(&from.steps[*before.get(&*step.key)?], step, &in_both));
    Diff {
        added: only_in(to, &before),
        removed: only_in(from, &after),
        changed: in_both.collect(),
        changed_fields: changed_fields(from, to),
    }
}

type Positions<'a> = BTreeMap<&'a str, StepIndex>;

/// Where the step of each key stands.
fn positions(plan: &Plan) -> Positions<'_> {
    let steps = plan.steps.iter().enumerate();
    steps.map(|(at, step)| (&*step.key, at)).collect()
}

fn changed(before: &Step, after: &Step, in_both: &dyn Fn(StepIndex) -> StepIndex) -> Option<ChangedStep> {
    let (before, after_parts) = (before.parts(&|at| at), after.parts(in_both));
    let differ = before
        .iter()
        .zip(&after_parts)
        .filter(|(one, other)| one != other);
    let fields: Vec<&'static str> = differ.map(|((name, _), _)| *name).collect();
    (!fields.is_empty()).then(|| ChangedStep {
        key: after.key.to_owned(),
        fields,
    })
}

fn changed_fields(from: &Plan, to: &Plan) -> Vec<&'static str> {
    let output = |plan: &Plan| plan.output.as_ref().map(|template| template.0.clone());
    [
        ("constraints", from.constraints != to.constraints),
        ("description", from.description != to.description),
        ("goal", from.goal != to.goal),
        ("name", from.name != to.name),
        ("narrative", from.narrative != to.narrative),
        ("output", output(from) != output(to)),
        ("parallel", from.parallel != to.parallel),
    ]
    .into_iter()
    .filter_map(|(name, differs)| differs.then_some(name))
    .collect()
}
