//! Starts real orchestrators and real workers for tests and for the demo, talks to them, and leaves nothing running.
//! Knows no rule of the contract: what should happen is written in the tests.
//!
//! ```no_run
//! use escapement_tests::{Fault, OrchestratorSettings, PlanDocument, PrivateDirectory, WorkerSettings, documents};
//! use serde_json::json;
//!
//! # async fn story() -> Result<(), Fault> {
//! let directory = PrivateDirectory::new("story")?;
//! let orchestrator = OrchestratorSettings::new(directory.path()).flag("--max-running-executions", 1).start().await?;
//! let settings = WorkerSettings::new(&orchestrator.url(), "one", directory.path(), directory.path());
//! let worker = settings.connect().await?;
//!
//! let document = PlanDocument::new("one step").step("echo", json!({ "a": 1 }), &[]);
//! let answer = orchestrator.plans().execute_plan(document.execute()).await?.into_inner();
//! let result = documents::result(&answer.result.ok_or("an answer has a result")?);
//! assert_eq!(result["status"], "success");
//!
//! worker.stop().await?;
//! orchestrator.stop().await
//! # }
//! ```
#![cfg(feature = "harness")]

pub mod authority;
mod binaries;
pub mod calls;
pub mod chain;
pub mod checkout;
mod child;
pub mod clock_layer;
mod closed_port;
pub mod dearest;
mod dice;
mod directory;
pub mod documents;
pub mod fault_layer;
pub mod fault_proxy;
pub mod history;
pub mod http;
mod interrupted;
mod model_server;
mod nats_accounts;
mod nats_server;
mod orchestrator;
mod piped;
mod plan_document;
pub mod plans;
pub mod planted;
mod preload;
pub mod prometheus;
mod raw_codec;
pub mod raw_session;
mod receiver;
pub mod reference;
mod scripted_worker;
pub mod session_checker;
pub mod session_journal;
pub mod session_wire;
mod tls_tunnel;
mod token_issuer;
mod tools;
pub mod usage;
mod waiting;
mod worker;

pub use {
    binaries::Binaries,
    child::ChildProcess,
    closed_port::ClosedPort,
    dice::Dice,
    directory::PrivateDirectory,
    interrupted::interrupted,
    model_server::{ModelServer, Turn},
    nats_accounts::NatsAccounts,
    nats_server::{NatsClient, NatsServer},
    orchestrator::{Orchestrator, OrchestratorSettings, is_over_tls},
    piped::piped,
    plan_document::PlanDocument,
    prometheus::Prometheus,
    raw_codec::RawCodec,
    receiver::{ReceivedRequest, Receiver, Reply},
    scripted_worker::ScriptedWorker,
    tls_tunnel::TlsTunnel,
    token_issuer::TokenIssuer,
    tools::{skip, tool, tools_path},
    waiting::{let_pass, wait_for},
    worker::{Worker, WorkerSettings},
};

/// Something in the world failed: a process, a file, a connection. Its text is meant for whoever runs the tests.
pub type Fault = Box<dyn std::error::Error + Send + Sync>;

/// Returns a fresh UUID v4 in canonical form.
pub fn fresh_id() -> String {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the operating system has random numbers");
    escapement_model::ExecutionId::from_random(bytes).to_string()
}
