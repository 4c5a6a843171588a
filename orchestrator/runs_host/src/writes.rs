//! Writes of a run, as the store takes them.

use escapement_model::RunId;
use escapement_run::journal::{Entry, RequestState};
use escapement_run::{Effect, ShownState};
use escapement_runs::{Counted, INBOX_STREAM, InboxChange, NoticeRow, RequestRow, RevisionRow, Work};
use escapement_store::runs::limits::{INBOX_CHANGES_MAX, NOTICES_PER_STREAM_MAX};
use escapement_store::runs::{
    ClientRequest, ClosedInputRequest, Content, NewInputRequest, NewNotice, NewRun, RunProgress, RunWrite,
    Snapshot, TooLarge, limits,
};
use prost::Message;

// The store refuses larger ones.
const _: () = assert!(escapement_runs::SNAPSHOT_BYTES_MAX <= limits::SNAPSHOT_BYTES_MAX);
const _: () = assert!(escapement_runs::STREAM_BYTES_MAX <= limits::NAME_BYTES_MAX);
const _: () = assert!(escapement_run::bounds::ENTRY_BYTES_MAX <= limits::ENTRY_BYTES_MAX);

// RUN-9.6
/// Returns the bound that the first entries of a run break, if they do.
pub(crate) fn too_large(work: &Work) -> Option<TooLarge> {
    let entries = work.entries.iter().map(|entry| entry.bytes.len());
    let largest = entries.max().unwrap_or(0);
    (largest > limits::ENTRY_BYTES_MAX).then_some(TooLarge {
        part: "an entry of the run",
        size: largest as u64,
        max: limits::ENTRY_BYTES_MAX as u64,
    })
}

/// Returns a run's state as lists have it. Numbers are never used for another state.
pub fn state_byte(state: ShownState) -> u8 {
    match state {
        ShownState::Queued => 1,
        ShownState::Running => 2,
        ShownState::Waiting => 3,
        ShownState::Pausing => 4,
        ShownState::Paused => 5,
        ShownState::Completed => 6,
        ShownState::Failed => 7,
        ShownState::Timeout => 8,
        ShownState::Cancelled => 9,
        ShownState::Planning => 10,
        ShownState::Verifying => 11,
    }
}

/// Returns a request's state as lists have it. Numbers are never used for another state.
pub fn request_state_byte(state: RequestState) -> u8 {
    match state {
        RequestState::Open => 1,
        RequestState::Answered => 2,
        RequestState::Expired => 3,
        RequestState::Closed => 4,
    }
}

/// Index columns of a run in addition to its owner and its saved plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Links {
    /// The goal that it serves.
    pub goal: Option<String>,
    /// Trigger that started it.
    pub trigger: Option<String>,
}

/// Pending write of one run.
pub(crate) struct Queued {
    pub(crate) work: Work,
    pub(crate) coming: Coming,
}

/// A write that is not known to be durable, and what it holds back.
pub(crate) struct Written {
    pub(crate) coming: Coming,
    pub(crate) counted: Vec<Counted>,
    pub(crate) effects: Vec<Effect>,
}

/// Keys of a change that is not known to be durable.
pub(crate) struct Coming {
    pub(crate) run_id: RunId,
    /// True if the run is made with it.
    pub(crate) creates: bool,
    /// Request that the caller of this change may repeat.
    pub(crate) request: Option<ClientRequest>,
    /// The saved plan of a new run.
    pub(crate) plan: Option<String>,
    /// Further index columns of a new run.
    pub(crate) links: Links,
}

impl Queued {
    pub(crate) fn new(work: Work, request: Option<ClientRequest>) -> Self {
        let coming = Coming {
            run_id: work.run_id,
            creates: work.first_sequence == 1,
            request,
            plan: None,
            links: Links::default(),
        };
        Self { work, coming }
    }

    /// Returns the parts that remain once it is written.
    pub(crate) fn written(mut self) -> Written {
        Written {
            counted: core::mem::take(&mut self.work.counted),
            coming: self.coming,
            effects: self.work.persisted(),
        }
    }
}

/// Returns the write of one work.
pub(crate) fn write_of(queued: &Queued) -> RunWrite {
    let Queued { work, coming } = queued;
    let request = coming.request.clone();
    let (created_by, answered) = if coming.creates {
        (request, None)
    } else {
        (None, request)
    };
    RunWrite {
        requests: answered.into_iter().collect(),
        ..with_creation(work, created_by, coming)
    }
}

fn with_creation(work: &Work, request: Option<ClientRequest>, coming: &Coming) -> RunWrite {
    let index = &work.index;
    let progress = RunProgress {
        state: state_byte(index.state),
        updated_at: index.updated_at,
        due_at: index.due_at,
        ended_at: index.due_at.is_none().then_some(index.updated_at),
    };
    let created = (work.first_sequence == 1).then(|| NewRun {
        namespace: index.namespace.clone(),
        owner: Some(index.user_id.clone()),
        priority: i32::try_from(index.priority).expect("priorities are 1 to 10"),
        created_at: index.created_at,
        parent: index.parent_run_id,
        request,
        plan: coming.plan.clone(),
        goal: coming.links.goal.clone(),
        trigger: coming.links.trigger.clone(),
        session: index.session_id.clone(),
    });
    let last = work.first_sequence + work.entries.len() as u64 - 1;
    let snapshot = work.snapshot.clone();
    RunWrite {
        created,
        entries: work.entries.iter().map(|entry| entry.bytes.clone()).collect(),
        snapshot: snapshot.map(|bytes| Snapshot { seq: last, bytes }),
        contents: contents(work),
        pinned: work.pinned.clone(),
        // RUN-8.9
        purges: work.is_discarded,
        opened: work.requests.iter().filter_map(|row| opened(work, row)).collect(),
        closed: work.requests.iter().filter_map(|row| closed(work, row)).collect(),
        notices: work.notices.iter().flat_map(told).chain(in_inbox(work)).collect(),
        ..RunWrite::new(work.run_id, work.first_sequence, progress)
    }
}

/// Returns the contents of the run, the documents of its revisions with their digests.
fn contents(work: &Work) -> Vec<Content> {
    let blobs = work.blobs.iter().map(|(digest, bytes)| {
        let is_document = |row: &&RevisionRow| row.document.content() == Some(*digest);
        match work.revisions.iter().find(is_document) {
            Some(row) => Content::of_revision(bytes.clone(), row.digest),
            None => Content::new(bytes.clone()),
        }
    });
    let in_place = work
        .revisions
        .iter()
        .filter(|row| row.document.content().is_none());
    let documents = in_place.map(|row| Content::of_revision(row.document.inline.clone(), row.digest));
    blobs.chain(documents).collect()
}

/// Returns a notice in each of its streams.
pub(crate) fn told(row: &NoticeRow) -> impl Iterator<Item = NewNotice> {
    row.streams.iter().map(|stream| NewNotice {
        stream: stream.clone(),
        at: row.at,
        record: row.record.clone(),
        kept_max: NOTICES_PER_STREAM_MAX,
    })
}

/// Returns the changes of requests, in the stream of the inbox.
fn in_inbox(work: &Work) -> impl Iterator<Item = NewNotice> {
    let changes = work.inbox_changes().into_iter();
    changes.map(|change: InboxChange| NewNotice {
        stream: INBOX_STREAM.to_owned(),
        at: work.index.updated_at,
        record: change.encode_to_vec().into(),
        kept_max: INBOX_CHANGES_MAX,
    })
}

fn opened(work: &Work, row: &RequestRow) -> Option<NewInputRequest> {
    let asked = row.asked.as_ref()?;
    Some(NewInputRequest {
        namespace: work.index.namespace.clone(),
        id: row.request_id,
        kind: u8::try_from(i32::from(asked.kind)).expect("kinds are few"),
        state: request_state_byte(RequestState::Open),
        owner: Some(work.index.user_id.clone()),
        opened_at: work.index.updated_at,
        due_at: Some(asked.expires_at),
        record: asked.record.clone(),
    })
}

fn closed(work: &Work, row: &RequestRow) -> Option<ClosedInputRequest> {
    (row.state != RequestState::Open).then(|| ClosedInputRequest {
        id: row.request_id,
        state: request_state_byte(row.state),
        closed_at: work.index.updated_at,
        record: None,
    })
}

/// Returns an entry of a journal as the store has it.
pub(crate) fn entry_of(bytes: &[u8]) -> Option<Entry> {
    Entry::decode(bytes).ok().filter(|entry| entry.event.is_some())
}
