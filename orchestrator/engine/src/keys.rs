//! Names for executions and actions inside the engine. Say nothing about what they name.

/// Names an execution; rises with age, so it orders "first come first served".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ExecutionKey(pub(crate) u64);

/// Names an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ActionKey(pub(crate) u64);
