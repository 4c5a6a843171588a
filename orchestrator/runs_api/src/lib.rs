//! The API of runs: what callers ask, answered from runs and from what is stored of them.
//! Decides nothing about a run, and writes nothing but through the thread of runs.

#![warn(clippy::too_many_lines)]

mod action_service;
mod artifact_service;
mod budget;
mod caller;
mod canonical;
pub mod endings;
mod errors;
mod expressions;
mod fields;
mod goals;
mod header;
mod inbox_service;
mod intents;
mod journal;
mod paging;
mod plan_service;
mod resolution;
mod revision_plans;
mod run_service;
mod saved;
mod session_service;
mod settings;
mod sizes;
mod tenant_routes;
mod totals;
mod triggers;
mod views;
mod watching;
pub mod webhooks;

pub use action_service::Actions;
pub use artifact_service::Artifacts;
pub use goals::Goals;
pub use inbox_service::Inbox;
pub use plan_service::Plans;
pub use run_service::Runs;
pub use session_service::Sessions;
pub use settings::RunSettings;
pub use tenant_routes::by_tenant;
pub use triggers::{Delivered, Delivery, Triggers, parse_source, turns};
