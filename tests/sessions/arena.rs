//! The common part of every attack: an orchestrator with a session journal, a neighbour that must not notice, and a judge.
//! Attacks nothing itself.
//!
//! ```ignore
//! let arena = Arena::start_with(|settings| settings.lease(1_000, 300)).await;
//! let proxy = arena.proxy().await;
//! // … workers through the proxy, plans, faults, expectations of the test's own …
//! worker.stop().await;
//! arena.finish().await.at_least(Count::Losses, 3);
//! ```
//!
//! [`Arena::finish`] waits until everything is settled, every session of the attack is gone and the orchestrator has
//! as many descriptors and threads as before; so the test must have let go of its workers by then.
//! Then it checks the neighbour, the exit, stderr, the journal against what was said on the wire of each [`Arena::proxy`],
//! and the journal with the records of all executions.

mod judgement;
mod leaks;
mod neighbour;

use escapement_tests::calls;
use escapement_tests::fault_proxy::FaultProxy;
use escapement_tests::session_checker::{CheckerSettings, Records};
use escapement_tests::session_journal::{Event, Journal};
use escapement_tests::session_wire::SessionRecording;
use escapement_tests::{
    Orchestrator, OrchestratorSettings, PlanDocument, PrivateDirectory, Worker, WorkerSettings, fresh_id,
    wait_for,
};
use escapement_wire::v1::execution::State;
use escapement_wire::v1::{
    AuditEntry, Execution, ListExecutionsRequest, ListWorkersRequest, PlanResult, Worker as WorkerEntry,
    audit_entry,
};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

pub(crate) use escapement_tests::plans::unix_ms;
pub(crate) use judgement::Judgement;
use leaks::Leaks;
use neighbour::Neighbour;

/// How long a test waits for what must happen.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// Returns the size of an attack: the first in `cargo verify`, the second where `ESCAPEMENT_LONG` is set.
pub(crate) fn scale<T>(short: T, long: T) -> T {
    if std::env::var_os("ESCAPEMENT_LONG").is_some() {
        long
    } else {
        short
    }
}

/// What an arena is like.
#[derive(Clone, Debug)]
pub(crate) struct ArenaSettings {
    flags: Vec<(String, String)>,
    variables: Vec<(String, String)>,
    checker: CheckerSettings,
}

impl ArenaSettings {
    /// Sets another lease and heartbeat interval than 10 s and 3 s. The margin stays 1 s.
    pub(crate) fn lease(mut self, lease_ms: u64, heartbeat_interval_ms: u64) -> Self {
        self.checker.lease_ms = lease_ms;
        self.flag("--lease-ms", lease_ms)
            .flag("--heartbeat-interval-ms", heartbeat_interval_ms)
    }

    /// Sets a flag of the orchestrator with its value.
    pub(crate) fn flag(mut self, name: &str, value: impl ToString) -> Self {
        self.flags.push((name.to_owned(), value.to_string()));
        self
    }

    /// Sets an environment variable of the orchestrator.
    pub(crate) fn variable(mut self, name: &str, value: impl ToString) -> Self {
        self.variables.push((name.to_owned(), value.to_string()));
        self
    }

    /// How patient the checker is.
    pub(crate) fn checker(mut self, change: impl FnOnce(&mut CheckerSettings)) -> Self {
        change(&mut self.checker);
        self
    }
}

/// An orchestrator, its neighbour, and what was there before the attack.
pub(crate) struct Arena {
    pub(crate) orchestrator: Orchestrator,
    /// Session journal.
    pub(crate) journal: PathBuf,
    neighbour: Neighbour,
    before: Leaks,
    settings: ArenaSettings,
    launch: OrchestratorSettings,
    /// What was said through each proxy.
    recordings: Mutex<Vec<SessionRecording>>,
    pub(crate) directory: PrivateDirectory,
}

impl Arena {
    /// With the default figures.
    pub(crate) async fn start() -> Self {
        Self::start_with(|settings| settings).await
    }

    /// With others.
    pub(crate) async fn start_with(change: impl FnOnce(ArenaSettings) -> ArenaSettings) -> Self {
        let settings = change(ArenaSettings {
            flags: Vec::new(),
            variables: Vec::new(),
            checker: CheckerSettings::default(),
        });
        let directory = PrivateDirectory::new("sessions").unwrap();
        let journal = directory.join("journal");
        let launch = OrchestratorSettings::new(directory.path()).flag("--session-journal", journal.display());
        let launch = settings
            .flags
            .iter()
            .fold(launch, |launch, (name, value)| launch.flag(name, value));
        let launch = settings
            .variables
            .iter()
            .fold(launch, |launch, (name, value)| launch.variable(name, value));
        let launch = launch.over_tls_if_asked(directory.path()).unwrap();
        let orchestrator = launch.start().await.unwrap();
        let neighbour = Neighbour::start(&orchestrator.url());
        let mut arena = Self {
            before: Leaks::default(),
            orchestrator,
            journal,
            neighbour,
            settings,
            launch,
            recordings: Mutex::default(),
            directory,
        };
        arena.take_measure().await;
        arena
    }

    /// What is there now counts as what was there before the attack: the neighbour and nothing else.
    pub(crate) async fn take_measure(&mut self) {
        self.neighbour.plans_go_on().await;
        self.before = Leaks::now(self).await;
    }

    /// Kills the orchestrator as a crash would, and starts it again on the same store and the same port.
    ///
    /// The neighbour is to be paused meanwhile: a restart ends its plans.
    #[allow(dead_code, reason = "for attacks that need it")]
    pub(crate) async fn crash_and_restart(&mut self) {
        self.orchestrator.process.kill().unwrap();
        self.launch = self.launch.clone().listen(self.orchestrator.address());
        self.orchestrator = self.launch.start().await.unwrap();
    }

    /// Lets the orchestrator drain, and starts it again on the same store and the same port.
    ///
    /// The neighbour is to be paused meanwhile: nothing is accepted during a drain.
    pub(crate) async fn drain_and_restart(&mut self) {
        let status = self.orchestrator.process.terminate(LIMIT).await.unwrap();
        assert!(status.success(), "the orchestrator stopped with {status}");
        self.launch = self.launch.clone().listen(self.orchestrator.address());
        self.orchestrator = self.launch.start().await.unwrap();
    }

    /// Lets the neighbour end its plan and begin no other.
    pub(crate) async fn pause_neighbour(&self) {
        self.neighbour.pause().await;
    }

    /// Lets it go on.
    pub(crate) async fn resume_neighbour(&self) {
        self.neighbour.resume();
        self.neighbour.plans_go_on().await;
    }

    /// Returns a proxy in front of the orchestrator, on which every session is read along.
    pub(crate) async fn proxy(&self) -> FaultProxy {
        let proxy = FaultProxy::start(self.orchestrator.address()).await.unwrap();
        self.recordings.lock().unwrap().push(proxy.record_sessions());
        proxy
    }

    /// Returns a stock worker that has a session, at the orchestrator or at a proxy before it.
    pub(crate) async fn stock_worker(
        &self,
        url: &str,
        worker_id: &str,
        change: impl FnOnce(WorkerSettings) -> WorkerSettings,
    ) -> Worker {
        let root = self.directory.join(format!("{worker_id}-files"));
        std::fs::create_dir_all(&root).unwrap();
        let settings = WorkerSettings::new(url, worker_id, &root, self.directory.path());
        change(settings).connect().await.unwrap()
    }

    /// Hands a plan in and gives the id of its execution.
    pub(crate) async fn submit(&self, document: PlanDocument) -> String {
        let id = fresh_id();
        let request = document.request_field("execution_id", id.clone()).submit();
        self.orchestrator.plans().submit_plan(request).await.unwrap();
        id
    }

    /// Waits until an execution is settled and gives its result.
    pub(crate) async fn result_of(&self, execution_id: &str) -> PlanResult {
        calls::result_of(self.orchestrator.plans(), execution_id, LIMIT)
            .await
            .unwrap()
    }

    /// Returns the record of an execution.
    pub(crate) async fn record_of(&self, execution_id: &str) -> Vec<AuditEntry> {
        calls::record_of(self.orchestrator.plans(), execution_id)
            .await
            .unwrap()
    }

    /// Waits until the record of an execution has so many entries of a kind.
    pub(crate) async fn wait_for_events(
        &self,
        execution_id: &str,
        what: &str,
        count: usize,
        is_one: impl Fn(&audit_entry::Event) -> bool,
    ) {
        let enough = async || {
            let record = self.record_of(execution_id).await;
            let found = record.iter().filter_map(|entry| entry.event.as_ref());
            (found.filter(|event| is_one(event)).count() >= count).then_some(())
        };
        wait_for(what, LIMIT, enough).await.unwrap();
    }

    /// Waits until so many attempts of an execution have started.
    pub(crate) async fn wait_for_starts(&self, execution_id: &str, count: usize) {
        let is_start = |event: &audit_entry::Event| matches!(event, audit_entry::Event::AttemptStarted(_));
        self.wait_for_events(execution_id, "attempts that started", count, is_start)
            .await;
    }

    /// Returns the sessions that there are.
    pub(crate) async fn workers(&self) -> Vec<WorkerEntry> {
        let answer = self
            .orchestrator
            .fleet()
            .list_workers(ListWorkersRequest {})
            .await;
        answer.unwrap().into_inner().workers
    }

    /// Waits until the sessions with this label are as they should be.
    pub(crate) async fn wait_for_workers<T>(
        &self,
        what: &str,
        worker_id: &str,
        condition: impl Fn(&[WorkerEntry]) -> Option<T>,
    ) -> T {
        let holds = async || {
            let mut workers = self.workers().await;
            workers.retain(|worker| worker.worker_id == worker_id);
            condition(&workers)
        };
        wait_for(what, LIMIT, holds).await.unwrap()
    }

    /// Returns all lines of the journal so far.
    pub(crate) fn lines(&self) -> Vec<Event> {
        let journal = Journal::open(&self.journal).unwrap();
        journal.map(|line| line.unwrap()).collect()
    }

    /// Waits until a line of the journal gives a value.
    #[allow(dead_code, reason = "for attacks that need it")]
    pub(crate) async fn wait_for_line<T>(&self, what: &str, pick: impl Fn(&Event) -> Option<T>) -> T {
        let found = async || self.lines().iter().find_map(&pick);
        wait_for(what, LIMIT, found).await.unwrap()
    }

    /// The ids of all executions, and whether each is settled.
    async fn executions(&self) -> Vec<Execution> {
        let mut plans = self.orchestrator.plans();
        let (mut executions, mut page_token) = (Vec::new(), String::new());
        loop {
            let request = ListExecutionsRequest {
                page_size: Some(1_000),
                page_token,
                ..ListExecutionsRequest::default()
            };
            let page = plans.list_executions(request).await.unwrap().into_inner();
            executions.extend(page.executions);
            page_token = page.next_page_token;
            if page_token.is_empty() {
                return executions;
            }
        }
    }

    /// Judges everything. The test says with [`Judgement::at_least`] how much must have happened.
    pub(crate) async fn finish(self) -> Judgement {
        self.expect_nothing_left_over().await;
        let neighbour = self.neighbour.stop().await;
        neighbour.expect_undisturbed();
        let settled = async || {
            let executions = self.executions().await;
            let all = executions
                .iter()
                .all(|execution| execution.state() == State::Settled);
            all.then_some(executions)
        };
        let executions = wait_for("the end of all executions", LIMIT, settled)
            .await
            .unwrap();
        let mut records = Records::new();
        for execution in executions {
            let record = self.record_of(&execution.execution_id).await;
            records.insert(execution.execution_id, record);
        }
        let mut process = self.orchestrator.process;
        let status = process.terminate(LIMIT + LIMIT).await.unwrap();
        assert!(status.success(), "the orchestrator stopped with {status}");
        let said = process.stderr();
        assert!(!said.contains("panicked"), "the orchestrator panicked:\n{said}");
        let recordings = self.recordings.into_inner().unwrap();
        let wire: Vec<_> = recordings.iter().flat_map(SessionRecording::sessions).collect();
        Judgement::of(&self.journal, &wire, &records, self.settings.checker, &neighbour)
    }

    /// Waits until sessions, descriptors and threads are as before.
    async fn expect_nothing_left_over(&self) {
        let lease = Duration::from_millis(self.settings.checker.lease_ms);
        let now = std::cell::Cell::new(Leaks::default());
        let back = async || {
            now.set(Leaks::now(self).await);
            now.get().are_within(self.before).then_some(())
        };
        let waited = wait_for(
            "the orchestrator to let go of everything",
            LIMIT + 2 * lease,
            back,
        )
        .await;
        assert!(
            waited.is_ok(),
            "{:?}, and before the attack {:?}",
            now.get(),
            self.before
        );
    }
}
