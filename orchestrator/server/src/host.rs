//! The engine's host: the thread that drives it, the handle that everybody else asks it by, and what carries out its effects.

pub(crate) mod effects;
pub(crate) mod engine_loop;
pub(crate) mod handle;
