//! How far a sink is.

/// How far a sink is. What is saved of it outlives a restart.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Cursor {
    /// Everything up to this place in the order of ending is done; 0 if nothing is.
    pub place: u64,
    /// The id of what was seen at that place; `None` if nothing was.
    pub id: Option<[u8; 16]>,
    /// Since when the sink refuses what stands behind and answers nothing else, Unix milliseconds; `None` if it does not.
    pub refused_since_ms: Option<i64>,
}
