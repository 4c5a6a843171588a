//! A call that is refused writes nothing: the store of runs counts no commit for it.

use crate::plan_words::{call, document, question, unattended};
use crate::world::World;
use serde_json::{Value, json};

/// Nothing has this id.
const NOBODY: &str = "0b9e7a34-51c2-4d8e-8f60-1a2b3c4d5e03";

/// Commits that changed something in the store of runs.
fn n_commits(world: &World) -> i64 {
    let file = rusqlite::Connection::open(world.directory.join("store").join("store.db")).unwrap();
    file.busy_timeout(crate::world::LIMIT).unwrap();
    let read = file.query_row("SELECT n_commits FROM tally", [], |row| row.get(0));
    read.unwrap()
}

/// A run that waits for a person, and one that has ended.
struct Runs {
    waiting: String,
    ended: String,
    request: Value,
}

/// Each verb of runs with what it does not take.
fn verbs(runs: &Runs) -> Vec<(&'static str, Value, &'static str)> {
    let Runs {
        waiting,
        ended,
        request,
    } = runs;
    let cyclic = json!([
        { "key": "a", "type": "tool_call", "config": { "tool_name": "script.pure" }, "depends_on": ["a"] }
    ]);
    let no_decision = json!({
        "input_request_id": request["input_request_id"], "confirm": true,
        "responder": { "id": "ada", "kind": "person" }
    });
    let mut refused = vec![
        (
            "RunService/CreateRun",
            unattended(json!({ "document": document(cyclic) })),
            "PLAN_INVALID",
        ),
        (
            "RunService/RewindRun",
            json!({ "run_id": waiting, "step_key": "nobody" }),
            "UNKNOWN_STEP",
        ),
        (
            "RunService/RollbackRun",
            json!({ "run_id": waiting }),
            "NO_CHECKPOINT",
        ),
        (
            "RunService/ForkRun",
            json!({ "run_id": waiting, "from_step": "nobody" }),
            "UNKNOWN_STEP",
        ),
        ("RunService/ResumeRun", json!({ "run_id": waiting }), "NOT_PAUSED"),
        ("RunService/RetryRun", json!({ "run_id": waiting }), "NOT_FAILED"),
        (
            "RunService/OverrideStep",
            json!({ "run_id": waiting, "step_key": "a", "skip": {}, "reason": "done" }),
            "STEP_SETTLED",
        ),
        (
            "RunService/CreateCheckpoint",
            json!({ "run_id": waiting, "data": { "t": "x".repeat(512_000) } }),
            "DATA_TOO_LARGE",
        ),
        (
            "RunService/DeleteRun",
            json!({ "run_id": waiting }),
            "RUN_NOT_ENDED",
        ),
        ("InboxService/RespondToInput", no_decision, "ANSWER_INVALID"),
    ];
    for method in [
        "RunService/PauseRun",
        "RunService/CancelRun",
        "RunService/DiscardRun",
    ] {
        refused.push((method, json!({ "run_id": ended }), "RUN_ENDED"));
    }
    refused
}

/// Each call that changes something else, about what is not there or is no such thing.
fn others() -> Vec<(&'static str, Value)> {
    let plan = || json!({ "plan_id": NOBODY });
    let trigger = || json!({ "trigger_id": NOBODY });
    let session = || json!({ "session_id": "nobody" });
    vec![
        ("PlanService/CreatePlan", json!({ "plan": { "name": "No goal" } })),
        (
            "PlanService/UpdatePlan",
            json!({ "plan_id": NOBODY, "name": "x" }),
        ),
        ("PlanService/DeletePlan", plan()),
        ("PlanService/AddPlanStep", plan()),
        ("PlanService/UpdatePlanStep", plan()),
        ("PlanService/DeletePlanStep", plan()),
        ("PlanService/PutPlanDocument", plan()),
        ("PlanService/ImportPlan", json!({ "format": "nothing/1" })),
        ("SessionService/MergeSessionState", session()),
        ("SessionService/RestartSession", session()),
        ("SessionService/ResetSkillHealth", session()),
        ("SessionService/DeleteSession", session()),
        ("ActionService/PutActionProfile", json!({ "profile": {} })),
        ("ActionService/DeleteActionProfile", json!({ "action": "nobody" })),
        ("TriggerService/CreateTrigger", json!({ "trigger": {} })),
        (
            "TriggerService/UpdateTrigger",
            json!({ "trigger": { "trigger_id": NOBODY } }),
        ),
        ("TriggerService/DeleteTrigger", trigger()),
        ("TriggerService/EnableTrigger", trigger()),
        ("TriggerService/FireTrigger", trigger()),
        ("TriggerService/PublishEvent", json!({ "type": "" })),
        ("GoalService/CreateGoal", json!({ "goal": {} })),
        (
            "GoalService/UpdateGoal",
            json!({ "goal_id": NOBODY, "title": "x" }),
        ),
        ("GoalService/DeleteGoal", json!({ "goal_id": NOBODY })),
    ]
}

#[tokio::test]
async fn a_call_that_is_refused_leaves_no_row() {
    let world = World::start().await;
    let steps = json!([call("a", "script.pure", json!({})), question("q")]);
    let waiting = world.run(steps).await;
    let request = world.open_request(&waiting).await;
    let ended = world.ended_run(json!([])).await;
    let runs = Runs {
        waiting,
        ended: crate::plan_words::text(&ended["run_id"]),
        request,
    };
    let before = n_commits(&world);
    for (method, request, reason) in verbs(&runs) {
        let refusal = world.refusal(method, request).await;
        assert_eq!(refusal.reason, reason, "{method}: {refusal:?}");
        assert_eq!(n_commits(&world), before, "{method} wrote something");
    }
    for (method, request) in others() {
        world.refusal(method, request).await;
        assert_eq!(n_commits(&world), before, "{method} wrote something");
    }
    // One that is taken is seen.
    world
        .call("RunService/PauseRun", json!({ "run_id": runs.waiting }))
        .await;
    assert!(n_commits(&world) > before);
    world.close().await;
}
