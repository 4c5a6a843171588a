//! Executions of the contract core on clocks of their own. Judges nothing.

use escapement_codec::archive::Archive;
use escapement_codec::provenance::Provenance;
use escapement_codec::stored;
use escapement_contract::{
    Effect, Execution, Input, Moment, Outcome, PlanDraft, Request, RequestDraft, Settlement, StepDraft,
    default_deadline, validate_request,
};
use escapement_model::opaque::StructBuilder;
use escapement_model::{ExecutionId, Opaque, PlanId, StepId};
use std::sync::Arc;

pub(crate) fn execution_id() -> ExecutionId {
    ExecutionId::from_random([9; 16])
}

pub(crate) fn step_id(n: u8) -> String {
    StepId::from_random([n; 16]).to_string()
}

/// One step that halts the plan, within 400 ms.
pub(crate) fn draft() -> RequestDraft {
    let plan = PlanDraft {
        id: PlanId::from_random([7; 16]).to_string(),
        version: 1,
        created_at: 1,
        steps: vec![StepDraft {
            id: step_id(0),
            action: "act".into(),
            payload: Some(Opaque::default()),
            ..StepDraft::default()
        }],
        name: "stored".into(),
        context_requirements: vec!["region".into()],
        timeout_ms: Some(400),
        ..PlanDraft::default()
    };
    RequestDraft {
        plan: Some(plan),
        environment: Some(StructBuilder::new().text("region", "north").build()),
        execution_id: Some(execution_id().to_string()),
        ..RequestDraft::default()
    }
}

/// An execution on clocks of its own.
pub(crate) struct Story {
    pub(crate) request: Arc<Request>,
    pub(crate) execution: Execution,
    now: Moment,
    pub(crate) settlement: Option<Arc<Settlement>>,
}

impl Story {
    pub(crate) fn new(request: RequestDraft, now: Moment) -> Self {
        Self::begin(validate_request(request, 1_000).unwrap(), now)
    }

    fn begin(request: Request, now: Moment) -> Self {
        let request = Arc::new(request);
        let deadline = default_deadline(now.unix_ms, request.plan(), 200);
        // As behind a restart: the deadline was counted from another instant.
        let accepted_at = now.unix_ms - 3;
        let execution = Execution::accept(Arc::clone(&request), execution_id(), accepted_at, deadline, now);
        Self {
            request,
            execution,
            now,
            settlement: None,
        }
    }

    pub(crate) fn feed(&mut self, input: Input) {
        self.execution.handle(self.now, input).unwrap();
        while let Some(effect) = self.execution.poll_effect() {
            if let Effect::PersistResult(settlement) = effect {
                self.settlement = Some(settlement);
            }
        }
    }

    pub(crate) fn pass(&mut self, ms: u64) {
        self.now.monotonic_ms += ms;
        self.now.unix_ms += ms as i64;
    }

    pub(crate) fn record(&self) -> Archive {
        stored(&self.request, self.settlement.as_ref().unwrap())
    }
}

/// Returns a step that completed.
pub(crate) fn finished() -> Story {
    finished_from(&Provenance::default())
}

/// The same, for a request that came from there.
pub(crate) fn finished_from(provenance: &Provenance) -> Story {
    let now = Moment {
        monotonic_ms: 5,
        unix_ms: 1_000,
    };
    let request = validate_request(draft(), 1_000).unwrap();
    let mut story = Story::begin(request.with_provenance(provenance.encode()), now);
    let step = story.request.plan().canonical_order()[0];
    story.feed(Input::Start);
    story.feed(Input::StartPersisted);
    story.feed(Input::Assigned {
        step,
        attempt: 1,
        worker: "worker".into(),
    });
    let outcome = Outcome::Completed {
        output: StructBuilder::new().text("large", &"o".repeat(100_000)).build(),
        warnings: Vec::new(),
    };
    story.feed(Input::AttemptEnded {
        step,
        attempt: 1,
        outcome,
    });
    story
}

pub(crate) fn stored(request: &Request, settlement: &Settlement) -> Archive {
    let (result, audit) = stored::encode_settlement(settlement);
    let accepted = stored::encode_accepted(request, execution_id());
    Archive::of_store(execution_id(), *request.digest(), accepted, result, &audit).unwrap()
}
