//! Limits that only the engine enforces and no setting changes. What both sides must agree on is in the model.

/// Attempts of one session, ordinary and waiting ones together.
pub(crate) const SESSION_ATTEMPTS_MAX: usize = 16_384;
/// Requests that are asked for at a time because their turns come soon.
pub(crate) const LOADS_AHEAD_MAX: usize = 256;
/// Requests that are asked for at a time because a caller wants to watch.
pub(crate) const LOADS_WATCHED_MAX: usize = 64;
/// Executions that were asked for because their deadlines are over, and whose ends are not durable, at a time.
pub(crate) const OVERDUE_LOADED_MAX: usize = 256;
/// Items of one list that a worker sends: it has no more attempts to speak of.
pub(crate) const WORKER_LIST_MAX: usize = SESSION_ATTEMPTS_MAX;
/// Entries of a worker's message that cost as much of its allowance as another message.
pub(crate) const ENTRIES_PER_MESSAGE: usize = 16;
/// Worker processes that may refuse one attempt; then it ends, even if others offer its action.
pub(crate) const REFUSALS_MAX: usize = 16;
/// Bytes of texts in a worker's message that count as an entry.
pub(crate) const TEXT_BYTES_PER_ENTRY: usize = 1 << 10;
/// Bytes that all actions together take, by [`ACTION_BYTES`] and their texts. One owner has at most as many as it leaves free.
pub(crate) const ACTIONS_BYTES_MAX: usize = 64 << 20;
/// Bytes of the entries of one action in all tables and indexes, without its texts.
pub(crate) const ACTION_BYTES: usize = 1 << 10;
/// Items of one list that a worker is sent.
pub(crate) const MESSAGE_ITEMS_MAX: usize = 16_384;
/// Messages to which an assignment entitles a worker: its answers, sent twice, and some to spare.
pub(crate) const MESSAGES_PER_ASSIGNMENT: u64 = 8;
/// Messages to which a cancel entitles a worker.
pub(crate) const MESSAGES_PER_CANCEL: u64 = 4;
/// Processes that are remembered because an operator drained them, and as many because they have said hello; the oldest
/// go first.
pub(crate) const INSTANCES_REMEMBERED_MAX: usize = 10_000;
/// The fewest silent sessions that are a mass loss: one by the network, or our own, rather than by the workers.
pub(crate) const MASS_LOSS_SESSIONS_MIN: usize = 5;
/// A mass loss is more than one in this many of all sessions.
pub(crate) const MASS_LOSS_SHARE: usize = 5;
/// How long a count of many silent sessions holds, in milliseconds.
pub(crate) const MASS_LOSS_HOLDS_MS: u64 = 100;
/// Workers spread their reconnects over this time.
pub(crate) const RECONNECT_JITTER_MS: u64 = 1_000;
/// Bytes of a message around its items: number, keys and lengths.
pub(crate) const MESSAGE_OVERHEAD_BYTES: usize = 64;
/// More than ids, names, times, trace headers and framing of one assignment take.
pub(crate) const ASSIGNMENT_OVERHEAD_BYTES: usize = 2_048;
/// More than one entry of a header map takes beside its texts.
pub(crate) const HEADER_OVERHEAD_BYTES: usize = 16;
/// More than a token with a verdict, a reason and a time takes.
pub(crate) const TOKEN_ITEM_BYTES: usize = 64;
/// More than a verdict and its framing take beside bytes that are no token.
pub(crate) const UNREADABLE_OVERHEAD_BYTES: usize = 24;
/// Actions that the needs of queued executions name, those of each need counted; beyond it no further need is held back.
pub(crate) const NEEDED_ACTIONS_MAX: usize = 16_384;
/// Different things that workers may say of an action's nature.
pub(crate) const TRAITS_MAX: usize = 16;
/// Actions that are remembered after their last workers left; half of them if no execution asked for them.
pub(crate) const ACTIONS_REMEMBERED_MAX: usize = 4_096;
/// Memories of actions in one write.
pub(crate) const ACTION_MEMORIES_WRITTEN_MAX: usize = 1_024;
/// How often the store is told what is left of the memories, in milliseconds.
pub(crate) const REGISTRATIONS_LOOKED_AT_EVERY_MS: u64 = 60_000;
/// Names of actions that are not registered, each told once within that time.
pub(crate) const NOT_FOUND_NAMES_MAX: usize = 100;
/// Namespaces that are remembered though nothing of them waits or runs, because they had more than their share; the one that
/// is least ahead goes first.
pub(crate) const NAMESPACES_RESTING_MAX: usize = 10_000;
