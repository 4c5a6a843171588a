//! jq filters and templates, each evaluated in a child process of its own.

pub mod budget;
pub mod child;
pub mod parent;
