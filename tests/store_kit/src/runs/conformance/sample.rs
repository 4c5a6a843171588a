//! Runs to write and to compare with. Draws no random number: a sample is made of its seed.

use bytes::Bytes;
use escapement_model::{InputRequestId, Namespace, RunId};

use escapement_store::runs::{
    ClientRequest, ClosedInputRequest, Content, DefinitionChange, DefinitionKind, DefinitionPut,
    DefinitionWrite, ExpectedVersion, NewInputRequest, NewRun, RunBatch, RunProgress, RunWrite, Snapshot,
};

/// A run, made of a seed; the same seed gives the same run.
#[derive(Clone, Debug)]
pub struct RunSample {
    seed: u64,
    /// What never changes; change it before it is written.
    pub created: NewRun,
}

impl RunSample {
    /// Creates a run with every index column in use.
    pub fn new(seed: u64) -> Self {
        let name = |what: &str, n: u64| Some(format!("{what} {}", seed % n));
        Self {
            seed,
            created: NewRun {
                namespace: namespace_of(seed),
                owner: name("owner", 3),
                priority: i32::try_from(seed % 10).expect("below ten"),
                created_at: 1_700_000_000_000 + i64::try_from(seed % 7).expect("below seven"),
                plan: name("plan", 4),
                goal: seed.is_multiple_of(2).then(|| format!("goal {}", seed % 4)),
                trigger: seed.is_multiple_of(5).then(|| "nightly".to_owned()),
                session: seed.is_multiple_of(3).then(|| format!("session {}", seed % 6)),
                parent: (seed % 4 == 3).then(|| run_id(seed - 1)),
                request: Some(ClientRequest {
                    key: format!("request {seed}"),
                    digest: [seed as u8; 32],
                }),
            },
        }
    }

    /// Its id.
    pub fn run_id(&self) -> RunId {
        run_id(self.seed)
    }

    /// Its first write: one entry, live.
    pub fn create(&self) -> RunWrite {
        RunWrite {
            created: Some(self.created.clone()),
            entries: vec![self.entry(1)],
            ..RunWrite::new(self.run_id(), 1, self.progress(1))
        }
    }

    /// Returns a write that appends so many entries.
    pub fn append(&self, next_seq: u64, n_entries: u64) -> RunWrite {
        let behind = next_seq + n_entries;
        RunWrite {
            entries: (next_seq..behind).map(|seq| self.entry(seq)).collect(),
            ..RunWrite::new(self.run_id(), next_seq, self.progress(behind - 1))
        }
    }

    /// Returns a write that appends the last entry.
    pub fn end(&self, next_seq: u64) -> RunWrite {
        let mut write = self.append(next_seq, 1);
        write.progress = self.ended(next_seq);
        write
    }

    /// Returns the entry of that number.
    pub fn entry(&self, seq: u64) -> Bytes {
        format!("entry {seq} of run {}", self.seed).into()
    }

    /// Returns the index columns that change, after that entry.
    pub fn progress(&self, seq: u64) -> RunProgress {
        let updated_at = self.created.created_at + i64::try_from(seq).expect("small");
        RunProgress {
            state: (seq % 5) as u8,
            updated_at,
            due_at: seq.is_multiple_of(2).then_some(updated_at + 1000),
            ended_at: None,
        }
    }

    /// The same for the last entry.
    pub fn ended(&self, seq: u64) -> RunProgress {
        let progress = self.progress(seq);
        RunProgress {
            state: 9,
            due_at: None,
            ended_at: Some(progress.updated_at),
            ..progress
        }
    }

    /// Returns a snapshot after that entry.
    pub fn snapshot(&self, seq: u64) -> Option<Snapshot> {
        Some(Snapshot {
            seq,
            bytes: format!("run {} after entry {seq}", self.seed).into(),
        })
    }

    /// Returns an input request of it.
    pub fn input_request(&self, n: u64) -> NewInputRequest {
        NewInputRequest {
            namespace: self.created.namespace.clone(),
            id: input_request_id(self.seed, n),
            kind: (n % 3) as u8,
            state: 1,
            owner: self.created.owner.clone(),
            opened_at: 5,
            due_at: Some(50),
            record: format!("question {n} of run {}", self.seed).into(),
        }
    }

    /// The end of that input request.
    pub fn answer(&self, n: u64) -> ClosedInputRequest {
        ClosedInputRequest {
            id: input_request_id(self.seed, n),
            state: 2,
            closed_at: 7,
            record: n
                .is_multiple_of(2)
                .then(|| format!("answer {n} of run {}", self.seed).into()),
        }
    }
}

/// Returns a content made of a number.
pub(super) fn content(n: u64) -> Content {
    Content::new(format!("content {n}").repeat(1 + n as usize % 900).into())
}

/// Returns a document made of a number, of that revision.
pub(super) fn revision(n: u64, digest: [u8; 32]) -> Content {
    Content::of_revision(format!("document {n}").into(), digest)
}

/// Every third is of another namespace than the default one.
fn namespace_of(seed: u64) -> Namespace {
    let name = [
        "default", "billing", "default", "agents", "default", "default", "billing",
    ];
    Namespace::parse(name[seed as usize % name.len()]).expect("a name of a namespace")
}

fn run_id(seed: u64) -> RunId {
    RunId::from_random(bytes_of(seed, 1))
}

fn input_request_id(seed: u64, n: u64) -> InputRequestId {
    InputRequestId::from_random(bytes_of(seed, 100 + n))
}

fn bytes_of(seed: u64, salt: u64) -> [u8; 16] {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (salt << 40));
    let (low, high) = (dice.next(), dice.next());
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&low.to_le_bytes());
    bytes[8..].copy_from_slice(&high.to_le_bytes());
    bytes
}

/// Numbers that look random and are the same for the same seed: SplitMix64.
#[derive(Clone, Debug)]
pub struct Dice(pub u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// Below that bound.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// Runs of [`random_batch`]: those of the seeds from 1 on.
pub const RANDOM_RUNS: u64 = 12;

/// A batch of a few runs that begin, go on, end, refer to contents and ask; now and then one that cannot be.
/// `next_seq` says which entry of a run is the next one, 1 if there is no such run.
pub fn random_batch(dice: &mut Dice, next_seq: &dyn Fn(RunId) -> u64) -> RunBatch {
    let mut batch = RunBatch::new();
    for _ in 0..1 + dice.below(3) {
        let sample = RunSample::new(1 + dice.below(RANDOM_RUNS));
        let is_there = batch.writes().iter().any(|write| write.run_id == sample.run_id());
        if !is_there {
            let seq = next_seq(sample.run_id());
            batch.add(random_write(dice, &sample, seq));
        }
    }
    batch
}

fn random_write(dice: &mut Dice, sample: &RunSample, seq: u64) -> RunWrite {
    let mut write = match (seq, dice.below(20)) {
        (1, _) => sample.create(),
        (_, 0) => RunWrite {
            purges: dice.below(2) == 0,
            ..sample.end(seq)
        },
        (_, 1) => sample.append(seq + 1, 1),
        (_, n) => sample.append(seq, n % 3),
    };
    if dice.below(4) == 0 {
        write.snapshot = sample.snapshot(write.seq_behind() - 1);
        write.keep_from = (dice.below(2) == 0).then_some(write.seq_behind() - dice.below(2));
    }
    match dice.below(6) {
        0 | 1 => write.contents.push(content(dice.below(6))),
        2 => write.pinned.push(content(dice.below(6)).digest()),
        5 => write.contents.push(random_revision(dice.below(6))),
        3 | 4 => write.released.push(content(dice.below(6)).digest()),
        _ => {}
    }
    match dice.below(6) {
        0 | 1 => write.opened.push(sample.input_request(seq)),
        2 => write.closed.push(sample.answer(dice.below(seq + 1))),
        3 => write.requests.push(ClientRequest {
            key: format!("verb {}", dice.below(40)),
            digest: [seq as u8; 32],
        }),
        _ => {}
    }
    write
}

/// One of six documents of three revisions, as [`random_batch`] and [`random_definition`] refer to them.
pub fn random_revision(n: u64) -> Content {
    revision(n, [(n % 3) as u8; 32])
}

/// Definitions of [`random_definition`]: those of each kind with the names from 0 on.
pub const RANDOM_DEFINITIONS: u64 = 4;

/// Returns a definition that is made, changed or deleted; now and then one that cannot be.
pub fn random_definition(dice: &mut Dice) -> DefinitionWrite {
    let expected = match dice.below(4) {
        0 => ExpectedVersion::New,
        1 => ExpectedVersion::Is(1 + dice.below(3)),
        _ => ExpectedVersion::Any,
    };
    let put = DefinitionPut {
        namespace: namespace_of(dice.below(7)),
        owner: (dice.below(2) == 0).then(|| "owner 1".to_owned()),
        priority: dice.below(3) as i32,
        at: 1_700_000_000_000 + dice.below(10) as i64,
        record: format!("record {}", dice.below(1000)).into(),
        contents: vec![random_revision(dice.below(6))],
        pinned: (dice.below(4) == 0)
            .then(|| content(dice.below(6)).digest())
            .into_iter()
            .collect(),
    };
    let change = if dice.below(4) == 0 {
        DefinitionChange::Delete
    } else {
        DefinitionChange::Put(put)
    };
    DefinitionWrite {
        kind: DefinitionKind::ALL[dice.below(2) as usize],
        name: dice.below(RANDOM_DEFINITIONS).to_string(),
        expected,
        change,
    }
}
