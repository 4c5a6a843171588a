//! Records made by hand. Only kinds and times count; the chain is not made.

use escapement_codec::request::request_draft;
use escapement_contract::{
    AuditEntry, AuditKind, ExecutionError, InputLog, Moment, NotCompleted, PlanResult, Request, Settlement,
    Status, validate_request,
};
use escapement_model::{ExecutionId, Opaque, Severity, StepId};
use escapement_wire::v1;
use std::sync::Arc;

/// Unix milliseconds; all other times are told from here.
pub(super) const ACCEPTED: i64 = 1_700_000_000_000;

pub(super) fn execution_id() -> ExecutionId {
    "6f1d3c52-8a4e-4b7f-9c21-5e0d7a9b4c10".parse().unwrap()
}

pub(super) fn step_id(number: usize) -> StepId {
    format!("00000000-0000-4000-8000-{number:012}").parse().unwrap()
}

pub(super) fn error(code: &str, severity: Severity) -> Arc<ExecutionError> {
    Arc::new(ExecutionError {
        code: code.to_owned(),
        message: "never told".to_owned(),
        step_id: None,
        severity,
        cause: None,
        context: Opaque::default(),
    })
}

pub(super) struct Record {
    n_steps: usize,
    audit: Vec<AuditEntry>,
    result: Option<PlanResult>,
}

impl Record {
    pub(super) fn new(n_steps: usize) -> Self {
        let mut record = Self {
            n_steps,
            audit: Vec::new(),
            result: None,
        };
        record.at(
            0,
            AuditKind::Accepted {
                deadline_ms: ACCEPTED + 60_000,
                provenance_digest: None,
            },
        );
        record
    }

    pub(super) fn at(&mut self, ms: i64, kind: AuditKind) -> &mut Self {
        self.audit.push(AuditEntry {
            sequence: self.audit.len() as u64 + 1,
            at_unix_ms: ACCEPTED + ms,
            kind,
            hash: [0; 32],
        });
        self
    }

    pub(super) fn waiting(&mut self, ms: i64, step: usize, attempt: u32) -> &mut Self {
        let step_id = step_id(step);
        self.at(ms, AuditKind::StepWaiting { step_id, attempt })
    }

    pub(super) fn assigned(&mut self, ms: i64, step: usize, attempt: u32, worker: &str) -> &mut Self {
        let (step_id, worker) = (step_id(step), worker.into());
        let assigned = AuditKind::AttemptAssigned {
            step_id,
            attempt,
            worker,
        };
        self.at(ms, assigned)
    }

    pub(super) fn started(&mut self, ms: i64, step: usize, attempt: u32) -> &mut Self {
        let step_id = step_id(step);
        self.at(ms, AuditKind::AttemptStarted { step_id, attempt })
    }

    pub(super) fn failed(
        &mut self,
        ms: i64,
        step: usize,
        attempt: u32,
        error: &Arc<ExecutionError>,
    ) -> &mut Self {
        let (step_id, error) = (step_id(step), Arc::clone(error));
        let failed = AuditKind::AttemptFailed {
            step_id,
            attempt,
            error,
        };
        self.at(ms, failed)
    }

    pub(super) fn completed(&mut self, ms: i64, step: usize, attempts: u32) -> &mut Self {
        let completed = AuditKind::StepCompleted {
            step_id: step_id(step),
            attempts,
            warnings: Vec::new(),
        };
        self.at(ms, completed)
    }

    pub(super) fn not_completed(
        &mut self,
        ms: i64,
        step: usize,
        attempts: u32,
        reason: NotCompleted,
        error: &Arc<ExecutionError>,
    ) -> &mut Self {
        let not_completed = AuditKind::StepNotCompleted {
            step_id: step_id(step),
            attempts,
            reason,
            error: Arc::clone(error),
        };
        self.at(ms, not_completed)
    }

    pub(super) fn settled(
        &mut self,
        ms: i64,
        status: Status,
        error: Option<&Arc<ExecutionError>>,
    ) -> &mut Self {
        self.at(ms, AuditKind::Settled { status });
        self.result = Some(PlanResult {
            plan_id: "00000000-0000-4000-8000-0000000000ff".parse().unwrap(),
            execution_id: execution_id(),
            status,
            completed_at: ACCEPTED + ms,
            duration_ms: ms,
            steps_executed: 0,
            steps_total: u32::try_from(self.n_steps).unwrap(),
            result_payload: Opaque::default(),
            error: error.map(|error| error.as_ref().clone()),
        });
        self
    }

    pub(super) fn settlement(&self) -> (Settlement, Request) {
        let origin = Moment {
            monotonic_ms: 0,
            unix_ms: ACCEPTED,
        };
        let settlement = Settlement {
            result: self.result.clone().unwrap(),
            started_at_unix_ms: ACCEPTED,
            audit: self.audit.clone(),
            inputs: InputLog::from_parts(origin, None, Vec::new(), true, [0; 32]),
            provenance: Box::default(),
        };
        let step = |number| v1::PlanStep {
            id: step_id(number).to_string(),
            action: "act".to_owned(),
            payload: Some(Opaque::default()),
            ..v1::PlanStep::default()
        };
        let wire = v1::SubmitPlanRequest {
            plan: Some(v1::Plan {
                id: "00000000-0000-4000-8000-0000000000ff".to_owned(),
                version: 1,
                created_at: 1,
                steps: (0..self.n_steps).map(step).collect(),
                name: "a plan".to_owned(),
                context_requirements: vec!["key".to_owned()],
                ..v1::Plan::default()
            }),
            ..v1::SubmitPlanRequest::default()
        };
        let request = validate_request(request_draft(wire), 16).unwrap();
        (settlement, request)
    }
}
