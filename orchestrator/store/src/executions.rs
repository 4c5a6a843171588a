//! Tables of executions in the embedded store: their rows, batches of writes, readers and removal.

pub(crate) mod columns;
pub(crate) mod examine;
pub(crate) mod give_up;
mod list;
pub(crate) mod operators;
pub(crate) mod reader;
pub(crate) mod removal;
mod table;
pub(crate) mod tally;
mod tombstones;
pub(crate) mod writer;

pub(crate) use self::table::TABLE;
