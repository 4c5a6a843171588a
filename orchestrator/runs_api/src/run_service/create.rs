//! `CreateRun`: from a request to what is run.

use super::Runs;
use super::ids::{client_request, new_id_seed, new_run_id, spelled_digest};
use crate::caller::{Caller, Made, check_run, scope};
use crate::errors::Rejection;
use crate::expressions;
use crate::fields::Fields;
use crate::header::Header;
use crate::resolution::{Defaults, plan_of_goal, spec_of};
use crate::saved::{self, profiles};
use crate::sizes;
use crate::views::{Detail, run_view};
use bytes::Bytes;
use escapement_model::{Opaque, PlanId, RunId};
use escapement_run::journal::Responder;
use escapement_run::plan::import::{Format, import};
use escapement_run::plan::{self, Plan, Violations};
use escapement_run::presets::Preset;
use escapement_run::spec::{ActionProfile, Spec, stored_name};
use escapement_run::{Blobs, Run};
use escapement_runs::NewRun;
use escapement_runs_host::{Create, Links};
use escapement_runs_shell::CallError;
use escapement_store::runs::{ClientRequest, DefinitionKind};
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::create_run_request::What;
use std::sync::Arc;

/// Causes of a run that a trigger starts.
#[derive(Debug)]
pub(crate) struct Started {
    /// Triggers in a row, this one included.
    pub(crate) depth: u32,
    /// Responder that fired it, if that is known.
    pub(crate) fired_by: Option<Box<Responder>>,
}

impl Started {
    /// Returns the causes of a run after so many triggers in a row, fired by this responder.
    pub(crate) fn new(depth: u32, fired_by: Option<&Responder>) -> Self {
        let fired_by = fired_by.cloned().map(Box::new);
        Self { depth, fired_by }
    }

    /// Returns the causes of a run without a firing and without an earlier trigger.
    pub(crate) fn alone() -> Self {
        Self::new(1, None)
    }
}

/// Everything that a run is made from.
pub(super) struct Resolved {
    pub(super) spec: Spec,
    pub(super) plan: Arc<Plan>,
    pub(super) profiles: Vec<ActionProfile>,
    pub(super) plan_id: Option<String>,
}

impl Runs {
    pub(super) async fn create_run(
        &self,
        request: v1::CreateRunRequest,
        caller: &Caller,
    ) -> Result<v1::CreateRunResponse, Rejection> {
        let made = self.made_by(&request, caller).await?;
        let client = match request.validate_only {
            true => None,
            false => {
                let scope = scope(&made.origin.namespace, &made.user_id);
                let client = client_request("create", &scope, &request.request_id, &request);
                self.as_kept(client, spelled_digest("create", &request)).await?
            }
        };
        let resolved = match self.resolve_in_parent(&request, &made, caller).await {
            Ok(Ok(resolved)) => resolved,
            Ok(Err(violations)) => {
                return Err(Rejection::PlanInvalid {
                    field: "document",
                    violations,
                });
            }
            // What a run is made from may be gone by the time that its request is repeated.
            Err(rejection) => {
                let before = self.made_before(client.as_ref()).await?;
                return Ok(spawned(self.look_afterwards(before.ok_or(rejection)?).await?));
            }
        };
        let n_steps = i32::try_from(resolved.plan.steps.len()).unwrap_or(i32::MAX);
        if request.validate_only {
            return Ok(v1::CreateRunResponse {
                run: Some(as_it_would_be(resolved)),
                status: "valid".to_owned(),
                chain_id: String::new(),
                n_steps,
            });
        }
        let spec = &resolved.spec;
        self.require_session(&made.origin.namespace, &spec.session_id, &spec.user_id)
            .await?;
        let (create, links) = create_of(&request, resolved, new_run_id()?, client)?;
        let look = |run: &Run, blobs: &dyn Blobs| run_view(run, blobs, Detail::Usual);
        let (created, seen) = self.runs.create_and_look(create, links, look).await?;
        Ok(spawned(match seen {
            Some(run) => run,
            None => self.look_afterwards(created.run_id).await?,
        }))
    }

    /// In whose name the caller makes the run, and where. The saved plan is one that it may find.
    pub(super) async fn made_by(
        &self,
        request: &v1::CreateRunRequest,
        caller: &Caller,
    ) -> Result<Made, Rejection> {
        if let Some(What::PlanId(plan_id)) = &request.what {
            let kind = DefinitionKind::SavedPlan;
            caller
                .require_definition(&self.runs, kind, plan_id, saved::plan_not_found)
                .await?;
        }
        caller.made(&request.namespace, "user_id", &request.user_id)
    }

    /// Everything that a run of a trigger is made from, in the name of who saved that.
    ///
    /// # Errors
    /// As `CreateRun`.
    pub(crate) async fn prepare(
        &self,
        request: &v1::CreateRunRequest,
        made: &Made,
        started: Started,
        run_id: RunId,
        client: Option<ClientRequest>,
    ) -> Result<(Create, Links), Rejection> {
        let mut resolved = self.resolve(request, made).await?.map_err(|violations| {
            let field = "document";
            Rejection::PlanInvalid { field, violations }
        })?;
        let spec = &resolved.spec;
        self.require_session(&made.origin.namespace, &spec.session_id, &spec.user_id)
            .await?;
        let mut header = Header::of(&resolved.spec);
        header.trigger_depth = started.depth;
        resolved.spec.header = header.encoded();
        resolved.spec.fired_by = started.fired_by;
        create_of(request, resolved, run_id, client)
    }

    /// Returns the request with the digest of its encoding, if an earlier version has kept it by that.
    pub(super) async fn as_kept(
        &self,
        request: Option<ClientRequest>,
        spelled: [u8; 32],
    ) -> Result<Option<ClientRequest>, Rejection> {
        let Some(request) = request else {
            return Ok(None);
        };
        if request.digest == spelled {
            return Ok(Some(request));
        }
        let key = request.key.clone();
        let made = self.runs.readers().read(move |reader| reader.created_by(&key));
        let is_kept = made.await?.is_some_and(|(_, digest)| digest == spelled);
        let digest = if is_kept { spelled } else { request.digest };
        Ok(Some(ClientRequest { digest, ..request }))
    }

    /// The run that the same request has made before.
    ///
    /// # Errors
    /// [`CallError::RequestIdReused`] if another request has this id; as the store fails.
    pub(super) async fn made_before(
        &self,
        request: Option<&ClientRequest>,
    ) -> Result<Option<RunId>, Rejection> {
        let Some(request) = request else {
            return Ok(None);
        };
        let key = request.key.clone();
        let made = self.runs.readers().read(move |reader| reader.created_by(&key));
        match made.await? {
            Some((_, digest)) if digest != request.digest => Err(CallError::RequestIdReused.into()),
            made => Ok(made.map(|(run_id, _)| run_id)),
        }
    }

    /// Checks and resolves a request. The inner error: the document is no plan.
    pub(super) async fn resolve(
        &self,
        request: &v1::CreateRunRequest,
        made: &Made,
    ) -> Result<Result<Resolved, Violations>, Rejection> {
        let namespace = &made.origin.namespace;
        let mut fields = Fields::default();
        let saved = match &request.what {
            Some(What::PlanId(plan_id)) => match fields.id::<PlanId>("plan_id", plan_id) {
                Some(plan_id) => {
                    Some(saved::plan_of(&self.runs, plan_id, &request.user_id, namespace).await?)
                }
                None => None,
            },
            _ => None,
        };
        let format = format_of(request, &mut fields);
        let (mut plan, mut defaults) = match saved {
            Some((plan, defaults)) => (Some(Ok(plan)), defaults),
            None => (None, Defaults::default()),
        };
        if let Some(format) = format {
            defaults.preset = Preset::spelled(format.preset());
        }
        let mut spec = spec_of(request, &defaults, &self.settings, &mut fields);
        self.fill_in(&mut spec, made);
        match &request.what {
            None => fields.wrong("document", "is required, or plan_id or revision_digest instead"),
            Some(What::PlanId(_)) => {}
            // RUN-11.1
            Some(What::Goal(goal)) if fields.are_right() => {
                plan = Some(Ok(Arc::new(plan_of_goal(&request.name, goal))));
            }
            Some(What::Goal(_)) => {}
            Some(What::Document(document)) => {
                plan = Some(plan_in(format, document));
            }
            Some(What::RevisionDigest(text)) => match plan::revision_of(text) {
                Some(digest) if fields.are_right() => {
                    let revision = saved::revision(&self.runs, digest, made.scopes.clone()).await?;
                    plan = Some(Ok(revision));
                }
                Some(_) => {}
                None => fields.wrong("revision_digest", "must be sha256: and 64 hexadecimal digits"),
            },
        }
        fields.conclude()?;
        sizes::require_spec(request, &spec)?;
        let plan = match plan.expect("without a plan a field is wrong") {
            Ok(plan) => plan,
            Err(violations) => return Ok(Err(violations)),
        };
        check_run(spec.author.as_deref(), &plan, &spec)?;
        let not_carried_out = || plan::not_carried_out(&plan);
        if let Some(violations) = plan::out_of_size(&plan, &spec.preset).or_else(not_carried_out) {
            return Ok(Err(violations));
        }
        let own_actions = spec.actions().map(str::to_owned).collect();
        let profiles = profiles(&self.runs, &plan, own_actions).await?;
        sizes::require_profiles_of(request, &profiles)?;
        if let Some(violations) = breaks(&plan, &spec, &profiles) {
            return Ok(Err(violations));
        }
        let plan_id = (!defaults.plan_id.is_empty()).then_some(defaults.plan_id);
        name_by_plan(&mut spec, &plan);
        Ok(Ok(Resolved {
            spec,
            plan,
            profiles,
            plan_id,
        }))
    }

    /// Resolves a request like [`Runs::resolve`], for a run that may be nested in an execution.
    pub(super) async fn resolve_in_parent(
        &self,
        request: &v1::CreateRunRequest,
        made: &Made,
        caller: &Caller,
    ) -> Result<Result<Resolved, Violations>, Rejection> {
        let mut resolved = self.resolve(request, made).await?;
        if let Ok(resolved) = &mut resolved {
            self.nest(&mut resolved.spec, caller).await?;
        }
        Ok(resolved)
    }

    /// Sets what follows from the caller and from the settings of the orchestrator.
    fn fill_in(&self, spec: &mut Spec, made: &Made) {
        spec.user_id.clone_from(&made.user_id);
        spec.namespace = stored_name(&made.origin.namespace);
        spec.author.clone_from(&made.origin.author);
        spec.trace.clone_from(&made.origin.trace);
        if let Some(planner) = &mut spec.planner
            && let Some(limit_ms) = self.settings.planner_limit_ms
        {
            planner.limit_ms = limit_ms;
        }
    }
}

/// Writes the name and the goal of the plan into the header, for lists. A run of a goal has its own.
fn name_by_plan(spec: &mut Spec, plan: &Plan) {
    let mut header = Header::of(spec);
    if spec.goal.is_empty() {
        header.plan_name.clone_from(&plan.name);
        header.plan_goal.clone_from(&plan.goal);
    }
    spec.header = header.encoded();
}

/// The plan in a document of the format, or in the native one.
fn plan_in(format: Option<Format>, document: &Opaque) -> Result<Arc<Plan>, Violations> {
    let read = match format {
        Some(format) => import(format, document).and_then(|it| plan::read(&it.document)),
        None => plan::read(document),
    };
    read.and_then(expressions::checked).map(Arc::new)
}

fn create_of(
    request: &v1::CreateRunRequest,
    resolved: Resolved,
    run_id: RunId,
    client: Option<ClientRequest>,
) -> Result<(Create, Links), Rejection> {
    let create = Create {
        run: NewRun {
            run_id,
            spec: Spec {
                id_seed: new_id_seed()?,
                ..resolved.spec
            },
            plan: resolved.plan,
            profiles: resolved.profiles,
        },
        request: client,
        saved_plan: resolved.plan_id,
    };
    let links = Links {
        goal: some(&request.goal_id),
        trigger: some(&request.trigger_id),
    };
    Ok((create, links))
}

/// The format of the document, if it is not a native one.
fn format_of(request: &v1::CreateRunRequest, fields: &mut Fields) -> Option<Format> {
    if request.format.is_empty() {
        return None;
    }
    if !matches!(request.what, Some(What::Document(_))) {
        fields.wrong("format", "says what a document is, and there is none");
    }
    let words = Format::ALL.map(|format| (format.as_str(), format));
    fields.word("format", &request.format, &words)
}

// RUN-12.5
/// Where the plan does not keep to the constraints of its run. What stands for a goal is no plan yet.
fn breaks(plan: &Plan, spec: &Spec, profiles: &[ActionProfile]) -> Option<Violations> {
    let broken = plan::constraints::violations(plan, &spec.constraints, profiles);
    Violations::new(broken).filter(|_| spec.is_given_plan())
}

fn spawned(run: v1::Run) -> v1::CreateRunResponse {
    v1::CreateRunResponse {
        chain_id: run.chain_id.clone(),
        n_steps: run.total_steps,
        run: Some(run),
        status: "spawned".to_owned(),
    }
}

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// The run without what only a run that is made has.
pub(super) fn as_it_would_be(resolved: Resolved) -> v1::Run {
    let run_id = RunId::from_random([0; 16]);
    let Resolved {
        spec, plan, profiles, ..
    } = resolved;
    let (run, _) = Run::create(run_id, spec, plan, profiles, 0, &NoContents);
    let view = run_view(&run, &NoContents, Detail::Usual);
    v1::Run {
        run_id: String::new(),
        chain_id: String::new(),
        etag: String::new(),
        state: v1::run::State::Unspecified.into(),
        plan_status: String::new(),
        expires_at: 0,
        last_sequence: 0,
        ..view
    }
}

/// A run that is not kept refers to nothing.
struct NoContents;

impl Blobs for NoContents {
    fn blob(&self, _digest: &[u8; 32]) -> Bytes {
        Bytes::new()
    }
}
