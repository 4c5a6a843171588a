//! Everything that a handler author needs: describe actions, write handlers, run a worker.
//! Does not retry steps, does not keep state between attempts, and does not speak TLS yet: `http://`
//! addresses only.
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
//! Inside, `machine` and `session` are the protocol as a state machine without I/O and without a clock,
//! and `shell` gives it both.
//! [`testing::machine`] is the same machine for simulations.

mod action;
mod context;
mod error;
mod handler;
mod levels;
mod machine;
mod session;
mod shell;
pub mod testing;
mod token;
mod worker;

pub use action::Action;
pub use context::StepContext;
pub use error::{StepError, WorkerError};
pub use escapement_model::{BootId, Opaque, SessionId, Severity, codes};
pub use levels::WorkerHandle;
pub use worker::{SessionEvent, Worker, WorkerBuilder};

/// The example of the README is compiled with the documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
