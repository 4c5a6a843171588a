//! Everything that a handler author needs: describe actions, write handlers, run a worker.
//! Does not retry steps, and does not keep state between attempts.
//!
//! ```no_run
//! use escapement_sdk::{StepContext, StepError, Worker, WorkerError};
//! use serde_json::json;
//!
//! #[derive(serde::Deserialize)]
//! struct Greet {
//!     name: String,
//! }
//!
//! # async fn example() -> Result<(), WorkerError> {
//! Worker::builder("http://127.0.0.1:7400")
//!     .worker_id("billing-1")
//!     .max_in_flight(16)
//!     .label("zone", "a")
//!     .handler("greet", |input: Greet, context: StepContext| async move {
//!         if input.name.is_empty() {
//!             let error = StepError::new("NO_NAME", "nobody to greet");
//!             return Err(error.context(json!({"step": context.step_id()})));
//!         }
//!         Ok(json!({"greeting": format!("hello {}", input.name)}))
//!     })
//!     .run()
//!     .await
//! # }
//! ```
//!
//! A handler takes its input as any `Deserialize` type, `serde_json::Value` included, and a [`StepContext`].
//! It returns anything that serialises to a JSON object, or a [`StepError`].
//! Numbers travel as doubles: send 64-bit integers as texts.
//!
//! In addition to this crate, a crate of your own needs `serde` 1 with `derive`, `serde_json` 1, and `tokio` 1 with `macros` and
//! `rt-multi-thread`.
//!
//! A worker speaks by `tracing`: sessions that begin and end, actions that are refused, drains, and at `debug` each attempt.
//! `log_to_stderr`, with the feature `log`, shows that; a program with a subscriber of its own sees it there.
//!
//! With the feature `traces` each traced attempt runs its handler in a span. Spans that the handler makes by `tracing` are its
//! children: see
//! the module `traces`.
//!
//! Inside, `machine` and `session` are the protocol as a state machine without I/O and without a clock,
//! and `shell` gives it both.
//! [`testing::machine`] is the same machine for simulations.

#![warn(clippy::too_many_lines)]

mod action;
mod caller;
mod capacity;
mod clock;
mod context;
mod error;
mod event;
mod handler;
mod handler_span;
mod machine;
mod session;
mod shell;
pub mod testing;
#[cfg(feature = "traces")]
pub mod traces;
mod worker;

#[cfg(feature = "log")]
use escapement_process::telemetry;

pub use action::{Action, Effect, Risk};
pub use caller::{AttemptAuthorization, Caller, PlanClient};
pub use capacity::WorkerHandle;
pub use context::StepContext;
pub use error::{StepError, WorkerError};
pub use escapement_credentials::{ClientTls, Credentials};
pub use escapement_model::{BootId, Opaque, SessionId, Severity, codes, headers};
pub use event::{AttemptEnd, AttemptEvent, SessionEvent};
#[cfg(feature = "log")]
pub use telemetry::InitError as LogError;
pub use worker::{Worker, WorkerBuilder, host_name};

/// Shows on stderr what the worker and its program say by `tracing`, without ever waiting for stderr.
///
/// `ESCAPEMENT_LOG` holds what to show, `info` by default, and `ESCAPEMENT_LOG_FORMAT` how: `plain` or `json`.
///
/// # Errors
/// [`LogError`] if one of the two variables is not valid, or a subscriber is there already.
#[cfg(feature = "log")]
pub fn log_to_stderr() -> Result<(), LogError> {
    telemetry::init_from_env()
}

/// The example of the README is compiled with the documentation tests.
#[cfg(all(doctest, feature = "log"))]
#[doc = include_str!("../../../README.md")]
struct Readme;
