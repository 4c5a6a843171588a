//! The port to the contract: one attempt is one execution, submitted until it is accepted and awaited until it ends.
//! Speaks `escapement.v1` and nothing else; whether the contract is in this process or in another one makes no difference.

mod pauses;
mod recorded;
mod refused;
mod settled;

use bytes::Bytes;
use escapement_model::{ExecutionId, Namespace};
use escapement_process::unix_ms;
use escapement_run::outcome::{AttemptOutcome, ContractEnd, ContractError, classify};
use escapement_run::spec::TraceContext;
use escapement_wire::v1;
use escapement_wire::v1::fleet_service_client::FleetServiceClient;
use escapement_wire::v1::plan_execution_service_client::PlanExecutionServiceClient;
use prost::Message;
use tokio::time::{Instant, sleep, timeout};
use tonic::client::GrpcService;
use tonic::codegen::{Body, StdError};
use tonic::metadata::MetadataMap;
use tonic::{Code, Request, Status};
use tracing::warn;

use crate::handle::RunsHandle;
use crate::learning::save_said;
use crate::limits::{
    ACTIONS_INTERVAL, ACTIONS_PAUSE_FACTOR, ACTIONS_PAUSE_MIN, CONTRACT_MESSAGE_BYTES_MAX, CONTRACT_PATIENCE,
    WAIT_CYCLE,
};
use crate::message::Returned;
use crate::rights::Origin;
use crate::seen::SeenActions;
use crate::wanted::Wanted;
use pauses::Pauses;
pub(crate) use recorded::ReadExecution;
use refused::{Refusal, refusal};

/// An attempt.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    /// In which namespace and in whose name.
    pub(crate) origin: Origin,
    pub(crate) execution_id: ExecutionId,
    /// The encoded `SubmitPlanRequest`.
    pub(crate) request: Bytes,
    /// Lead of the times in it over the clock of runs, milliseconds.
    pub(crate) ahead_ms: u64,
    pub(crate) attempt_ms: u64,
    pub(crate) seen: bool,
    /// True if its output may hold a plan, whose expressions are looked at.
    pub(crate) plans: bool,
}

/// The contract, behind any service that answers its calls. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Contract<T> {
    plans: PlanExecutionServiceClient<T>,
    fleet: FleetServiceClient<T>,
    seen: SeenActions,
}

/// What became of a submission.
enum Submitted {
    /// The execution is there.
    Accepted,
    /// It will never be: its end, as if it had been.
    Ended(ContractEnd),
    /// Another request has its id.
    Other,
}

impl<T> Contract<T>
where
    T: GrpcService<tonic::body::Body> + Clone + Send + 'static,
    T::Error: Into<StdError>,
    T::Future: Send,
    T::ResponseBody: Body<Data = Bytes> + Send + 'static,
    <T::ResponseBody as Body>::Error: Into<StdError> + Send,
{
    /// Calls the contract through that service, and remembers which actions were offered.
    pub(crate) fn new(service: T, seen: SeenActions) -> Self {
        Self {
            plans: PlanExecutionServiceClient::new(service.clone())
                .max_decoding_message_size(CONTRACT_MESSAGE_BYTES_MAX)
                .max_encoding_message_size(CONTRACT_MESSAGE_BYTES_MAX),
            fleet: FleetServiceClient::new(service).max_decoding_message_size(CONTRACT_MESSAGE_BYTES_MAX),
            seen,
        }
    }

    /// Polls the contract for its actions, records them, and saves their descriptions in the store. Ends with
    /// its task.
    pub(crate) async fn watch_actions(mut self, runs: RunsHandle) {
        loop {
            let number = self.seen.ask();
            let begun = Instant::now();
            let asked = timeout(
                CONTRACT_PATIENCE,
                self.fleet.list_actions(v1::ListActionsRequest {}),
            );
            if let Ok(Ok(listed)) = asked.await {
                self.seen.told(listed.into_inner().actions);
            }
            self.seen.answered(number);
            save_said(&runs, &self.seen).await;
            let pause = begun.elapsed() * ACTIONS_PAUSE_FACTOR;
            sleep(pause.clamp(ACTIONS_PAUSE_MIN, ACTIONS_INTERVAL)).await;
            // Sooner if somebody makes a run that depends on it.
            let _elapsed = timeout(self.seen.interval(), self.seen.wanted()).await;
        }
    }

    /// Carries an attempt out: submits it until it is accepted, waits for its end, and judges that. It is not submitted any
    /// more once its run goes on without it. What the submission takes is given back once it is accepted.
    pub(crate) async fn carry_out(
        mut self,
        mut attempt: Attempt,
        submission: impl Send,
        wanted: &Wanted,
    ) -> AttemptOutcome {
        let mut request = match v1::SubmitPlanRequest::decode(std::mem::take(&mut attempt.request)) {
            Ok(request) => request,
            Err(error) => return judged(&failed("INVALID_ARGUMENT", &error.to_string()), &attempt, false),
        };
        // RUN-7.8: for runs a deadline is a time of theirs, and the contract goes by the wall clock.
        if let Some(deadline_ms) = &mut request.deadline_ms {
            let wall_ahead_ms = wanted.runs.clock().wall_ahead_ms();
            *deadline_ms = deadline_ms
                .saturating_add(wall_ahead_ms)
                .saturating_sub_unsigned(attempt.ahead_ms);
        }
        let plan = request.plan.as_ref();
        // The rest of the request is not kept until the end.
        let step = plan.and_then(|plan| plan.steps.first());
        let (step_id, action) = step
            .map(|step| (step.id.clone(), step.action.clone()))
            .unwrap_or_default();
        let work = settled::work_of(&request);
        let origin = &attempt.origin;
        if origin.namespace != Namespace::default() || request.parent_execution_id.is_some() {
            // What is nested would lie in the namespace of what it is nested in.
            request.namespace = origin.namespace.to_string();
        }
        let submitted = match wanted.runs.rights().permit(origin, &action) {
            true => self.submit(request, &attempt, wanted).await,
            false => self.not_permitted(&attempt, &action).await,
        };
        drop(submission);
        let end = match submitted {
            Submitted::Ended(end) => end,
            Submitted::Accepted => self.end_of(&attempt, &step_id, wanted).await,
            Submitted::Other => self.end_of_other(&attempt, &step_id, &work, wanted).await,
        };
        if settled::was_offered(&end) {
            self.seen.add(&action);
        }
        let seen = attempt.seen || self.seen.contains(&action);
        judged(&end, &attempt, seen)
    }

    /// What became of an attempt that its author may not make, or not any more. It may have been submitted before that.
    async fn not_permitted(&mut self, attempt: &Attempt, action: &str) -> Submitted {
        self.submitted_before(attempt).await.unwrap_or_else(|| {
            let message = format!("who started the run may not have the action {action:?} called");
            Submitted::Ended(failed(settled::NOT_PERMITTED, &message))
        })
    }

    /// Submits until the contract says yes or no.
    async fn submit(
        &mut self,
        request: v1::SubmitPlanRequest,
        attempt: &Attempt,
        wanted: &Wanted,
    ) -> Submitted {
        let deadline = request.deadline_ms.unwrap_or(i64::MAX);
        let mut pauses = Pauses::new(attempt.execution_id);
        let mut has_waited = wanted.has_waited;
        loop {
            // What this says of the attempt reaches nobody.
            if !wanted.run_lives() {
                return Submitted::Ended(settled::never_accepted(attempt.execution_id));
            }
            if has_waited && !wanted.is_awaited().await {
                return self.fenced(attempt).await;
            }
            has_waited = true;
            let refused = match self.submit_once(request.clone(), attempt).await {
                Ok(()) => return Submitted::Accepted,
                Err(status) => refusal(&status),
            };
            match refused {
                // It is certain that nothing was accepted, and that there is no time any more.
                Refusal::NotNow { .. } if unix_ms() >= deadline => {
                    return Submitted::Ended(settled::never_accepted(attempt.execution_id));
                }
                Refusal::NotNow { reason } | Refusal::NotKnown { reason } => pauses.wait(&reason).await,
                Refusal::Never { reason, message } => return Submitted::Ended(failed(&reason, &message)),
                Refusal::Removed => return Submitted::Ended(settled::removed()),
                Refusal::OtherRequest => return Submitted::Other,
            }
        }
    }

    // RUN-4.13
    /// A fenced attempt is not submitted any more. It may have been before, and then its end is told.
    async fn fenced(&mut self, attempt: &Attempt) -> Submitted {
        let before = self.submitted_before(attempt).await;
        before.unwrap_or_else(|| Submitted::Ended(settled::never_accepted(attempt.execution_id)))
    }

    /// What became of the attempt if it was submitted; `None` if it never was.
    async fn submitted_before(&mut self, attempt: &Attempt) -> Option<Submitted> {
        let request = v1::GetExecutionRequest {
            execution_id: attempt.execution_id.to_string(),
        };
        let mut pauses = Pauses::new(attempt.execution_id);
        loop {
            let found = timeout(CONTRACT_PATIENCE, self.plans.get_execution(request.clone())).await;
            let refused = match found.unwrap_or_else(|_| Err(late())) {
                Ok(found) => {
                    let execution = found.into_inner().execution.unwrap_or_default();
                    return is_own(attempt, &execution).then_some(Submitted::Accepted);
                }
                Err(status) => refusal(&status),
            };
            match refused {
                Refusal::NotNow { reason } | Refusal::NotKnown { reason } => pauses.wait(&reason).await,
                Refusal::Removed => return Some(Submitted::Ended(settled::removed())),
                Refusal::Never { .. } | Refusal::OtherRequest => return None,
            }
        }
    }

    async fn submit_once(&mut self, request: v1::SubmitPlanRequest, attempt: &Attempt) -> Result<(), Status> {
        let mut request = Request::new(request);
        if let Some(trace) = &attempt.origin.trace {
            write_trace(trace, request.metadata_mut());
        }
        if let Some(principal) = attempt.origin.principal() {
            request.extensions_mut().insert(principal);
        }
        let submitted = timeout(CONTRACT_PATIENCE, self.plans.submit_plan(request)).await;
        submitted.unwrap_or_else(|_| Err(late())).map(|_| ())
    }

    /// Waits for the end of the execution, in cycles.
    async fn end_of(&mut self, attempt: &Attempt, step_id: &str, wanted: &Wanted) -> ContractEnd {
        let mut pauses = Pauses::new(attempt.execution_id);
        loop {
            let request = v1::WaitExecutionRequest {
                execution_id: attempt.execution_id.to_string(),
                timeout_ms: i64::try_from(WAIT_CYCLE.as_millis()).ok(),
            };
            let waited = timeout(WAIT_CYCLE + CONTRACT_PATIENCE, self.plans.wait_execution(request)).await;
            let reason = match waited.unwrap_or_else(|_| Err(late())) {
                Ok(answer) => {
                    let execution = answer.into_inner().execution.unwrap_or_default();
                    if let Some(result) = execution.result {
                        let assigned = self.was_assigned(attempt, &result).await;
                        return settled::end(result, step_id, assigned);
                    }
                    pauses = Pauses::new(attempt.execution_id);
                    wanted.runs.returned(Returned::UnderWay(attempt.execution_id));
                    continue;
                }
                Err(status) => match refusal(&status) {
                    // RUN-5.1: it was accepted, and is not there any more.
                    Refusal::Removed => return settled::removed(),
                    Refusal::Never { reason, .. } if reason == "EXECUTION_NOT_FOUND" => {
                        return settled::removed();
                    }
                    Refusal::Never { reason, message } => {
                        let trace_id = attempt.origin.trace_id();
                        warn!(execution_id = %attempt.execution_id, trace_id, reason, message, "execution cannot be awaited");
                        reason
                    }
                    Refusal::NotNow { reason } | Refusal::NotKnown { reason } => reason,
                    Refusal::OtherRequest => "EXECUTION_ID_IN_USE".to_owned(),
                },
            };
            pauses.wait(&reason).await;
        }
    }

    /// True unless the record says that no worker was ever given the attempt. Only a `PLAN_TIMEOUT` leaves that open.
    async fn was_assigned(&mut self, attempt: &Attempt, result: &v1::PlanResult) -> bool {
        let code = result.error.as_ref().map(|error| error.error_code.as_str());
        if code != Some("PLAN_TIMEOUT") {
            return code != Some("DEADLINE_EXCEEDED");
        }
        let request = v1::ListAuditEntriesRequest {
            execution_id: attempt.execution_id.to_string(),
            from_sequence: 0,
            page_size: None,
        };
        let mut pauses = Pauses::new(attempt.execution_id);
        loop {
            let listed = timeout(CONTRACT_PATIENCE, self.plans.list_audit_entries(request.clone())).await;
            match listed.unwrap_or_else(|_| Err(late())) {
                Ok(page) => return settled::names_an_assignment(&page.into_inner().entries),
                Err(status) => match refusal(&status) {
                    Refusal::NotNow { reason } | Refusal::NotKnown { reason } => pauses.wait(&reason).await,
                    // Nothing says that nothing was done.
                    Refusal::Never { .. } | Refusal::Removed | Refusal::OtherRequest => return true,
                },
            }
        }
    }

    // RUN-4.14
    /// Returns the end of an attempt whose id another request has, since a restored store has lost the
    /// earlier submission. The result counts if it is the same work of the same author in the same namespace.
    /// Otherwise the outcome is unknown. The attempt does not wait for the plan of another user.
    async fn end_of_other(
        &mut self,
        attempt: &Attempt,
        step_id: &str,
        work: &[u8; 32],
        wanted: &Wanted,
    ) -> ContractEnd {
        let request = v1::GetExecutionRequest {
            execution_id: attempt.execution_id.to_string(),
        };
        let found = timeout(CONTRACT_PATIENCE, self.plans.get_execution(request)).await;
        let execution = match found {
            Ok(Ok(found)) => found.into_inner().execution.unwrap_or_default(),
            Ok(Err(_)) | Err(_) => return settled::unknown(),
        };
        if !is_own(attempt, &execution) {
            return settled::unknown();
        }
        let end = self.end_of(attempt, step_id, wanted).await;
        let request = v1::ExportExecutionRequest {
            execution_id: attempt.execution_id.to_string(),
        };
        let same = async {
            let mut pieces = self.plans.export_execution(request).await.ok()?.into_inner();
            let mut record = Vec::new();
            while let Ok(Some(piece)) = pieces.message().await {
                record.extend_from_slice(&piece.data);
            }
            let accepted = settled::accepted_in(&record)?;
            (settled::work_of(&accepted) == *work).then_some(())
        };
        match timeout(CONTRACT_PATIENCE, same).await {
            Ok(Some(())) => end,
            Ok(None) | Err(_) => settled::unknown(),
        }
    }
}

/// Returns true if the execution has the attempt's namespace and the author of its run.
fn is_own(attempt: &Attempt, execution: &v1::Execution) -> bool {
    let origin = &attempt.origin;
    let is_there = execution.namespace == origin.namespace.as_str();
    is_there && origin.is_of(execution.accepted_by.as_ref())
}

/// Says which trace a call belongs to. What is no header of one is left out.
fn write_trace(trace: &TraceContext, metadata: &mut MetadataMap) {
    if let Ok(traceparent) = trace.traceparent.parse() {
        metadata.insert("traceparent", traceparent);
    }
    if let Ok(tracestate) = trace.tracestate.parse()
        && !trace.tracestate.is_empty()
    {
        metadata.insert("tracestate", tracestate);
    }
}

/// Returns the outcome of an attempt that nobody waits for any more: it reaches nobody.
pub(crate) fn not_submitted(attempt: &Attempt) -> AttemptOutcome {
    judged(
        &settled::never_accepted(attempt.execution_id),
        attempt,
        attempt.seen,
    )
}

fn judged(end: &ContractEnd, attempt: &Attempt, seen: bool) -> AttemptOutcome {
    classify(end, attempt.attempt_ms, seen)
}

/// The contract does not take the request, now or later.
fn failed(reason: &str, message: &str) -> ContractEnd {
    ContractEnd {
        output: None,
        error: Some(ContractError {
            retry_after_ms: 0,
            code: reason.to_owned(),
            message: message.to_owned(),
            fatal: true,
            reason: None,
        }),
        steps_executed: 0,
        assigned: false,
    }
}

/// The answer did not come in time.
fn late() -> Status {
    Status::new(Code::Unavailable, "the contract does not answer")
}
