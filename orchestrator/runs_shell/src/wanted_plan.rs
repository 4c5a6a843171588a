//! The plan that a step names, before it is found.

use escapement_model::Namespace;
use escapement_run::spec::{Spec, namespace_named};

/// The plan that a `sub_plan` step names: a saved one, or a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedPlan {
    /// What its run belongs to: only plans of it are found.
    pub namespace: Namespace,
    /// Whose run asks.
    pub user_id: String,
    /// The actions that its run calls besides those of the plan.
    pub own_actions: Vec<String>,
    /// The saved plan; its newest revision counts.
    pub plan_id: Option<String>,
    /// The revision.
    pub revision_digest: Option<String>,
}

impl WantedPlan {
    /// For the run that is made from this.
    pub(crate) fn of(spec: &Spec, plan_id: Option<String>, revision_digest: Option<String>) -> Self {
        Self {
            namespace: namespace_named(&spec.namespace),
            user_id: spec.user_id.clone(),
            own_actions: spec.actions().map(str::to_owned).collect(),
            plan_id,
            revision_digest,
        }
    }
}
