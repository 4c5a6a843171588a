//! What a memory store of runs holds, in ordered collections. Knows neither faults nor time.

mod definitions;
mod endings;
mod notices;
mod queries;
mod references;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use escapement_model::chain::{chain_begin, chain_next};
use escapement_model::{InputRequestId, RunId};

use crate::memory::DiskContents;
use escapement_store::runs::StoredNotice;
use escapement_store::runs::limits::{ENTRIES_REMOVED_PER_STEP_MAX, RUNS_REMOVED_PER_STEP_MAX};
use escapement_store::runs::{
    BatchOutcome, NewInputRequest, RunBatch, RunConflict, RunProgress, RunWrite, Snapshot,
};
use escapement_store::runs::{Definition, DefinitionChange, DefinitionKind, DefinitionWrite};
use escapement_store::runs::{JournalEntry, RemovedRun, RunSummary, StoredInputRequest};
use escapement_store::runs::{RunRemoval, RunsRemoved};

/// A change; the same changes make the same contents.
#[derive(Clone, Debug)]
pub enum Change {
    /// A batch that was not refused.
    Batch(RunBatch),
    /// A step of removal, at this time.
    Removal(RunRemoval, i64),
    /// The removal of the ended run of this number, at this time.
    RunRemoval(u64, i64),
    /// The removal of the run of this number, whether it has ended or not, as in this state and at this time.
    Discard(u64, u8, i64),
    /// A change of a definition that was not refused.
    Definition(DefinitionWrite),
}

/// The runs on a disk in memory.
#[derive(Clone, Debug, Default)]
pub struct RunContents {
    runs: BTreeMap<u64, Entry>,
    by_id: BTreeMap<RunId, u64>,
    by_request: BTreeMap<String, u64>,
    contents: BTreeMap<[u8; 32], Kept>,
    definitions: BTreeMap<(DefinitionKind, String), Definition>,
    /// By their keys, with the numbers of their runs.
    answered: BTreeMap<String, (u64, RunId, [u8; 32])>,
    /// By their numbers, with that of their run.
    input_requests: BTreeMap<u64, (u64, StoredInputRequest)>,
    input_requests_by_id: BTreeMap<InputRequestId, u64>,
    /// By their numbers.
    notices: BTreeMap<u64, StoredNotice>,
    notice_last: u64,
    endings: endings::Endings,
    /// In the order of removal.
    removed: VecDeque<RemovedRun>,
    number_last: u64,
    input_request_last: u64,
    content_last: u64,
    n_forgotten: u64,
}

/// A content.
#[derive(Clone, Debug)]
struct Kept {
    /// In the order in which contents came.
    place: u64,
    bytes: Bytes,
    revision: Option<[u8; 32]>,
    by: BTreeSet<Keeper>,
}

/// What refers to a content.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Keeper {
    Run(u64),
    Definition(DefinitionKind, String),
}

#[derive(Clone, Debug)]
struct Entry {
    summary: RunSummary,
    snapshot: Option<Snapshot>,
    journal: BTreeMap<u64, JournalEntry>,
}

impl DiskContents for RunContents {
    type Change = Change;

    fn replay(&mut self, change: Change) {
        match change {
            Change::Batch(batch) => self.apply(&batch),
            Change::Removal(policy, now_unix_ms) => {
                self.remove_ended(&policy, now_unix_ms);
            }
            Change::RunRemoval(number, now_unix_ms) => self.remove(number, now_unix_ms),
            Change::Discard(number, state, now_unix_ms) => self.discard(number, state, now_unix_ms),
            Change::Definition(write) => {
                self.define(&write);
            }
        }
    }
}

/// What a batch has brought before the write that is looked at.
#[derive(Default)]
struct Brought<'a> {
    requests: BTreeMap<&'a str, (RunId, [u8; 32])>,
    contents: BTreeSet<[u8; 32]>,
    input_requests: BTreeMap<InputRequestId, RunId>,
    closed: BTreeSet<InputRequestId>,
    answered: BTreeMap<&'a str, (RunId, [u8; 32])>,
}

impl RunContents {
    /// Returns the reason why the batch cannot be.
    pub(super) fn refusal(&self, batch: &RunBatch) -> Option<BatchOutcome> {
        let mut brought = Brought::default();
        batch.writes().iter().find_map(|write| {
            let conflict = self.conflict(write, &mut brought)?;
            Some(BatchOutcome::Refused {
                run_id: write.run_id,
                conflict,
            })
        })
    }

    fn conflict<'a>(&self, write: &'a RunWrite, brought: &mut Brought<'a>) -> Option<RunConflict> {
        let (next_seq, snapshot_seq) = match &write.created {
            Some(created) => {
                if self.by_id.contains_key(&write.run_id) || self.removed(write.run_id).is_some() {
                    return Some(RunConflict::RunIdUsed);
                }
                if let Some(request) = &created.request {
                    let used = brought.requests.get(request.key.as_str()).copied();
                    if let Some((run_id, digest)) = used.or_else(|| self.created_by(&request.key)) {
                        return Some(RunConflict::RequestUsed { run_id, digest });
                    }
                    brought
                        .requests
                        .insert(&request.key, (write.run_id, request.digest));
                }
                (1, 0)
            }
            None => {
                let Some(run) = self.summary(write.run_id) else {
                    return Some(RunConflict::NotFound);
                };
                if run.progress.ended_at.is_some() {
                    return Some(RunConflict::Ended);
                }
                (run.next_seq, run.snapshot_seq)
            }
        };
        if write.next_seq != next_seq {
            return Some(RunConflict::WrongSequence { next_seq });
        }
        let snapshot_seq = write
            .snapshot
            .as_ref()
            .map_or(snapshot_seq, |snapshot| snapshot.seq);
        if write.keep_from.is_some_and(|from| from > snapshot_seq + 1) {
            return Some(RunConflict::NotCovered);
        }
        self.conflict_of_parts(write, brought)
    }

    fn conflict_of_parts<'a>(&self, write: &'a RunWrite, brought: &mut Brought<'a>) -> Option<RunConflict> {
        brought
            .contents
            .extend(write.contents.iter().map(|content| content.digest()));
        let is_there =
            |digest: &[u8; 32]| brought.contents.contains(digest) || self.contents.contains_key(digest);
        if let Some(digest) = write.pinned.iter().find(|digest| !is_there(digest)) {
            return Some(RunConflict::ContentMissing { digest: *digest });
        }
        for NewInputRequest { id, .. } in &write.opened {
            let is_used = self.input_requests_by_id.contains_key(id);
            if is_used || brought.input_requests.insert(*id, write.run_id).is_some() {
                return Some(RunConflict::InputRequestIdUsed { id: *id });
            }
        }
        for closed in &write.closed {
            let id = closed.id;
            let open = self
                .input_request(id)
                .filter(|request| request.closed_at.is_none())
                .map(|request| request.run_id);
            let of = brought.input_requests.get(&id).copied().or(open);
            if of != Some(write.run_id) || !brought.closed.insert(id) {
                return Some(RunConflict::InputRequestNotOpen { id });
            }
        }
        for request in &write.requests {
            let used = brought.answered.get(request.key.as_str()).copied();
            if let Some((run_id, digest)) = used.or_else(|| self.answered(&request.key)) {
                return Some(RunConflict::RequestUsed { run_id, digest });
            }
            brought
                .answered
                .insert(&request.key, (write.run_id, request.digest));
        }
        None
    }

    /// Applies a batch that is not refused.
    pub(super) fn apply(&mut self, batch: &RunBatch) {
        for write in batch.writes() {
            self.apply_one(write);
        }
        for write in batch.writes() {
            let number = self.by_id[&write.run_id];
            for digest in &write.released {
                self.release(digest, &Keeper::Run(number));
            }
            if write.purges {
                self.purge(number);
            }
        }
        for write in batch.definitions() {
            let mut write = write.clone();
            if let DefinitionChange::Put(put) = &mut write.change {
                put.pinned.retain(|digest| self.contents.contains_key(digest));
            }
            self.define(&write);
        }
    }

    fn apply_one(&mut self, write: &RunWrite) {
        if let Some(created) = &write.created {
            self.number_last += 1;
            let summary = RunSummary {
                number: self.number_last,
                run_id: write.run_id,
                created: created.clone(),
                progress: write.progress,
                first_seq: 1,
                next_seq: 1,
                snapshot_seq: 0,
                last_link: chain_begin(&write.run_id),
            };
            self.by_id.insert(write.run_id, self.number_last);
            if let Some(request) = &created.request {
                self.by_request.insert(request.key.clone(), self.number_last);
            }
            let entry = Entry {
                summary,
                snapshot: None,
                journal: BTreeMap::new(),
            };
            self.runs.insert(self.number_last, entry);
        }
        let number = self.by_id[&write.run_id];
        let entry = self.runs.get_mut(&number).expect("the id leads to it");
        entry.go_on(write, write.progress);
        if write.progress.ended_at.is_some() {
            self.endings.ends(number);
        }
        self.pin_all(&Keeper::Run(number), &write.contents, &write.pinned);
        for request in &write.requests {
            let answered = (number, write.run_id, request.digest);
            self.answered.insert(request.key.clone(), answered);
        }
        for opened in &write.opened {
            self.input_request_last += 1;
            let request = StoredInputRequest {
                number: self.input_request_last,
                id: opened.id,
                run_id: write.run_id,
                namespace: opened.namespace.clone(),
                kind: opened.kind,
                state: opened.state,
                owner: opened.owner.clone(),
                opened_at: opened.opened_at,
                due_at: opened.due_at,
                closed_at: None,
                record: opened.record.clone(),
            };
            self.input_requests_by_id.insert(opened.id, request.number);
            self.input_requests.insert(request.number, (number, request));
        }
        self.tell(&write.notices);
        for closed in &write.closed {
            let at = self.input_requests_by_id[&closed.id];
            let (_, request) = self.input_requests.get_mut(&at).expect("the id leads to it");
            request.state = closed.state;
            request.closed_at = Some(closed.closed_at);
            if let Some(record) = &closed.record {
                request.record = record.clone();
            }
        }
    }

    /// The numbers of runs that a step removes.
    fn due(&self, policy: &RunRemoval, now_unix_ms: i64) -> (Vec<u64>, bool) {
        let before = policy.ended_before(now_unix_ms);
        let mut due: Vec<(i64, u64)> = self
            .runs
            .iter()
            .filter_map(|(number, entry)| Some((entry.summary.progress.ended_at?, *number)))
            .collect();
        due.sort_unstable();
        let n_too_many = policy.n_too_many(due.len() as u64);
        let n_too_old = due.partition_point(|(ended_at, _)| before.is_some_and(|before| *ended_at < before));
        due.truncate(n_too_old.max(usize::try_from(n_too_many).unwrap_or(usize::MAX)));
        due.truncate(RUNS_REMOVED_PER_STEP_MAX);
        let place = |number: &u64| self.endings.place_of(*number);
        let is_held = |(at, number): &(i64, u64)| policy.holds(place(number), *at, now_unix_ms);
        due.truncate(due.iter().position(is_held).unwrap_or(due.len()));
        let (mut numbers, mut n_entries) = (Vec::new(), 0);
        for (_, number) in &due {
            n_entries += self.runs[number].journal.len() as u64;
            numbers.push(*number);
            if n_entries >= ENTRIES_REMOVED_PER_STEP_MAX {
                break;
            }
        }
        let has_more = numbers.len() < due.len() || due.len() == RUNS_REMOVED_PER_STEP_MAX;
        (numbers, has_more)
    }

    fn n_ids_due(&self, policy: &RunRemoval, now_unix_ms: i64) -> usize {
        let Some(before) = policy.removed_before(now_unix_ms) else {
            return 0;
        };
        let due = self
            .removed
            .iter()
            .take_while(|removed| removed.removed_at < before);
        due.take(RUNS_REMOVED_PER_STEP_MAX).count()
    }

    /// Returns true if a step would remove something.
    pub(super) fn has_due(&self, policy: &RunRemoval, now_unix_ms: i64) -> bool {
        self.n_ids_due(policy, now_unix_ms) > 0 || !self.due(policy, now_unix_ms).0.is_empty()
    }

    /// One step of removal.
    pub(super) fn remove_ended(&mut self, policy: &RunRemoval, now_unix_ms: i64) -> RunsRemoved {
        let (due, has_more) = self.due(policy, now_unix_ms);
        for number in &due {
            self.endings.is_not_kept(*number);
            self.remove(*number, now_unix_ms);
        }
        let n_ids = self.n_ids_due(policy, now_unix_ms);
        self.removed.drain(..n_ids);
        self.n_forgotten += n_ids as u64;
        RunsRemoved {
            n_runs: due.len() as u64,
            n_ids: n_ids as u64,
            has_more: has_more || n_ids == RUNS_REMOVED_PER_STEP_MAX,
        }
    }

    /// Removes a run as if it ended now in this state, unless it has ended.
    pub(super) fn discard(&mut self, number: u64, state: u8, now_unix_ms: i64) {
        let run = self.runs.get_mut(&number).expect("it was looked for");
        let progress = &mut run.summary.progress;
        if progress.ended_at.is_none() {
            (progress.state, progress.ended_at) = (state, Some(now_unix_ms));
        }
        self.remove(number, now_unix_ms);
    }

    pub(super) fn remove(&mut self, number: u64, now_unix_ms: i64) {
        let summary = self.runs.remove(&number).expect("it was looked for").summary;
        self.by_id.remove(&summary.run_id);
        self.endings.remove(number);
        if let Some(request) = &summary.created.request {
            self.by_request.remove(&request.key);
        }
        let digests: Vec<[u8; 32]> = self.contents.keys().copied().collect();
        for digest in digests {
            self.release(&digest, &Keeper::Run(number));
        }
        self.answered.retain(|_, (of, ..)| *of != number);
        self.input_requests.retain(|_, (of, _)| *of != number);
        let left: BTreeSet<u64> = self.input_requests.keys().copied().collect();
        self.input_requests_by_id.retain(|_, at| left.contains(at));
        self.removed.push_back(RemovedRun {
            number,
            run_id: summary.run_id,
            state: summary.progress.state,
            created_at: summary.created.created_at,
            ended_at: summary.progress.ended_at.expect("only ended runs are removed"),
            removed_at: now_unix_ms,
            last_seq: summary.next_seq - 1,
            last_link: summary.last_link,
            request: summary.created.request,
        });
    }
}

impl Entry {
    fn go_on(&mut self, write: &RunWrite, progress: RunProgress) {
        let summary = &mut self.summary;
        summary.progress = progress;
        for bytes in &write.entries {
            let seq = summary.next_seq;
            summary.last_link = chain_next(&summary.last_link, seq, bytes);
            summary.next_seq += 1;
            let entry = JournalEntry {
                seq,
                link: summary.last_link,
                bytes: bytes.clone(),
            };
            self.journal.insert(seq, entry);
        }
        if let Some(snapshot) = &write.snapshot {
            summary.snapshot_seq = snapshot.seq;
            self.snapshot = Some(snapshot.clone());
        }
        if let Some(keep_from) = write.keep_from.filter(|from| *from > summary.first_seq) {
            summary.first_seq = keep_from;
            self.journal = self.journal.split_off(&keep_from);
        }
    }
}
