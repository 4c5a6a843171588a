//! Triggers and firings as the store keeps them. Decides nothing.

use bytes::Bytes;
use escapement_model::{Namespace, Opaque, PlanId};
use escapement_run::journal::Responder;
use escapement_run::spec::{Author, namespace_named};
use escapement_runs_shell::Origin;
use escapement_store::StoreFault;
use escapement_store::runs::{Definition, DefinitionChange, DefinitionKind, DefinitionPut, RunReader, Scope};
use escapement_triggers::Cause;
use escapement_wire::runs::v1;
use prost::Message;

use super::firing::Found;
use crate::caller::Made;

/// A trigger. Field numbers are never used for something else.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Kept {
    /// As it was asked for, the secret included; without what is output only, but with its namespace unless that is the default one.
    #[prost(message, required, tag = "1")]
    pub(super) trigger: v1::Trigger,
    /// Counts its changes, from 1.
    #[prost(uint64, tag = "2")]
    pub(super) version: u64,
    /// Digest of the request that made it; empty without an id.
    #[prost(bytes = "bytes", tag = "3")]
    pub(super) request_digest: Bytes,
    /// Up to when its schedule is handled, Unix milliseconds.
    #[prost(int64, tag = "4")]
    pub(super) handled_ms: i64,
    /// What its condition came to.
    #[prost(bool, tag = "5")]
    pub(super) was_true: bool,
    /// Edges so far.
    #[prost(uint64, tag = "6")]
    pub(super) n_edges: u64,
    /// When its condition fired last.
    #[prost(int64, optional, tag = "7")]
    pub(super) edge_fired_at: Option<i64>,
    /// When it fired last, 0 for never.
    #[prost(int64, tag = "8")]
    pub(super) last_fired_at: i64,
    /// How often it has fired.
    #[prost(uint64, tag = "9")]
    pub(super) fire_count: u64,
    /// Runs that it has started and that may live, the newest last.
    #[prost(string, repeated, tag = "10")]
    pub(super) runs: Vec<String>,
    /// Firings that wait, the oldest first.
    #[prost(string, repeated, tag = "11")]
    pub(super) waiting: Vec<String>,
    /// The run that it has started last.
    #[prost(string, tag = "12")]
    pub(super) last_run_id: String,
    /// Looks with a probe so far.
    #[prost(uint64, tag = "13")]
    pub(super) n_probes: u64,
    /// Whether the latest of them is under way.
    #[prost(bool, tag = "14")]
    pub(super) is_probing: bool,
    /// Who saved it last, if that was proved: its runs are started in this name.
    #[prost(message, optional, boxed, tag = "15")]
    pub(super) author: Option<Box<Author>>,
    /// True if who saved it last finds the things of its user alone: it does not hear of those of others.
    #[prost(bool, tag = "16")]
    pub(super) is_held: bool,
    // RUN-6.8
    /// Latest change of the session when its condition became false, as [`Session::changed_at`]; 0 for none.
    ///
    /// [`Session::changed_at`]: escapement_run::session::Session::changed_at
    #[prost(int64, tag = "17")]
    pub(super) changed_at: i64,
}

impl Kept {
    /// What the trigger and its runs belong to.
    pub(super) fn namespace(&self) -> Namespace {
        namespace_named(&self.trigger.namespace)
    }

    /// In whose name its runs are started, and where.
    pub(super) fn made(&self) -> Made {
        Made {
            origin: Origin {
                namespace: self.namespace(),
                author: self.author.clone(),
                trace: None,
            },
            user_id: self.trigger.user_id.clone(),
            scopes: vec![Scope::of(&self.namespace(), &self.trigger.user_id)],
        }
    }
}

/// A firing. Field numbers are never used for something else.
#[derive(Clone, PartialEq, Message)]
pub(super) struct KeptFiring {
    /// As it is shown.
    #[prost(message, required, tag = "1")]
    pub(super) firing: v1::Firing,
    /// The data of its event while it waits.
    #[prost(message, required, tag = "2")]
    pub(super) data: Opaque,
    /// Triggers in a row, this one included.
    #[prost(uint32, tag = "3")]
    pub(super) depth: u32,
    /// Responder that fired it, if that is known.
    #[prost(message, optional, boxed, tag = "4")]
    pub(super) fired_by: Option<Box<Responder>>,
}

/// What is shown of a [`KeptFiring`]: its data, which may be large, is not read.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ShownFiring {
    /// As there.
    #[prost(message, required, tag = "1")]
    pub(super) firing: v1::Firing,
}

/// Event of a completed goal. Field numbers are never used for something else.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct CompletedGoal {
    #[prost(string, tag = "1")]
    pub(crate) goal_id: String,
    /// Caller that completed it, if that is known.
    #[prost(message, optional, boxed, tag = "2")]
    pub(crate) fired_by: Option<Box<Responder>>,
}

impl CompletedGoal {
    /// Returns what the record of an event says. Earlier versions wrote the id of the goal alone.
    pub(crate) fn of(record: &Bytes) -> Self {
        let goal_id = String::from_utf8_lossy(record).into_owned();
        match goal_id.parse::<PlanId>() {
            Ok(_) => Self {
                goal_id,
                fired_by: None,
            },
            Err(_) => Self::decode(record.clone()).unwrap_or_default(),
        }
    }
}

/// The cause of a firing that waits.
pub(super) fn found_of(record: &KeptFiring) -> Option<Found> {
    let firing = &record.firing;
    let id = firing.event_id.clone();
    let cause = match firing.kind.as_str() {
        "schedule" => Cause::Due(firing.due_at),
        "event" => Cause::Event {
            kind: firing.event_type.clone(),
            id,
        },
        "condition" => Cause::Edge(id.parse().ok()?),
        "webhook" => Cause::Delivery(id),
        "manual" => Cause::Request(id),
        _ => return None,
    };
    Some(Found {
        is_too_costly: false,
        cause,
        due_at: firing.due_at,
        data: record.data.clone(),
        depth: record.depth,
        has_waited: true,
        fired_by: record.fired_by.clone(),
    })
}

/// The trigger of that id with its record.
///
/// # Errors
/// As the store fails; [`StoreFault::CorruptDefinition`] if it cannot be read.
pub(super) fn trigger(
    reader: &dyn RunReader,
    trigger_id: &str,
) -> Result<Option<(Definition, Kept)>, StoreFault> {
    let found = reader.definition(DefinitionKind::Trigger, trigger_id)?;
    found
        .map(|found| Ok((kept(&found)?, found)).map(|(kept, found)| (found, kept)))
        .transpose()
}

/// Returns true if it belongs to that user; an empty one stands for all.
pub(crate) fn is_of(found: &Definition, user_id: &str) -> bool {
    user_id.is_empty() || found.owner.as_deref() == Some(user_id)
}

/// The record of a definition.
///
/// # Errors
/// [`StoreFault::CorruptDefinition`].
pub(super) fn kept<T: Message + Default>(definition: &Definition) -> Result<T, StoreFault> {
    let number = definition.number;
    T::decode(definition.record.clone()).map_err(|_| StoreFault::CorruptDefinition { number })
}

/// The change that writes a record.
pub(super) fn put(
    namespace: Namespace,
    owner: &str,
    priority: i32,
    at: i64,
    record: &impl Message,
) -> DefinitionChange {
    DefinitionChange::Put(DefinitionPut {
        namespace,
        owner: Some(owner.to_owned()),
        priority,
        at,
        record: Bytes::from(record.encode_to_vec()),
        contents: Vec::new(),
        pinned: Vec::new(),
    })
}

/// Creates a firing without an outcome.
pub(super) fn firing_of(trigger_id: &str, name: &str, found: &Found, now: i64) -> v1::Firing {
    let (kind, event_type, event_id) = words(&found.cause);
    v1::Firing {
        firing_id: name.to_owned(),
        trigger_id: trigger_id.to_owned(),
        kind: kind.to_owned(),
        due_at: found.due_at,
        fired_at: now,
        event_type,
        event_id,
        count: 1,
        fired_by: found
            .fired_by
            .as_ref()
            .map_or_else(String::new, |by| by.id.clone()),
        ..v1::Firing::default()
    }
}

/// Returns the kind of the cause, the type of its event, and its id.
pub(super) fn words(cause: &Cause) -> (&'static str, String, String) {
    match cause {
        Cause::Due(_) => ("schedule", String::new(), String::new()),
        Cause::Event { kind, id } => ("event", kind.clone(), id.clone()),
        Cause::Edge(n) => ("condition", String::new(), n.to_string()),
        Cause::Delivery(id) => ("webhook", String::new(), id.clone()),
        Cause::Request(id) => ("manual", String::new(), id.clone()),
    }
}

/// Outcome of a cause.
#[derive(Clone, Debug)]
pub(super) struct Fired {
    /// The firing.
    pub(super) firing: v1::Firing,
    /// False if it was there before.
    pub(super) is_new: bool,
}

impl Fired {
    /// Creates the outcome of a firing that existed before.
    pub(super) fn before(known: KeptFiring) -> Self {
        Self {
            firing: known.firing,
            is_new: false,
        }
    }
}

/// A trigger that listens to events of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listener {
    /// Owner of the trigger.
    pub(super) user_id: String,
    /// True if it hears of that user's things alone.
    pub(super) is_held: bool,
}

impl Listener {
    /// Creates the listener of a kept trigger.
    pub(super) fn of(kept: &Kept) -> Self {
        Self {
            user_id: kept.trigger.user_id.clone(),
            is_held: kept.is_held,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CompletedGoal, Kept, KeptFiring};
    use escapement_store_kit::frozen;

    #[test]
    fn triggers_firings_and_events_are_encoded_as_they_ever_were() {
        frozen::check::<Kept>("trigger");
        frozen::check::<KeptFiring>("firing");
        frozen::check::<CompletedGoal>("completed_goal");
    }
}
