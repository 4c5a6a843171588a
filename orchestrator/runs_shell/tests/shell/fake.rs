//! A contract with answers of the test. Executes nothing.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use escapement_model::ExecutionId;
use escapement_runs_shell::{ContractPort, EndedExecution, Origin, PortRefusal};
use escapement_wire::v1;
use tokio::sync::{mpsc, oneshot};

/// The action of a submission, and the sender of its refusal.
pub(crate) type Submission = (String, oneshot::Sender<PortRefusal>);

/// A contract that accepts nothing.
#[derive(Clone, Debug)]
pub(crate) struct FakeContract {
    executions: Arc<Mutex<BTreeMap<String, v1::Execution>>>,
    actions: Arc<Mutex<Option<Vec<v1::Action>>>>,
    n_asked: Arc<AtomicUsize>,
    submissions: mpsc::UnboundedSender<Submission>,
}

#[allow(dead_code, reason = "no suite needs all of it")]
impl FakeContract {
    /// Creates a contract without executions and actions, and the receiver of its submissions.
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<Submission>) {
        let (submissions, submitted) = mpsc::unbounded_channel();
        let contract = Self {
            executions: Arc::default(),
            actions: Arc::default(),
            n_asked: Arc::default(),
            submissions,
        };
        (contract, submitted)
    }

    /// Creates a contract with these actions that refuses all submissions.
    pub(crate) fn offering(actions: Vec<v1::Action>) -> Self {
        let (contract, _refused) = Self::new();
        contract.offer(actions);
        contract
    }

    /// Replaces its actions.
    pub(crate) fn offer(&self, actions: Vec<v1::Action>) {
        *self.actions.lock().unwrap() = Some(actions);
    }

    /// Returns the number of questions about its actions.
    pub(crate) fn n_asked(&self) -> usize {
        self.n_asked.load(Ordering::SeqCst)
    }

    /// Adds an execution.
    pub(crate) fn know(&self, execution: v1::Execution) {
        let mut executions = self.executions.lock().unwrap();
        executions.insert(execution.execution_id.clone(), execution);
    }
}

/// Returns a final refusal.
pub(crate) fn never() -> PortRefusal {
    PortRefusal::Never {
        reason: "INVALID_ARGUMENT".to_owned(),
        message: "no".to_owned(),
    }
}

impl ContractPort for FakeContract {
    async fn submit(&self, request: v1::SubmitPlanRequest, _: &Origin) -> Result<(), PortRefusal> {
        let action = request.plan.unwrap().steps.remove(0).action;
        let (answer, answered) = oneshot::channel();
        let _nobody = self.submissions.send((action, answer));
        Err(answered.await.unwrap_or_else(|_| never()))
    }

    async fn wait_for_end(&self, _: ExecutionId) -> Result<EndedExecution, PortRefusal> {
        Err(never())
    }

    async fn look_up(&self, execution_id: ExecutionId) -> Result<v1::Execution, PortRefusal> {
        let executions = self.executions.lock().unwrap();
        executions
            .get(&execution_id.to_string())
            .cloned()
            .ok_or_else(never)
    }

    async fn accepted(&self, _: ExecutionId) -> Result<v1::SubmitPlanRequest, PortRefusal> {
        Err(never())
    }

    async fn last_worker(&self, _: ExecutionId) -> Result<Option<String>, PortRefusal> {
        Err(never())
    }

    async fn explain(&self, _: ExecutionId) -> Result<v1::ExplainExecutionResponse, PortRefusal> {
        Err(never())
    }

    async fn actions(&self) -> Result<Vec<v1::Action>, PortRefusal> {
        self.n_asked.fetch_add(1, Ordering::SeqCst);
        self.actions.lock().unwrap().clone().ok_or_else(never)
    }
}
