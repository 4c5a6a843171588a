//! What others than the orchestrator of runs know of a run: the ledger of the worker, and the records of the contract.

use crate::plan_words::text;
use crate::world::{LIMIT, World};
use escapement_tests::chain::{Kind, frames};
use escapement_tests::{documents, wait_for};
use escapement_wire::v1::{ExportExecutionRequest, ListExecutionsRequest, SubmitPlanRequest};
use prost::Message;
use serde_json::Value;

impl World {
    /// The calls in the ledger, in order.
    pub(crate) fn calls(&self) -> Vec<Value> {
        let mut lines = self.shared.ledger();
        lines.retain(|line| line["event"] == "begin");
        lines
    }

    /// The calls of a run, in order.
    pub(crate) fn calls_of(&self, run_id: &str) -> Vec<Value> {
        let mut calls = self.calls();
        calls.retain(|line| line["run_id"] == run_id);
        calls
    }

    /// The keys of the steps that were called for a run, in order.
    pub(crate) fn called(&self, run_id: &str) -> Vec<String> {
        self.calls_of(run_id)
            .iter()
            .map(|line| text(&line["step"]))
            .collect()
    }

    /// The lines of a run, begins and ends, in order.
    pub(crate) fn ledger_of(&self, run_id: &str) -> Vec<Value> {
        let mut lines = self.shared.ledger();
        lines.retain(|line| line["run_id"] == run_id);
        lines
    }

    /// Waits until a run made at least so many calls.
    pub(crate) async fn until_calls(&self, run_id: &str, calls: usize) {
        let asked = async || (self.calls_of(run_id).len() >= calls).then_some(());
        wait_for(&format!("{calls} calls"), LIMIT, asked).await.unwrap();
    }

    /// Waits until the orchestrator knows so many ends of attempts of a run.
    pub(crate) async fn until_ends(&self, run_id: &str, ends: usize) {
        let asked = async || {
            let names = self.event_names(run_id).await;
            (names.iter().filter(|name| *name == "tool_output").count() >= ends).then_some(())
        };
        wait_for(&format!("{ends} ends"), LIMIT, asked).await.unwrap();
    }

    /// Waits until a step of a run was called so often.
    pub(crate) async fn called_times(&self, run_id: &str, key: &str, times: usize) {
        let asked = async || {
            let count = self.called(run_id).iter().filter(|step| *step == key).count();
            (count == times).then_some(())
        };
        wait_for(&format!("{times} calls of {key}"), LIMIT, asked)
            .await
            .unwrap();
    }

    /// What the run handed to the contract, oldest first, as each execution's own record has it.
    pub(crate) async fn executions_of(&self, run_id: &str) -> Vec<Value> {
        let mut plans = self.orchestrator.plans();
        let request = ListExecutionsRequest {
            tag: Some(format!("run:{run_id}")),
            page_size: Some(1000),
            ..ListExecutionsRequest::default()
        };
        let executions = plans
            .list_executions(request)
            .await
            .unwrap()
            .into_inner()
            .executions;
        let mut submitted = Vec::new();
        for execution in executions.iter().rev() {
            let execution_id = execution.execution_id.clone();
            let request = ExportExecutionRequest { execution_id };
            let mut pieces = plans.export_execution(request).await.unwrap().into_inner();
            let mut file = Vec::new();
            while let Some(piece) = pieces.message().await.unwrap() {
                file.extend(piece.data);
            }
            let (frames, _) = frames(&file);
            let accepted = frames.iter().find(|frame| frame.kind == Kind::Accepted).unwrap();
            let accepted = SubmitPlanRequest::decode(accepted.content).unwrap();
            submitted.push(documents::to_json("escapement.v1.SubmitPlanRequest", &accepted));
        }
        submitted
    }
}
