//! Vocabulary of both processes: ids, limits, error codes, and free-form objects that are not decoded.
//! Does not do I/O, read a clock or generate random numbers: it is `no_std`, and the compiler checks it.
#![no_std]
#![warn(clippy::too_many_lines)]

extern crate alloc;

#[cfg(feature = "digest")]
pub mod attempt_seal;
#[cfg(feature = "bearer")]
pub mod bearer;
#[cfg(feature = "digest")]
pub mod chain;
pub mod codes;
#[cfg(feature = "digest")]
pub mod encoder;
pub mod headers;
pub mod hex;
pub mod ids;
pub mod ledger;
pub mod limits;
pub mod namespace;
pub mod numbers;
pub mod opaque;
pub mod planted;
pub mod spelling;
pub mod traceparent;

#[cfg(feature = "digest")]
pub use attempt_seal::AttemptSeal;
pub use codes::Severity;
pub use ids::{
    ArtifactId, AttemptToken, BootId, ExecutionId, InputRequestId, InstanceId, InvalidId, PlanId, RunId,
    SessionId, StepId,
};
pub use namespace::Namespace;
pub use opaque::{Opaque, OpaqueValue};
pub use traceparent::Traceparent;
