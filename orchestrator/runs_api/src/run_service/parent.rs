//! `parent_execution_id`: whether a run is nested in the execution that it names. Changes no execution.

use super::Runs;
use crate::caller::Caller;
use crate::errors::Rejection;
use escapement_model::ExecutionId;
use escapement_run::spec::{Spec, namespace_named};

/// Relation between a run and the execution that its request names.
enum Parent {
    /// Note only: the execution is unknown to the caller or not running.
    Note,
    /// Parent: the attempts of the run pass those of other runs.
    Nested,
    /// Execution of another namespace, visible to the caller.
    Elsewhere,
}

impl Runs {
    // RUN-9.8
    /// Sets whether the run is nested in the execution that its request names.
    ///
    /// # Errors
    /// If the execution belongs to another namespace and is visible to the caller. If the contract does not answer in time.
    pub(super) async fn nest(&self, spec: &mut Spec, caller: &Caller) -> Result<(), Rejection> {
        let parent = self.parent_of(spec, caller).await?;
        spec.is_nested = match parent {
            Parent::Note => false,
            Parent::Nested => true,
            Parent::Elsewhere => {
                let message = "is of another namespace";
                return Err(Rejection::field(
                    "parent_execution_id",
                    "INVALID_ARGUMENT",
                    message,
                ));
            }
        };
        Ok(())
    }

    // RUN-9.8
    /// Sets whether a fork is nested in the execution that the other run was created in.
    ///
    /// # Errors
    /// If the contract does not answer in time.
    pub(super) async fn nest_fork(&self, spec: &mut Spec, caller: &Caller) -> Result<(), Rejection> {
        spec.is_nested = matches!(self.parent_of(spec, caller).await?, Parent::Nested);
        Ok(())
    }

    async fn parent_of(&self, spec: &Spec, caller: &Caller) -> Result<Parent, Rejection> {
        let Ok(execution_id) = spec.parent_execution_id.parse::<ExecutionId>() else {
            return Ok(Parent::Note);
        };
        let found = self.runs.parent_execution(execution_id).await?;
        let known = found.filter(|parent| caller.sees(&parent.namespace, parent.owner.as_deref()));
        Ok(match known {
            Some(parent) if parent.namespace != namespace_named(&spec.namespace) => Parent::Elsewhere,
            Some(parent) if parent.runs => Parent::Nested,
            Some(_) | None => Parent::Note,
        })
    }
}
