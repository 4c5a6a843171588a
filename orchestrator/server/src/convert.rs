//! Wire messages to what the contract and the engine know, and back; one file for each subject.
//! Decides nothing: what is valid is the contract's business.

pub mod answer;
pub mod audit;
pub mod certificate;
pub mod explain;
pub mod fleet;
pub mod json;
pub mod recorded;
pub mod request;
pub mod session_in;
pub mod session_out;
pub mod simulate;
