//! How far a sink is.

use escapement_model::ExecutionId;

/// How far a sink is. What is saved of it outlives a restart.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Cursor {
    /// Everything up to this place in the order of settling is done; 0 if nothing is.
    pub place: u64,
    /// The execution that was seen at that place; `None` if none was.
    pub execution: Option<ExecutionId>,
    /// Since when the sink refuses what stands behind and answers nothing else, Unix milliseconds; `None` if it does not.
    pub refused_since_ms: Option<i64>,
}
