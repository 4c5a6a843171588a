//! What the API keeps with a run beside what the run is made from: names, labels, links. The run never looks at it.

use bytes::Bytes;
use escapement_model::Opaque;
use escapement_run::spec::Spec;
use prost::Message;
use std::collections::BTreeMap;

/// `Spec.header`. Field numbers are never used for something else.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Header {
    /// Name that the caller gave; the plan's name is shown if it is empty.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The caller's.
    #[prost(btree_map = "string, string", tag = "2")]
    pub labels: BTreeMap<String, String>,
    /// The caller's: an encoded object.
    #[prost(message, required, tag = "3")]
    pub metadata: Opaque,
    /// What the caller is after.
    #[prost(string, tag = "4")]
    pub intent: String,
    /// A note.
    #[prost(string, tag = "5")]
    pub goal_id: String,
    /// A note.
    #[prost(string, tag = "6")]
    pub trigger_id: String,
    /// A note.
    #[prost(string, tag = "7")]
    pub source: String,
    /// A note.
    #[prost(string, tag = "8")]
    pub source_id: String,
    /// The saved plan that it is a run of; empty if there is none.
    #[prost(string, tag = "9")]
    pub plan_id: String,
    /// The first run of the chain of forks and retries; empty if it is this one.
    #[prost(string, tag = "10")]
    pub chain_id: String,
    /// The number of the retry of the chain that made this run, or the run that it was forked from; 0 if none did.
    #[prost(uint32, tag = "11")]
    pub retry_count: u32,
    /// Retries that the chain may have.
    #[prost(uint32, tag = "12")]
    pub max_retries: u32,
    /// Triggers in a row that led to this run; 0 if none has started it.
    #[prost(uint32, tag = "40")]
    pub trigger_depth: u32,
    /// Name of the first plan, which lists show for a run without a name of its own; empty for a run of a goal.
    #[prost(string, tag = "41")]
    pub plan_name: String,
    /// Goal of the first plan; empty for a run of a goal, which says it itself.
    #[prost(string, tag = "42")]
    pub plan_goal: String,
}

impl Header {
    /// Reads the header of a run. That of a run without one, such as the child of another run, is empty.
    pub(crate) fn of(spec: &Spec) -> Self {
        // The bytes are those that `encoded` made; nothing else writes them.
        Self::decode(spec.header.clone()).unwrap_or_default()
    }

    /// The bytes for `Spec.header`.
    pub(crate) fn encoded(&self) -> Bytes {
        Bytes::from(self.encode_to_vec())
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn headers_are_encoded_as_they_ever_were() {
        escapement_store_kit::frozen::check::<super::Header>("header");
    }
}
