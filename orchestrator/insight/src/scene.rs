//! What is drawn, whatever document it came from: steps, how they depend on each other, and what they did when.
//! Knows neither documents nor drawings.

use escapement_contract::{OnFailure, Plan};
use escapement_model::StepId;
use escapement_wire::json::from_opaque;
use std::collections::BTreeMap;

/// A plan, an execution, or both.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scene {
    /// The plan's name; empty if only a timeline is known.
    pub name: String,
    /// In canonical order; if no plan is known, in the order in which they first did something.
    pub steps: Vec<Step>,
    /// True if the plan is known, and so how the steps depend on each other.
    pub has_graph: bool,
    /// What was done when; absent for a plan by itself.
    pub story: Option<Story>,
}

/// One step.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Names it in the plan.
    pub id: StepId,
    /// The first digits of the id, as many as it takes to be unique in the scene, at least 8.
    pub short_id: String,
    /// As in the plan.
    pub action: String,
    /// What the plan's `metadata.titles` calls it; may be empty.
    pub title: String,
    /// Places in `Scene::steps`, each before this one.
    pub depends_on: Vec<usize>,
    /// What becomes of the plan when it fails; absent if the plan is not known.
    pub on_failure: Option<OnFailure>,
    /// Milliseconds of each attempt.
    pub timeout_ms: Option<u64>,
    /// What it came to.
    pub state: State,
    /// Milliseconds from the first hand-out to a worker to the end of the last attempt; absent if there was none.
    pub took_ms: Option<u64>,
    /// How many attempts were made.
    pub n_attempts: u32,
    /// Why it did not complete: the code of its error. Empty if it did, or is not over.
    pub error_code: String,
}

/// What a step came to, or is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Nothing has happened to it.
    Planned,
    /// Its turn has come; it waits for a worker.
    Waiting,
    /// A worker has it.
    Running,
    /// It sleeps before its next attempt.
    BackingOff,
    /// Ended with an output.
    Completed,
    /// Ended without completing.
    Failed,
    /// Ended without completing, and the plan went on as its `on_failure` says.
    Skipped,
    /// The execution ended before it did.
    Stopped,
    /// The execution ended before its turn came.
    NeverRan,
}

impl State {
    /// For people.
    pub fn as_str(self) -> &'static str {
        match self {
            State::Planned => "planned",
            State::Waiting => "waiting",
            State::Running => "running",
            State::BackingOff => "backing off",
            State::Completed => "completed",
            State::Failed => "failed",
            State::Skipped => "skipped",
            State::Stopped => "stopped",
            State::NeverRan => "never ran",
        }
    }
}

/// What an execution did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Story {
    /// By step and then by time.
    pub spans: Vec<Span>,
    /// `success`, `partial` or `failure`; empty while it runs.
    pub status: String,
    /// The code of the result's error; empty if there is none or it is not known.
    pub error_code: String,
    /// Milliseconds from the start to the end, or to the last thing that is known.
    pub duration_ms: u64,
}

/// What a step did for a while, in milliseconds since the start.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// Place in `Scene::steps`.
    pub step: usize,
    /// What it did.
    pub activity: Activity,
    /// 1 for the first.
    pub attempt: u32,
    /// When it began.
    pub from_ms: u64,
    /// When it ended, not before `from_ms`.
    pub to_ms: u64,
    /// How a running span ended; `Open` for all others.
    pub outcome: Outcome,
}

/// What a step does for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Activity {
    /// It waits for a worker.
    Waiting,
    /// It sleeps before its next attempt.
    BackingOff,
    /// A worker has it.
    Running,
    /// Wait for a person.
    Asking,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It did not, as far as is known.
    Open,
    /// With an output.
    Completed,
    /// Without one: the code of the error.
    Failed(String),
    /// It never ran, and is handed out again.
    Returned,
    /// The execution ended first.
    Stopped,
}

impl Scene {
    /// A plan to which nothing has happened.
    pub fn of_plan(plan: &Plan) -> Self {
        let titles = titles(plan);
        let place = |index: &escapement_contract::StepIndex| usize::from(plan.position(*index));
        let steps = plan.canonical_order().iter().map(|index| {
            let step = plan.step(*index);
            let mut depends_on: Vec<usize> = step.depends_on().iter().map(place).collect();
            depends_on.sort_unstable();
            Step {
                title: titles.get(&step.id()).cloned().unwrap_or_default(),
                depends_on,
                on_failure: Some(step.on_failure()),
                timeout_ms: step.timeout_ms(),
                ..Step::new(step.id(), step.action())
            }
        });
        let mut scene = Self {
            name: plan.name().to_owned(),
            steps: steps.collect(),
            has_graph: true,
            story: None,
        };
        scene.shorten_ids();
        scene
    }

    /// Gives every step the shortest id that is unique.
    pub fn shorten_ids(&mut self) {
        let mut ids: Vec<(String, usize)> = self
            .steps
            .iter()
            .map(|step| step.id.to_string())
            .zip(0..)
            .collect();
        ids.sort_unstable();
        for (at, (id, step)) in ids.iter().enumerate() {
            let beside = [at.checked_sub(1), Some(at + 1)];
            let neighbours = beside.into_iter().flatten().filter_map(|at| ids.get(at));
            let n_shared = neighbours
                .map(|(other, _)| n_shared(id, other))
                .max()
                .unwrap_or(0);
            let n_digits = (n_shared + 1).clamp(SHORT_ID_DIGITS, id.len());
            self.steps[*step].short_id = id[..n_digits].trim_end_matches('-').to_owned();
        }
    }
}

impl Scene {
    /// Tells what was done when; steps learn how long they took.
    pub fn tell(&mut self, story: Story) {
        let mut begins = vec![None; self.steps.len()];
        for span in story
            .spans
            .iter()
            .filter(|span| span.activity == Activity::Running)
        {
            let begin = *begins[span.step].get_or_insert(span.from_ms);
            self.steps[span.step].took_ms = Some(span.to_ms.saturating_sub(begin));
        }
        self.story = Some(story);
    }
}

impl Step {
    /// A step of which only this is known.
    pub fn new(id: StepId, action: &str) -> Self {
        Self {
            id,
            short_id: String::new(),
            action: action.to_owned(),
            title: String::new(),
            depends_on: Vec::new(),
            on_failure: None,
            timeout_ms: None,
            state: State::Planned,
            took_ms: None,
            n_attempts: 0,
            error_code: String::new(),
        }
    }

    /// The title, or the action if it has none.
    pub fn label(&self) -> &str {
        if self.title.is_empty() {
            &self.action
        } else {
            &self.title
        }
    }
}

/// `metadata.titles`, from step id to a text: a habit of the plans in this repository, and no rule.
fn titles(plan: &Plan) -> BTreeMap<StepId, String> {
    let metadata = from_opaque(plan.metadata()).unwrap_or_default();
    let titles = metadata.get("titles").and_then(|titles| titles.as_object());
    let title =
        |(id, title): (&String, &serde_json::Value)| Some((id.parse().ok()?, title.as_str()?.to_owned()));
    titles.into_iter().flatten().filter_map(title).collect()
}

fn n_shared(one: &str, other: &str) -> usize {
    one.bytes()
        .zip(other.bytes())
        .take_while(|(one, other)| one == other)
        .count()
}

const SHORT_ID_DIGITS: usize = 8;

#[cfg(test)]
mod tests {
    use super::super::samples;
    use escapement_model::StepId;

    #[test]
    fn short_ids_are_as_long_as_it_takes_to_be_unique() {
        let mut scene = samples::scene(&[vec![], vec![], vec![]]);
        let ids = [
            "0f0f0f0f-1111-4111-8111-111111111111",
            "0f0f0f0f-1111-4222-8111-111111111111",
        ];
        scene.steps[0].id = ids[0].parse::<StepId>().unwrap();
        scene.steps[2].id = ids[1].parse::<StepId>().unwrap();
        scene.shorten_ids();
        let short: Vec<&str> = scene.steps.iter().map(|step| step.short_id.as_str()).collect();
        assert_eq!(short, ["0f0f0f0f-1111-41", "00000001", "0f0f0f0f-1111-42"]);
    }
}
