//! Does what leaves runs, and hands back what came of it. Decides nothing about a run.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use escapement_model::RunId;
use escapement_run::Input;
use escapement_run::plan::Plan;
use escapement_run::spec::ActionProfile;
use escapement_store::runs::RunReader;
use tokio::runtime::Handle;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tonic::client::GrpcService;
use tonic::codegen::{Body, StdError};

use crate::catalogue::profiles_of;
use crate::children::WantedPlan;
use crate::error::CallError;
use crate::handle::RunsHandle;
use crate::limits::CHILD_PAUSE;
use crate::message::{Outgoing, Returned};
use crate::port::{Attempt, Contract};
use crate::saved::find_plan;
use crate::seen::SeenActions;

/// Limits of what is done at a time.
#[derive(Clone, Copy, Debug)]
pub struct EffectsConfig {
    /// Executions that are submitted and have not ended, nested ones not counted; more wait in order.
    pub max_executions: usize,
}

/// Does what leaves runs, through the contract behind that service, on those threads. Ends with the thread of runs; what is in
/// flight then is left to the next start.
pub fn perform<T>(
    service: T,
    runs: &RunsHandle,
    config: EffectsConfig,
    outgoing: UnboundedReceiver<Outgoing>,
    threads: &Handle,
) where
    T: GrpcService<tonic::body::Body> + Clone + Send + 'static,
    T::Error: Into<StdError>,
    T::Future: Send,
    T::ResponseBody: Body<Data = Bytes> + Send + 'static,
    <T::ResponseBody as Body>::Error: Into<StdError> + Send,
{
    let contract = Contract::new(service, runs.seen().clone());
    let effects = Effects {
        contract: contract.clone(),
        runs: runs.clone(),
        room: Arc::new(Semaphore::new(config.max_executions)),
        waiting: VecDeque::new(),
        under_way: JoinSet::new(),
    };
    threads.spawn(async move {
        tokio::select! {
            () = effects.run(outgoing) => {}
            () = contract.watch_actions() => {}
        }
    });
}

#[derive(Debug)]
struct Effects<T> {
    contract: Contract<T>,
    runs: RunsHandle,
    /// Room for executions.
    room: Arc<Semaphore>,
    waiting: VecDeque<(RunId, Attempt)>,
    under_way: JoinSet<()>,
}

impl<T> Effects<T>
where
    T: GrpcService<tonic::body::Body> + Clone + Send + 'static,
    T::Error: Into<StdError>,
    T::Future: Send,
    T::ResponseBody: Body<Data = Bytes> + Send + 'static,
    <T::ResponseBody as Body>::Error: Into<StdError> + Send,
{
    async fn run(mut self, mut outgoing: UnboundedReceiver<Outgoing>) {
        loop {
            tokio::select! {
                // What ended makes room for what waits.
                biased;
                // A task that panicked is a defect; its run ends by its limits.
                Some(_done) = self.under_way.join_next() => self.submit_waiting(),
                outgoing = outgoing.recv() => match outgoing {
                    Some(outgoing) => self.start(outgoing),
                    None => return,
                },
            }
        }
    }

    fn start(&mut self, outgoing: Outgoing) {
        let runs = self.runs.clone();
        match outgoing {
            Outgoing::Submit {
                run_id,
                execution_id,
                request,
                attempt_ms,
                seen,
                is_nested,
            } => {
                let attempt = Attempt {
                    execution_id,
                    request,
                    attempt_ms,
                    seen,
                };
                if is_nested {
                    self.submit(run_id, attempt, None);
                } else {
                    self.waiting.push_back((run_id, attempt));
                    self.submit_waiting();
                }
            }
            Outgoing::Evaluate {
                run_id,
                evaluation,
                expression,
                bindings,
            } => {
                self.under_way.spawn_blocking(move || {
                    let result = escapement_expressions::evaluate(&expression, &bindings);
                    runs.returned(Returned::Input(run_id, Input::Evaluated { evaluation, result }));
                });
            }
            Outgoing::FindPlan { wanted, child } => {
                let seen = runs.seen().clone();
                self.under_way.spawn(async move {
                    let found = loop {
                        let (wanted, seen) = (wanted.clone(), seen.clone());
                        let find = move |reader: &dyn RunReader| Ok(found(reader, &wanted, &seen));
                        match runs.readers().read(find).await {
                            Ok(found) => break found,
                            // That others read says nothing about the plan.
                            Err(CallError::Overloaded) if runs.is_live(child.parent) => {
                                sleep(CHILD_PAUSE).await
                            }
                            Err(error) => break Err(error.to_string()),
                        }
                    };
                    runs.returned(Returned::Plan(child, found));
                });
            }
            Outgoing::Later(returned) => {
                self.under_way.spawn(async move {
                    sleep(CHILD_PAUSE).await;
                    runs.returned(returned);
                });
            }
        }
    }

    fn submit_waiting(&mut self) {
        while !self.waiting.is_empty()
            && let Ok(room) = Arc::clone(&self.room).try_acquire_owned()
            && let Some((run_id, attempt)) = self.waiting.pop_front()
        {
            self.submit(run_id, attempt, Some(room));
        }
    }

    fn submit(&mut self, run_id: RunId, attempt: Attempt, room: Option<OwnedSemaphorePermit>) {
        let (contract, runs) = (self.contract.clone(), self.runs.clone());
        self.under_way.spawn(async move {
            let _room = room;
            let execution_id = attempt.execution_id;
            let outcome = contract.carry_out(attempt, || runs.is_live(run_id)).await;
            let input = Input::Settled {
                execution_id,
                outcome,
            };
            runs.returned(Returned::Input(run_id, input));
        });
    }
}

/// The plan of a child run with what is known of its actions, or why there is none.
fn found(
    reader: &dyn RunReader,
    wanted: &WantedPlan,
    seen: &SeenActions,
) -> Result<(Arc<Plan>, Vec<ActionProfile>), String> {
    let plan = find_plan(reader, wanted)?;
    let profiles = profiles_of(reader, &plan, &wanted.llm_action, seen);
    Ok((
        plan,
        profiles.map_err(|fault| format!("the profiles of actions cannot be read: {fault}"))?,
    ))
}
