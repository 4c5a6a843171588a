//! People who make a run of another one, with its plan or an edited one.

use crate::plans::{edited, opaque};
use crate::specs;
use crate::world::World;
use escapement_model::{Opaque, RunId};
use escapement_run::state::StepStage;
use escapement_run::{EditedPlan, Keep, Run, plan};
use escapement_runs::NewFork;
use escapement_runs_host::Fork;
use escapement_runs_judge::Told;
use serde_json::json;
use std::sync::Arc;

impl World {
    /// Makes a run that keeps what completed of one that lives.
    pub(crate) fn forks(&mut self, from: RunId) {
        let now_ms = self.now_ms;
        let run_id = RunId::from_random(self.dice.bytes());
        let mut spec = specs::spec(&mut self.dice);
        let Some(process) = &mut self.process else { return };
        let has_plan = |(run, _): &(&Run, _)| !run.state().has_no_plan();
        let Some((run, _)) = process.host.run(from).filter(has_plan) else {
            return;
        };
        let (plan, steps) = (Arc::clone(run.plan()), run.state().steps.clone());
        // Everything that completed, or what ended before some step.
        let n_kept = match self.dice.percent(40) && !steps.is_empty() {
            true => usize::try_from(self.dice.roll(steps.len() as u64)).expect("plans are small"),
            false => steps.len(),
        };
        let from_step = plan.steps.get(n_kept).map(|step| step.key.clone());
        let completed = (0..)
            .zip(&steps[..n_kept])
            .filter(|(_, step)| step.stage() == StepStage::Completed)
            .map(|(place, _)| place)
            .collect();
        let edited = self.edit_of(&plan.document);
        let is_edited = edited.is_some();
        let n_steps = edited.as_ref().map_or(&plan, |edited| &edited.plan).steps.len();
        let forked = edited.as_ref().map_or(&plan, |edited| &edited.plan);
        if self.dice.percent(50) {
            spec.constraints = specs::constraints(&mut self.dice, Some(forked));
        }
        if !specs::keeps(forked, &spec.constraints) {
            return self.count("forks refused");
        }
        let doubts_of_children = self.doubts_of_children(from);
        let allow_repeat_effects = self.dice.percent(20);
        if allow_repeat_effects {
            self.judge.may_repeat(*run_id.as_bytes());
        }
        let fork = Fork {
            run: NewFork {
                run_id,
                ended: None,
                from,
                spec,
                keep: match &from_step {
                    Some(key) => Keep::Before(key),
                    None => Keep::Completed,
                },
                edited,
                allow_repeat_effects,
                doubts_of_children,
            },
            request: None,
        };
        let process = self.process();
        let now = process.unix_ms(now_ms);
        if process.host.fork(fork, now).is_err() {
            return self.count("forks refused");
        }
        process.tell(Told::Forked {
            run: *run_id.as_bytes(),
            from: *from.as_bytes(),
            completed,
            n_steps: u32::try_from(n_steps).expect("plans are small"),
        });
        if allow_repeat_effects {
            self.count("forks that may repeat effects");
        }
        self.count(if is_edited {
            "forks with another plan"
        } else {
            "forks"
        });
    }

    /// The plan with one step more, and now and then with another step in the place of one that it has.
    fn edit_of(&mut self, document: &Opaque) -> Option<EditedPlan> {
        if self.dice.percent(40) {
            return None;
        }
        let config = json!({"tool_name": "pure.safe", "tool_args": {"const": self.dice.roll(9)}});
        let step = |key: &str| opaque(&json!({"key": key, "type": "tool_call", "config": config}));
        let changed = self.dice.percent(40).then(|| format!("s{}", self.dice.roll(4)));
        let changed = changed.map(|key| (key.clone(), step(&key)));
        let document = edited(document, changed, &step("added"));
        let plan = Arc::new(plan::read(&document).ok()?);
        Some(EditedPlan {
            profiles: specs::profiles(&plan),
            plan,
        })
    }
}
