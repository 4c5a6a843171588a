//! Consequences of one input, as the store takes them: new entries of the run, its index row, and effects for afterwards.

use crate::counted::Counted;
use crate::notices::NoticeRow;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;
use escapement_model::Namespace;
use escapement_run::ids::{InputRequestId, RunId};
use escapement_run::journal::{Doubt, RequestKind, RequestState, Stored};
use escapement_run::plan::Plan;
use escapement_run::spec::{ActionProfile, Spec};
use escapement_run::{EditedPlan, Effect, EncodedEntry, Keep, Run, ShownState};

/// A run that is to be made.
#[derive(Clone, Debug)]
pub struct NewRun {
    /// Id.
    pub run_id: RunId,
    /// Spec.
    pub spec: Spec,
    /// Plan.
    pub plan: Arc<Plan>,
    /// Profiles of the actions that the plan uses, sorted by name.
    pub profiles: Vec<ActionProfile>,
}

/// A run that continues from a point in another run.
#[derive(Clone, Debug)]
pub struct NewFork<'a> {
    /// Id.
    pub run_id: RunId,
    /// The other run, if it has ended.
    pub ended: Option<&'a Run>,
    /// The other run.
    pub from: RunId,
    /// Spec. Input and environment are those of the other run.
    pub spec: Spec,
    /// Results that it keeps.
    pub keep: Keep<'a>,
    /// Plan, if it is another one.
    pub edited: Option<EditedPlan>,
    /// True if it may repeat effects of the other run.
    pub allow_repeat_effects: bool,
    /// Effects in doubt of children of the other run, if it does not know the end of these children.
    pub doubts_of_children: Vec<Doubt>,
}

/// Consequences of one input of one run. They are written in one commit, together with those of other runs.
#[derive(Debug)]
pub struct Work {
    /// The run.
    pub run_id: RunId,
    /// The number of its first entry.
    pub first_sequence: u64,
    /// Entries, each with its hash. Not empty.
    pub entries: Vec<EncodedEntry>,
    /// Contents that they refer to by SHA-256.
    pub blobs: Vec<([u8; 32], Bytes)>,
    /// SHA-256 of contents that are there already and that the run refers to from now on.
    pub pinned: Vec<[u8; 32]>,
    /// Revisions that the run has from now on.
    pub revisions: Vec<RevisionRow>,
    /// Index row of the run.
    pub index: IndexRow,
    /// Requests that were opened, answered, expired or closed.
    pub requests: Vec<RequestRow>,
    /// Notices for its user.
    pub notices: Vec<NoticeRow>,
    /// The state after the last entry, if it is time for a snapshot.
    pub snapshot: Option<Bytes>,
    /// True if the run is discarded with this: of what it refers to only documents of revisions are kept.
    pub is_discarded: bool,
    /// Events for metrics, once all of this is durable.
    pub counted: Vec<Counted>,
    /// Effects that may leave once all of this is durable.
    pub(crate) effects: Vec<Effect>,
}

impl Work {
    // RUN-9.3
    /// Returns the effects. Requires that all of this is durable.
    pub fn persisted(self) -> Vec<Effect> {
        self.effects
    }
}

/// Index columns of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexRow {
    /// The state in one word.
    pub state: ShownState,
    /// Namespace.
    pub namespace: Namespace,
    /// User of the run.
    pub user_id: String,
    /// 1 to 10.
    pub priority: u32,
    /// Unix milliseconds.
    pub created_at: i64,
    /// Unix milliseconds of the last entry.
    pub updated_at: i64,
    /// Time of its next timer, in Unix milliseconds; `None` once it has ended.
    pub due_at: Option<i64>,
    /// The run that waits for it.
    pub parent_run_id: Option<RunId>,
    /// The session that it shares with others.
    pub session_id: Option<String>,
}

/// A revision of a run's plan.
#[derive(Clone, Debug, PartialEq)]
pub struct RevisionRow {
    /// Digest.
    pub digest: [u8; 32],
    /// Document, an encoded object; if it is not inline, it is among the blobs or was stored before.
    pub document: Stored,
    /// The revisions that its steps run.
    pub sub_plans: Vec<[u8; 32]>,
}

/// A request that changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestRow {
    /// Id.
    pub request_id: InputRequestId,
    /// Kind of question; `None` if its run has forgotten it already, as a run does that closes very many at once.
    pub kind: Option<RequestKind>,
    /// State from now on.
    pub state: RequestState,
    /// Request, if it was opened just now.
    pub asked: Option<Asked>,
}

/// Opened request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Kind of question.
    pub kind: RequestKind,
    /// Unix milliseconds.
    pub expires_at: i64,
    /// The encoded `InputRequest`.
    pub record: Bytes,
}
