//! Bounds of the growth of a run. Enforces none.

// RUN-9.6
/// Bytes of an entry.
pub const ENTRY_BYTES_MAX: usize = 2 << 20;

// RUN-9.13
/// Bytes of the state: what is encoded of units, of results of steps and of open requests, and [`UNIT_BYTES`] for each unit.
pub const STATE_BYTES_MAX: usize = 64 << 20;

// RUN-9.13
/// Bytes of a unit in addition to its encoding.
pub const UNIT_BYTES: usize = 512;

// RUN-9.13
/// Bytes of the state above which fewer bytes are kept inline.
pub const STATE_BYTES_MANY: usize = STATE_BYTES_MAX / 4;

// RUN-9.13
/// Bytes that are kept inline above that; larger values are stored by their hash.
pub(crate) const INLINE_BYTES_FEW: usize = 1024;

// RUN-12.6, RUN-12.14
/// Results of earlier revisions, and effects in doubt, that a run knows.
pub const CARRIED_MAX: usize = 1024;

/// Bytes of a spec without input and environment; the rest of its entry is for these and for what follows from the request.
pub const SPEC_BYTES_MAX: usize = ENTRY_BYTES_MAX - (256 << 10);

/// Bytes of the profiles of a plan; the rest of its entry is for results, doubts and what was disabled.
pub const PROFILES_BYTES_MAX: usize = 1 << 20;

/// Bytes of an encoded request to a person, with its subject inline.
pub(crate) const REQUEST_BYTES_MAX: usize = 60 << 10;

/// The error code of a run that grew beyond its bound.
pub const RUN_TOO_LARGE: &str = "RUN_TOO_LARGE";
