//! A valid request. Only `validate` makes one.

use crate::certificate::Certificate;
use crate::plan::Plan;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use escapement_model::{ExecutionId, Opaque};

/// A valid request to execute a plan: everything that an execution is decided by, except time and outcomes.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    pub(crate) plan: Plan,
    pub(crate) environment: Opaque,
    pub(crate) execution_id: Option<ExecutionId>,
    pub(crate) deadline_ms: Option<i64>,
    pub(crate) parent_execution_id: Option<ExecutionId>,
    pub(crate) user_id: Option<String>,
    pub(crate) request_id: Option<String>,
    pub(crate) correlation_context: BTreeMap<String, String>,
    pub(crate) max_concurrent_steps: u32,
    /// Computed if the request is validated: an environment may be large, and a start is to be quick.
    pub(crate) missing_context_keys: Box<[String]>,
    pub(crate) digest: [u8; 32],
    pub(crate) certificate: Certificate,
    pub(crate) provenance: Box<[u8]>,
}

impl Request {
    /// Returns the plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the bytes that the caller sent; empty if absent.
    pub fn environment(&self) -> &Opaque {
        &self.environment
    }

    /// Returns the caller's choice; `None`: the server makes one.
    pub fn execution_id(&self) -> Option<ExecutionId> {
        self.execution_id
    }

    /// Returns the caller's absolute limit in Unix milliseconds.
    pub fn deadline_ms(&self) -> Option<i64> {
        self.deadline_ms
    }

    /// Returns the execution whose step sent this request.
    pub fn parent_execution_id(&self) -> Option<ExecutionId> {
        self.parent_execution_id
    }

    /// Who asks.
    pub fn user_id(&self) -> Option<&str> {
        self.user_id.as_deref()
    }

    /// Returns the caller's own id for this request.
    pub fn request_id(&self) -> Option<&str> {
        self.request_id.as_deref()
    }

    /// Handed to the workers with every attempt.
    pub fn correlation_context(&self) -> &BTreeMap<String, String> {
        &self.correlation_context
    }

    /// Returns the number of steps that may hold a slot at a time, at least 1.
    pub fn max_concurrent_steps(&self) -> u32 {
        self.max_concurrent_steps
    }

    /// Returns the keys that the plan requires and the environment lacks, in the plan's order. An execution with any fails when it starts.
    pub fn missing_context_keys(&self) -> &[String] {
        &self.missing_context_keys
    }

    /// What can be said of the plan before it runs, with so many steps at a time.
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// Where the request came from, in bytes that the contract never looks into; empty if nothing is said of that.
    ///
    /// It decides nothing and is no part of the digest. The first entry of the record covers it, so that a change of it shows.
    pub fn provenance(&self) -> &[u8] {
        &self.provenance
    }

    /// The same request with other bytes for where it came from.
    #[must_use]
    pub fn with_provenance(mut self, provenance: Box<[u8]>) -> Self {
        self.provenance = provenance;
        self
    }

    /// Returns SHA-256 over everything but the execution id and the provenance: equal digests mean the same request.
    pub fn digest(&self) -> &[u8; 32] {
        &self.digest
    }
}
