//! Names of the headers that the orchestrator adds to each attempt that it hands to a worker. Reads none.

/// The key by which a handler, and what it calls, knows a repetition: equal for every attempt to have one effect.
pub const IDEMPOTENCY_KEY: &str = "escapement-idempotency-key";
/// The number of the attempt: of the run where the attempt is of one, else of the execution's step; 1 for the first.
pub const ATTEMPT: &str = "escapement-attempt";
