//! What counts: the ways in. Shows nothing.

use crate::catalogue;
use crate::families::Families;
use crate::kinds::signed;
use crate::known::{self, error_label, refusal_label};
use crate::label::Names;
use escapement_codec::provenance::Provenance;
use escapement_codec::trace::Sampling;
use escapement_engine::{AckVerdict, Census, Ended, Reply, StoreWrite, Submitted, ToWorker};
use escapement_process::unix_ms;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// All figures of a process. Cheap to clone: the clones count together.
#[derive(Clone, Debug)]
pub struct Metrics(pub(crate) Arc<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) families: Families,
    pub(crate) actions: Names,
    pub(crate) namespaces: Names,
    pub(crate) sinks: Names,
    pub(crate) issuers: Names,
    pub(crate) is_ready: AtomicBool,
    /// Parts of the store that refuse writes.
    pub(crate) refusing: Mutex<Refusing>,
    /// Which executions are traced; `None` if none are.
    pub(crate) sampling: Option<Sampling>,
}

/// The parts of the store whose last commit was refused. They share one file, but a small write may still fit where a large one does not.
#[derive(Debug, Default)]
pub(crate) struct Refusing {
    pub(crate) executions: bool,
    pub(crate) runs: bool,
}

impl Metrics {
    /// Figures that begin at 0. `actions_max` actions have labels of their own, those that come first. `sampling`: of the
    /// executions whose traces exemplars name.
    pub fn new(actions_max: usize, version: &'static str, sampling: Option<Sampling>) -> Self {
        let families = Families::new();
        known::begin_at_zero(&families);
        families
            .build_info
            .get_or_create(&catalogue::BUILD_INFO.with([version]))
            .set(1);
        Self(Arc::new(Inner {
            families,
            actions: Names::new(actions_max),
            namespaces: Names::new(NAMESPACES_MAX),
            sinks: Names::new(SINKS_MAX),
            issuers: Names::new(ISSUERS_MAX),
            is_ready: AtomicBool::new(false),
            refusing: Mutex::default(),
            sampling,
        }))
    }

    /// Says whether calls should be sent here.
    pub fn set_ready(&self, is_ready: bool) {
        self.0.is_ready.store(is_ready, Ordering::Relaxed);
    }

    /// Why calls should not be sent here; `None` if they should, so far as is known without asking the engine.
    pub(crate) fn unready(&self) -> Option<&'static str> {
        let takes_writes = self.0.families.store_full.get() == 0;
        match (self.0.is_ready.load(Ordering::Relaxed), takes_writes) {
            (false, _) => Some("starts or drains\n"),
            (true, false) => Some("the store takes no writes\n"),
            (true, true) => None,
        }
    }

    /// Says how many executions may be accepted and not settled at a time.
    pub fn set_executions_max(&self, executions_max: u32) {
        self.0.families.executions_max.set(executions_max.into());
    }

    /// Counts a write that is durable.
    pub fn written(&self, content: &StoreWrite) {
        match content {
            StoreWrite::Accept { request, .. } => {
                let namespace = self.namespace(request.provenance());
                let accepted = catalogue::EXECUTIONS_ACCEPTED.with([namespace]);
                self.0.families.executions_accepted.get_or_create(&accepted).inc();
            }
            StoreWrite::Settle { settlement, request } => self.settled(settlement, request),
            StoreWrite::Start { .. } | StoreWrite::RememberActions { .. } => {}
        }
    }

    /// Says how many executions there are now.
    pub fn counted(&self, census: Census) {
        let families = &self.0.families;
        families.executions_queued.set(signed(census.queued));
        families.executions_running.set(signed(census.running));
        families.executions_parked.set(signed(census.parked));
    }

    /// Counts a turn of the engine: a batch of inputs, with what it led to.
    pub fn turned(&self, took: Duration) {
        self.0.families.engine_turn.observe(took.as_secs_f64());
    }

    /// Counts requests that were refused, of what callers are answered.
    pub fn replied(&self, reply: &Reply) {
        if let Reply::Submitted(Submitted::Refused(refusal)) | Reply::Ended(Ended::Refused(refusal)) = reply {
            let refused = catalogue::SUBMISSIONS_REFUSED.with([refusal_label(refusal)]);
            self.0.families.submissions_refused.get_or_create(&refused).inc();
        }
    }

    /// Counts outcomes that were not taken, and sessions that are ended, of what a worker is told.
    pub fn told(&self, message: &ToWorker) {
        let late_outcomes = |answer, n: u64| {
            let late = catalogue::LATE_OUTCOMES.with([answer]);
            self.0.families.late_outcomes.get_or_create(&late).inc_by(n);
        };
        if let ToWorker::UnknownOutcomes(tokens) = message {
            late_outcomes("unknown", tokens.len() as u64);
        }
        if let ToWorker::SessionError { code, .. } = message {
            let error = catalogue::SESSION_ERRORS.with([error_label(*code)]);
            self.0.families.session_errors.get_or_create(&error).inc();
        }
        let ToWorker::OutcomeAcks(acks) = message else {
            return;
        };
        for (_, verdict) in acks {
            match verdict {
                AckVerdict::Accepted => {}
                AckVerdict::Duplicate => late_outcomes("duplicate", 1),
                AckVerdict::Stale => late_outcomes("stale", 1),
                AckVerdict::AlreadyEnded => late_outcomes("already_ended", 1),
                AckVerdict::Unknown => late_outcomes("unknown", 1),
                AckVerdict::Invalid => late_outcomes("invalid", 1),
            }
        }
    }

    /// Says whether the store takes writes of executions, as their last commit found.
    pub fn store_takes_writes(&self, takes_writes: bool) {
        self.note_refusal(|refusing| refusing.executions = !takes_writes);
    }

    /// Changes whose writes are refused. The lock holds until the gauge is set: two threads report.
    pub(crate) fn note_refusal(&self, change: impl FnOnce(&mut Refusing)) {
        let mut refusing = self.0.refusing.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut refusing);
        let is_full = refusing.executions || refusing.runs;
        self.0.families.store_full.set(is_full.into());
    }

    /// Says what a look through the whole store found, which ends now.
    pub fn scrubbed(&self, n_findings: u64) {
        let families = &self.0.families;
        families.store_damaged.set(signed(n_findings));
        families.store_last_scrub.set(unix_ms() / 1_000);
    }

    /// Counts a commit of the store, with the writes that it held and the time that it took.
    pub fn committed(&self, n_writes: usize, took: Duration) {
        let families = &self.0.families;
        families.store_commits.inc();
        families.store_writes.inc_by(n_writes as u64);
        families.store_commit.observe(took.as_secs_f64());
    }

    /// Counts a worker that is gone for good with attempts that it had.
    pub fn worker_lost(&self) {
        self.0.families.workers_lost.inc();
    }

    pub(crate) fn namespace(&self, provenance: &[u8]) -> Arc<str> {
        self.0
            .namespaces
            .label(Provenance::known(provenance).namespace.as_str())
    }
}

/// Namespaces that have labels of their own.
const NAMESPACES_MAX: usize = 64;
/// Sinks that have labels of their own: as many as a file has.
const SINKS_MAX: usize = 8;
/// Issuers of tokens that have labels of their own.
const ISSUERS_MAX: usize = 8;
