//! What can be written of runs, and what comes of it. Decides nothing.

use std::collections::BTreeMap;

use bytes::Bytes;
use escapement_model::{InputRequestId, Namespace, RunId};

use super::bounds::{TooLarge, check_bytes};
use super::content::Content;
use super::definitions::{DefinitionWrite, ExpectedVersion};
use super::limits::{
    CONTENT_BYTES_MAX, ENTRIES_MAX, ENTRY_BYTES_MAX, INPUT_REQUEST_BYTES_MAX, NAME_BYTES_MAX,
    NOTICE_BYTES_MAX, SNAPSHOT_BYTES_MAX,
};
use super::notices::NewNotice;

/// Writes of several runs, and changes of definitions, that become durable together or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunBatch {
    writes: Vec<RunWrite>,
    definitions: Vec<DefinitionWrite>,
    places: BTreeMap<RunId, usize>,
    is_probe: bool,
}

impl RunBatch {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a batch that is written like any other, and changes nothing: it shows that the store takes
    /// writes.
    pub fn probe() -> Self {
        Self {
            is_probe: true,
            ..Self::default()
        }
    }

    /// Adds the changes of one run. If the batch has a write of that run already, the two are merged. A
    /// commit refuses a batch that exceeds [`limits`](super::limits).
    ///
    /// # Panics
    /// If a new run has no entry, or a second write of a run does not continue the first.
    pub fn add(&mut self, write: RunWrite) {
        write.assert_made_of_entries();
        match self.places.get(&write.run_id) {
            Some(place) => self.writes[*place].go_on(write),
            None => {
                self.places.insert(write.run_id, self.writes.len());
                self.writes.push(write);
            }
        }
    }

    /// Adds an unconditional change of a definition. It replaces an earlier change of the same name in the
    /// batch.
    ///
    /// # Panics
    /// If the change expects a version.
    pub fn define(&mut self, write: DefinitionWrite) {
        assert_eq!(
            write.expected,
            ExpectedVersion::Any,
            "a batch expects nothing of definitions"
        );
        self.definitions
            .retain(|other| (other.kind, &other.name) != (write.kind, &write.name));
        self.definitions.push(write);
    }

    /// Definitions that change with the writes.
    pub fn definitions(&self) -> &[DefinitionWrite] {
        &self.definitions
    }

    /// The writes, one for each run, in the order in which runs were added first.
    pub fn writes(&self) -> &[RunWrite] {
        &self.writes
    }

    /// Returns the first part that exceeds the limits of every store.
    pub fn too_large(&self) -> Option<BatchOutcome> {
        let mut writes = self.writes.iter();
        let of_run = writes.find_map(|write| {
            let bound = write.check_bounds().err()?;
            Some(BatchOutcome::Refused {
                run_id: write.run_id,
                conflict: RunConflict::TooLarge(bound),
            })
        });
        let of_definition = |(place, write): (usize, &DefinitionWrite)| {
            let bound = write.check_bounds().err()?;
            Some(BatchOutcome::DefinitionTooLarge { place, bound })
        };
        of_run.or_else(|| self.definitions.iter().enumerate().find_map(of_definition))
    }

    /// Returns true if nothing was added, and nothing is written.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.definitions.is_empty() && !self.is_probe
    }
}

/// What becomes of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunWrite {
    /// Which run.
    pub run_id: RunId,
    /// What never changes of a new run; `None` for one that is there.
    pub created: Option<NewRun>,
    /// The number of the next entry, whether one is appended or not: 1 for a new run. Another one than the store's
    /// refuses the batch.
    pub next_seq: u64,
    /// Appended to the journal, in order. A new run has at least one.
    pub entries: Vec<Bytes>,
    /// Takes the place of the snapshot before.
    pub snapshot: Option<Snapshot>,
    /// Entries below this number are dropped; the snapshot must cover them.
    pub keep_from: Option<u64>,
    /// The index columns that change, as they are from now on.
    pub progress: RunProgress,
    /// Contents that the run refers to from now on; the store keeps equal ones once.
    pub contents: Vec<Content>,
    /// Digests of contents that are there already and that the run refers to from now on.
    pub pinned: Vec<[u8; 32]>,
    /// Digests of contents that the run does not refer to any more, after all that the batch pins.
    pub released: Vec<[u8; 32]>,
    /// True if the run refers to nothing any more but the documents of its revisions, after all that the batch pins.
    pub purges: bool,
    /// Input requests that are opened.
    pub opened: Vec<NewInputRequest>,
    /// Input requests of this run that are over.
    pub closed: Vec<ClosedInputRequest>,
    /// Requests of callers that this write answers and that they may repeat. The one that creates a run is not among
    /// them: it stands in [`NewRun::request`].
    pub requests: Vec<ClientRequest>,
    /// What users are told of it.
    pub notices: Vec<NewNotice>,
}

impl RunWrite {
    /// Creates a write that changes the index columns only.
    pub fn new(run_id: RunId, next_seq: u64, progress: RunProgress) -> Self {
        Self {
            run_id,
            created: None,
            next_seq,
            entries: Vec::new(),
            snapshot: None,
            keep_from: None,
            progress,
            contents: Vec::new(),
            pinned: Vec::new(),
            released: Vec::new(),
            purges: false,
            opened: Vec::new(),
            closed: Vec::new(),
            requests: Vec::new(),
            notices: Vec::new(),
        }
    }

    /// Returns the number of the entry behind the last one of this write.
    pub fn seq_behind(&self) -> u64 {
        self.next_seq + self.entries.len() as u64
    }

    /// Checks that the store holds it.
    ///
    /// # Errors
    /// [`TooLarge`] if a part is beyond [`limits`](super::limits).
    pub fn check_bounds(&self) -> Result<(), TooLarge> {
        if self.seq_behind() > ENTRIES_MAX {
            return Err(TooLarge {
                part: "a journal",
                size: self.seq_behind(),
                max: ENTRIES_MAX,
            });
        }
        check_bytes("an entry", ENTRY_BYTES_MAX, &self.entries)?;
        let snapshot = self.snapshot.iter().map(|snapshot| &snapshot.bytes);
        check_bytes("a snapshot", SNAPSHOT_BYTES_MAX, snapshot)?;
        let contents = self.contents.iter().map(Content::bytes);
        check_bytes("a content", CONTENT_BYTES_MAX, contents)?;
        let opened = self.opened.iter().map(|opened| &opened.record);
        check_bytes("an input request", INPUT_REQUEST_BYTES_MAX, opened)?;
        let closed = self.closed.iter().filter_map(|closed| closed.record.as_ref());
        check_bytes("an answer", INPUT_REQUEST_BYTES_MAX, closed)?;
        let notices = self.notices.iter().map(|notice| &notice.record);
        check_bytes("a notice", NOTICE_BYTES_MAX, notices)?;
        let streams = self.notices.iter().map(|notice| notice.stream.as_str());
        let names = self.created.iter().flat_map(NewRun::names);
        let owners = self.opened.iter().filter_map(|opened| opened.owner.as_deref());
        let keys = self.requests.iter().map(|request| request.key.as_str());
        let names = streams.chain(names).chain(owners).chain(keys);
        check_bytes("a name", NAME_BYTES_MAX, names)
    }

    /// # Panics
    /// If a new run has no entry, or a snapshot covers none: a defect of the caller, independent of the
    /// sizes.
    fn assert_made_of_entries(&self) {
        assert!(
            self.created.is_none() || !self.entries.is_empty(),
            "a new run has an entry"
        );
        let seq = self.snapshot.as_ref().map(|snapshot| snapshot.seq);
        assert!(
            seq.is_none_or(|seq| (1..self.seq_behind()).contains(&seq)),
            "a snapshot is made of entries"
        );
    }

    /// Takes in what becomes of the same run next.
    fn go_on(&mut self, next: Self) {
        assert!(next.created.is_none(), "a run is created once");
        assert!(
            next.next_seq == self.seq_behind(),
            "entry {} of run {} is next, not {}",
            self.seq_behind(),
            self.run_id,
            next.next_seq
        );
        self.snapshot = next.snapshot.or(self.snapshot.take());
        self.entries.extend(next.entries);
        self.keep_from = next.keep_from.max(self.keep_from);
        self.progress = next.progress;
        let is_wanted = |digest: &[u8; 32]| {
            next.pinned.contains(digest) || next.contents.iter().any(|content| content.digest() == *digest)
        };
        self.released.retain(|digest| !is_wanted(digest));
        self.pinned.extend(next.pinned);
        self.contents.extend(next.contents);
        self.released.extend(next.released);
        self.purges |= next.purges;
        self.opened.extend(next.opened);
        self.closed.extend(next.closed);
        self.requests.extend(next.requests);
        self.notices.extend(next.notices);
    }
}

/// What never changes of a run: its index columns, opaque to the store, which lists by them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewRun {
    /// What it belongs to.
    pub namespace: Namespace,
    /// Who asked.
    pub owner: Option<String>,
    /// Higher first in lists.
    pub priority: i32,
    /// Unix milliseconds.
    pub created_at: i64,
    /// The id of the saved plan that it is a run of.
    pub plan: Option<String>,
    /// The goal that it serves.
    pub goal: Option<String>,
    /// What fired it.
    pub trigger: Option<String>,
    /// The session whose state it shares.
    pub session: Option<String>,
    /// The run that asked for this one.
    pub parent: Option<RunId>,
    /// The request that created it.
    pub request: Option<ClientRequest>,
}

impl NewRun {
    fn names(&self) -> impl Iterator<Item = &str> {
        let request = self.request.as_ref().map(|request| request.key.as_str());
        [&self.owner, &self.plan, &self.goal, &self.trigger, &self.session]
            .into_iter()
            .filter_map(|name| name.as_deref())
            .chain(request)
    }
}

/// A request that a caller may repeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientRequest {
    /// The caller's own id of it, unique in the store; the scope of ids is part of the text.
    pub key: String,
    /// Digest of the request, given back with a conflict.
    pub digest: [u8; 32],
}

/// The index columns of a run that change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunProgress {
    /// Opaque to the store, which lists by it.
    pub state: u8,
    /// Unix milliseconds.
    pub updated_at: i64,
    /// When its next timer is due, Unix milliseconds.
    pub due_at: Option<i64>,
    /// Unix milliseconds; once it is there, the run has ended and never changes again.
    pub ended_at: Option<i64>,
}

/// A run as it is after an entry, without need of that or an earlier one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The number of that entry.
    pub seq: u64,
    /// Opaque to the store.
    pub bytes: Bytes,
}

/// An input request, what a person is asked, that is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewInputRequest {
    /// What it belongs to: that of its run.
    pub namespace: Namespace,
    /// Unique in the store.
    pub id: InputRequestId,
    /// Opaque to the store.
    pub kind: u8,
    /// Opaque to the store.
    pub state: u8,
    /// Whose inbox it is in; `None` for one that belongs to nobody.
    pub owner: Option<String>,
    /// Unix milliseconds.
    pub opened_at: i64,
    /// Unix milliseconds.
    pub due_at: Option<i64>,
    /// What is asked; opaque to the store.
    pub record: Bytes,
}

/// An input request that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClosedInputRequest {
    /// Which.
    pub id: InputRequestId,
    /// How it ended; opaque to the store.
    pub state: u8,
    /// Unix milliseconds.
    pub closed_at: i64,
    /// Takes the place of what was asked; `None` leaves it.
    pub record: Option<Bytes>,
}

/// What came of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchOutcome {
    /// All of it is durable.
    Done,
    /// Nothing of it was written. It goes through without this write, if the others do not build on it.
    Refused {
        /// The run whose write is the first that cannot be.
        run_id: RunId,
        /// Why not.
        conflict: RunConflict,
    },
    /// Refused as a whole: one of its definitions is larger than the store holds.
    DefinitionTooLarge {
        /// Index among the definitions of the batch.
        place: usize,
        /// The exceeded limit.
        bound: TooLarge,
    },
}

/// Reason why a write cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunConflict {
    /// A new run: that id exists, or was removed. Reported before [`RunConflict::RequestUsed`] if both hold.
    RunIdUsed,
    /// A new run: that request has created another run, which may have been removed. Otherwise: that request was
    /// answered before.
    RequestUsed {
        /// The run that it created, or that it was about.
        run_id: RunId,
        /// Digest of that request.
        digest: [u8; 32],
    },
    /// No such run.
    NotFound,
    /// The run has ended.
    Ended,
    /// A defect of the caller: another entry is the next one.
    WrongSequence {
        /// The one that is.
        next_seq: u64,
    },
    /// A defect of the caller: no snapshot covers the entries that are to be dropped.
    NotCovered,
    /// A content that is to be pinned is not there.
    ContentMissing {
        /// Digest.
        digest: [u8; 32],
    },
    /// An input request of that id exists.
    InputRequestIdUsed {
        /// Id.
        id: InputRequestId,
    },
    /// No input request of that id is open in this run.
    InputRequestNotOpen {
        /// Id.
        id: InputRequestId,
    },
    /// The store does not hold it.
    TooLarge(TooLarge),
}
