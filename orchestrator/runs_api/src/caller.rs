//! Who calls, and what of runs that caller may find and do. Proves nobody's identity.

mod listed;

use std::sync::{Arc, LazyLock};

use escapement_access::{Denial, Pattern, Principal, PrincipalKind, Row};
use escapement_model::limits::LABEL_CHARS_MAX;
use escapement_model::{Namespace, RunId};
use escapement_run::journal::{Responder, ResponderKind};
use escapement_run::plan::{Plan, StepKind, constraints};
use escapement_run::spec::{
    ActionPatterns, Author, AuthorKind, DEFAULT_USER, LOOK_ACTION, Spec, TraceContext,
};
use escapement_runs_shell::{CallError, Origin, RunsHandle};
use escapement_store::StoreFault;
use escapement_store::runs::{DefinitionKind, RunReader, Scope};
use escapement_transport::CallScopes;
use escapement_transport::share::{CallTenant, Tenant};
use escapement_wire::v1::AcceptedBy;
use escapement_wire::v1::accepted_by::Kind;
use tonic::Request;

use crate::errors::{Problem, Rejection};

/// Who makes a call. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    principal: Arc<Principal>,
    /// What roles may do with the call; `None` if no connection has judged it.
    row: Option<Row>,
    /// The trace that the call belongs to, if it says so.
    trace: Option<Box<TraceContext>>,
    /// What a call that may stay open is about; `None` for any other.
    held: Option<CallScopes>,
    /// Tenant with which its calls share limited resources.
    tenant: Tenant,
}

/// Who calls where nobody looks at credentials: without a policy, and from inside of this process.
static EVERYBODY: LazyLock<Arc<Principal>> = LazyLock::new(|| Arc::new(Principal::without_policy()));

/// In whose name something is made, and where.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    /// The namespace, and who makes it.
    pub(crate) origin: Origin,
    /// Whose it is.
    pub(crate) user_id: String,
    /// Of what it takes the plans that it names by their digest.
    pub(crate) scopes: Vec<Scope>,
}

impl Caller {
    /// The principal that the connection put among the request's extensions.
    pub(crate) fn of<T>(request: &Request<T>) -> Self {
        let (extensions, metadata) = (request.extensions(), request.metadata());
        let principal = extensions.get::<Arc<Principal>>();
        let text = |name| metadata.get(name).and_then(|value| value.to_str().ok());
        Self {
            trace: TraceContext::of(text("traceparent"), text("tracestate")),
            principal: Arc::clone(principal.unwrap_or(&EVERYBODY)),
            row: extensions.get::<Row>().copied(),
            held: extensions.get::<CallScopes>().cloned(),
            tenant: CallTenant::of(extensions),
        }
    }

    /// Returns the tenant with which its calls share limited resources.
    pub(crate) fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    /// The call ends once its caller does not find any more what it finds there now; `None`: anywhere.
    fn hold_found(&self, namespace: Option<&Namespace>) {
        if let Some(held) = &self.held {
            held.hold_found(&self.principal, namespace);
        }
    }

    /// The trace that the call belongs to, if it says so.
    pub(crate) fn trace(&self) -> Option<Box<TraceContext>> {
        self.trace.clone()
    }

    /// Returns true if a policy has judged the call.
    pub(crate) fn is_judged(&self) -> bool {
        self.row.is_some()
    }

    /// What was verified of the caller, and what it may.
    pub(crate) fn principal(&self) -> &Principal {
        &self.principal
    }

    /// True if there is nothing that it may not find, or may not do with this call.
    fn is_free(&self) -> bool {
        self.principal.finds_all() && self.principal.permits_everywhere(self.row.as_ref())
    }

    /// True if it may know of what lies in the namespace and is that user's.
    pub(crate) fn sees(&self, namespace: &Namespace, owner: Option<&str>) -> bool {
        self.principal.sees_of(namespace, owner)
    }

    /// True if it finds things of one user or some in the namespace, and not those of all.
    pub(crate) fn is_held_in(&self, namespace: &Namespace) -> bool {
        !self.sees(namespace, None)
    }

    /// Refuses what the caller may not find with `not_found`, and what it may find and may not do with why.
    fn require(
        &self,
        namespace: &Namespace,
        owner: Option<&str>,
        not_found: Rejection,
    ) -> Result<(), Rejection> {
        if !self.sees(namespace, owner) {
            return Err(not_found);
        }
        if let Some(held) = &self.held {
            held.hold(Some(namespace), owner);
        }
        let row = self.row.as_ref();
        Ok(self.principal.check_within_of(row, namespace, owner)?)
    }

    /// The namespace that a request is for.
    ///
    /// # Errors
    /// If the name is none, or the call is not permitted there.
    pub(crate) fn namespace(&self, requested: &str) -> Result<Namespace, Rejection> {
        well_named(requested)?;
        let namespace = self.principal.namespace(requested)?;
        self.principal.check_within(self.row.as_ref(), &namespace)?;
        self.hold_found(Some(&namespace));
        Ok(namespace)
    }

    /// The namespaces that a list is about: the one that is asked for, else all that the caller may see; `None`: every one.
    ///
    /// # Errors
    /// As [`Caller::namespace`].
    pub(crate) fn listed_namespaces(&self, requested: &str) -> Result<Option<Vec<Namespace>>, Rejection> {
        if !requested.is_empty() {
            return Ok(Some(vec![self.namespace(requested)?]));
        }
        self.hold_found(None);
        let visible = self.principal.visible();
        Ok(visible.map(|visible| visible.into_iter().cloned().collect()))
    }

    /// All that the caller may find: what belongs to one of these.
    pub(crate) fn scopes(&self) -> Vec<Scope> {
        let scopes = self.principal.scopes().into_iter();
        let scopes = scopes.map(|(namespace, user)| Scope {
            namespace: namespace.cloned(),
            owner: user.map(str::to_owned),
        });
        scopes.collect()
    }

    /// As [`Caller::scopes`], in one namespace.
    fn scopes_in(&self, namespace: &Namespace) -> Vec<Scope> {
        let scopes = self.scopes().into_iter();
        let here = scopes.filter(|scope| scope.namespace.as_ref().is_none_or(|of| of == namespace));
        let here = here.map(|scope| Scope {
            namespace: Some(namespace.clone()),
            ..scope
        });
        here.collect()
    }

    /// Returns the owner of an object that the request creates in the namespace: `default` if it has no
    /// particular user.
    ///
    /// # Errors
    /// [`Denial::UserNotPermitted`] if it is in the name of a user whom the caller may not name there.
    pub(crate) fn user(
        &self,
        namespace: &Namespace,
        field: &'static str,
        requested: &str,
    ) -> Result<String, Rejection> {
        let row = self.row.as_ref();
        let user = self.principal.user(row, namespace, field, requested)?;
        let user = user.unwrap_or(DEFAULT_USER);
        // RUN-9.6: the name of a certificate may be longer than any name of a user.
        if requested.is_empty() && user.chars().count() > LABEL_CHARS_MAX {
            let message = format!(
                "is the caller's name, with more than {LABEL_CHARS_MAX} code points; name another user in the policy"
            );
            return Err(Rejection::field(field, "INVALID_ARGUMENT", message));
        }
        Ok(user.to_owned())
    }

    /// In whose name a request makes something, and where. `field`: where the request names the user.
    ///
    /// # Errors
    /// As [`Caller::namespace`] and [`Caller::user`].
    pub(crate) fn made(
        &self,
        namespace: &str,
        field: &'static str,
        user_id: &str,
    ) -> Result<Made, Rejection> {
        let namespace = self.namespace(namespace)?;
        Ok(Made {
            user_id: self.user(&namespace, field, user_id)?,
            scopes: self.scopes_in(&namespace),
            origin: Origin {
                author: self.author(&namespace),
                trace: self.trace.clone(),
                namespace,
            },
        })
    }

    /// What is recorded of the caller with what it makes in the namespace: nothing where nothing was proved and nothing held back.
    pub(crate) fn author(&self, namespace: &Namespace) -> Option<Box<Author>> {
        let patterns = self.principal.submitted_actions(namespace);
        let is_anonymous = self.principal.kind == PrincipalKind::Anonymous;
        if is_anonymous && patterns.is_none() {
            return None;
        }
        let mut author = Author {
            name: match is_anonymous {
                true => String::new(),
                false => self.principal.name.to_string(),
            },
            issuer: self.principal.issuer.to_string(),
            actions: patterns.map(|patterns| ActionPatterns { patterns }),
            ..Author::default()
        };
        author.set_kind(match self.principal.kind {
            PrincipalKind::Anonymous => AuthorKind::Anonymous,
            PrincipalKind::Token => AuthorKind::Token,
            PrincipalKind::Jwt => AuthorKind::Jwt,
            PrincipalKind::Certificate => AuthorKind::Certificate,
            PrincipalKind::Attempt => AuthorKind::Attempt,
        });
        Some(Box::new(author))
    }

    // RUN-6.8
    /// Returns the caller as the one that fires a trigger of the namespace; `None` if it has proved nothing.
    pub(crate) fn fires(&self, namespace: &Namespace) -> Option<Box<Responder>> {
        let principal = &self.principal;
        if principal.kind == PrincipalKind::Anonymous {
            return None;
        }
        let mut fires = Responder {
            id: principal.name.to_string(),
            verified: true,
            users: principal.named_users(namespace).map(str::to_owned).collect(),
            ..Responder::default()
        };
        fires.set_kind(match principal.is_agent() {
            true => ResponderKind::Agent,
            false => ResponderKind::Person,
        });
        Some(Box::new(fires))
    }

    /// Refuses a run that the caller may not find, in the words for one that never was.
    ///
    /// A run never changes its namespace nor its user, so what was seen once may be asked for afterwards. What was removed belongs
    /// to nobody any more: only callers that see everything are told of it.
    ///
    /// # Errors
    /// Not found; or as the store fails.
    pub(crate) async fn require_run(&self, runs: &RunsHandle, run_id: RunId) -> Result<(), Rejection> {
        if self.is_free() {
            self.hold_found(None);
            return Ok(());
        }
        let not_found = Rejection::OfRun(run_id, CallError::NotFound);
        let read = move |reader: &dyn RunReader| match reader.summary(run_id) {
            Err(StoreFault::CorruptRun { .. }) => Ok(None),
            read => read,
        };
        let found = runs.readers().read(read).await;
        match found.map_err(|error| Rejection::OfRun(run_id, error))? {
            Some(run) => self.require(&run.created.namespace, run.created.owner.as_deref(), not_found),
            None => Err(not_found),
        }
    }

    /// As [`Caller::require_run`], for an id that may be none, which is for the call itself to say.
    pub(crate) async fn require_run_named(&self, runs: &RunsHandle, run_id: &str) -> Result<(), Rejection> {
        match run_id.parse() {
            Ok(run_id) => self.require_run(runs, run_id).await,
            Err(_) => Ok(()),
        }
    }

    /// As [`Caller::require_run_named`], for a saved plan, a trigger or a goal.
    pub(crate) async fn require_definition(
        &self,
        runs: &RunsHandle,
        kind: DefinitionKind,
        id: &str,
        not_found: impl FnOnce(&str) -> Rejection,
    ) -> Result<(), Rejection> {
        if self.is_free() {
            return Ok(());
        }
        // Ids are kept in lower case; what is none is for the call itself to say.
        let Ok(id) = id.parse::<escapement_model::PlanId>() else {
            return Ok(());
        };
        let id = id.to_string();
        let name = id.clone();
        let read = move |reader: &dyn RunReader| match reader.definition(kind, &name) {
            Err(StoreFault::CorruptDefinition { .. }) => Ok(None),
            read => read,
        };
        let found = runs.readers().read(read).await?;
        match found {
            Some(found) => self.require(&found.namespace, found.owner.as_deref(), not_found(&id)),
            None => Err(not_found(&id)),
        }
    }

    /// True if the caller may know of what is known of the action.
    pub(crate) fn lists_action(&self, action: &str) -> bool {
        self.principal.may_list(action)
    }

    /// Refuses a plan of which the caller may not have every action called.
    ///
    /// # Errors
    /// [`Denial::ActionNotPermitted`].
    pub(crate) fn check_plan(
        &self,
        namespace: &Namespace,
        field: &str,
        plan: &Plan,
    ) -> Result<(), Rejection> {
        permitted(self.author(namespace).as_deref(), calls_of(field, plan))
    }
}

/// Refuses the actions that a run of this plan would call and that its author may not have called. What it comes to call besides,
/// by what planners, models and other plans say, is judged when it does.
///
/// # Errors
/// [`Denial::ActionNotPermitted`].
pub(crate) fn check_run(author: Option<&Author>, plan: &Plan, spec: &Spec) -> Result<(), Rejection> {
    if author.is_none_or(|author| author.actions.is_none()) {
        return Ok(());
    }
    permitted(author, calls_of("document", plan))?;
    let asks_a_model = plan
        .steps
        .iter()
        .any(|step| matches!(step.kind, StepKind::LlmDecision(_)));
    let planner = spec
        .planner
        .as_ref()
        .map_or("", |planner| planner.action.as_str());
    let looks = spec.actions().any(|action| action == LOOK_ACTION);
    for (field, action) in [
        (
            "llm_action",
            if asks_a_model {
                spec.llm_action.as_str()
            } else {
                ""
            },
        ),
        ("planner.action", planner),
        ("policy.safety_action", &spec.safety_action),
        ("fallback.action", spec.fallback_action()),
        ("constraints.must_produce", if looks { LOOK_ACTION } else { "" }),
    ] {
        let called = (!action.is_empty()).then(|| (field.to_owned(), action));
        permitted(author, called)?;
    }
    Ok(())
}

/// Returns the actions that the plan calls, each with its path in the document.
fn calls_of<'a>(field: &str, plan: &'a Plan) -> impl Iterator<Item = (String, &'a str)> {
    let calls = constraints::calls_of(plan).into_iter();
    calls.map(move |(path, action)| (format!("{field}.{path}"), action))
}

/// Refuses the first of these actions, each with the field that names it, that the author may not have called.
fn permitted<'a>(
    author: Option<&Author>,
    actions: impl IntoIterator<Item = (String, &'a str)>,
) -> Result<(), Rejection> {
    let Some(allowed) = author.and_then(|author| author.actions.as_ref()) else {
        return Ok(());
    };
    let patterns: Vec<Pattern> = allowed
        .patterns
        .iter()
        .filter_map(|text| Pattern::new(text).ok())
        .collect();
    let mut actions = actions.into_iter();
    let refused = actions.find(|(_, action)| !patterns.iter().any(|pattern| pattern.matches(action)));
    match refused {
        None => Ok(()),
        Some((field, action)) => Err(Rejection::Denied(Denial::ActionNotPermitted {
            field,
            action: action.to_owned(),
        })),
    }
}

/// Who made something, as it is shown; `None` if that was not proved.
pub(crate) fn shown_author(author: Option<&Author>) -> Option<AcceptedBy> {
    let author = author?;
    let kind = match author.kind() {
        AuthorKind::Anonymous => return None,
        AuthorKind::Token => Kind::Token,
        AuthorKind::Jwt => Kind::Jwt,
        AuthorKind::Certificate => Kind::Certificate,
        AuthorKind::Attempt => Kind::Attempt,
    };
    Some(AcceptedBy {
        name: author.name.clone(),
        kind: kind.into(),
        issuer: author.issuer.clone(),
        // Attempts start no runs.
        origin: Kind::Unspecified.into(),
    })
}

/// What ids of requests are unique in: a user of a namespace.
pub(crate) fn scope(namespace: &Namespace, user_id: &str) -> String {
    escapement_run::spec::session_key(namespace.as_str(), user_id).into_owned()
}

/// Refuses a name that is none; the empty one stands for no name.
fn well_named(requested: &str) -> Result<(), Rejection> {
    if requested.is_empty() || Namespace::parse(requested).is_some() {
        return Ok(());
    }
    Err(Rejection::Problems(vec![Problem {
        field: "namespace".to_owned(),
        reason: "INVALID_ARGUMENT",
        message: "must be 1 to 63 of a to z, 0 to 9 and -, neither beginning nor ending with -".to_owned(),
    }]))
}
