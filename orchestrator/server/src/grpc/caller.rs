//! Who calls, as far as it decides what the call may see and what is recorded of it. Proves nobody's identity.

use crate::grpc::Edge;
use crate::host::handle::Lane;
use crate::status::Rejection;
use crate::storage::readers::ReadClass;
use escapement_access::{Denial, Principal, PrincipalKind, Row, shown_attempt};
use escapement_codec::principal::{accepted_by, of_attempt, recorded_actions};
use escapement_codec::provenance::Provenance;
use escapement_codec::stored_execution::owner;
use escapement_contract::Request as PlanRequest;
use escapement_engine::{AttemptStanding, Input, Refusal};
use escapement_model::{AttemptToken, ExecutionId, Namespace};
use escapement_transport::CallScopes;
use escapement_transport::share::{CallTenant, Tenant};
use escapement_wire::v1;
use std::sync::{Arc, LazyLock};
use tonic::Extensions;
use tonic::metadata::MetadataMap;

/// Who calls. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    principal: Arc<Principal>,
    /// What roles may do with the call; `None` without a policy.
    row: Option<Row>,
    /// Of the caller that shows the token of an attempt which is under way.
    attempt: Option<Arc<Attempt>>,
    /// What a call that may stay open is about; `None` for any other, and for that of an attempt.
    scopes: Option<CallScopes>,
    /// With whom its calls share what there is only so much of.
    pub(crate) tenant: Tenant,
}

/// An attempt that calls. It sees its execution and the children of that, and nothing else.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) token: AttemptToken,
    pub(crate) execution_id: ExecutionId,
    /// Where its execution came from.
    pub(crate) of: Provenance,
}

/// What decides who may know of an execution.
pub(crate) struct Place {
    pub(crate) namespace: Namespace,
    /// Who handed it in, or the outermost one above it; `None` if that was not proved.
    owner: Option<String>,
    parent: Option<ExecutionId>,
}

impl Place {
    /// That of what came from there.
    pub(crate) fn of(provenance: Provenance) -> Self {
        Self {
            namespace: provenance.namespace,
            owner: provenance.accepted_by.map(|by| by.name),
            parent: None,
        }
    }
}

/// Who calls where nobody looks at credentials: without a policy, and from inside of this process.
static EVERYBODY: LazyLock<Arc<Principal>> = LazyLock::new(|| Arc::new(Principal::without_policy()));

impl Caller {
    /// Returns the principal that the connection put among the request's extensions.
    pub(crate) fn of(extensions: &Extensions) -> Self {
        let principal = extensions.get::<Arc<Principal>>();
        Self {
            principal: Arc::clone(principal.unwrap_or(&EVERYBODY)),
            row: extensions.get::<Row>().copied(),
            attempt: None,
            scopes: extensions.get::<CallScopes>().cloned(),
            tenant: CallTenant::of(extensions),
        }
    }

    /// Returns a caller inside of this process with this principal. `None` permits everything.
    pub(crate) fn within(principal: Option<Arc<Principal>>) -> Self {
        Self {
            principal: principal.unwrap_or_else(|| Arc::clone(&EVERYBODY)),
            row: None,
            attempt: None,
            scopes: None,
            tenant: None,
        }
    }

    /// Returns the attempt that calls, if one does.
    pub(crate) fn attempt(&self) -> Option<&Attempt> {
        self.attempt.as_deref()
    }

    /// Refuses an attempt that hands in what is no child of its own execution.
    pub(crate) fn check_parent(&self, parent: Option<&str>) -> Result<(), Rejection> {
        let is_own = |own: &Arc<Attempt>| parent.and_then(|id| id.parse().ok()) == Some(own.execution_id);
        match self.attempt.as_ref().is_none_or(is_own) {
            true => Ok(()),
            false => Err(Rejection::Denied(Denial::ParentNotPermitted)),
        }
    }

    /// What was verified of the caller, and what it may.
    pub(crate) fn principal(&self) -> &Arc<Principal> {
        &self.principal
    }

    /// Holds the actions of a plan against what the caller may name in the namespace.
    ///
    /// # Errors
    /// If the caller may not hand in plans there, or names an action that it may not name.
    pub(crate) fn check_plan(&self, namespace: &Namespace, plan: Option<&v1::Plan>) -> Result<(), Rejection> {
        let is_free = |row| !self.principal.is_held_to_actions(row, namespace);
        if self.row.as_ref().is_some_and(is_free) {
            return Ok(());
        }
        let steps = plan.into_iter().flat_map(|plan| &plan.steps);
        let actions = steps.map(|step| step.action.as_str());
        self.principal
            .check_plan(namespace, actions)
            .map_err(Rejection::Denied)
    }

    /// Returns the namespace that a request is for.
    ///
    /// # Errors
    /// If the name is none, or the call is not permitted there.
    pub(crate) fn namespace(&self, requested: &str) -> Result<Namespace, Rejection> {
        well_named(requested)?;
        let namespace = self.principal.namespace(requested).map_err(Rejection::Denied)?;
        self.require_permitted(&namespace)?;
        self.hold_found(Some(&namespace));
        Ok(namespace)
    }

    /// The call ends once its caller does not find any more what it finds there now; `None`: anywhere.
    fn hold_found(&self, namespace: Option<&Namespace>) {
        if let Some(scopes) = &self.scopes {
            scopes.hold_found(&self.principal, namespace);
        }
    }

    /// Refuses a call that no role of the caller permits in the namespace.
    fn require_permitted(&self, namespace: &Namespace) -> Result<(), Rejection> {
        let judged = self.principal.check_within(self.row.as_ref(), namespace);
        judged.map_err(Rejection::Denied)
    }

    /// Returns true if the caller may know of the execution that lies there.
    fn knows(&self, execution_id: ExecutionId, place: &Place) -> bool {
        match self.attempt() {
            Some(attempt) => [Some(execution_id), place.parent].contains(&Some(attempt.execution_id)),
            None => self.principal.sees_of(&place.namespace, place.owner.as_deref()),
        }
    }

    /// Returns the namespaces that a list is about: the one that is asked for, else all that the caller may see; `None`: every one.
    ///
    /// # Errors
    /// As [`Caller::namespace`].
    pub(crate) fn listed(&self, requested: &str) -> Result<Option<Vec<Namespace>>, Rejection> {
        if !requested.is_empty() {
            return Ok(Some(vec![self.namespace(requested)?]));
        }
        self.hold_found(None);
        let visible = self.principal.visible();
        Ok(visible.map(|visible| visible.into_iter().cloned().collect()))
    }

    /// What is recorded of where a request came from.
    pub(crate) fn provenance(
        &self,
        namespace: Namespace,
        trace_context: Option<v1::StoredTraceContext>,
    ) -> Provenance {
        Provenance {
            accepted_by: accepted_by(&self.principal, self.attempt().map(|attempt| &attempt.of)),
            actions: recorded_actions(&self.principal, &namespace),
            namespace,
            trace_context,
        }
    }
}

/// Refuses a name that is none; the empty one stands for no name.
fn well_named(requested: &str) -> Result<(), Rejection> {
    if requested.is_empty() || Namespace::parse(requested).is_some() {
        return Ok(());
    }
    Err(Rejection::InvalidField {
        field: "namespace",
        message: "must be 1 to 63 of a to z, 0 to 9 and -, neither beginning nor ending with -".to_owned(),
    })
}

impl Edge {
    /// Who calls. The token of an attempt is held against those that are under way.
    ///
    /// # Errors
    /// That the attempt is over, or was never there.
    pub(crate) async fn caller(
        &self,
        extensions: &Extensions,
        metadata: &MetadataMap,
    ) -> Result<Caller, tonic::Status> {
        let caller = Caller::of(extensions);
        if caller.principal.kind != PrincipalKind::Attempt {
            return Ok(caller);
        }
        let authorization = metadata.get_all("authorization").into_iter();
        let shown = shown_attempt(authorization.map(|value| value.as_bytes()));
        let token = shown.ok_or(Rejection::Denied(Denial::CredentialsInvalid))?;
        let tokens = vec![token];
        let find = |caller| Input::FindAttempts { caller, tokens };
        let denial = match self.engine.call(Lane::Reads, find).await?.pop() {
            Some(AttemptStanding::UnderWay(holder)) => {
                let of = Provenance::known(holder.request.provenance());
                let execution_id = holder.execution_id;
                return Ok(Caller {
                    principal: Arc::new(of_attempt(&of)),
                    row: caller.row,
                    attempt: Some(Arc::new(Attempt {
                        token,
                        execution_id,
                        of,
                    })),
                    scopes: None,
                    tenant: caller.tenant,
                });
            }
            Some(AttemptStanding::Over(_) | AttemptStanding::Ended) => Denial::CredentialsExpired,
            Some(AttemptStanding::Unknown) | None => Denial::CredentialsInvalid,
        };
        Err(Rejection::Denied(denial).into())
    }

    /// Refuses an execution that the caller may not know of, in the words for one that was never accepted, and one that it may know
    /// of and may not make this call about.
    ///
    /// An execution never changes its namespace, so what was seen once may be asked for afterwards. What was removed belongs to
    /// nobody any more: only callers that see everything, and may do this with everything, are told of it.
    ///
    /// # Errors
    /// Not found, or not permitted; or as the engine and the store fail.
    pub(crate) async fn require_visible(
        &self,
        caller: &Caller,
        execution_id: ExecutionId,
    ) -> Result<(), tonic::Status> {
        if caller.principal.finds_all() && caller.principal.permits_everywhere(caller.row.as_ref()) {
            caller.hold_found(None);
            return Ok(());
        }
        match self.place_of(execution_id).await? {
            Some(place) if caller.knows(execution_id, &place) => {
                if let Some(scopes) = &caller.scopes {
                    scopes.hold(Some(&place.namespace), place.owner.as_deref());
                }
                Ok(caller.require_permitted(&place.namespace)?)
            }
            _ => Err(Rejection::ExecutionNotFound(execution_id).into()),
        }
    }

    /// The namespace that a request for an execution is for, and whether it may be nested in the parent that it names. Without a name
    /// of a namespace it is the parent's.
    ///
    /// A nested execution passes the queue, so its parent must be of its own namespace. One that the caller may not know of is as one
    /// that is not there.
    ///
    /// # Errors
    /// As [`Caller::namespace`], and if the parent is of another namespace.
    pub(crate) async fn namespace_asked(
        &self,
        caller: &Caller,
        requested: &str,
        parent: Option<&str>,
    ) -> Result<(Namespace, bool), tonic::Status> {
        // Whether it is an id at all is for the contract to say.
        let of_parent = match parent.and_then(|parent| parent.parse().ok()) {
            Some(parent) => {
                let place = self.place_of(parent).await?;
                let known = place.filter(|place| caller.knows(parent, place));
                known.map(|place| place.namespace)
            }
            None => None,
        };
        let namespace = match (requested, &of_parent) {
            ("", Some(of_parent)) => caller.namespace(of_parent.as_str())?,
            (requested, _) => caller.namespace(requested)?,
        };
        if of_parent
            .as_ref()
            .is_some_and(|of_parent| *of_parent != namespace)
        {
            return Err(Rejection::InvalidField {
                field: "parent_execution_id",
                message: "is of another namespace".to_owned(),
            }
            .into());
        }
        Ok((namespace, of_parent.is_some()))
    }

    /// True if the caller may know of the execution. A caller that sees everything may ask for anything.
    async fn sees_execution(
        &self,
        caller: &Caller,
        execution_id: ExecutionId,
    ) -> Result<bool, tonic::Status> {
        if caller.principal.finds_all() {
            return Ok(true);
        }
        let place = self.place_of(execution_id).await?;
        Ok(place.is_some_and(|place| caller.knows(execution_id, &place)))
    }

    async fn place_of(&self, execution_id: ExecutionId) -> Result<Option<Place>, tonic::Status> {
        if let Some(view) = self.live(execution_id).await? {
            return Ok(Some(Place {
                parent: view.request.parent_execution_id(),
                ..Place::of(Provenance::known(view.request.provenance()))
            }));
        }
        Ok(self.stored_place(execution_id).await?)
    }

    /// The same by the store alone; `None` if it is not there.
    pub(crate) async fn stored_place(&self, execution_id: ExecutionId) -> Result<Option<Place>, Rejection> {
        let read = self.readers.read(ReadClass::Submission, move |reader| {
            let stored = reader.execution_or_ending(execution_id)?;
            Ok(stored.map(|stored| Place {
                owner: owner(&stored),
                namespace: stored.summary.namespace,
                parent: stored.summary.parent_execution_id,
            }))
        });
        read.await
    }

    /// Refuses to attach a request to an execution of another namespace, or to one of which the caller may not know.
    ///
    /// # Errors
    /// That the execution id is in use; a caller that may see the execution is told that the namespace differs.
    pub(crate) fn require_same_place(
        caller: &Caller,
        asked: &Namespace,
        accepted: &Place,
    ) -> Result<(), Rejection> {
        let finds = caller
            .principal
            .sees_of(&accepted.namespace, accepted.owner.as_deref());
        match finds && *asked == accepted.namespace {
            true => Ok(()),
            false => Err(Rejection::ExecutionIdInUse {
                differs: finds.then(|| "namespace".to_owned()),
            }),
        }
    }

    /// Returns a refusal as the caller may hear it: what it may not know of is not named.
    pub(crate) async fn told(&self, caller: &Caller, refusal: Refusal) -> Rejection {
        match refusal {
            Refusal::PlanIdUsed { execution_id }
                if !self.sees_execution(caller, execution_id).await.unwrap_or(false) =>
            {
                Rejection::PlanIdUsedElsewhere
            }
            other => Rejection::Refused(other),
        }
    }

    /// Returns the reason why a request is refused whose execution id is in use, as the caller may hear it.
    pub(crate) async fn told_of_id(
        &self,
        caller: &Caller,
        asked: Option<&PlanRequest>,
        execution_id: ExecutionId,
    ) -> Rejection {
        let sees = self.sees_execution(caller, execution_id).await.unwrap_or(false);
        self.id_in_use(asked.filter(|_| sees), execution_id).await
    }
}

#[cfg(test)]
mod tests;
