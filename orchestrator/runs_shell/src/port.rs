//! Carries attempts out by the contract: one attempt is one execution, submitted until it is accepted and awaited until it ends.

mod pauses;
mod recorded;

use escapement_process::unix_ms;
use escapement_run::outcome::{AttemptOutcome, ContractEnd};
use escapement_wire::v1;
use tokio::time::{Instant, sleep, timeout};
use tracing::warn;

use crate::attempt::{
    Attempt, PreparedAttempt, end, failed, judged, judged_by_action, known_as_assigned, prepared,
};
use crate::contract_port::{ContractPort, EndedExecution, PortRefusal};
use crate::handle::RunsHandle;
use crate::learning::save_said;
use crate::limits::{
    ACTIONS_INTERVAL, ACTIONS_PAUSE_FACTOR, ACTIONS_PAUSE_MIN, CONTRACT_PATIENCE, WAIT_CYCLE,
};
use crate::message::Returned;
use crate::seen::SeenActions;
use crate::wanted::Wanted;
use pauses::Pauses;
pub(crate) use recorded::{explanation, parent, record};

/// The way of attempts to the contract. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Attempts<C> {
    contract: C,
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

impl<C: ContractPort> Attempts<C> {
    /// Calls this contract, and remembers which actions were offered.
    pub(crate) fn new(contract: C, seen: SeenActions) -> Self {
        Self { contract, seen }
    }

    /// Polls the contract for its actions, records them, and saves their descriptions in the store. Ends with
    /// its task.
    pub(crate) async fn watch_actions(self, runs: RunsHandle) {
        loop {
            let number = self.seen.ask();
            let begun = Instant::now();
            if let Ok(actions) = in_time(self.contract.actions()).await {
                self.seen.told(actions);
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
        self,
        mut attempt: Attempt,
        submission: impl Send,
        wanted: &Wanted,
    ) -> AttemptOutcome {
        let PreparedAttempt {
            request,
            step_id,
            action,
        } = match prepared(&mut attempt, wanted.runs.clock()) {
            Ok(prepared) => prepared,
            Err(error) => return judged(&failed("INVALID_ARGUMENT", &error.to_string()), &attempt, false),
        };
        let work = end::work_of(&request);
        let origin = &attempt.origin;
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
        judged_by_action(&end, &attempt, &action, &self.seen)
    }

    /// What became of an attempt that its author may not make, or not any more. It may have been submitted before that.
    async fn not_permitted(&self, attempt: &Attempt, action: &str) -> Submitted {
        self.submitted_before(attempt).await.unwrap_or_else(|| {
            let message = format!("who started the run may not have the action {action:?} called");
            Submitted::Ended(failed(end::NOT_PERMITTED, &message))
        })
    }

    /// Submits until the contract says yes or no.
    async fn submit(&self, request: v1::SubmitPlanRequest, attempt: &Attempt, wanted: &Wanted) -> Submitted {
        let deadline = request.deadline_ms.unwrap_or(i64::MAX);
        let mut pauses = Pauses::new(attempt.execution_id);
        let mut has_waited = wanted.has_waited;
        loop {
            // What this says of the attempt reaches nobody.
            if !wanted.run_lives() {
                return Submitted::Ended(end::never_accepted(attempt.execution_id));
            }
            if has_waited && !wanted.is_awaited().await {
                return self.fenced(attempt).await;
            }
            has_waited = true;
            let submitted = in_time(self.contract.submit(request.clone(), &attempt.origin));
            let Err(refused) = submitted.await else {
                return Submitted::Accepted;
            };
            match refused {
                // It is certain that nothing was accepted, and that there is no time any more.
                PortRefusal::NotNow { .. } if unix_ms() >= deadline => {
                    return Submitted::Ended(end::never_accepted(attempt.execution_id));
                }
                PortRefusal::NotNow { reason } | PortRefusal::NotKnown { reason } => {
                    pauses.wait(&reason).await
                }
                PortRefusal::Never { reason, message } => return Submitted::Ended(failed(&reason, &message)),
                PortRefusal::Removed => return Submitted::Ended(end::removed()),
                PortRefusal::OtherRequest => return Submitted::Other,
            }
        }
    }

    // RUN-4.13
    /// A fenced attempt is not submitted any more. It may have been before, and then its end is told.
    async fn fenced(&self, attempt: &Attempt) -> Submitted {
        let before = self.submitted_before(attempt).await;
        before.unwrap_or_else(|| Submitted::Ended(end::never_accepted(attempt.execution_id)))
    }

    /// What became of the attempt if it was submitted; `None` if it never was.
    async fn submitted_before(&self, attempt: &Attempt) -> Option<Submitted> {
        let mut pauses = Pauses::new(attempt.execution_id);
        loop {
            let refused = match in_time(self.contract.look_up(attempt.execution_id)).await {
                Ok(execution) => return is_own(attempt, &execution).then_some(Submitted::Accepted),
                Err(refused) => refused,
            };
            match refused {
                PortRefusal::NotNow { reason } | PortRefusal::NotKnown { reason } => {
                    pauses.wait(&reason).await
                }
                PortRefusal::Removed => return Some(Submitted::Ended(end::removed())),
                PortRefusal::Never { .. } | PortRefusal::OtherRequest => return None,
            }
        }
    }

    /// Waits for the end of the execution, in cycles.
    async fn end_of(&self, attempt: &Attempt, step_id: &str, wanted: &Wanted) -> ContractEnd {
        let mut pauses = Pauses::new(attempt.execution_id);
        loop {
            let waits = self.contract.wait_for_end(attempt.execution_id);
            let Ok(ended) = timeout(WAIT_CYCLE, waits).await else {
                pauses = Pauses::new(attempt.execution_id);
                wanted.runs.returned(Returned::UnderWay(attempt.execution_id));
                continue;
            };
            let reason = match ended {
                Ok(ended) => {
                    let assigned = self.was_assigned(attempt, &ended).await;
                    return end::contract_end(ended.result, step_id, assigned);
                }
                Err(refused) => match refused {
                    // RUN-5.1: it was accepted, and is not there any more.
                    PortRefusal::Removed => return end::removed(),
                    PortRefusal::Never { reason, .. } if reason == "EXECUTION_NOT_FOUND" => {
                        return end::removed();
                    }
                    PortRefusal::Never { reason, message } => {
                        let trace_id = attempt.origin.trace_id();
                        warn!(execution_id = %attempt.execution_id, trace_id, reason, message, "execution cannot be awaited");
                        reason
                    }
                    PortRefusal::NotNow { reason } | PortRefusal::NotKnown { reason } => reason,
                    PortRefusal::OtherRequest => "EXECUTION_ID_IN_USE".to_owned(),
                },
            };
            pauses.wait(&reason).await;
        }
    }

    /// Returns true unless a worker never had the attempt. After a `PLAN_TIMEOUT` only the record shows that.
    async fn was_assigned(&self, attempt: &Attempt, ended: &EndedExecution) -> bool {
        if let Some(assigned) = known_as_assigned(ended) {
            return assigned;
        }
        let mut pauses = Pauses::new(attempt.execution_id);
        loop {
            match in_time(self.contract.last_worker(attempt.execution_id)).await {
                Ok(worker) => return worker.is_some(),
                Err(PortRefusal::NotNow { reason } | PortRefusal::NotKnown { reason }) => {
                    pauses.wait(&reason).await;
                }
                // The worker may have done it.
                Err(PortRefusal::Never { .. } | PortRefusal::Removed | PortRefusal::OtherRequest) => {
                    return true;
                }
            }
        }
    }

    // RUN-4.14
    /// Returns the end of an attempt whose id another request has, since a restored store has lost the
    /// earlier submission. The result counts if it is the same work of the same author in the same namespace.
    /// Otherwise the outcome is unknown. The attempt does not wait for the plan of another user.
    async fn end_of_other(
        &self,
        attempt: &Attempt,
        step_id: &str,
        work: &[u8; 32],
        wanted: &Wanted,
    ) -> ContractEnd {
        let Ok(execution) = in_time(self.contract.look_up(attempt.execution_id)).await else {
            return end::unknown();
        };
        if !is_own(attempt, &execution) {
            return end::unknown();
        }
        let end = self.end_of(attempt, step_id, wanted).await;
        match in_time(self.contract.accepted(attempt.execution_id)).await {
            Ok(accepted) if end::work_of(&accepted) == *work => end,
            Ok(_) | Err(_) => end::unknown(),
        }
    }
}

/// Returns true if the execution has the attempt's namespace and the author of its run.
fn is_own(attempt: &Attempt, execution: &v1::Execution) -> bool {
    let origin = &attempt.origin;
    let is_there = execution.namespace == origin.namespace.as_str();
    is_there && origin.is_of(execution.accepted_by.as_ref())
}

/// Waits for an answer that the contract should have at once.
async fn in_time<T>(answer: impl Future<Output = Result<T, PortRefusal>>) -> Result<T, PortRefusal> {
    timeout(CONTRACT_PATIENCE, answer).await.unwrap_or_else(|_| {
        Err(PortRefusal::NotKnown {
            reason: "the contract does not answer".to_owned(),
        })
    })
}
