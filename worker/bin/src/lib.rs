//! The stock worker: ready-made handlers, and the configuration that opens what they may reach.
//! Uses the public SDK only, knows nothing of the worker protocol,
//! and reaches nothing outside unless a flag allows it.
//!
//! `HANDLERS.md` beside this crate lists every action with its fields, codes and limits.

#![warn(clippy::too_many_lines)]

pub mod options;

pub mod config;

pub mod actions;
pub mod handlers;

pub mod digest;
pub mod eval;
pub mod exports;
pub mod figures;
pub mod http_client;
pub mod limits;
pub mod output_size;
pub mod process;
pub mod sandbox;
pub mod secrets;
