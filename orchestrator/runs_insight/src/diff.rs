//! What two revisions of a plan differ in, step by step. Says nothing about what a difference means.

use alloc::borrow::ToOwned;
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
    /// True if both plans say the same.
    pub fn is_empty(&self) -> bool {
        *self == Diff::default()
    }
}

/// Compares two plans. Steps are the same if their keys are; templates are compared as they are written.
pub fn diff(from: &Plan, to: &Plan) -> Diff {
    let lacks = |plan: &Plan, step: &Step| plan.steps.iter().all(|other| other.key != step.key);
    let only_in = |plan: &Plan, other: &Plan| {
        let steps = plan.steps.iter().filter(|step| lacks(other, step));
        steps.map(|step| step.key.clone()).collect()
    };
    Diff {
        added: only_in(to, from),
        removed: only_in(from, to),
        changed: to
            .steps
            .iter()
            .filter_map(|step| changed(from, to, step))
            .collect(),
        changed_fields: changed_fields(from, to),
    }
}

fn changed(from: &Plan, to: &Plan, after: &Step) -> Option<ChangedStep> {
    let before = from.steps.iter().find(|step| step.key == after.key)?;
    // Steps of the first plan keep their positions; those that only the second one has come behind them.
    let in_both = |at: StepIndex| {
        let key = &to.steps[at].key;
        let known = from.steps.iter().position(|step| step.key == *key);
        known.unwrap_or(from.steps.len() + at)
    };
    let (before, after_parts) = (before.parts(&|at| at), after.parts(&in_both));
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
