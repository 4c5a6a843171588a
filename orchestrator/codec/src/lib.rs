//! Wire messages, stored blobs and exported archives, to and from what contract and engine know; one file for each subject.
//! Decides nothing: what is valid is the contract's business. Opens no file, has no clock and no runtime.

#![warn(clippy::too_many_lines)]

pub mod audit;
pub mod audit_from_wire;
pub mod audit_pages;
pub mod certificate;
pub mod execution;
pub mod namespaces;
pub mod provenance;
pub mod request;

pub mod event_json;
pub mod explanation;
pub mod fleet;
pub mod page_token;
pub mod principal;
pub mod simulation;

pub mod outcome_reports;
mod repeats;
pub mod session_in;
pub mod session_journal;
pub mod session_out;
pub mod session_rights;
pub mod trace;
mod traits;

pub mod archive;
pub mod store_write;
pub mod stored;
pub mod stored_execution;
