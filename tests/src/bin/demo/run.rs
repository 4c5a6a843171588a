//! A run of a plan that asks a person twice, and whose orchestrator is killed in the middle. Answers as a person would.

use escapement_tests::{Fault, checkout, documents};
use escapement_wire::runs::v1::action_service_client::ActionServiceClient;
use escapement_wire::runs::v1::inbox_service_client::InboxServiceClient;
use escapement_wire::runs::v1::run_service_client::RunServiceClient;
use escapement_wire::runs::v1::watch_run_response::Told;
use escapement_wire::runs::v1::{
    CreateRunRequest, GetRunRequest, PutActionProfileRequest, RespondToInputRequest, Run, RunEvent,
    WatchRunRequest,
};
use serde_json::{Value, json};
use tonic::Streaming;
use tonic::transport::Channel;

use crate::ledger::Ledger;
use crate::stage::Stage;

/// How the run ended.
pub(crate) struct Verdict {
    pub(crate) state: &'static str,
    pub(crate) as_expected: bool,
}

/// Creates the run, answers what it asks, kills the orchestrator while the loop is under way, and compares what the run says
/// it did with what the workers say.
pub(crate) async fn perform(stage: &mut Stage) -> Result<Verdict, Fault> {
    put_profiles(stage).await?;
    let run_id = create(stage).await?;
    let mut scene = Scene {
        run_id,
        last_sequence: 0,
        lines: 0,
        killed: false,
    };
    let mut events = scene.watch(stage).await?;
    let end = loop {
        // Heartbeats say that there is nothing new.
        let Some(Told::Event(event)) = next(&mut events).await? else {
            continue;
        };
        scene.show(&event);
        match event.event_type.as_str() {
            "input_requested" | "approval_requested" => scene.answer(stage).await?,
            "tool_output" if scene.lines == LINES_BEFORE_KILL && !scene.killed => {
                scene.killed = true;
                println!(
                    "       !! SIGKILL after iteration {LINES_BEFORE_KILL}: the orchestrator is gone, and starts again on its store"
                );
                stage.restart_orchestrator().await?;
                events = scene.watch(stage).await?;
            }
            "run_completed" | "run_failed" | "run_cancelled" => break event.event_type,
            _ => (),
        }
    };
    let run = scene.run(stage).await?;
    println!(
        "  => {end}: {} of {} steps, {} skipped, output {}",
        run.completed_steps,
        run.total_steps,
        run.skipped_steps,
        shown(&run)["output"]
    );
    let ledger = Ledger::of(stage, &scene.run_id).await?;
    ledger.tell();
    let as_expected = end == "run_completed" && run.failed_steps == 0 && scene.killed && ledger.is_right();
    let state = run.state().as_str_name();
    Ok(Verdict { state, as_expected })
}

/// What the actions mean here, as an operator says it once: workers say more carefully what anybody could do with them.
async fn put_profiles(stage: &Stage) -> Result<(), Fault> {
    let mut actions = ActionServiceClient::new(stage.orchestrator().channel());
    for (action, effect, risk, idempotent) in [
        ("process.run", "world", "safe", false),
        ("json.query", "pure", "safe", false),
        ("template.render", "side_effect", "safe", true),
        ("http.request", "external", "unusual", false),
    ] {
        let request: PutActionProfileRequest = documents::from_json(
            "escapement.runs.v1.PutActionProfileRequest",
            &json!({"profile": {"action": action, "effect": effect, "risk": risk, "idempotent": idempotent}}),
        )?;
        actions.put_action_profile(request).await?;
    }
    Ok(())
}

async fn create(stage: &Stage) -> Result<String, Fault> {
    let path = checkout::root().join("tests/plans").join(DOCUMENT);
    let document: Value = serde_json::from_slice(&std::fs::read(path)?)?;
    println!(
        "\n{} — a run of tests/plans/{DOCUMENT}",
        document["name"].as_str().unwrap_or_default()
    );
    let request: CreateRunRequest = documents::from_json(
        "escapement.runs.v1.CreateRunRequest",
        &json!({
            "document": document,
            "environment": { "webhook_url": stage.webhook_url() },
            "autonomy_level": 2,
            "user_id": "demo",
            "request_id": "demo-release",
        }),
    )?;
    let created = RunServiceClient::new(stage.orchestrator().channel())
        .create_run(request)
        .await?
        .into_inner();
    Ok(created.run.ok_or("a run that was created has a run")?.run_id)
}

/// The run as it is told.
struct Scene {
    run_id: String,
    last_sequence: i64,
    /// Iterations of the loop that ended.
    lines: usize,
    killed: bool,
}

impl Scene {
    async fn watch(
        &self,
        stage: &Stage,
    ) -> Result<Streaming<escapement_wire::runs::v1::WatchRunResponse>, Fault> {
        let request = WatchRunRequest {
            run_id: self.run_id.clone(),
            from_sequence: self.last_sequence + 1,
        };
        Ok(runs(stage).watch_run(request).await?.into_inner())
    }

    async fn run(&self, stage: &Stage) -> Result<Run, Fault> {
        let request = GetRunRequest {
            run_id: self.run_id.clone(),
        };
        let run = runs(stage).get_run(request).await?.into_inner().run;
        run.ok_or_else(|| "a run that is found is there".into())
    }

    /// One line for each event but values of expressions; of the loop only how many iterations there were.
    fn show(&mut self, event: &RunEvent) {
        self.last_sequence = event.sequence;
        let is_of_loop = event.step_key == LOOP;
        self.lines += usize::from(is_of_loop && event.event_type == "tool_output");
        let (number, what, step) = (event.sequence, &event.event_type, &event.step_key);
        match what.as_str() {
            "evaluation_requested" | "evaluated" => (),
            "tool_called" | "tool_output" if is_of_loop => (),
            "step_completed" if is_of_loop => {
                println!("  {number:>4} {what:<18} {step} ({} iterations)", self.lines);
            }
            "tool_called" => println!("  {number:>4} {what:<18} {step} ({})", event.tool_name),
            _ => println!("  {number:>4} {what:<18} {step}"),
        }
    }

    /// Answers what is asked: with a name, and with an approval of exactly what is shown.
    async fn answer(&self, stage: &Stage) -> Result<(), Fault> {
        let run = self.run(stage).await?;
        let Some(asked) = shown(&run)["open_requests"].get(0).cloned() else {
            return Ok(());
        };
        let answer = if asked["kind"] == "question" {
            println!("       ? {}\n       > {NAME}", text(&asked["question"]));
            json!({ "text": NAME })
        } else {
            println!("       ? {}", text(&asked["question"]));
            println!("         payload {}", asked["subject"]);
            println!(
                "         digest  {}\n       > approve",
                text(&asked["subject_digest"])
            );
            json!({ "approval": { "approve": {} }, "subject_digest": asked["subject_digest"] })
        };
        let mut request = json!({
            "input_request_id": asked["input_request_id"],
            "responder": { "id": "release-manager", "kind": "person" },
        });
        let fields = request.as_object_mut().ok_or("it is an object")?;
        fields.extend(answer.as_object().cloned().unwrap_or_default());
        let request: RespondToInputRequest =
            documents::from_json("escapement.runs.v1.RespondToInputRequest", &request)?;
        InboxServiceClient::new(stage.orchestrator().channel())
            .respond_to_input(request)
            .await?;
        Ok(())
    }
}

fn runs(stage: &Stage) -> RunServiceClient<Channel> {
    RunServiceClient::new(stage.orchestrator().channel())
}

async fn next(
    events: &mut Streaming<escapement_wire::runs::v1::WatchRunResponse>,
) -> Result<Option<Told>, Fault> {
    let told = events
        .message()
        .await?
        .ok_or("the watch ended before the run did")?;
    Ok(told.told)
}

fn shown(run: &Run) -> Value {
    documents::to_json("escapement.runs.v1.Run", run)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

const DOCUMENT: &str = "release-run.json";
const LOOP: &str = "lines";
const LINES_BEFORE_KILL: usize = 5;
/// What the release is called.
const NAME: &str = "Verge";
