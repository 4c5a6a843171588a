//! Plans that run other plans: whether one contains itself, and whether those below it can be looked through. Starts none.

use std::collections::BTreeSet;

use escapement_model::{Namespace, Opaque};
use escapement_run::plan::{self, Plan, StepKind, SubPlan};
use escapement_runs_host::Deciding;
use escapement_runs_shell::saved::{document_of, theirs};
use escapement_store::StoreFault;
use escapement_store::runs::{DefinitionKind, Scope};

/// Reason for which a plan cannot be saved with one of its steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Misplaced {
    /// Its place in the document.
    pub(crate) place: usize,
    /// The code.
    pub(crate) reason: &'static str,
    /// A sentence.
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

// RUN-9.15
/// Reads all plans that a saved plan of that id and user with this document would run; the decision rests on
/// the saved ones among them. Returns the first step over
/// which the plan would contain itself, directly or over others. A step that leads to more plans than may be
/// read is returned in the same way. Each plan is read once, independent of the number of steps that lead to
/// it.
///
/// # Errors
/// As the store fails.
pub(crate) fn look_through(
    reader: &Deciding<'_>,
    known: &Known<'_>,
    plan: &Plan,
) -> Result<Result<(), Misplaced>, StoreFault> {
    let mut walk = Walk {
        reader,
        known: *known,
        looked_at: BTreeSet::new(),
        n_bytes: 0,
        way: Vec::new(),
    };
    for step in &plan.steps {
        let StepKind::SubPlan(sub_plan) = &step.kind else {
            continue;
        };
        let (reason, message) = match walk.leads_back(sub_plan)? {
            Leads::Nowhere => continue,
            Leads::Back => {
                let over = match walk.way.is_empty() {
                    true => String::new(),
                    false => format!(" over {}", walk.way.join(", ")),
                };
                let message = format!("would make the plan contain itself{over}");
                ("CYCLIC_DEPENDENCY", message)
            }
            Leads::TooFar => (
                "SUB_PLANS_TOO_LARGE",
                format!(
                    "leads to more than can be looked at: the plans that a plan runs, and those that they run, are at most {PLANS_MAX} \
                     with documents of {DOCUMENT_BYTES_MAX} bytes together"
                ),
            ),
        };
        return Ok(Err(Misplaced {
            place: step.place,
            reason,
            message,
        }));
    }
    Ok(Ok(()))
}

/// Result of following a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leads {
    Nowhere,
    Back,
    TooFar,
}

struct Walk<'a> {
    reader: &'a Deciding<'a>,
    known: Known<'a>,
    /// The ids and the digests of what was looked at: none of it leads back.
    looked_at: BTreeSet<String>,
    /// Bytes of the documents.
    n_bytes: usize,
    /// Names of the plans between.
    way: Vec<String>,
}

impl Walk<'_> {
    /// Recursive, and each plan is looked at once: a plan that was saved contains itself nowhere below.
    fn leads_back(&mut self, sub_plan: &SubPlan) -> Result<Leads, StoreFault> {
        let name = sub_plan.plan_id.as_ref().or(sub_plan.revision_digest.as_ref());
        let Some(name) = name else {
            return Ok(Leads::Nowhere);
        };
        if *name == self.known.plan_id {
            return Ok(Leads::Back);
        }
        if self.way.len() >= DEPTH_MAX || self.looked_at.contains(name) {
            return Ok(Leads::Nowhere);
        }
        if self.looked_at.len() >= PLANS_MAX || self.n_bytes > DOCUMENT_BYTES_MAX {
            return Ok(Leads::TooFar);
        }
        self.looked_at.insert(name.clone());
        let Some(document) = self.document_of(sub_plan)? else {
            return Ok(Leads::Nowhere);
        };
        self.n_bytes += document.as_encoded().len();
        // Only what it leads to is kept while that is looked at. One that cannot be read leads nowhere: the step that runs it fails.
        let Some((name, below)) = named(&document) else {
            return Ok(Leads::Nowhere);
        };
        self.way.push(name);
        for below in &below {
            let leads = self.leads_back(below)?;
            if leads != Leads::Nowhere {
                return Ok(leads);
            }
        }
        self.way.pop();
        Ok(Leads::Nowhere)
    }

    /// Returns the document of a plan; a missing plan leads nowhere.
    fn document_of(&mut self, sub_plan: &SubPlan) -> Result<Option<Opaque>, StoreFault> {
        match (&sub_plan.plan_id, sub_plan.revision()) {
            (Some(plan_id), _) => {
                let found = self.reader.definition(DefinitionKind::SavedPlan, plan_id)?;
                match theirs(found, self.known.user_id)? {
                    Some((definition, saved)) if definition.namespace == *self.known.namespace => {
                        document_of(self.reader.reader(), &definition, &saved).map(Some)
                    }
                    _ => Ok(None),
                }
            }
            (None, Some(digest)) => {
                let scope = Scope::of(self.known.namespace, self.known.user_id);
                let stored = self.reader.reader().revision(&digest, &[scope])?;
                Ok(stored.map(|stored| Opaque::from_encoded(stored.document)))
            }
            (None, None) => Ok(None),
        }
    }
}

/// Returns the name of a plan, and the plans that it runs.
fn named(document: &Opaque) -> Option<(String, Vec<SubPlan>)> {
    let plan = plan::read(document).ok()?;
    let below = plan.sub_plans().cloned().collect();
    Some((plan.name, below))
}

/// Levels that are walked; a run refuses to go deeper than 8.
const DEPTH_MAX: usize = 256;
/// Plans that are looked at below one plan.
const PLANS_MAX: usize = 1024;
/// Bytes of their documents; the last one may have 1 MiB more.
const DOCUMENT_BYTES_MAX: usize = 8 << 20;
