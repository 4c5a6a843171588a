//! Saved plans as the store keeps them, and what runs take from them. Changes none.

use std::sync::Arc;

use bytes::Bytes;
use escapement_model::Opaque;
use escapement_run::plan::{self, Plan};
use escapement_run::spec::Author;
use escapement_store::StoreFault;
use escapement_store::runs::{Definition, DefinitionKind, RunReader, Scope};
use prost::Message;

use crate::wanted_plan::WantedPlan;

/// What the store keeps of a saved plan beside the document of its newest revision.
#[derive(Clone, PartialEq, Message)]
pub struct SavedPlan {
    /// 1 to 255 code points.
    #[prost(string, tag = "1")]
    pub name: String,
    /// At most 5,000 code points.
    #[prost(string, tag = "2")]
    pub description: String,
    /// 1 to 5,000 code points.
    #[prost(string, tag = "3")]
    pub goal: String,
    /// Who made it.
    #[prost(string, tag = "4")]
    pub source: String,
    /// The maker's own id of it.
    #[prost(string, tag = "5")]
    pub source_id: String,
    /// The trigger that it belongs to.
    #[prost(string, tag = "6")]
    pub trigger_id: String,
    /// The goal that it belongs to.
    #[prost(string, tag = "7")]
    pub goal_id: String,
    /// The caller's own id of it.
    #[prost(string, tag = "8")]
    pub external_id: String,
    /// 0 to 4.
    #[prost(uint32, tag = "9")]
    pub autonomy_level: u32,
    /// 0 to 100.
    #[prost(uint32, tag = "10")]
    pub max_retries: u32,
    /// Milliseconds of active time of a run; 0 for what the preset says.
    #[prost(uint64, tag = "11")]
    pub timeout_ms: u64,
    /// The caller's own, an object.
    #[prost(message, required, tag = "12")]
    pub metadata: Opaque,
    /// The preset of its runs.
    #[prost(string, tag = "13")]
    pub preset: String,
    /// The digest of the newest revision, 32 bytes.
    #[prost(bytes = "bytes", tag = "14")]
    pub revision: Bytes,
    /// SHA-256 of its document, 32 bytes: the content that the store keeps.
    #[prost(bytes = "bytes", tag = "15")]
    pub document: Bytes,
    /// The number of the newest revision, from 1.
    #[prost(uint32, tag = "16")]
    pub revision_number: u32,
    /// Steps of the newest revision.
    #[prost(uint32, tag = "17")]
    pub total_steps: u32,
    /// Digests of requests that callers may repeat, the newest last.
    #[prost(message, repeated, tag = "18")]
    pub requests: Vec<SavedRequest>,
    /// Who made it, if that was proved.
    #[prost(message, optional, boxed, tag = "19")]
    pub author: Option<Box<Author>>,
}

/// A request that changed a saved plan and that its caller may repeat.
#[derive(Clone, PartialEq, Message)]
pub struct SavedRequest {
    /// The caller's id of it.
    #[prost(string, tag = "1")]
    pub id: String,
    /// Digest of the request, 32 bytes.
    #[prost(bytes = "bytes", tag = "2")]
    pub digest: Bytes,
    /// The step that it added.
    #[prost(string, tag = "3")]
    pub step_key: String,
    /// Digest of its encoding, by which earlier versions kept it; never stored.
    #[prost(bytes = "bytes", tag = "4")]
    pub spelled: Bytes,
}

impl SavedRequest {
    /// Returns true if this repeats that kept request.
    pub fn repeats(&self, known: &Self) -> bool {
        let digests = [&self.digest, &self.spelled];
        self.id == known.id && digests.contains(&&known.digest)
    }
}

/// Returns the saved plan of that id. If a user is named, it is that user's.
///
/// # Errors
/// As the store fails; [`StoreFault::CorruptDefinition`] if it cannot be read.
pub fn saved_plan(
    reader: &dyn RunReader,
    plan_id: &str,
    user_id: &str,
) -> Result<Option<(Definition, SavedPlan)>, StoreFault> {
    theirs(reader.definition(DefinitionKind::SavedPlan, plan_id)?, user_id)
}

/// Returns what was found as the saved plan that it is. If a user is named, it is that user's.
///
/// # Errors
/// [`StoreFault::CorruptDefinition`] if it cannot be read.
pub fn theirs(
    found: Option<Definition>,
    user_id: &str,
) -> Result<Option<(Definition, SavedPlan)>, StoreFault> {
    let Some(definition) = found else {
        return Ok(None);
    };
    if !user_id.is_empty() && definition.owner.as_deref() != Some(user_id) {
        return Ok(None);
    }
    let saved = decoded(&definition)?;
    Ok(Some((definition, saved)))
}

/// Returns the record of a saved plan.
///
/// # Errors
/// [`StoreFault::CorruptDefinition`] if it is none.
pub fn decoded(definition: &Definition) -> Result<SavedPlan, StoreFault> {
    let number = definition.number;
    SavedPlan::decode(definition.record.clone()).map_err(|_| StoreFault::CorruptDefinition { number })
}

/// Returns the document of a saved plan's newest revision.
///
/// # Errors
/// As the store fails; [`StoreFault::CorruptDefinition`] if it is not there.
pub fn document_of(
    reader: &dyn RunReader,
    definition: &Definition,
    saved: &SavedPlan,
) -> Result<Opaque, StoreFault> {
    let missing = StoreFault::CorruptDefinition {
        number: definition.number,
    };
    let Ok(digest) = <[u8; 32]>::try_from(&saved.document[..]) else {
        return Err(missing);
    };
    let document = reader.content(&digest)?.ok_or(missing)?;
    Ok(Opaque::from_encoded(document))
}

/// The plan that a `sub_plan` step names, or a sentence why there is none.
pub fn find_plan(reader: &dyn RunReader, wanted: &WantedPlan) -> Result<Arc<Plan>, String> {
    let unreadable = |fault: StoreFault| format!("the plan cannot be read: {fault}");
    let document = match (&wanted.plan_id, &wanted.revision_digest) {
        (Some(plan_id), _) => {
            let found = saved_plan(reader, plan_id, &wanted.user_id).map_err(unreadable)?;
            let found = found.filter(|(definition, _)| definition.namespace == wanted.namespace);
            let (definition, saved) =
                found.ok_or_else(|| format!("PLAN_NOT_FOUND: there is no saved plan {plan_id}"))?;
            document_of(reader, &definition, &saved).map_err(unreadable)?
        }
        (None, Some(text)) => {
            let missing = || format!("PLAN_NOT_FOUND: there is no revision {text}");
            let digest = plan::revision_of(text).ok_or_else(missing)?;
            // RUN-9.12
            let scope = Scope::of(&wanted.namespace, &wanted.user_id);
            let found = reader.revision(&digest, &[scope]).map_err(unreadable)?;
            Opaque::from_encoded(found.ok_or_else(missing)?.document)
        }
        (None, None) => return Err("the step names no plan".to_owned()),
    };
    let read = plan::read(&document).and_then(plan::carried_out);
    let plan = read.map_err(|why| format!("the plan is unreadable: {why}"))?;
    Ok(Arc::new(plan))
}
