//! One process of the runs: the real host of the runs over a real store, and what waits for its commits.
//! Moves no message: see `world` and `port`.

use crate::disk::{Disk, OpenStore};
use crate::time::Pause;
use crate::world::START_UNIX_MS;
use bytes::Bytes;
use escapement_model::chain::{chain_begin, chain_next};
use escapement_model::planted::{self, Bug};
use escapement_model::{ExecutionId, Opaque, RunId};
use escapement_run::journal::{Entry, Event, Stored};
use escapement_run::state::RunState;
use escapement_run::{Preview, plan, preview};
use escapement_runs::Config;
use escapement_runs_host::RunsHost;
use escapement_runs_judge::{Bounds, Judge, Row, Told};
use escapement_store::StoreFault;
use escapement_store::runs::{RunBatch, RunFilter, RunReader, RunRemoval, RunStore};
use prost::Message;
use std::collections::BTreeMap;

/// The process.
pub(crate) struct Process {
    pub(crate) host: RunsHost,
    store: OpenStore,
    pub(crate) reader: Box<dyn RunReader>,
    pub(crate) boot: u64,
    pub(crate) offset_ms: i64,
    /// A commit that is on its way, and when it is over.
    under_way: Option<(RunBatch, u64)>,
    /// What callers are told once everything that was decided before is durable.
    waiting: Vec<Told>,
    written: Vec<Told>,
    pub(crate) pause: Pause,
    /// Executions whose ends are waited for.
    pub(crate) port: BTreeMap<ExecutionId, Awaited>,
}

/// An execution whose end is waited for.
#[derive(Clone, Debug)]
pub(crate) struct Awaited {
    pub(crate) run_id: RunId,
    pub(crate) request: Bytes,
    pub(crate) attempt_ms: u64,
    pub(crate) seen: bool,
    /// Lead of its run over the clock of the process.
    pub(crate) ahead_ms: u64,
}

impl Process {
    pub(crate) fn open(disk: &Disk, boot: u64, now_ms: u64, offset_ms: i64) -> Result<Self, StoreFault> {
        let store = disk.open()?;
        let (host, damaged) = RunsHost::open(&store, CONFIG, unix_ms(now_ms, offset_ms))?;
        assert!(damaged.is_empty(), "a sound disk has no damage: {damaged:?}");
        Ok(Self {
            reader: store.reader()?,
            host,
            store,
            boot,
            offset_ms,
            under_way: None,
            waiting: Vec::new(),
            written: Vec::new(),
            pause: Pause::new(unix_ms(now_ms, offset_ms), offset_ms),
            port: BTreeMap::new(),
        })
    }

    pub(crate) fn unix_ms(&self, now_ms: u64) -> i64 {
        match planted::is_on(Bug::RunWallClock) {
            true => unix_ms(now_ms, self.pause.wall_off_ms),
            false => unix_ms(now_ms, self.offset_ms),
        }
    }

    /// When it has something to do.
    pub(crate) fn due_at_ms(&self, now_ms: u64) -> Option<u64> {
        if let Some(until_ms) = self.pause.ends_at_ms() {
            return Some(until_ms);
        }
        let under_way = self.under_way.as_ref().map(|(_, ends_at_ms)| *ends_at_ms);
        let timer = self.host.due_at().map(|due| {
            let after = due - self.unix_ms(now_ms);
            now_ms + u64::try_from(after).unwrap_or(0)
        });
        [under_way, timer].into_iter().flatten().min()
    }

    /// A caller is told this once everything that was decided until now is durable.
    pub(crate) fn tell(&mut self, told: Told) {
        self.waiting.push(told);
    }

    /// Submits time and starts a commit; returns true if one starts. The disk is full until `full_until_ms`.
    pub(crate) fn begin(&mut self, now_ms: u64, takes_ms: u64, full_until_ms: u64) -> bool {
        let now = self.unix_ms(now_ms);
        if full_until_ms > now_ms && self.has_to_probe(now) {
            self.finds_no_space(now_ms, full_until_ms);
            return false;
        }
        if self.host.due_at().is_some_and(|due| due <= now) {
            self.host.time(now);
        }
        if self.under_way.is_some() {
            return false;
        }
        let batch = self.host.poll_batch();
        self.written.append(&mut self.waiting);
        self.under_way = batch.map(|batch| (batch, now_ms + takes_ms));
        self.under_way.is_some()
    }

    /// Ends the commit that is due.
    ///
    /// # Errors
    /// The process has died of its store.
    pub(crate) fn end(&mut self, now_ms: u64) -> Result<bool, StoreFault> {
        if !self.ends_now(now_ms) {
            return Ok(false);
        }
        let (batch, _) = self.under_way.take().expect("it ends now");
        let outcome = self.store.commit(&batch)?;
        self.host.handle_committed(outcome);
        self.pause.written_at = self.unix_ms(now_ms);
        Ok(true)
    }

    /// Parks what rests but so many; gives how many were parked.
    pub(crate) fn park(&mut self, max_runs: usize) -> u64 {
        self.host.park(max_runs) as u64
    }

    /// Removes what ended so long ago; true if that was something.
    pub(crate) fn remove(&mut self, now_ms: u64, keep_ms: u64, judge: &mut Judge) -> bool {
        let policy = RunRemoval {
            keep_ended_ms: Some(keep_ms),
            ..RunRemoval::default()
        };
        let removed = self.store.remove_ended(&policy, self.unix_ms(now_ms));
        if removed.expect("nothing fails here").n_runs == 0 {
            return false;
        }
        self.host.forget_ended();
        for run in judge.runs() {
            let run_id = RunId::from_bytes(run).expect("it was an id");
            if self.reader.summary(run_id).expect("the store reads").is_none() {
                judge.removed(run);
            }
        }
        true
    }

    /// What callers may be told now.
    pub(crate) fn told(&mut self) -> Vec<Told> {
        if self.under_way.is_some() {
            return Vec::new();
        }
        std::mem::take(&mut self.written)
    }

    /// True if a commit ends now.
    pub(crate) fn ends_now(&self, now_ms: u64) -> bool {
        self.under_way
            .as_ref()
            .is_some_and(|(_, ends_at_ms)| *ends_at_ms <= now_ms)
    }

    /// True if nothing is on its way to the store.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.under_way.is_none() && self.pause.ends_at_ms().is_none()
    }

    /// Shows the judge what has become durable.
    pub(crate) fn show(&self, judge: &mut Judge) {
        judge.commits();
        // A run may have ended in the commit that made it.
        let summaries = self.reader.list(&RunFilter::default(), None, usize::MAX);
        for summary in summaries.expect("the store reads").runs {
            let run_id = summary.run_id;
            let n_seen = judge.n_entries(run_id.as_bytes());
            if summary.next_seq <= n_seen + 1 {
                continue;
            }
            let page = self.reader.journal(run_id, n_seen + 1, usize::MAX);
            let page = page.expect("the store reads").expect("the run is there");
            for entry in &page.entries {
                self.promise(run_id, &entry.bytes, judge);
            }
            let entries: Vec<_> = page
                .entries
                .iter()
                .map(|entry| (entry.bytes.to_vec(), entry.link))
                .collect();
            let row = Row {
                state: summary.progress.state,
                due_at: summary.progress.due_at,
            };
            let content = |digest: &[u8; 32]| {
                let found = self.reader.content(digest).expect("the store reads");
                found.map(|bytes| bytes.to_vec())
            };
            judge.durable(*run_id.as_bytes(), &entries, row, &content);
        }
    }

    /// Tells the judge what a preview says of a plan that a planner has made.
    fn promise(&self, run_id: RunId, entry: &Bytes, judge: &mut Judge) {
        let entry = Entry::decode(entry.clone()).expect("an entry decodes");
        let Some(Event::PlanCreated(created)) = entry.event else {
            return;
        };
        if created.generation == 0 {
            return;
        }
        let first = self.reader.journal(run_id, 1, 1).expect("the store reads");
        let first = first.and_then(|page| Entry::decode(page.entries[0].bytes.clone()).ok());
        let Some(Event::RunCreated(made)) = first.and_then(|first| first.event) else {
            panic!("the first entry makes the run");
        };
        let document = self.content(&created.document);
        let plan = plan::read(&Opaque::from_encoded(document)).expect("a revision has a plan");
        let most = bounds(&preview(&plan, &made.spec, &created.profiles));
        judge.promised(*run_id.as_bytes(), entry.sequence, most);
    }

    fn content(&self, stored: &Stored) -> Bytes {
        let Ok(digest) = <[u8; 32]>::try_from(&stored.digest[..]) else {
            return stored.inline.clone();
        };
        let found = self.reader.content(&digest).expect("the store reads");
        found.expect("what an entry refers to is there")
    }

    /// Shows the judge what a start finds of everything that was durable before.
    pub(crate) fn show_found(&self, judge: &mut Judge) {
        for run in judge.runs() {
            let run_id = RunId::from_bytes(run).expect("it was an id");
            let page = self
                .reader
                .journal(run_id, 1, usize::MAX)
                .expect("the store reads");
            let entries = page.map(|page| page.entries).unwrap_or_default();
            let entries: Vec<Vec<u8>> = entries.iter().map(|entry| entry.bytes.to_vec()).collect();
            judge.found(run, &entries);
        }
    }

    // RI13
    /// Folds what is durable and compares it with what the process has, while nothing is on its way.
    pub(crate) fn fold(&self, judge: &mut Judge) {
        for run_id in self.host.runs().ids() {
            let Some(live) = self.host.runs().in_memory(run_id) else {
                continue;
            };
            let page = self
                .reader
                .journal(run_id, 1, usize::MAX)
                .expect("the store reads");
            let Some(page) = page else { continue };
            let mut chain = chain_begin(&run_id);
            let mut state = RunState::default();
            for stored in page.entries {
                let entry = Entry::decode(&stored.bytes[..]).expect("an entry decodes");
                chain = chain_next(&chain, entry.sequence, &stored.bytes);
                state.apply(&entry);
                state.chain = Bytes::copy_from_slice(&chain);
            }
            let uploads = live
                .state()
                .artifacts
                .iter()
                .filter(|it| it.created.unit.is_none());
            let uploads: Vec<Vec<u8>> = uploads.map(|it| it.created.sha256.to_vec()).collect();
            judge.shows_uploads(*run_id.as_bytes(), &uploads);
            if *live.state() != state {
                judge.finds(
                    "RI13",
                    format!("run {run_id} is not what its journal is folded to"),
                );
            }
        }
    }

    // RI8
    /// The earliest timer is that of the run that is due first.
    pub(crate) fn check_timer(&self, judge: &mut Judge) {
        let runs = self.host.runs();
        let due = |run_id| match runs.in_memory(run_id) {
            Some(run) => run.due_at(),
            // It is parked, and lists have what it was due for.
            None => {
                let summary = self.reader.summary(run_id).expect("the store reads");
                summary.expect("the run is there").progress.due_at
            }
        };
        let earliest = runs.ids().filter_map(due).min();
        if earliest != self.host.due_at() {
            let armed = self.host.due_at();
            judge.finds(
                "RI8",
                format!("{earliest:?} is due next, and the timer is {armed:?}"),
            );
        }
    }
}

fn unix_ms(now_ms: u64, offset_ms: i64) -> i64 {
    START_UNIX_MS + i64::try_from(now_ms).expect("a simulation is short") + offset_ms
}

/// Few at a time, so that some wait in the queue.
const CONFIG: Config = Config {
    max_live_runs: 2,
    max_runs: 40,
};

/// What a preview says, as the judge knows it.
pub(crate) fn bounds(preview: &Preview) -> Bounds {
    Bounds {
        attempts: preview.attempts_max,
        model_calls: preview.model_calls_max,
        tool_calls: preview.tool_calls_max,
        children: preview.children_max,
        active_ms: preview.active_ms_max,
        plan_approval: preview.plan_approval,
        gates: preview.gates.clone(),
        questions: preview.questions.clone(),
    }
}
