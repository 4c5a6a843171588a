//! Connections, and what a call may take of the process before its message is known: slots, bytes, time.
//! Knows no message, no plan and no store: it is given the services, and decides only whom they hear and for how long.

#![warn(clippy::too_many_lines)]

mod listen;

pub mod tls;

pub mod reload;

pub mod answer_permits;

mod connection;

mod body_prefetch;
mod request_body;

mod call_access;

mod policy_file;

mod recipient;

pub mod share;

mod call_limits;
mod call_slots;

pub mod response_budget;

pub mod call_class;
pub mod refusal;

mod connection_abort;
mod credentials_end;
mod fair_stream;
mod guarded;
pub mod judged;
mod limits;
mod newcomers;
mod open_files;
mod peer;
mod refused_body;
mod tally;
mod wall_clock;
mod worker_places;
mod worker_roots;
mod write_through;

pub use call_access::{AccessRules, CallerAddress};
pub use call_class::CallClass;
pub use connection::CallerThreads;
pub use connection_abort::ConnectionAbort;
pub use credentials_end::{CallScopes, CredentialsEnd};
pub use listen::Connections;
pub use newcomers::{Newcomers, Place};
pub use open_files::{MAX_CONNECTIONS, connections_for};
pub use policy_file::PolicyFile;
pub use recipient::Recipient;
pub use refusal::Refusal;
pub use tally::{Answered, Carrier, Happened, Tally};
pub use worker_places::{WorkerPlace, WorkerPlaces};
pub use worker_roots::{CountedRoot, WorkerRoots};
