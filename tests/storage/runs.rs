//! The store of runs on the same disk: kills, power cuts and failures at every call, and flipped bits. What must be
//! there is kept by a judge of its own.

mod flips;
mod sweep;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use escapement_model::{InputRequestId, RunId};
use escapement_store::runs::{
    BatchOutcome, ClientRequest, Content, DefinitionChange, DefinitionKind, DefinitionOutcome, DefinitionPut,
    DefinitionWrite, ExpectedVersion, RunBatch, RunProgress, RunReader, RunRemoved, RunStore, RunWrite,
    Scope, Snapshot,
};
use escapement_store::{Checkpointing, Embedded, EmbeddedOptions, StoreFault};
use escapement_store_kit::runs::conformance::RunSample;
use escapement_test_disk::Disk;

use crate::place::PAGES_DUE;

const DATABASE: &str = "store.db";
const LOG: &str = "store.db-wal";
const MARK: &str = "store.mark";

/// Seeds of the runs that any life has to do with.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=9;
/// Their contents.
const CONTENTS: std::ops::Range<u64> = 0..4;
/// When runs are removed, Unix milliseconds.
const REMOVED_AT: i64 = 1_800_000_000_000;

fn open(disk: &Disk) -> Result<Embedded, StoreFault> {
    open_with(disk, EmbeddedOptions::default())
}

fn open_with(disk: &Disk, options: EmbeddedOptions) -> Result<Embedded, StoreFault> {
    escapement_tests::planted::arm();
    let options = EmbeddedOptions {
        files: Some(disk.files()),
        checkpointing: Checkpointing::Inline { pages_due: PAGES_DUE },
        ..options
    };
    Embedded::open(&disk.directory(), options)
}

fn content(n: u64) -> Content {
    Content::new(Bytes::from(vec![n as u8; 3000 + 9000 * n as usize]))
}

/// A thing that is asked of a store.
#[derive(Clone, Debug)]
enum Act {
    Commit(RunBatch),
    /// Removes the run of that seed.
    Remove(u64),
    /// Makes a saved plan of that name, or changes it, with that document; `None` deletes it.
    Define(&'static str, Option<u64>),
}

/// What one process does between opening and closing.
type Life = Vec<Act>;

fn commit(writes: impl IntoIterator<Item = RunWrite>) -> Act {
    let mut batch = RunBatch::new();
    for write in writes {
        batch.add(write);
    }
    Act::Commit(batch)
}

/// Runs that begin, grow, wait for answers, share contents, are compacted, end and are removed.
fn lives() -> Vec<Life> {
    let sample = RunSample::new;
    let with = |mut write: RunWrite, change: fn(&mut RunWrite)| {
        change(&mut write);
        write
    };
    let first = vec![
        commit([sample(1).create()]),
        commit([
            with(sample(2).create(), |write| {
                write.contents = vec![content(1), content(2)]
            }),
            with(sample(1).append(2, 20), |write| write.contents = vec![content(1)]),
        ]),
        commit([with(sample(2).append(2, 1), |write| {
            write.opened = vec![sample_of(2).input_request(1), sample_of(2).input_request(2)];
        })]),
        commit([sample(3).create(), sample(4).create(), sample(5).create()]),
        Act::Define("one", Some(0)),
        Act::Define("two", Some(1)),
        commit([
            with(sample(4).append(2, 0), |write| write.requests = vec![request(4)]),
            with(sample(3).append(2, 0), |write| write.requests = vec![request(3)]),
        ]),
        commit([with(sample(1).append(22, 3), |write| {
            write.snapshot = sample_of(1).snapshot(20);
            write.keep_from = Some(15);
        })]),
        commit([sample(3).end(2), sample(2).append(3, 2)]),
    ];
    let second = vec![
        commit([with(sample(2).append(5, 1), |write| {
            write.closed = vec![sample_of(2).answer(1)];
            write.released = vec![content(2).digest()];
        })]),
        Act::Remove(3),
        Act::Define("one", Some(2)),
        commit([
            with(sample(1).end(25), |write| {
                write.snapshot = sample_of(1).snapshot(25)
            }),
            with(sample(6).create(), |write| {
                write.pinned = vec![content(1).digest()];
                write.contents = vec![content(3)];
            }),
        ]),
        Act::Remove(1),
        Act::Define("two", None),
        commit([sample(7).create(), sample(4).append(2, 30)]),
        commit([sample(4).end(32), sample(6).end(2)]),
    ];
    vec![first, second]
}

/// Returns the request that is about the run of that seed.
fn request(seed: u64) -> ClientRequest {
    ClientRequest {
        key: format!("verb {seed}"),
        digest: [seed as u8; 32],
    }
}

/// Names of saved plans, and their documents.
const PLANS: [&str; 2] = ["one", "two"];
const DOCUMENTS: std::ops::Range<u64> = 0..3;

/// Returns a document of a revision, the last of which is large.
fn document(n: u64) -> Content {
    Content::of_revision(
        Bytes::from(vec![n as u8 + 100; 500 + 4000 * n as usize]),
        [n as u8 + 1; 32],
    )
}

fn sample_of(seed: u64) -> RunSample {
    RunSample::new(seed)
}

/// A run as it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Known {
    number: u64,
    progress: RunProgress,
    first_seq: u64,
    entries: BTreeMap<u64, Bytes>,
    snapshot: Option<Snapshot>,
}

/// What must be there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Truth {
    runs: BTreeMap<RunId, Known>,
    removed: BTreeSet<RunId>,
    pins: BTreeSet<(RunId, [u8; 32])>,
    /// Open input requests with their runs.
    open: BTreeMap<InputRequestId, RunId>,
    answered: BTreeMap<String, RunId>,
    /// Versions and documents of saved plans.
    plans: BTreeMap<&'static str, (u64, u64)>,
    number_last: u64,
}

impl Truth {
    fn apply(&mut self, act: &Act) {
        match act {
            Act::Commit(batch) => {
                for write in batch.writes() {
                    self.write(write);
                }
            }
            Act::Remove(seed) => {
                let id = sample_of(*seed).run_id();
                self.runs.remove(&id);
                self.pins.retain(|(run, _)| *run != id);
                self.open.retain(|_, run| *run != id);
                self.answered.retain(|_, run| *run != id);
                self.removed.insert(id);
            }
            Act::Define(name, Some(document)) => {
                let version = self.plans.get(name).map_or(0, |(version, _)| *version);
                self.plans.insert(name, (version + 1, *document));
            }
            Act::Define(name, None) => {
                self.plans.remove(name);
            }
        }
    }

    fn write(&mut self, write: &RunWrite) {
        let id = write.run_id;
        if write.created.is_some() {
            self.number_last += 1;
            let known = Known {
                number: self.number_last,
                progress: write.progress,
                first_seq: 1,
                entries: BTreeMap::new(),
                snapshot: None,
            };
            self.runs.insert(id, known);
        }
        let known = self.runs.get_mut(&id).unwrap();
        known.progress = write.progress;
        known
            .entries
            .extend((write.next_seq..).zip(write.entries.clone()));
        known.snapshot = write.snapshot.clone().or(known.snapshot.take());
        if let Some(keep_from) = write.keep_from {
            known.first_seq = keep_from;
            known.entries = known.entries.split_off(&keep_from);
        }
        let contents = write.contents.iter().map(Content::digest);
        self.pins
            .extend(contents.chain(write.pinned.clone()).map(|digest| (id, digest)));
        for digest in &write.released {
            self.pins.remove(&(id, *digest));
        }
        self.open
            .extend(write.opened.iter().map(|opened| (opened.id, id)));
        for closed in &write.closed {
            self.open.remove(&closed.id);
        }
        let answered = write.requests.iter().map(|request| (request.key.clone(), id));
        self.answered.extend(answered);
    }

    fn has_content(&self, digest: [u8; 32]) -> bool {
        self.pins.iter().any(|(_, pinned)| *pinned == digest)
    }

    /// Returns the first thing that the store shows differently.
    fn differs(&self, store: &Embedded) -> Option<String> {
        let reader = store.reader().unwrap();
        for seed in SEEDS {
            let id = sample_of(seed).run_id();
            let found = shown(&*reader, id).unwrap();
            if found.as_ref() != self.runs.get(&id) {
                return Some(format!("run {seed}: {found:?}"));
            }
            if reader.removed(id).unwrap().is_some() != self.removed.contains(&id) {
                return Some(format!("what is left of run {seed}"));
            }
        }
        for n in CONTENTS {
            let content = content(n);
            let found = reader.content(&content.digest()).unwrap();
            let expected = self
                .has_content(content.digest())
                .then(|| content.bytes().clone());
            if found != expected {
                return Some(format!("content {n}"));
            }
        }
        for name in PLANS {
            let plan = plan(&*reader, name).unwrap();
            if plan != self.plans.get(name).copied() {
                return Some(format!("saved plan {name}: {plan:?}"));
            }
        }
        for n in DOCUMENTS {
            let found = reader
                .revision(&document(n).revision().unwrap(), &[Scope::EVERYTHING])
                .unwrap();
            if found.map(|found| found.document) != self.document(n) {
                return Some(format!("document {n}"));
            }
        }
        for seed in SEEDS {
            let answered = reader.answered(&request(seed).key).unwrap();
            if answered.map(|(run, _)| run) != self.answered.get(&request(seed).key).copied() {
                return Some(format!("answered request about run {seed}: {answered:?}"));
            }
        }
        let open = reader.open_input_requests(None, None, 100).unwrap();
        let open: BTreeMap<_, _> = open
            .requests
            .iter()
            .map(|request| (request.id, request.run_id))
            .collect();
        let live = reader.live(None, 100).unwrap();
        let live: Vec<u64> = live.iter().map(|run| run.number).collect();
        let is_same = open == self.open && live == self.live();
        (!is_same).then(|| format!("open: {open:?}, live: {live:?}"))
    }

    fn document(&self, n: u64) -> Option<Bytes> {
        let is_there = self.plans.values().any(|(_, document)| *document == n);
        is_there.then(|| document(n).bytes().clone())
    }

    fn live(&self) -> Vec<u64> {
        let live = self.runs.values().filter(|run| run.progress.ended_at.is_none());
        let mut numbers: Vec<u64> = live.map(|run| run.number).collect();
        numbers.sort_unstable();
        numbers
    }
}

/// One run as the store shows it.
fn shown(reader: &dyn RunReader, id: RunId) -> Result<Option<Known>, StoreFault> {
    let Some(run) = reader.run(id, usize::MAX)? else {
        return Ok(None);
    };
    // A page may end in front of damage, which the next one says.
    let mut entries: BTreeMap<u64, Bytes> = BTreeMap::new();
    loop {
        let from = entries.last_key_value().map_or(1, |(seq, _)| seq + 1);
        let page = reader.journal(id, from, usize::MAX)?.unwrap();
        if page.entries.is_empty() {
            break;
        }
        entries.extend(page.entries.into_iter().map(|entry| (entry.seq, entry.bytes)));
    }
    Ok(Some(Known {
        number: run.summary.number,
        progress: run.summary.progress,
        first_seq: run.summary.first_seq,
        entries,
        snapshot: run.snapshot,
    }))
}

/// Version and document of a saved plan, as the store shows it.
fn plan(reader: &dyn RunReader, name: &str) -> Result<Option<(u64, u64)>, StoreFault> {
    let found = reader.definition(DefinitionKind::SavedPlan, name)?;
    Ok(found.map(|found| (found.version, found.record[0].into())))
}

fn define(store: &mut Embedded, name: &str, n: Option<u64>) -> Result<DefinitionOutcome, StoreFault> {
    let put = |n: u64| DefinitionPut {
        namespace: escapement_model::Namespace::default(),
        owner: Some("owner".to_owned()),
        priority: 1,
        at: 5,
        record: Bytes::from(vec![n as u8]),
        contents: vec![document(n)],
        pinned: Vec::new(),
    };
    store.define(&DefinitionWrite {
        kind: DefinitionKind::SavedPlan,
        name: name.to_owned(),
        expected: ExpectedVersion::Any,
        change: n.map_or(DefinitionChange::Delete, |n| DefinitionChange::Put(put(n))),
    })
}

/// Does it; what came of it must be what no refusal comes of.
fn act(store: &mut Embedded, act: &Act) -> Result<(), StoreFault> {
    match act {
        Act::Commit(batch) => assert_eq!(store.commit(batch)?, BatchOutcome::Done),
        Act::Remove(seed) => {
            let id = sample_of(*seed).run_id();
            assert_eq!(store.remove_run(id, REMOVED_AT)?, RunRemoved::Done);
        }
        Act::Define(name, document) => {
            let outcome = define(store, name, *document)?;
            assert!(matches!(outcome, DefinitionOutcome::Done { .. }), "{outcome:?}");
        }
    }
    Ok(())
}
