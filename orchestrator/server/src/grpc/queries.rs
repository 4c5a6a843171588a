//! What calls ask of the engine and the store, a file for each question. Changes nothing.

pub(crate) mod advice;
pub(crate) mod archived;
pub(crate) mod explain;
pub(crate) mod export;
pub(crate) mod lookup;
pub(crate) mod paging;
pub(crate) mod replay;
pub(crate) mod settled;
pub(crate) mod simulate;
pub(crate) mod watch;
