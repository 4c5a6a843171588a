//! The way in: takes records that are durable, if they are sampled. Never waits.

use crate::flags::TraceFlags;
use crate::run_traces::RunTraces;
use crate::spans::spans;
use escapement_codec::trace::{Sampling, Trace};
use escapement_contract::{AuditKind, Request, Settlement};
use escapement_engine::StoreWrite;
use escapement_otlp::{CannotStart, Export, Flush};
use escapement_runs_shell::TraceRuns;
use escapement_store::runs::RunReader;
use std::sync::Arc;

/// Where settled executions are handed in to be exported. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Traces {
    sampling: Sampling,
    export: Export,
}

impl Traces {
    /// Starts the thread that exports. `None` if no traces are exported: then nothing is done for them.
    ///
    /// # Errors
    /// [`CannotStart`].
    pub fn start(flags: &TraceFlags, version: &'static str) -> Result<Option<(Self, Flush)>, CannotStart> {
        let exported = flags.otlp.export(SERVICE_NAME, version)?;
        let started = flags.sampling().zip(exported);
        Ok(started.map(|(sampling, (export, flush))| (Self { sampling, export }, flush)))
    }

    /// Takes a write that is durable, if it settles an execution that is traced.
    pub fn written(&self, content: &StoreWrite) {
        if let StoreWrite::Settle { settlement, request } = content {
            let trace = Trace::of(settlement.result.execution_id, request, self.sampling);
            if trace.is_sampled {
                let (settlement, request) = (Arc::clone(settlement), Arc::clone(request));
                self.export.hand_in(bytes_of(&settlement, &request), move || {
                    Ok(spans(&settlement, &request, &trace))
                });
            }
        }
    }

    /// Where runs are handed in whose journals that reader reads.
    pub fn of_runs(&self, reader: Box<dyn RunReader>) -> Arc<dyn TraceRuns> {
        Arc::new(RunTraces::new(self.sampling, self.export.clone(), reader))
    }

    /// Which are traced.
    pub fn sampling(&self) -> Sampling {
        self.sampling
    }

    /// What exports them.
    pub fn export(&self) -> Export {
        self.export.clone()
    }
}

/// About what an execution keeps in memory.
fn bytes_of(settlement: &Settlement, request: &Request) -> usize {
    let errors = settlement.audit.iter().map(|entry| match &entry.kind {
        AuditKind::AttemptFailed { error, .. } | AuditKind::StepNotCompleted { error, .. } => {
            error.context.len()
        }
        _ => 0,
    });
    let steps = request.plan().steps();
    let payloads = steps.iter().map(|step| step.payload().len() + STEP_BYTES);
    request.environment().len()
        + payloads.sum::<usize>()
        + settlement.result.result_payload.len()
        + settlement.inputs.bytes()
        + settlement.audit.len() * ENTRY_BYTES
        + errors.sum::<usize>()
}

/// `service.name` unless the operator says another one.
pub const SERVICE_NAME: &str = "escapement-orchestrator";
/// About the bytes of a step beside its payload, and those of its output's frame.
const STEP_BYTES: usize = 512;
/// About the bytes of an entry of a record.
const ENTRY_BYTES: usize = 256;
