//! Every limit of what is in memory and of what one batch holds. Enforces none of them.

/// Runs that rest in memory; more are parked.
pub(crate) const RESTING_MAX: usize = 1_024;
/// Bytes of their states, about.
pub(crate) const RESTING_BYTES_MAX: usize = 64 << 20;
/// Bytes after which nothing more is taken into a batch.
pub(crate) const BATCH_BYTES: usize = 32 << 20;
/// Runs that continue without an input within one batch.
pub(crate) const OWN_MAX: usize = 512;
/// Bytes of definitions after which nothing more is taken into a batch.
pub(crate) const DEFINITION_BYTES: usize = 1 << 20;
/// Bytes as which a content counts that a definition refers to, since the store reads a row for each.
pub(crate) const PIN_BYTES: usize = 1 << 10;
