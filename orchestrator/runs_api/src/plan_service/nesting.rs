//! Plans that run other plans: whether one contains itself. Starts none.

use std::collections::BTreeSet;

use escapement_model::{Namespace, Opaque};
use escapement_run::plan::{self, Plan, StepKind, SubPlan};
use escapement_runs_shell::saved::{document_of, saved_plan};
use escapement_store::StoreFault;
use escapement_store::runs::{RunReader, Scope};

/// A step that would make a plan contain itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Contained {
    /// Its place in the document.
    pub(crate) place: usize,
    /// How the plan comes to itself.
    pub(crate) message: String,
}

/// A saved plan, and from where it sees others.
#[derive(Clone, Copy)]
pub(crate) struct Known<'a> {
    /// Its id.
    pub(crate) plan_id: &'a str,
    /// Whose it is.
    pub(crate) user_id: &'a str,
    /// What it belongs to.
    pub(crate) namespace: &'a Namespace,
}

/// The first step over which a saved plan of that id and user with this document would contain itself, directly or
/// over others.
///
/// # Errors
/// As the store fails.
pub(crate) fn contains_itself(
    reader: &dyn RunReader,
    known: &Known<'_>,
    plan: &Plan,
) -> Result<Option<Contained>, StoreFault> {
    for step in &plan.steps {
        let StepKind::SubPlan(sub_plan) = &step.kind else {
            continue;
        };
        let mut walk = Walk {
            reader,
            known: *known,
            seen: BTreeSet::new(),
            way: Vec::new(),
        };
        if walk.leads_back(sub_plan)? {
            let over = match walk.way.is_empty() {
                true => String::new(),
                false => format!(" over {}", walk.way.join(", ")),
            };
            let message = format!("would make the plan contain itself{over}");
            return Ok(Some(Contained {
                place: step.place,
                message,
            }));
        }
    }
    Ok(None)
}

struct Walk<'a> {
    reader: &'a dyn RunReader,
    known: Known<'a>,
    seen: BTreeSet<String>,
    /// Names of the plans between.
    way: Vec<String>,
}

impl Walk<'_> {
    /// Recursive, and each plan is looked at once: a plan that was saved contains itself nowhere below.
    fn leads_back(&mut self, sub_plan: &SubPlan) -> Result<bool, StoreFault> {
        let name = sub_plan.plan_id.as_ref().or(sub_plan.revision_digest.as_ref());
        let Some(name) = name else {
            return Ok(false);
        };
        if *name == self.known.plan_id {
            return Ok(true);
        }
        if self.way.len() >= DEPTH_MAX || self.seen.len() >= PLANS_MAX || !self.seen.insert(name.clone()) {
            return Ok(false);
        }
        let Some(plan) = self.plan_of(sub_plan)? else {
            return Ok(false);
        };
        self.way.push(plan.name.clone());
        for below in plan.sub_plans() {
            if self.leads_back(below)? {
                return Ok(true);
            }
        }
        self.way.pop();
        Ok(false)
    }

    /// A plan that is not there, or cannot be read, leads nowhere: the step that runs it fails.
    fn plan_of(&self, sub_plan: &SubPlan) -> Result<Option<Plan>, StoreFault> {
        let document = match (&sub_plan.plan_id, sub_plan.revision()) {
            (Some(plan_id), _) => match saved_plan(self.reader, plan_id, self.known.user_id)? {
                Some((definition, _)) if definition.namespace != *self.known.namespace => return Ok(None),
                Some((definition, saved)) => document_of(self.reader, &definition, &saved)?,
                None => return Ok(None),
            },
            (None, Some(digest)) => {
                let scope = Scope::of(self.known.namespace, self.known.user_id);
                match self.reader.revision(&digest, &[scope])? {
                    Some(stored) => Opaque::from_encoded(stored.document),
                    None => return Ok(None),
                }
            }
            (None, None) => return Ok(None),
        };
        Ok(plan::read(&document).ok())
    }
}

/// Levels that are walked; a run refuses to go deeper than 8.
const DEPTH_MAX: usize = 256;
/// Plans that are looked at below one step.
const PLANS_MAX: usize = 1024;
