//! Goals as the store keeps them, and as they are shown. Decides nothing.

use bytes::Bytes;
use escapement_model::Namespace;
use escapement_run::spec::Author;
use escapement_runs_host::RunsHost;
use escapement_store::StoreFault;
use escapement_store::runs::{Definition, DefinitionChange, DefinitionKind, DefinitionPut};
use escapement_wire::runs::v1;
use prost::Message;

use super::progress::Progress;
use crate::caller::shown_author;

/// A goal as the store keeps it. Field numbers are never used for something else.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Kept {
    #[prost(string, tag = "1")]
    pub(super) title: String,
    #[prost(string, tag = "2")]
    pub(super) description: String,
    #[prost(int32, tag = "3")]
    pub(super) state: i32,
    #[prost(string, tag = "4")]
    pub(super) parent_id: String,
    /// Digest of the request that made it; empty without an id.
    #[prost(bytes = "bytes", tag = "5")]
    pub(super) request_digest: Bytes,
    /// Counts how often it was completed.
    #[prost(uint64, tag = "6")]
    pub(super) n_completed: u64,
    /// Who made it, if that was proved.
    #[prost(message, optional, boxed, tag = "7")]
    pub(super) author: Option<Box<Author>>,
}

/// The change that writes a goal.
pub(super) fn put(namespace: Namespace, owner: Option<String>, at: i64, kept: &Kept) -> DefinitionChange {
    DefinitionChange::Put(DefinitionPut {
        namespace,
        owner,
        priority: 0,
        at,
        record: Bytes::from(kept.encode_to_vec()),
        contents: Vec::new(),
        pinned: Vec::new(),
    })
}

/// Writes a goal that was there before.
pub(super) fn rewrite(host: &mut RunsHost, found: Definition, kept: &Kept, now: i64) {
    let change = put(found.namespace, found.owner, now, kept);
    host.define(DefinitionKind::Goal, &found.name, change);
}

/// The record of a goal.
pub(super) fn read(found: &Definition) -> Result<Kept, StoreFault> {
    let number = found.number;
    Kept::decode(found.record.clone()).map_err(|_| StoreFault::CorruptDefinition { number })
}

/// A goal as it is shown.
pub(super) fn view(found: &Definition, kept: &Kept, progress: &Progress) -> v1::Goal {
    let plans = progress.get(&found.name).copied().unwrap_or_default();
    v1::Goal {
        goal_id: found.name.clone(),
        namespace: found.namespace.to_string(),
        created_by: shown_author(kept.author.as_deref()),
        title: kept.title.clone(),
        description: kept.description.clone(),
        state: kept.state,
        parent_id: kept.parent_id.clone(),
        user_id: found.owner.clone().unwrap_or_default(),
        progress: match plans.all {
            0 => 0.0,
            all => f64::from(plans.completed) / f64::from(all) * 100.0,
        },
        n_plans: i32::try_from(plans.all).unwrap_or(i32::MAX),
        created_at: found.created_at,
        updated_at: found.updated_at,
        etag: found.version.to_string(),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn goals_are_encoded_as_they_ever_were() {
        escapement_store_kit::frozen::check::<super::Kept>("goal");
    }
}
