//! Tables of runs in the embedded store: their rows, batches of writes, readers and removal.

mod columns;
mod contents;
pub(crate) mod definitions;
mod endings;
pub(crate) mod examine;
pub(crate) mod give_up;
mod lists;
mod notices;
pub(crate) mod reader;
mod refusal;
pub(crate) mod removal;
mod requests;
pub(crate) mod rows;
mod table;
pub(crate) mod tally;
mod tombstones;
pub(crate) mod writer;

pub(crate) use self::table::TABLES;
