//! An orchestrator process of a test's own, a worker with a ledger, and what callers ask about runs. Judges nothing but that
//! what a story presupposes is so.

use crate::api::{self, Answers, Refusal};
use crate::plan_words::{document, text, unattended, with};
use crate::script::{END, ScriptWorker, Shared};
use escapement_tests::{Orchestrator, OrchestratorSettings, PrivateDirectory, wait_for};
use escapement_wire::v1::ListActionsRequest;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How long a test waits for what must happen.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// The process goes before the directory.
pub(crate) struct World {
    worker: Option<ScriptWorker>,
    pub(crate) orchestrator: Orchestrator,
    settings: OrchestratorSettings,
    pub(crate) shared: Arc<Shared>,
    pub(crate) directory: PrivateDirectory,
}

impl World {
    /// With the defaults, a worker, and a profile for each of its actions.
    pub(crate) async fn start() -> Self {
        Self::start_with(|settings| settings).await
    }

    /// With more flags.
    pub(crate) async fn start_with(
        change: impl FnOnce(OrchestratorSettings) -> OrchestratorSettings,
    ) -> Self {
        Self::without_worker(change).await.complete().await
    }

    /// With no worker and no profile.
    pub(crate) async fn without_worker(
        change: impl FnOnce(OrchestratorSettings) -> OrchestratorSettings,
    ) -> Self {
        let directory = PrivateDirectory::new("run-stories").unwrap();
        let settings = change(OrchestratorSettings::new(directory.path()));
        let (orchestrator, settings) = started(settings).await;
        Self {
            worker: None,
            orchestrator,
            settings,
            shared: Shared::new(&directory.join("ledger")),
            directory,
        }
    }

    async fn complete(mut self) -> Self {
        self.profiles().await;
        self.worker_comes().await;
        self
    }

    /// Starts the worker and waits until its actions are offered.
    pub(crate) async fn worker_comes(&mut self) {
        self.worker = Some(ScriptWorker::start(&self.orchestrator.url(), &self.shared));
        self.worker_is_there().await;
    }

    /// The worker is gone at once.
    pub(crate) fn worker_goes(&mut self) {
        self.worker = None;
    }

    /// Waits until the actions of a worker are offered.
    pub(crate) async fn worker_is_there(&self) {
        let is_there = async || {
            let request = ListActionsRequest::default();
            let answer = self
                .orchestrator
                .fleet()
                .list_actions(request)
                .await
                .ok()?
                .into_inner();
            answer
                .actions
                .iter()
                .any(|action| action.name == "llm.chat")
                .then_some(())
        };
        wait_for("the worker's actions", LIMIT, is_there).await.unwrap();
    }

    /// Tells the orchestrator what each action means.
    pub(crate) async fn profiles(&self) {
        for (action, effect, risk, idempotent) in [
            ("script.pure", "pure", "safe", false),
            ("script.world", "world", "safe", false),
            ("script.effect", "side_effect", "unusual", false),
            ("script.idempotent", "side_effect", "unusual", true),
            ("script.external", "external", "unusual", false),
            ("script.safe", "side_effect", "safe", false),
            ("script.danger", "side_effect", "destructive", false),
        ] {
            let profile = json!({"action": action, "effect": effect, "risk": risk, "idempotent": idempotent});
            self.profile(profile).await;
        }
    }

    /// Tells the orchestrator what one action means.
    pub(crate) async fn profile(&self, profile: Value) {
        self.call("ActionService/PutActionProfile", json!({ "profile": profile }))
            .await;
    }

    /// Kills the process as a crash of the machine would.
    pub(crate) fn kill(&mut self) {
        self.orchestrator.process.kill().unwrap();
    }

    /// Asks the process to stop in order. Returns its exit code.
    pub(crate) async fn stops(&mut self) -> Option<i32> {
        self.orchestrator.process.terminate(LIMIT).await.unwrap().code()
    }

    /// Starts a process on the same store at the same address, and waits until the worker is back if there is one.
    pub(crate) async fn starts(&mut self) {
        // A worker that met a dead orchestrator waits before it tries again; a new one comes at once. The old one goes first, or it
        // could come back for a moment, and take with it what it is given then.
        let had_worker = self.worker.take().is_some();
        self.runs_start().await;
        if had_worker {
            self.worker_comes().await;
        }
    }

    /// Starts the process alone.
    pub(crate) async fn runs_start(&mut self) {
        self.orchestrator = self.settings.start().await.unwrap();
    }

    /// Kills the process and starts another one.
    pub(crate) async fn crash(&mut self) {
        self.kill();
        self.starts().await;
    }

    /// Replays every run that there is, folds those that have ended from their events, and stops the process in order.
    pub(crate) async fn close(self) {
        for run in self.all_runs(json!({})).await {
            let has_ended = ENDS.contains(&run["state"].as_str().unwrap());
            if has_ended {
                self.follows_from_its_events(&text(&run["run_id"])).await;
            }
            let replay = self
                .call("RunService/ReplayRun", json!({ "run_id": run["run_id"] }))
                .await;
            assert_eq!(replay["identical"], true, "{replay:#}");
            // A run that lives may have gone on since it was listed.
            let [replayed, listed] =
                [&replay["entries"], &run["last_sequence"]].map(|count| count.as_u64().unwrap());
            assert!(
                replayed == listed || !has_ended && replayed > listed,
                "{run:#} {replay:#}"
            );
        }
        // What never answers would keep it waiting for its limit.
        self.shared.open(END);
        self.orchestrator.stop().await.unwrap();
    }

    /// Every run that fits the filter, in the order of the list.
    pub(crate) async fn all_runs(&self, filter: Value) -> Vec<Value> {
        let (mut runs, mut page_token) = (Vec::new(), String::new());
        loop {
            let request = with(
                filter.clone(),
                json!({ "page_size": 200, "page_token": page_token }),
            );
            let mut page = self.call("RunService/ListRuns", request).await;
            runs.append(&mut serde_json::from_value(page["runs"].take()).unwrap());
            page_token = text(&page["next_page_token"]);
            if page_token.is_empty() {
                return runs;
            }
        }
    }

    /// Calls a method that must not be refused.
    #[track_caller]
    pub(crate) fn call(&self, method: &str, request: Value) -> impl Future<Output = Value> {
        let at = std::panic::Location::caller();
        let (channel, method) = (self.orchestrator.channel(), method.to_owned());
        async move {
            let answer = api::call(channel, &method, &request).await;
            answer.unwrap_or_else(|refusal| panic!("{at}: {method} {request}: {refusal:?}"))
        }
    }

    /// Calls a method that may be refused.
    pub(crate) async fn try_call(&self, method: &str, request: Value) -> Result<Value, Refusal> {
        api::call(self.orchestrator.channel(), method, &request).await
    }

    /// Calls a method that must be refused.
    #[track_caller]
    pub(crate) fn refusal(&self, method: &str, request: Value) -> impl Future<Output = Refusal> {
        let at = std::panic::Location::caller();
        let (channel, method) = (self.orchestrator.channel(), method.to_owned());
        async move {
            let answer = api::call(channel, &method, &request).await;
            answer.expect_err(&format!("{at}: {method} {request} is refused"))
        }
    }

    /// Opens a stream.
    pub(crate) async fn stream(&self, method: &str, request: Value) -> Answers {
        api::stream(self.orchestrator.channel(), method, &request)
            .await
            .unwrap()
    }

    /// Makes a run of these steps that asks nobody.
    #[track_caller]
    pub(crate) fn run(&self, steps: Value) -> impl Future<Output = String> {
        self.create(json!({ "document": document(steps) }))
    }

    /// Makes a run; without an autonomy level it asks nobody.
    #[track_caller]
    pub(crate) fn create(&self, request: Value) -> impl Future<Output = String> {
        let created = self.call("RunService/CreateRun", unattended(request));
        async move { text(&created.await["run"]["run_id"]) }
    }

    /// `GetRun`.
    #[track_caller]
    pub(crate) fn get(&self, run_id: &str) -> impl Future<Output = Value> {
        let answer = self.call("RunService/GetRun", json!({ "run_id": run_id }));
        async move { answer.await["run"].take() }
    }

    /// Waits for the end of a run.
    #[track_caller]
    pub(crate) fn ended(&self, run_id: &str) -> impl Future<Output = Value> {
        let at = std::panic::Location::caller();
        let wait = json!({ "run_id": run_id, "timeout_ms": 20_000 });
        let answer = self.call("RunService/WaitRun", wait);
        async move {
            let run = answer.await["run"].take();
            assert!(
                ENDS.contains(&run["state"].as_str().unwrap()),
                "{at}: the run has not ended: {run:#}"
            );
            run
        }
    }

    /// Makes a run of the steps and waits for its end.
    #[track_caller]
    pub(crate) fn ended_run(&self, steps: Value) -> impl Future<Output = Value> {
        let created = self.run(steps);
        async move { self.ended(&created.await).await }
    }

    /// Waits until a run is as the condition says.
    pub(crate) async fn until(&self, run_id: &str, what: &str, condition: impl Fn(&Value) -> bool) -> Value {
        let asked = async || {
            let run = self.get(run_id).await;
            condition(&run).then_some(run)
        };
        match wait_for(what, LIMIT, asked).await {
            Ok(run) => run,
            Err(fault) => panic!("{fault}: {:#}", self.get(run_id).await),
        }
    }

    /// Waits until a run is in this state.
    pub(crate) async fn in_state(&self, run_id: &str, state: &str) -> Value {
        self.until(run_id, state, |run| run["state"] == state).await
    }

    /// Waits until this many requests of a run are open, and gives them.
    pub(crate) async fn open_requests(&self, run_id: &str, count: usize) -> Vec<Value> {
        let of = |run: &Value| run["open_requests"].as_array().unwrap().clone();
        let what = format!("{count} open requests");
        let run = self.until(run_id, &what, |run| of(run).len() == count).await;
        of(&run)
    }

    /// Waits until one request of a run is open.
    pub(crate) async fn open_request(&self, run_id: &str) -> Value {
        self.open_requests(run_id, 1).await.remove(0)
    }

    /// Answers a request as a person; `answer` is the field of the answer.
    pub(crate) async fn respond(&self, request: &Value, answer: Value) -> Result<Value, Refusal> {
        self.respond_as(request, "ada", answer).await
    }

    /// Answers a request as this person.
    pub(crate) async fn respond_as(
        &self,
        request: &Value,
        person: &str,
        answer: Value,
    ) -> Result<Value, Refusal> {
        let mut body = answer;
        body["input_request_id"] = request["input_request_id"].clone();
        body["subject_digest"] = request["subject_digest"].clone();
        body["responder"] = json!({ "id": person, "kind": "person" });
        self.try_call("InboxService/RespondToInput", body).await
    }

    /// The steps of a run by key.
    #[track_caller]
    pub(crate) fn steps(&self, run_id: &str) -> impl Future<Output = BTreeMap<String, Value>> {
        let answer = self.call(
            "RunService/ListRunSteps",
            json!({ "run_id": run_id, "page_size": 1000 }),
        );
        async move {
            let steps = answer.await["steps"].take();
            let steps = steps.as_array().unwrap().iter();
            steps
                .map(|step| (text(&step["step_key"]), step.clone()))
                .collect()
        }
    }

    /// Waits until a step is in this state.
    pub(crate) async fn step_in(&self, run_id: &str, key: &str, state: &str) -> Value {
        let asked = async || {
            let step = self.steps(run_id).await.remove(key)?;
            (step["state"] == state).then_some(step)
        };
        let what = format!("{key} {state}");
        wait_for(&what, LIMIT, asked).await.unwrap()
    }

    /// Every event of a run, oldest first.
    #[track_caller]
    pub(crate) fn events(&self, run_id: &str) -> impl Future<Output = Vec<Value>> {
        let at = std::panic::Location::caller();
        let run_id = run_id.to_owned();
        async move {
            let (mut events, mut page_token) = (Vec::new(), String::new());
            loop {
                let request =
                    json!({"run_id": run_id, "page_size": 1000, "page_token": page_token, "ascending": true});
                let mut page = self.call("RunService/ListRunEvents", request).await;
                match page["events"].take() {
                    Value::Array(more) => events.extend(more),
                    other => panic!("{at}: {other}"),
                }
                page_token = text(&page["next_page_token"]);
                if page_token.is_empty() {
                    return events;
                }
            }
        }
    }

    /// The names of all events of a run, oldest first.
    pub(crate) async fn event_names(&self, run_id: &str) -> Vec<String> {
        let events = self.events(run_id).await;
        events.iter().map(|event| text(&event["event_type"])).collect()
    }

    /// The result of a step.
    pub(crate) async fn result(&self, run_id: &str, key: &str) -> Value {
        let request = json!({ "run_id": run_id, "step_key": key });
        self.call("RunService/GetStepResult", request).await["value"].take()
    }

    /// A step with its attempts.
    #[track_caller]
    pub(crate) fn step(&self, run_id: &str, key: &str) -> impl Future<Output = Value> {
        let answer = self.call(
            "RunService/GetRunStep",
            json!({ "run_id": run_id, "step_key": key }),
        );
        async move { answer.await["step"].take() }
    }
}

/// Starts a process; what is started later by the same settings listens at the same place, so that workers find it.
async fn started(settings: OrchestratorSettings) -> (Orchestrator, OrchestratorSettings) {
    let orchestrator = settings.start().await.unwrap();
    let settings = settings.listen(orchestrator.address());
    (orchestrator, settings)
}

/// The states in which a run has ended.
pub(crate) const ENDS: [&str; 4] = ["completed", "failed", "timeout", "cancelled"];

/// How many runs are under way at a time.
pub(crate) const UNDER_WAY_FLAG: &str = "--max-live-runs";
