//! Changes of requests, in one order for all runs, for watchers of the inbox. Sends nothing.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use bytes::Bytes;
use escapement_run::journal::{RequestKind, RequestState};
use prost::Message;

use crate::work::{RequestRow, Work};

/// A request that was opened, or that ended, as it is stored.
#[derive(Clone, PartialEq, Message)]
pub struct InboxChange {
    /// The request, 16 bytes.
    #[prost(bytes = "bytes", tag = "1")]
    pub request_id: Bytes,
    /// The run that asks, 16 bytes.
    #[prost(bytes = "bytes", tag = "2")]
    pub run_id: Bytes,
    /// Kind of question, if known.
    #[prost(enumeration = "RequestKind", optional, tag = "3")]
    pub kind: Option<i32>,
    /// New state: open, if it was opened.
    #[prost(enumeration = "RequestState", tag = "4")]
    pub state: i32,
    /// User of the run.
    #[prost(string, tag = "5")]
    pub user_id: String,
    /// Namespace of the run.
    #[prost(string, tag = "6")]
    pub namespace: String,
}

/// Name of the stream of these changes. Names of other streams, for users and sessions, have a space.
pub const INBOX_STREAM: &str = "inbox";

impl Work {
    /// Requests that it opens and ends, in that order.
    pub fn inbox_changes(&self) -> Vec<InboxChange> {
        let of_row = |row: &RequestRow| {
            let opened = row.asked.as_ref().map(|_| RequestState::Open);
            let ended = Some(row.state).filter(|state| *state != RequestState::Open);
            opened
                .into_iter()
                .chain(ended)
                .map(|state| InboxChange {
                    request_id: Bytes::copy_from_slice(row.request_id.as_bytes()),
                    run_id: Bytes::copy_from_slice(self.run_id.as_bytes()),
                    kind: row.kind.map(i32::from),
                    state: state.into(),
                    user_id: self.index.user_id.clone(),
                    namespace: self.index.namespace.as_str().to_string(),
                })
                .collect::<Vec<_>>()
        };
        self.requests.iter().flat_map(of_row).collect()
    }
}
