//! The graph of a plan: references resolved, cycles found, canonical order computed.
//! Looks at ids and positions only.

use super::{Findings, Place, text};
use crate::draft::StepDraft;
use crate::error::cut;
use crate::plan::{Order, StepIndex};
use alloc::collections::{BTreeSet, BinaryHeap};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;
use escapement_model::{StepId, codes};

/// A reference that leads to another step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reference {
    pub(super) to: StepIndex,
    /// Its place in `depends_on` as sent.
    item: usize,
}

/// By step the other steps that it names, each once.
#[derive(Debug)]
pub(super) struct References {
    all: Vec<Reference>,
    /// By step: where its own start in `all`; one more entry for the end.
    from: Vec<usize>,
}

impl References {
    pub(super) fn of(&self, step: StepIndex) -> &[Reference] {
        &self.all[self.from[step.as_usize()]..self.from[step.as_usize() + 1]]
    }

    fn n_steps(&self) -> usize {
        self.from.len() - 1
    }

    fn steps(&self) -> impl Iterator<Item = StepIndex> {
        (0u16..).map(StepIndex).take(self.n_steps())
    }
}

/// What a step calls itself, or another: references are compared as ids if they are ids, else as texts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Name<'a> {
    Id(u128),
    Text(&'a str),
}

impl<'a> Name<'a> {
    fn of(text: &'a str) -> Self {
        text.parse().map_or(Name::Text(text), |id| Name::Id(number(id)))
    }
}

/// The names of all steps, sorted.
struct Names<'a> {
    ids: Vec<(u128, StepIndex)>,
    texts: Vec<(&'a str, StepIndex)>,
}

impl<'a> Names<'a> {
    fn new(steps: &'a [StepDraft], ids: &[Option<StepId>]) -> Self {
        let mut names = Self {
            ids: Vec::with_capacity(ids.len()),
            texts: Vec::new(),
        };
        for ((id, step), index) in ids.iter().zip(steps).zip((0u16..).map(StepIndex)) {
            match id {
                Some(id) => names.ids.push((number(*id), index)),
                None => names.texts.push((&step.id, index)),
            }
        }
        names.ids.sort_unstable();
        names.texts.sort_unstable();
        names
    }

    /// Returns the first step of that name.
    fn find(&self, name: Name<'a>) -> Option<StepIndex> {
        match name {
            Name::Id(id) => first(&self.ids, &id),
            Name::Text(text) => first(&self.texts, &text),
        }
    }
}

fn first<T: Ord>(names: &[(T, StepIndex)], name: &T) -> Option<StepIndex> {
    let at = names.partition_point(|(known, _)| known < name);
    let (_, index) = names.get(at).filter(|(known, _)| known == name)?;
    Some(*index)
}

/// In the order of the ids.
fn number(id: StepId) -> u128 {
    u128::from_be_bytes(*id.as_bytes())
}

/// Resolves every `depends_on`. Reports repeated ids and dead references.
///
/// `ids` are those of the steps, as far as they are ids.
pub(super) fn resolve(steps: &[StepDraft], ids: &[Option<StepId>], findings: &mut Findings) -> References {
    let names = Names::new(steps, ids);
    for pair in names.ids.windows(2) {
        if let [(before, _), (id, index)] = pair
            && before == id
            && let (Some(first), Some(id)) = (first(&names.ids, id), ids[index.as_usize()])
        {
            //
            let message = format!("The id {id} of plan.{index} is that of plan.{first} too.");
            let place = Place {
                of_plan: 4,
                step: index.as_usize() + 1,
                field: 1,
                ..Place::default()
            };
            findings.invalid(place, || format!("plan.{index}.id"), message);
        }
    }
    let mut references = References {
        all: Vec::with_capacity(steps.iter().map(|step| step.depends_on.len()).sum()),
        from: Vec::with_capacity(steps.len() + 1),
    };
    references.from.push(0);
    // By step: the last one that named it, so that a repeated reference counts once.
    let mut named_by = vec![None; steps.len()];
    for (index, step) in (0u16..).map(StepIndex).zip(steps) {
        let mut unknown = BTreeSet::new();
        for (item, text) in step.depends_on.iter().enumerate() {
            // what is repeated counts once, dead references too.
            let name = Name::of(text);
            match names.find(name) {
                Some(to) if named_by[to.as_usize()].replace(index) == Some(index) => {}
                Some(to) if to == index => {
                    dead(findings, index, item, || {
                        "A step cannot depend on itself.".to_string()
                    });
                }
                Some(to) => references.all.push(Reference { to, item }),
                None if !unknown.insert(name) => {}
                None => {
                    let text = cut(text, REFERENCE_CHARS_MAX);
                    dead(findings, index, item, || {
                        format!("No step of the plan has the id \"{text}\".")
                    });
                }
            }
        }
        references.from.push(references.all.len());
    }
    references
}

/// Returns the order of an acyclic graph; `None` if there are cycles, which are reported.
pub(super) fn order(steps: &[StepDraft], references: &References, findings: &mut Findings) -> Option<Order> {
    let (dependents_from, dependents) = invert(references);
    let mut n_open: Vec<usize> = references.steps().map(|step| references.of(step).len()).collect();
    // the ready step with the lowest index comes first.
    let mut ready: BinaryHeap<Reverse<StepIndex>> = references
        .steps()
        .filter(|step| n_open[step.as_usize()] == 0)
        .map(Reverse)
        .collect();
    let mut canonical = Vec::with_capacity(references.n_steps());
    let mut position = vec![0u16; references.n_steps()];
    while let Some(Reverse(index)) = ready.pop() {
        position[index.as_usize()] = u16::try_from(canonical.len()).expect("a plan has at most 1024 steps");
        canonical.push(index);
        let from = dependents_from[index.as_usize()] as usize;
        let to = dependents_from[index.as_usize() + 1] as usize;
        for dependent in &dependents[from..to] {
            let n_open = &mut n_open[dependent.as_usize()];
            *n_open -= 1;
            if *n_open == 0 {
                ready.push(Reverse(*dependent));
            }
        }
    }
    if canonical.len() < references.n_steps() {
        //
        report_cycles(steps, references, findings);
        return None;
    }
    Some(Order {
        canonical,
        position,
        dependents,
        dependents_from,
    })
}

/// By step the range of its dependents, and all dependents, in ascending order.
fn invert(references: &References) -> (Vec<u32>, Vec<StepIndex>) {
    let mut from = vec![0u32; references.n_steps() + 1];
    for reference in &references.all {
        from[reference.to.as_usize() + 1] += 1;
    }
    for index in 1..from.len() {
        from[index] += from[index - 1];
    }
    let mut next = from.clone();
    let mut dependents = vec![StepIndex(0); references.all.len()];
    for index in references.steps() {
        for reference in references.of(index) {
            let slot = &mut next[reference.to.as_usize()];
            dependents[*slot as usize] = index;
            *slot += 1;
        }
    }
    (from, dependents)
}

/// Reports each reference that closes a cycle of a depth-first walk: without them the graph would have none.
///
/// They are found first and told then, in document order, so that words are made only for those that are told.
fn report_cycles(steps: &[StepDraft], references: &References, findings: &mut Findings) {
    let (mut closing, came_from) = closing_references(references);
    closing.sort_unstable_by_key(|(step, reference)| (*step, reference.item));
    for (step, reference) in closing {
        if !findings.takes(place_of(step, reference.item)) {
            return;
        }
        //
        let mut cycle = vec![step];
        while let Some(&last) = cycle.last()
            && last != reference.to
        {
            cycle.push(
                came_from[last.as_usize()].expect("a walk leads from the reference's step to this one"),
            );
        }
        cycle.reverse();
        dead(findings, step, reference.item, || cycle_message(steps, &cycle));
    }
}

/// Returns the references that lead a depth-first walk back to a step on its path, each with the step that has it,
/// and by step the one that the walk came from.
fn closing_references(references: &References) -> (Vec<(StepIndex, Reference)>, Vec<Option<StepIndex>>) {
    #[derive(Clone, Copy, PartialEq)]
    enum Walk {
        NotSeen,
        OnPath,
        Done,
    }
    let mut closing = Vec::new();
    let mut came_from = vec![None; references.n_steps()];
    let mut walks = vec![Walk::NotSeen; references.n_steps()];
    // The path of the walk, with the number of references that were followed; a stack of our own, since plans
    // are deep.
    let mut path: Vec<(StepIndex, usize)> = Vec::new();
    for root in references.steps() {
        if walks[root.as_usize()] != Walk::NotSeen {
            continue;
        }
        walks[root.as_usize()] = Walk::OnPath;
        path.push((root, 0));
        while let Some((index, n_followed)) = path.last_mut() {
            let (index, at) = (*index, *n_followed);
            *n_followed += 1;
            let Some(reference) = references.of(index).get(at) else {
                walks[index.as_usize()] = Walk::Done;
                path.pop();
                continue;
            };
            match walks[reference.to.as_usize()] {
                Walk::NotSeen => {
                    walks[reference.to.as_usize()] = Walk::OnPath;
                    came_from[reference.to.as_usize()] = Some(index);
                    path.push((reference.to, 0));
                }
                Walk::OnPath => closing.push((index, *reference)),
                Walk::Done => {}
            }
        }
    }
    (closing, came_from)
}

/// Names the steps of a cycle, each followed by the one that it depends on, and the middle of a long one by
/// its length.
fn cycle_message(steps: &[StepDraft], cycle: &[StepIndex]) -> String {
    let mut message = String::from("The steps depend on each other in a cycle: ");
    let n_left_out = cycle.len().saturating_sub(CYCLE_STEPS_NAMED_MAX);
    let id_of = |index: StepIndex| {
        text::id::<StepId>(&steps[index.as_usize()].id).map_or(index.to_string(), |id| id.to_string())
    };
    for (at, index) in cycle.iter().enumerate() {
        if at == CYCLE_STEPS_NAMED_MAX / 2 && n_left_out > 0 {
            message.push_str(&format!("({n_left_out} more) -> "));
        }
        if at < CYCLE_STEPS_NAMED_MAX / 2 || at >= CYCLE_STEPS_NAMED_MAX / 2 + n_left_out {
            message.push_str(&id_of(*index));
            message.push_str(" -> ");
        }
    }
    message.push_str(&id_of(cycle[0]));
    message.push('.');
    message
}

fn dead(findings: &mut Findings, step: StepIndex, item: usize, message: impl FnOnce() -> String) {
    findings.push(
        place_of(step, item),
        || format!("plan.{step}.depends_on[{item}]"),
        codes::DEPENDENCY_UNRESOLVED,
        message,
    );
}

fn place_of(step: StepIndex, item: usize) -> Place {
    Place {
        of_plan: 4,
        step: step.as_usize() + 1,
        field: 4,
        item,
        ..Place::default()
    }
}

/// Steps of a cycle that a message names.
const CYCLE_STEPS_NAMED_MAX: usize = 12;

/// Code points of a reference that a message repeats.
const REFERENCE_CHARS_MAX: usize = 64;
