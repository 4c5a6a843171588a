//! Names inside the engine and between engine and shell. Say nothing about what they name.

/// Names a call that waits for an answer; the shell numbers them and uses each number once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallerId(pub u64);

/// Names a worker stream; the shell numbers them and uses each number once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionKey(pub u64);

/// Names a write to the store; the engine numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WriteId(pub u64);

/// Names a namespace: the shell gives each name a number of its own, the same in every process lifetime.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamespaceKey(pub u64);

/// Names an execution; rises with age, so it orders "first come first served".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ExecutionKey(pub(crate) u64);

/// Names an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ActionKey(pub(crate) u64);
