//! The plans of a run's revisions: each entry of its journal is read with its own.

use crate::errors::Rejection;
use crate::journal::Linked;
use crate::saved;
use escapement_run::Run;
use escapement_run::ids::IdSeed;
use escapement_run::journal::Event;
use escapement_run::plan::Plan;
use escapement_runs_shell::RunsHandle;
use escapement_store::runs::Scope;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Plans by the number of the entry that their revision begins with.
#[derive(Clone, Debug)]
pub(crate) struct RevisionPlans {
    begun: BTreeMap<u64, Revision>,
    /// What stands for a goal has no steps.
    of_goal: Arc<Plan>,
    seed: Option<IdSeed>,
}

#[derive(Clone, Debug)]
struct Revision {
    digest: [u8; 32],
    plan: Option<Arc<Plan>>,
}

impl RevisionPlans {
    /// The revisions of a run as it is now.
    pub(crate) fn of(run: &Run) -> Self {
        let state = run.state();
        let revision = |digest: &[u8]| {
            let is_current = *digest == state.revision[..];
            Some(Revision {
                digest: digest.try_into().ok()?,
                plan: is_current.then(|| Arc::clone(run.plan())),
            })
        };
        let revisions = state.revisions.iter();
        Self {
            begun: revisions
                .filter_map(|begun| Some((begun.sequence, revision(&begun.digest)?)))
                .collect(),
            of_goal: Arc::clone(run.plan()),
            seed: state.spec.seed(),
        }
    }

    /// Returns the seed from which, besides the run's own id, the ids of its executions follow.
    pub(crate) fn seed(&self) -> Option<IdSeed> {
        self.seed
    }

    /// Returns true if no plan is held but the one that the run itself has.
    pub(crate) fn is_of_run(&self) -> bool {
        let mut plans = self.begun.values().filter_map(|revision| revision.plan.as_ref());
        plans.all(|plan| Arc::ptr_eq(plan, &self.of_goal))
    }

    // RUN-12.10
    /// The plan that the entry of this number is about. It was made known by [`RevisionPlans::with_those_of`].
    pub(crate) fn at(&self, sequence: u64) -> &Arc<Plan> {
        let begun = self.begun.range(..=sequence).next_back();
        let plan = begun.and_then(|(_, revision)| revision.plan.as_ref());
        plan.unwrap_or(&self.of_goal)
    }

    /// These plans and those that these entries are about, read from the store.
    ///
    /// # Errors
    /// [`Rejection::NotFound`] if the store does not have one; [`Rejection::Call`].
    pub(crate) async fn with_those_of(
        &self,
        runs: &RunsHandle,
        entries: &[Linked],
    ) -> Result<Self, Rejection> {
        let mut all = self.clone();
        for (entry, _) in entries {
            if let Some(Event::PlanCreated(created)) = &entry.event
                && created.number > 0
                && let Ok(digest) = created.digest[..].try_into()
            {
                let revision = Revision { digest, plan: None };
                all.begun.entry(entry.sequence).or_insert(revision);
            }
        }
        for (entry, _) in entries {
            let begun = all.begun.range_mut(..=entry.sequence).next_back();
            if let Some((_, revision)) = begun
                && revision.plan.is_none()
            {
                // The run was found, and its journal has the digest.
                let anybodys = vec![Scope::EVERYTHING];
                revision.plan = Some(saved::revision(runs, revision.digest, anybodys).await?);
            }
        }
        Ok(all)
    }
}
