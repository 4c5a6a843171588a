//! `PlanService`: plans that are saved under a name, and their documents.

mod document;
pub(crate) mod draft;
mod flat_step;
mod import;
mod list;
mod nesting;
mod preparing;
mod reading;
mod samples;
pub(crate) mod saving;
mod steps;
pub(crate) mod view;

use std::sync::Arc;

use escapement_model::{Opaque, RunId};
use escapement_run::plan::import::Format;
use escapement_run::plan::{self, Plan};
use escapement_run::{Blobs, Run};
use escapement_runs_shell::saved::{SavedRequest, saved_plan};
use escapement_runs_shell::{CallError, RunsHandle};
use escapement_store::runs::DefinitionKind;
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::plan_service_server::PlanService;
use tonic::{Request, Response, Status};

use crate::caller::{Caller, scope};
use crate::errors::Rejection;
use crate::fields::Fields;
use crate::journal::backward;
use crate::revision_plans::RevisionPlans;
use crate::views::event;
use draft::{Draft, Shown, Target, shown};
use import::with_attributes;
use reading::{New, id_of, repeatable, target};
use saving::not_found;
use view::plan_view;

/// The service.
#[derive(Clone, Debug)]
pub struct Plans {
    runs: RunsHandle,
    /// Creates the triggers of samples. `None`: they come without.
    sample_triggers: Option<Arc<dyn SampleTriggers>>,
}

/// Creates the triggers of samples. Triggers depend on saved plans, and implement this so that the reverse is not needed.
#[tonic::async_trait]
pub(crate) trait SampleTriggers: std::fmt::Debug + Send + Sync {
    /// Creates the trigger of the sample plan of that key, or finds it. `None` if it has none.
    async fn of_plan(
        &self,
        key: &str,
        plan: &v1::Plan,
        caller: &Caller,
    ) -> Result<Option<v1::CreateTriggerResponse>, Rejection>;
}

/// Who saves a new plan, and the namespace that the request names.
#[derive(Clone, Copy)]
struct Saver<'a> {
    caller: &'a Caller,
    namespace: &'a str,
}

impl Plans {
    /// Saves plans with these runs.
    pub fn new(runs: RunsHandle) -> Self {
        Self {
            runs,
            sample_triggers: None,
        }
    }

    /// Sets what creates the triggers of samples.
    pub(crate) fn with_sample_triggers(self, triggers: Box<dyn SampleTriggers>) -> Self {
        Self {
            sample_triggers: Some(triggers.into()),
            ..self
        }
    }

    async fn create(&self, request: v1::CreatePlanRequest, caller: &Caller) -> Result<v1::Plan, Rejection> {
        let given = request.plan.clone().unwrap_or_default();
        let said = |name| {
            let document = request.document.as_ref();
            document.and_then(|document| document::text_of(document, name))
        };
        let new = New {
            plan: &given,
            priority: request.priority,
            autonomy_level: request.autonomy_level,
            max_retries: request.max_retries,
            name: said("name").unwrap_or_default(),
            goal: said("goal").unwrap_or_default(),
        };
        let repeated = repeatable(&request.request_id, &request);
        let saver = Saver {
            caller,
            namespace: &request.namespace,
        };
        self.save_new(&new, request.document.clone(), repeated, saver)
            .await
            .map(|shown| plan_view(&shown))
    }

    async fn save_new(
        &self,
        new: &New<'_>,
        document: Option<Opaque>,
        request: Option<SavedRequest>,
        saver: Saver<'_>,
    ) -> Result<Shown, Rejection> {
        let mut fields = Fields::default();
        let (mut saved, priority) = reading::new_plan(new, &mut fields);
        if let Some(request) = &request {
            fields.note("request_id", &request.id);
        }
        fields.conclude()?;
        let document =
            document.unwrap_or_else(|| document::empty(&saved.name, &saved.goal, &saved.description));
        let plan = read("document", &document)?;
        let made = saver
            .caller
            .made(saver.namespace, "plan.user_id", &new.plan.user_id)?;
        let namespace = made.origin.namespace;
        let plan_id = id_of(&scope(&namespace, &made.user_id), request.as_ref())
            .map_err(|_| Rejection::failed("NO_RANDOMNESS", "No id can be made."))?;
        saved.author = made.origin.author;
        let draft = Draft {
            priority,
            saved,
            document,
            plan: Some(plan),
            step_key: String::new(),
        };
        let target = Target {
            plan_id: plan_id.to_string(),
            user_id: made.user_id,
            version: None,
            request,
            caller: Some(saver.caller.clone()),
        };
        saving::create(&self.runs, target, namespace, draft).await
    }

    /// Refuses a saved plan that the caller may not find.
    async fn require(&self, caller: &Caller, plan_id: &str) -> Result<(), Rejection> {
        caller
            .require_definition(&self.runs, DefinitionKind::SavedPlan, plan_id, not_found)
            .await
    }

    /// A plan, with what only its newest run knows.
    async fn get(&self, request: v1::GetPlanRequest) -> Result<v1::Plan, Rejection> {
        let target = target(&request.plan_id, &request.user_id, "", None, None)?;
        let plan_id = target.plan_id.clone();
        let read = move |reader: &dyn escapement_store::runs::RunReader| match saved_plan(
            reader,
            &target.plan_id,
            &target.user_id,
        )? {
            Some((definition, saved)) => shown(reader, definition, saved).map(Some),
            None => Ok(None),
        };
        let found = self.runs.readers().read(read).await?;
        let found = found.ok_or_else(|| not_found(&plan_id))?;
        let plan = plan_view(&found);
        match &found.newest_run {
            Some(run) => self.with_newest_run(plan, run.run_id).await,
            None => Ok(plan),
        }
    }

    /// A run that is gone meanwhile, or that cannot be read, says nothing.
    async fn with_newest_run(&self, plan: v1::Plan, run_id: RunId) -> Result<v1::Plan, Rejection> {
        let look = |run: &Run, _: &dyn Blobs| RevisionPlans::of(run);
        let plans = match self.runs.look(run_id, look).await {
            Ok(seen) => seen,
            Err(CallError::NotFound | CallError::Removed(_) | CallError::Damaged(_)) => return Ok(plan),
            Err(error) => return Err(error.into()),
        };
        let read = backward(&self.runs, run_id, u64::MAX - 1, LAST_EVENTS, LAST_EVENTS_BYTES).await?;
        let plans = plans.with_those_of(&self.runs, &read.entries).await?;
        let events = read.entries.iter();
        Ok(v1::Plan {
            last_events: events
                .take(LAST_EVENTS)
                .map(|(entry, link)| event((run_id, plans.seed()), plans.at(entry.sequence), entry, link))
                .collect(),
            ..plan
        })
    }

    async fn update(&self, request: v1::UpdatePlanRequest, caller: Caller) -> Result<v1::Plan, Rejection> {
        let mut fields = Fields::default();
        reading::update(&request, &mut Default::default(), &mut fields);
        let repeated = repeatable(&request.request_id, &request);
        let target = match target(
            &request.plan_id,
            &request.user_id,
            &request.etag,
            repeated,
            Some(caller),
        ) {
            Ok(target) => target,
            Err(Rejection::Problems(problems)) => {
                for problem in problems {
                    fields.because(problem.field, problem.reason, problem.message);
                }
                return Err(fields.conclude().expect_err("there is a problem"));
            }
            Err(rejection) => return Err(rejection),
        };
        fields.conclude()?;
        let edit = move |draft: &mut Draft| {
            let mut fields = Fields::default();
            let priority = reading::update(&request, &mut draft.saved, &mut fields);
            draft.priority = priority.unwrap_or(draft.priority);
            fields.conclude()
        };
        saving::change(&self.runs, target, edit)
            .await
            .map(|shown| plan_view(&shown))
    }

    async fn put_document(
        &self,
        request: v1::PutPlanDocumentRequest,
        caller: Caller,
    ) -> Result<v1::Plan, Rejection> {
        let repeated = repeatable(&request.request_id, &request);
        let target = target(
            &request.plan_id,
            &request.user_id,
            &request.etag,
            repeated,
            Some(caller),
        )?;
        let document = request.document.ok_or_else(|| required("document"))?;
        let plan = read("document", &document)?;
        let edit = move |draft: &mut Draft| {
            draft.plan = Some(plan.clone());
            Ok(())
        };
        saving::change(&self.runs, target, edit)
            .await
            .map(|shown| plan_view(&shown))
    }

    async fn import(
        &self,
        request: v1::ImportPlanRequest,
        caller: &Caller,
    ) -> Result<v1::ImportPlanResponse, Rejection> {
        let mut fields = Fields::default();
        let words = Format::ALL.map(|format| (format.as_str(), format));
        let format = fields.word("format", &request.format, &words);
        reading::document("source_document", request.source_document.as_ref(), &mut fields);
        fields.conclude()?;
        let (Some(format), Some(source)) = (format, &request.source_document) else {
            unreachable!("what is missing is a problem");
        };
        let imported = plan::import::import(format, source).map_err(|violations| Rejection::PlanInvalid {
            field: "source_document",
            violations,
        })?;
        let plan = read("source_document", &imported.document)?;
        let saved = if request.save {
            let given = with_attributes(request.plan.clone(), &imported, format);
            let new = New {
                plan: &given.plan,
                priority: given.priority,
                autonomy_level: given.autonomy_level,
                max_retries: given.max_retries,
                name: &plan.name,
                goal: if plan.goal.is_empty() {
                    &plan.name
                } else {
                    &plan.goal
                },
            };
            let repeated = repeatable(&request.request_id, &request);
            let saver = Saver {
                caller,
                namespace: &request.namespace,
            };
            let document = Some(imported.document.clone());
            Some(self.save_new(&new, document, repeated, saver).await?)
        } else {
            None
        };
        Ok(v1::ImportPlanResponse {
            revision_digest: plan::revision_text(&plan.digest),
            document: Some(imported.document),
            preset: format.preset().to_owned(),
            plan: saved.as_ref().map(plan_view),
        })
    }
}

/// Reads the document of a field.
fn read(field: &'static str, document: &Opaque) -> Result<Plan, Rejection> {
    let read = plan::read(document).and_then(plan::carried_out);
    read.map_err(|violations| Rejection::PlanInvalid { field, violations })
}

fn required(field: &str) -> Rejection {
    Rejection::field(field, "INVALID_ARGUMENT", "is required")
}

#[tonic::async_trait]
impl PlanService for Plans {
    async fn create_plan(
        &self,
        request: Request<v1::CreatePlanRequest>,
    ) -> Result<Response<v1::CreatePlanResponse>, Status> {
        let caller = Caller::of(&request);
        let plan = Some(self.create(request.into_inner(), &caller).await?);
        Ok(Response::new(v1::CreatePlanResponse { plan }))
    }

    async fn get_plan(
        &self,
        request: Request<v1::GetPlanRequest>,
    ) -> Result<Response<v1::GetPlanResponse>, Status> {
        let caller = Caller::of(&request);
        let request = request.into_inner();
        self.require(&caller, &request.plan_id).await?;
        let plan = Some(self.get(request).await?);
        Ok(Response::new(v1::GetPlanResponse { plan }))
    }

    async fn list_plans(
        &self,
        request: Request<v1::ListPlansRequest>,
    ) -> Result<Response<v1::ListPlansResponse>, Status> {
        let caller = Caller::of(&request);
        Ok(Response::new(
            list::list(&self.runs, request.into_inner(), &caller).await?,
        ))
    }

    async fn update_plan(
        &self,
        request: Request<v1::UpdatePlanRequest>,
    ) -> Result<Response<v1::UpdatePlanResponse>, Status> {
        let caller = Caller::of(&request);
        let request = request.into_inner();
        self.require(&caller, &request.plan_id).await?;
        let plan = Some(self.update(request, caller).await?);
        Ok(Response::new(v1::UpdatePlanResponse { plan }))
    }

    async fn delete_plan(
        &self,
        request: Request<v1::DeletePlanRequest>,
    ) -> Result<Response<v1::DeletePlanResponse>, Status> {
        let caller = Caller::of(&request);
        let request = request.into_inner();
        self.require(&caller, &request.plan_id).await?;
        let target = target(&request.plan_id, &request.user_id, &request.etag, None, None)?;
        saving::delete(&self.runs, target).await?;
        Ok(Response::new(v1::DeletePlanResponse {}))
    }

    async fn add_plan_step(
        &self,
        request: Request<v1::AddPlanStepRequest>,
    ) -> Result<Response<v1::AddPlanStepResponse>, Status> {
        let caller = Caller::of(&request);
        let request = request.into_inner();
        self.require(&caller, &request.plan_id).await?;
        Ok(Response::new(steps::add(&self.runs, request, caller).await?))
    }

    async fn update_plan_step(
        &self,
        request: Request<v1::UpdatePlanStepRequest>,
    ) -> Result<Response<v1::UpdatePlanStepResponse>, Status> {
        let caller = Caller::of(&request);
        let request = request.into_inner();
        self.require(&caller, &request.plan_id).await?;
        let plan = Some(steps::update(&self.runs, request, caller).await?);
        Ok(Response::new(v1::UpdatePlanStepResponse { plan }))
    }

    async fn delete_plan_step(
        &self,
        request: Request<v1::DeletePlanStepRequest>,
    ) -> Result<Response<v1::DeletePlanStepResponse>, Status> {
        let caller = Caller::of(&request);
        let request = request.into_inner();
        self.require(&caller, &request.plan_id).await?;
        let plan = Some(steps::delete(&self.runs, request).await?);
        Ok(Response::new(v1::DeletePlanStepResponse { plan }))
    }

    async fn put_plan_document(
        &self,
        request: Request<v1::PutPlanDocumentRequest>,
    ) -> Result<Response<v1::PutPlanDocumentResponse>, Status> {
        let caller = Caller::of(&request);
        let request = request.into_inner();
        self.require(&caller, &request.plan_id).await?;
        let plan = Some(self.put_document(request, caller).await?);
        Ok(Response::new(v1::PutPlanDocumentResponse { plan }))
    }

    async fn load_samples(
        &self,
        request: Request<v1::LoadSamplesRequest>,
    ) -> Result<Response<v1::LoadSamplesResponse>, Status> {
        let caller = Caller::of(&request);
        let request = request.into_inner();
        let saver = Saver {
            caller: &caller,
            namespace: &request.namespace,
        };
        let answer = Plans::load_samples(self, &request.user_id, saver).await?;
        Ok(Response::new(answer))
    }

    async fn import_plan(
        &self,
        request: Request<v1::ImportPlanRequest>,
    ) -> Result<Response<v1::ImportPlanResponse>, Status> {
        let caller = Caller::of(&request);
        Ok(Response::new(self.import(request.into_inner(), &caller).await?))
    }
}

/// Events of the newest run that a plan shows.
const LAST_EVENTS: usize = 20;
/// Bytes of the entries that they are made of: 1 MiB.
const LAST_EVENTS_BYTES: usize = 1 << 20;
