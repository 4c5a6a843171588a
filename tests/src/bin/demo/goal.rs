//! A goal that a model makes plans for: one with an action that there is not, one whose tool fails, and one that works.
//! The model is a script; everything else is real: the checks of its plans, their execution, and what the next question says about them.

use escapement_tests::{Fault, ModelServer, Turn, checkout, documents};
use escapement_wire::runs::v1::run_service_client::RunServiceClient;
use escapement_wire::runs::v1::watch_run_response::Told;
use escapement_wire::runs::v1::{
    CreateRunRequest, GetRunRequest, ListRevisionsRequest, RunEvent, WatchRunRequest,
};
use serde_json::{Value, json};
use tonic::transport::Channel;

use crate::stage::Stage;

/// Returns a model that answers with one file of the script after the other.
pub(crate) async fn model() -> Result<ModelServer, Fault> {
    let answer = |file: &&str| {
        let path = checkout::root().join(SCRIPT).join(file);
        Ok(Turn::Says(std::fs::read_to_string(path)?))
    };
    let script: Result<Vec<Turn>, Fault> = ANSWERS.iter().map(answer).collect();
    ModelServer::start(script?).await
}

/// Creates a run of the goal, tells how its plans are made and fail, and draws which one came from which. True if it went as
/// it should.
pub(crate) async fn perform(stage: &Stage) -> Result<bool, Fault> {
    println!("\n{GOAL} — a goal, and a model that plans");
    let mut client = RunServiceClient::new(stage.orchestrator().channel());
    let request: CreateRunRequest = documents::from_json(
        "escapement.runs.v1.CreateRunRequest",
        &json!({
            "goal": GOAL,
            "planner": { "model": "scripted", "catalogue": CATALOGUE },
            "limits": { "max_retries": 0 },
            "autonomy_level": 2,
            "user_id": "demo",
            "request_id": "demo-goal",
        }),
    )?;
    let created = client.create_run(request).await?.into_inner();
    let run_id = created.run.ok_or("a run that was created has a run")?.run_id;
    let lineage = watch(&mut client, &run_id).await?;
    let request = GetRunRequest {
        run_id: run_id.clone(),
    };
    let run = client.get_run(request).await?.into_inner().run;
    let run = documents::to_json(
        "escapement.runs.v1.Run",
        &run.ok_or("a run that is found is there")?,
    );
    println!(
        "  => {}: {} generations, disabled {}, output {}",
        text(&run["state"]),
        run["generations"],
        run["disabled_actions"],
        run["output"]
    );
    let revisions = revisions(&mut client, &run_id).await?;
    println!("     which plan came from which:");
    for line in lineage.drawn(&revisions) {
        println!("     {line}");
    }
    let asked = stage.model().asked();
    println!(
        "     the model was asked {} times, the last time with what became of {} plans",
        asked.len(),
        told_plans(asked.last())
    );
    Ok(run["state"] == "completed"
        && run["disabled_actions"] == json!(["file.read"])
        && asked.len() == ANSWERS.len()
        && revisions.len() == 2)
}

/// Watches to the end, a line for each event.
async fn watch(client: &mut RunServiceClient<Channel>, run_id: &str) -> Result<Lineage, Fault> {
    let request = WatchRunRequest {
        run_id: run_id.to_owned(),
        from_sequence: 1,
    };
    let mut events = client.watch_run(request).await?.into_inner();
    let mut lineage = Lineage::default();
    loop {
        let told = events
            .message()
            .await?
            .ok_or("the watch ended before the run did")?;
        // Heartbeats say that there is nothing new.
        let Some(Told::Event(event)) = told.told else {
            continue;
        };
        let shown = documents::to_json("escapement.runs.v1.RunEvent", &event);
        show(&event, &shown["data"]);
        lineage.add(&event.event_type, &shown["data"]);
        if matches!(
            event.event_type.as_str(),
            "run_completed" | "run_failed" | "run_cancelled"
        ) {
            return Ok(lineage);
        }
    }
}

fn show(event: &RunEvent, data: &Value) {
    let (number, what) = (event.sequence, &event.event_type);
    let generation = data["generation"].as_f64().unwrap_or_default();
    let more = match what.as_str() {
        "generation_started" => format!("generation {generation}"),
        "generation_ended" => format!("generation {generation}: {}", text(&data["verdict"])),
        "replan_triggered" => format!("disabled {}", data["disabled"]),
        "tool_called" => format!("{} ({})", event.step_key, event.tool_name),
        _ => event.step_key.clone(),
    };
    println!("  {number:>4} {what:<18} {}", more.trim_start());
}

async fn revisions(client: &mut RunServiceClient<Channel>, run_id: &str) -> Result<Vec<Value>, Fault> {
    let request = ListRevisionsRequest {
        run_id: run_id.to_owned(),
        ..ListRevisionsRequest::default()
    };
    let listed = client.list_revisions(request).await?.into_inner();
    let shown = documents::to_json("escapement.runs.v1.ListRevisionsResponse", &listed);
    let revisions = shown["revisions"].as_array().cloned().unwrap_or_default();
    // The goal itself has the number 0.
    Ok(revisions
        .into_iter()
        .filter(|revision| revision["number"] != 0)
        .collect())
}

/// Returns the number of earlier plans that a question describes.
fn told_plans(question: Option<&Value>) -> usize {
    let messages = question.and_then(|question| question["messages"].as_array());
    let last = messages.and_then(|messages| messages.last());
    let said = last.and_then(|message| serde_json::from_str::<Value>(text(&message["content"])).ok());
    said.and_then(|said| said["previous"].as_array().map(Vec::len))
        .unwrap_or_default()
}

/// What became of each generation.
#[derive(Debug, Default)]
struct Lineage {
    generations: Vec<Generation>,
}

#[derive(Debug, Default)]
struct Generation {
    verdict: String,
    /// The plan's digest if it was accepted.
    digest: String,
    /// What was wrong with the plan, or what failed of it.
    faults: Vec<String>,
    /// What no further plan may call.
    disabled: Vec<String>,
}

impl Lineage {
    fn add(&mut self, event_type: &str, data: &Value) {
        let items = |list: &Value| list.as_array().cloned().unwrap_or_default();
        match (event_type, self.generations.last_mut()) {
            ("generation_started", _) => self.generations.push(Generation::default()),
            ("generation_ended", Some(last)) => {
                text(&data["verdict"]).clone_into(&mut last.verdict);
                text(&data["revision_digest"]).clone_into(&mut last.digest);
                last.faults = items(&data["violations"])
                    .iter()
                    .map(|part| format!("{} {}", text(&part["code"]), text(&part["path"])))
                    .collect();
            }
            ("replan_triggered", Some(last)) => {
                let failed = items(&data["failed_steps"]);
                let failed = failed.iter().map(|step| {
                    format!(
                        "step `{}` failed with {}",
                        text(&step["step_key"]),
                        text(&step["code"])
                    )
                });
                last.faults.extend(failed);
                let disabled = items(&data["disabled"]);
                last.disabled = disabled.iter().map(|action| text(action).to_owned()).collect();
            }
            _ => {}
        }
    }

    /// Returns a line for each generation, and one for each thing that followed from it.
    fn drawn(&self, revisions: &[Value]) -> Vec<String> {
        let mut lines = Vec::new();
        for (index, generation) in self.generations.iter().enumerate() {
            let number = index + 1;
            let revision = revisions.iter().find(|revision| revision["generation"] == number);
            lines.push(match revision {
                None => format!("generation {number} ✗ {}, nothing of it ran", generation.verdict),
                Some(revision) => {
                    let is_last = number == self.generations.len();
                    let sign = if is_last && generation.faults.is_empty() {
                        "✓"
                    } else {
                        "✗"
                    };
                    let parent = match text(&revision["parent_digest"]) {
                        "" => String::new(),
                        parent => format!(", after {}", short(parent)),
                    };
                    format!(
                        "generation {number} {sign} plan {} {}{parent}",
                        revision["number"],
                        short(&generation.digest)
                    )
                }
            });
            lines.extend(generation.faults.iter().map(|fault| format!("   │ {fault}")));
            if !generation.disabled.is_empty() {
                lines.push(format!(
                    "   │ no further plan may call {}",
                    generation.disabled.join(", ")
                ));
            }
            if number < self.generations.len() {
                lines.push("   ▼".to_owned());
            }
        }
        lines
    }
}

/// Returns the beginning of a digest.
fn short(digest: &str) -> &str {
    digest.get(..SHORT).unwrap_or(digest)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

const GOAL: &str = "Write down what changed lately";
const SCRIPT: &str = "tests/plans/goal";
/// What the model answers, in order.
const ANSWERS: [&str; 3] = ["1-unknown-action.txt", "2-no-changelog.json", "3-from-git.json"];
/// What plans may call.
const CATALOGUE: [&str; 4] = ["file.read", "process.run", "json.query", "template.render"];
/// `sha256:` and eight digits.
const SHORT: usize = 15;

#[cfg(test)]
mod tests {
    use super::Lineage;
    use serde_json::json;

    #[test]
    fn a_lineage_shows_what_failed_what_was_disabled_and_what_came_next() {
        let mut lineage = Lineage::default();
        let [first, second] = ["sha256:0123456789", "sha256:9876543210"];
        let violation =
            json!({"path": "steps[0].config.tool_name", "code": "UNKNOWN_ACTION", "message": "m"});
        for (event, data) in [
            ("generation_started", json!({"generation": 1})),
            (
                "generation_ended",
                json!({"generation": 1, "verdict": "refused", "violations": [violation]}),
            ),
            ("generation_started", json!({"generation": 2})),
            (
                "generation_ended",
                json!({"generation": 2, "verdict": "accepted", "revision_digest": first}),
            ),
            (
                "replan_triggered",
                json!({
                    "failed_steps": [{"step_key": "a", "code": "NO"}],
                    "disabled": ["x"]
                }),
            ),
            ("generation_started", json!({"generation": 3})),
            (
                "generation_ended",
                json!({"generation": 3, "verdict": "accepted", "revision_digest": second}),
            ),
        ] {
            lineage.add(event, &data);
        }
        let revisions = [
            json!({"number": 1, "generation": 2, "parent_digest": ""}),
            json!({"number": 2, "generation": 3, "parent_digest": first}),
        ];
        assert_eq!(
            lineage.drawn(&revisions),
            [
                "generation 1 ✗ refused, nothing of it ran",
                "   │ UNKNOWN_ACTION steps[0].config.tool_name",
                "   ▼",
                "generation 2 ✗ plan 1 sha256:01234567",
                "   │ step `a` failed with NO",
                "   │ no further plan may call x",
                "   ▼",
                "generation 3 ✓ plan 2 sha256:98765432, after sha256:01234567",
            ]
        );
    }
}
