//! What one input led to, as the store takes it: the run's new entries, what lists find it by, and what may leave afterwards.

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
    /// What it is made from.
    pub spec: Spec,
    /// Plan.
    pub plan: Arc<Plan>,
    /// What is known of the actions that the plan uses, sorted by name.
    pub profiles: Vec<ActionProfile>,
}

/// A run that is to go on where another one was.
#[derive(Clone, Debug)]
pub struct NewFork<'a> {
    /// Id.
    pub run_id: RunId,
    /// The other run, if it does not live any more.
    pub ended: Option<&'a Run>,
    /// The other run.
    pub from: RunId,
    /// What it is made from. Input and environment are those of the other one.
    pub spec: Spec,
    /// What it keeps.
    pub keep: Keep<'a>,
    /// Plan, if it is another one.
    pub edited: Option<EditedPlan>,
    /// True if it may repeat effects of the other run.
    pub allow_repeat_effects: bool,
    /// Effects that are in doubt of children of the other run whose end that does not know.
    pub doubts_of_children: Vec<Doubt>,
}

/// What one input of one run led to. All of it is written in one commit, together with that of other runs.
#[derive(Debug)]
pub struct Work {
    /// The run.
    pub run_id: RunId,
    /// The number of its first entry.
    pub first_sequence: u64,
    /// Entries, each with its hash. Not empty.
    pub entries: Vec<EncodedEntry>,
    /// What they refer to by SHA-256.
    pub blobs: Vec<([u8; 32], Bytes)>,
    /// SHA-256 of contents that are there already and that the run refers to from now on.
    pub pinned: Vec<[u8; 32]>,
    /// Revisions that the run has from now on.
    pub revisions: Vec<RevisionRow>,
    /// What lists find the run by.
    pub index: IndexRow,
    /// Requests that were opened, answered, expired or closed.
    pub requests: Vec<RequestRow>,
    /// What its user is told.
    pub notices: Vec<NoticeRow>,
    /// The state after the last entry, if it is time for a snapshot.
    pub snapshot: Option<Bytes>,
    /// True if the run is discarded with this: of what it refers to only documents of revisions are kept.
    pub is_discarded: bool,
    /// What of it is counted, once all of this is durable.
    pub counted: Vec<Counted>,
    /// What may leave once all of this is durable.
    pub(crate) effects: Vec<Effect>,
}

impl Work {
    // RUN-9.3
    /// What may leave now that everything in here is durable.
    pub fn persisted(self) -> Vec<Effect> {
        self.effects
    }
}

/// What lists find a run by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexRow {
    /// The state in one word.
    pub state: ShownState,
    /// What it belongs to.
    pub namespace: Namespace,
    /// Whose run it is.
    pub user_id: String,
    /// 1 to 10.
    pub priority: u32,
    /// Unix milliseconds.
    pub created_at: i64,
    /// Unix milliseconds of the last entry.
    pub updated_at: i64,
    /// When its time comes, in Unix milliseconds; `None` once it has ended.
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
    /// Document, an encoded object; if it is not in place, it is among the blobs or was there before.
    pub document: Stored,
    /// The revisions that its steps run.
    pub sub_plans: Vec<[u8; 32]>,
}

/// A request that changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestRow {
    /// Id.
    pub request_id: InputRequestId,
    /// What kind of question it is; `None` if its run has forgotten it already, as one does that ends very many at once.
    pub kind: Option<RequestKind>,
    /// Where it is now.
    pub state: RequestState,
    /// What is asked, if it was asked just now.
    pub asked: Option<Asked>,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// What kind of question it is.
    pub kind: RequestKind,
    /// Unix milliseconds.
    pub expires_at: i64,
    /// The encoded `InputRequest`.
    pub record: Bytes,
}
