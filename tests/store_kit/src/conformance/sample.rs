//! Executions to write and to compare with. Draws no random number: a sample is made of its seed.

use bytes::Bytes;
use escapement_model::{ExecutionId, Namespace, PlanId};

use escapement_store::{AcceptWrite, StoredExecution, StoredState, StoredSummary, Write};

/// An execution, made of a seed; the same seed gives the same execution.
#[derive(Clone, Debug)]
pub struct Sample {
    /// What is accepted; change it before it is written.
    pub accept: AcceptWrite,
    /// The result record of [`Sample::settle`].
    pub result: Bytes,
    /// The audit record of [`Sample::settle`].
    pub audit: Bytes,
}

impl Sample {
    /// Creates a queued execution with small records.
    pub fn new(seed: u64) -> Self {
        Self::with_record_bytes(seed, 100)
    }

    /// Creates a queued execution whose three records have this many bytes each.
    pub fn with_record_bytes(seed: u64, n_bytes: usize) -> Self {
        let time = 1_700_000_000_000 + i64::try_from(seed % 1_000_000).expect("below a million");
        Self {
            accept: AcceptWrite {
                execution_id: ExecutionId::from_random(bytes_of(seed, 1)),
                plan_id: PlanId::from_random(bytes_of(seed, 2)),
                request_digest: digest_of(seed),
                priority: i32::from(seed as u8) - 128,
                accepted_at: time,
                started_at: None,
                deadline_ms: time + 300_000,
                parent_execution_id: None,
                plan_name: format!("plan {}", seed % 3),
                user_id: seed.is_multiple_of(2).then(|| format!("user {}", seed % 4)),
                request_id: seed.is_multiple_of(3).then(|| format!("request {seed}")),
                tags: vec!["all".to_owned(), format!("tag {}", seed % 5)],
                namespace: match seed % 7 {
                    0 => Namespace::parse("billing").expect("a name"),
                    1 => Namespace::parse("agents").expect("a name"),
                    _ => Namespace::default(),
                },
                record: filled(seed, 3, n_bytes),
            },
            result: filled(seed, 4, n_bytes),
            audit: filled(seed, 5, n_bytes),
        }
    }

    /// The same, running from the first moment.
    pub fn running(mut self) -> Self {
        self.accept.started_at = Some(self.started_at());
        self
    }

    /// The same under another plan id.
    pub fn with_plan_of(mut self, other: &Self) -> Self {
        self.accept.plan_id = other.accept.plan_id;
        self
    }

    /// Its id.
    pub fn execution_id(&self) -> ExecutionId {
        self.accept.execution_id
    }

    /// When its start is written, Unix milliseconds.
    pub fn started_at(&self) -> i64 {
        self.accept.accepted_at + 5
    }

    /// When its end is written, Unix milliseconds.
    pub fn settled_at(&self) -> i64 {
        self.accept.accepted_at + 50
    }

    /// What lists show of its end.
    pub fn outline(&self) -> Bytes {
        self.result.slice(..self.result.len().min(2))
    }

    /// Returns the write that accepts it.
    pub fn accept(&self) -> Write {
        Write::Accept(self.accept.clone())
    }

    /// Returns the write that starts it.
    pub fn start(&self) -> Write {
        Write::Start {
            execution_id: self.execution_id(),
            started_at: Some(self.started_at()),
        }
    }

    /// Returns the write that settles it, without a start of its own.
    pub fn settle(&self, status: u8) -> Write {
        Write::Settle {
            execution_id: self.execution_id(),
            status,
            started_at: None,
            settled_at: self.settled_at(),
            outline: self.outline(),
            result: self.result.clone(),
            audit: self.audit.clone(),
        }
    }

    /// What a reader must show behind the accept.
    pub fn accepted(&self, number: u64) -> StoredExecution {
        let accept = self.accept.clone();
        let state = if accept.started_at.is_some() {
            StoredState::Running
        } else {
            StoredState::Queued
        };
        let summary = StoredSummary {
            number,
            execution_id: accept.execution_id,
            plan_id: accept.plan_id,
            request_digest: accept.request_digest,
            priority: accept.priority,
            state,
            status: 0,
            accepted_at: accept.accepted_at,
            started_at: accept.started_at,
            settled_at: None,
            deadline_ms: accept.deadline_ms,
            parent_execution_id: accept.parent_execution_id,
            plan_name: accept.plan_name,
            user_id: accept.user_id,
            request_id: accept.request_id,
            tags: accept.tags,
            namespace: accept.namespace,
            outline: None,
        };
        StoredExecution {
            summary,
            record: accept.record,
            result: None,
        }
    }

    /// What a reader must show behind the start.
    pub fn started(&self, number: u64) -> StoredExecution {
        let mut execution = self.accepted(number);
        execution.summary.state = StoredState::Running;
        execution.summary.started_at = Some(self.started_at());
        execution
    }

    /// What a reader must show behind the end, given what it showed before.
    pub fn settled(&self, mut before: StoredExecution, status: u8) -> StoredExecution {
        before.summary.state = StoredState::Settled;
        before.summary.status = status;
        before.summary.settled_at = Some(self.settled_at());
        before.summary.outline = Some(self.outline());
        before.result = Some(self.result.clone());
        before
    }
}

/// Well mixed bits of a counter (SplitMix64), so that ids fall at random places of an index, as real ones do.
fn mixed(seed: u64, stream: u64) -> u64 {
    let mut bits = seed
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(stream.wrapping_mul(0xd1b5_4a32_d192_ed03));
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

fn bytes_of(seed: u64, stream: u64) -> [u8; 16] {
    let halves = [mixed(seed, stream), mixed(seed, stream + 16)];
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&halves[0].to_le_bytes());
    bytes[8..].copy_from_slice(&halves[1].to_le_bytes());
    bytes
}

fn digest_of(seed: u64) -> [u8; 32] {
    let mut digest = [0; 32];
    digest[..16].copy_from_slice(&bytes_of(seed, 6));
    digest[16..].copy_from_slice(&bytes_of(seed, 7));
    digest
}

fn filled(seed: u64, stream: u64, n_bytes: usize) -> Bytes {
    let mut bytes = Vec::with_capacity(n_bytes + 8);
    let mut counter = mixed(seed, stream);
    while bytes.len() < n_bytes {
        bytes.extend_from_slice(&counter.to_le_bytes());
        counter = counter.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    }
    bytes.truncate(n_bytes);
    bytes.into()
}
