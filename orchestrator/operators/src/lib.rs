//! What operators do is written down before it happens, and what came of it behind it; and it is listed.
//! Does nothing of it itself, and opens no store: entries go to the store's one writer.
//!
//! An intent is durable before its act begins, and an act whose intent cannot be recorded is refused. An intent without an
//! outcome says that the process ended in between; the next start closes it as such.

#![warn(clippy::too_many_lines)]

mod act;
mod operators;
mod recording;
mod service;

pub use operators::Operators;
pub use recording::{Recording, Scribe, Unrecorded};
pub use service::AccessEdge;
