//! Everything that callers and workers see goes through here to the history checker. Judges nothing itself.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use escapement_model::{AttemptToken, ExecutionId, PlanId, StepId};
use escapement_tests::history::{
    Answer, Ask, CallId, Checker, End, Life, Mark, State, Surface, hash_of_bytes, hash_of_result,
};
use escapement_wire::v1::ExecutePlanRequest;
use escapement_wire::v1::{
    Execution, GetExecutionRequest, ListAuditEntriesRequest, SubmitPlanRequest, WaitExecutionRequest,
    WatchExecutionRequest,
};
use escapement_wire::worker::v1::Assignment;
use prost::Message;
use tonic::Status;

use crate::caller::{Caller, No};
use crate::world::LIMIT;

/// A request that somebody sent.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) request: SubmitPlanRequest,
    pub(crate) id: ExecutionId,
}

/// The checker and what else was counted, shared by all who see something.
#[derive(Debug, Default)]
pub(crate) struct Witness {
    checker: Mutex<Checker>,
    known: Mutex<Vec<Known>>,
    /// Rises with every process life.
    life: AtomicU64,
    pub(crate) n_answered: AtomicU64,
    pub(crate) n_accepted: AtomicU64,
    pub(crate) n_results: AtomicU64,
    /// Attempts that workers inside this process run now.
    pub(crate) n_running: AtomicU64,
}

/// A moment in one life.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Since {
    mark: Mark,
    life: u64,
}

impl Witness {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    pub(crate) fn checker(&self) -> MutexGuard<'_, Checker> {
        self.checker.lock().expect("the checker does not panic")
    }

    /// Takes the checker out at the end.
    pub(crate) fn take_checker(&self) -> Checker {
        std::mem::take(&mut *self.checker())
    }

    pub(crate) fn life(&self, life: Life) {
        let mut checker = self.checker();
        if life == Life::Began {
            self.life.fetch_add(1, Ordering::Relaxed);
        }
        checker.life(life);
    }

    pub(crate) fn since(&self) -> Since {
        let checker = self.checker();
        Since {
            mark: checker.mark(),
            life: self.life.load(Ordering::Relaxed),
        }
    }

    /// Returns true if it is still the same process life.
    pub(crate) fn is_now(&self, since: Since) -> bool {
        self.life.load(Ordering::Relaxed) == since.life
    }

    pub(crate) fn add_known(&self, request: SubmitPlanRequest) -> Known {
        let id = id_in(request.execution_id.as_deref().unwrap_or_default());
        let known = Known { request, id };
        self.all_known().push(known.clone());
        known
    }

    pub(crate) fn all_known(&self) -> MutexGuard<'_, Vec<Known>> {
        self.known.lock().expect("nobody panics while holding it")
    }

    pub(crate) fn arrived(&self, assignment: &Assignment, since: Since) {
        let (execution, step) = (id_in(&assignment.execution_id), step_in(&assignment.step_id));
        let token = token_in(&assignment.attempt_token);
        self.checker()
            .arrived(execution, step, assignment.attempt, token, since.mark);
    }

    pub(crate) fn outcome_accepted(&self, assignment: &Assignment) {
        self.checker()
            .outcome_accepted(token_in(&assignment.attempt_token));
    }

    pub(crate) fn event(&self, execution: &str, result: &escapement_wire::v1::PlanResult) {
        self.checker().event(id_in(execution), hash_of_result(result));
    }

    /// Makes one call: the question is noted before it leaves, the answer after it came. True if there was one.
    async fn call(&self, ask: Ask, answer: impl Future<Output = Result<Answer, No>>) -> bool {
        let is_submission = matches!(ask, Ask::Submit { .. });
        let id = self.checker().ask(ask);
        let answer = tokio::time::timeout(2 * LIMIT, answer).await;
        let answer = match answer {
            Ok(Ok(answer)) => answer,
            Ok(Err(No::Refused(_, reason))) => Answer::Refused(reason),
            Ok(Err(No::Gone)) | Err(_) => {
                self.checker().lost(id);
                return false;
            }
        };
        self.n_answered.fetch_add(1, Ordering::Relaxed);
        if let Answer::State(state) = &answer {
            self.n_accepted
                .fetch_add(u64::from(is_submission), Ordering::Relaxed);
            let is_settled = matches!(state, State::Settled { .. });
            self.n_results.fetch_add(u64::from(is_settled), Ordering::Relaxed);
        }
        self.checker().answer(id, answer);
        true
    }

    pub(crate) async fn submit(&self, caller: &Caller, known: &Known, waits: bool) -> bool {
        let ask = asked(known, waits);
        let request = &known.request;
        self.call(ask, async {
            if !waits {
                return state(&caller.submit(request).await?);
            }
            let request = ExecutePlanRequest::decode(request.encode_to_vec().as_slice())
                .expect("the two requests have the same fields");
            let answer = caller.plans().execute_plan(request).await?.into_inner();
            let result = hash_of_result(&answer.result.ok_or(No::Gone)?);
            Ok(Answer::State(State::Settled { result }))
        })
        .await
    }

    pub(crate) async fn get(&self, caller: &Caller, execution: ExecutionId) -> bool {
        let execution_id = execution.to_string();
        self.call(look(execution, Surface::Get), async {
            let answer = caller
                .plans()
                .get_execution(GetExecutionRequest { execution_id })
                .await?;
            state(&answer.into_inner().execution.ok_or(No::Gone)?)
        })
        .await
    }

    pub(crate) async fn wait(&self, caller: &Caller, execution: ExecutionId, timeout_ms: i64) -> bool {
        let request = WaitExecutionRequest {
            execution_id: execution.to_string(),
            timeout_ms: Some(timeout_ms),
        };
        self.call(look(execution, Surface::Wait), async {
            let answer = caller.plans().wait_execution(request).await?;
            state(&answer.into_inner().execution.ok_or(No::Gone)?)
        })
        .await
    }

    pub(crate) async fn audit(&self, caller: &Caller, execution: ExecutionId) -> bool {
        let request = ListAuditEntriesRequest {
            execution_id: execution.to_string(),
            from_sequence: 1,
            page_size: None,
        };
        self.call(look(execution, Surface::Audit), async {
            let page = caller.plans().list_audit_entries(request).await?.into_inner();
            let end = if page.next_sequence == 0 {
                End::Now
            } else {
                End::Open
            };
            Ok(Answer::entries(1, &page.entries, end))
        })
        .await
    }

    pub(crate) async fn list(&self, caller: &Caller) -> bool {
        self.call(Ask::List, async {
            let listed = caller.list().await?;
            let mut executions = Vec::new();
            for (id, execution) in &listed {
                executions.push((id_in(id), State::of(execution).ok_or(No::Gone)?));
            }
            Ok(Answer::Listed {
                executions,
                is_complete: true,
            })
        })
        .await
    }

    /// Watches from an entry on until the end, or until the stream breaks. True if it ended in order.
    pub(crate) async fn watch(&self, caller: &Caller, execution: ExecutionId, from: i64) -> bool {
        let request = WatchExecutionRequest {
            execution_id: execution.to_string(),
            from_sequence: from,
            ..WatchExecutionRequest::default()
        };
        let call = self.checker().ask(look(execution, Surface::Watch));
        match self.read_watch(caller, request, call, from).await {
            Ok(answer) => {
                self.checker().answer(call, answer);
                true
            }
            Err(No::Refused(_, reason)) => {
                self.checker().answer(call, Answer::Refused(reason));
                true
            }
            Err(No::Gone) => {
                self.checker().lost(call);
                false
            }
        }
    }

    async fn read_watch(
        &self,
        caller: &Caller,
        request: WatchExecutionRequest,
        call: CallId,
        from: i64,
    ) -> Result<Answer, No> {
        let mut stream = caller.plans().watch_execution(request).await?.into_inner();
        loop {
            let next = tokio::time::timeout(2 * LIMIT, stream.message()).await;
            let next = next
                .map_err(|_| No::Gone)?
                .map_err(|status: Status| No::from(status))?;
            let Some(next) = next else {
                return Ok(Answer::entries(from, &[], End::Now));
            };
            let entries: Vec<_> = next.entry.into_iter().collect();
            if let Some(result) = &next.result {
                return Ok(Answer::entries(
                    from,
                    &entries,
                    End::Result(hash_of_result(result)),
                ));
            }
            self.checker()
                .piece(call, Answer::entries(from, &entries, End::Open));
        }
    }
}

fn asked(known: &Known, waits: bool) -> Ask {
    let plan = known.request.plan.as_ref().expect("every request has a plan");
    let without_id = SubmitPlanRequest {
        execution_id: None,
        ..known.request.clone()
    };
    let first = plan.steps.iter().filter(|step| step.depends_on.is_empty());
    let first: Vec<&str> = first.map(|step| step.action.as_str()).collect();
    Ask::Submit {
        execution: known.id,
        plan: plan_in(&plan.id),
        digest: hash_of_bytes(&without_id.encode_to_vec()),
        priority: plan.priority.unwrap_or(0),
        queue: hash_of_bytes(first.join(" ").as_bytes()),
        waits,
    }
}

fn look(execution: ExecutionId, surface: Surface) -> Ask {
    Ask::Look { execution, surface }
}

fn state(execution: &Execution) -> Result<Answer, No> {
    let state = State::of(execution);
    Ok(Answer::State(
        state.expect("an execution has one of the three states"),
    ))
}

fn id_in(text: &str) -> ExecutionId {
    text.parse().expect("an execution id is one")
}

fn plan_in(text: &str) -> PlanId {
    text.parse().expect("a plan id is one")
}

fn step_in(text: &str) -> StepId {
    text.parse().expect("a step id is one")
}

fn token_in(bytes: &[u8]) -> AttemptToken {
    AttemptToken::from_slice(bytes).expect("a token has 16 bytes")
}
