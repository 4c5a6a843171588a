//! Saved plans, and requests that come twice.

use crate::plan_words::{call, document, question, text, unattended, with};
use crate::world::World;
use escapement_tests::fresh_id;
use serde_json::{Value, json};
use tonic::Code;

fn create(name: &str, fields: Value) -> Value {
    json!({ "plan": with(json!({ "name": name, "goal": "Be run" }), fields) })
}

#[tokio::test]
async fn s76_a_request_that_comes_twice_makes_one_run_also_over_a_kill() {
    let mut world = World::start().await;
    let request_id = fresh_id();
    let request = json!({ "document": document(json!([question("q")])), "request_id": request_id, "autonomy_level": 4 });
    let first = world.call("RunService/CreateRun", request.clone()).await;
    let again = world.call("RunService/CreateRun", request.clone()).await;
    assert_eq!(first["run"]["run_id"], again["run"]["run_id"]);
    world.crash().await;
    let after = world.call("RunService/CreateRun", request.clone()).await;
    assert_eq!(first["run"]["run_id"], after["run"]["run_id"]);
    let other = with(request, json!({ "name": "Another" }));
    let refusal = world.refusal("RunService/CreateRun", other).await;
    assert_eq!(refusal.is(), (Code::AlreadyExists, "REQUEST_ID_REUSED"));
    assert_eq!(world.all_runs(json!({})).await.len(), 1);

    // Verbs have request ids of their own.
    let run_id = text(&first["run"]["run_id"]);
    let pause = json!({ "run_id": run_id, "request_id": "pause-1" });
    world.call("RunService/PauseRun", pause.clone()).await;
    world.call("RunService/PauseRun", pause.clone()).await;
    let etag = world.get(&run_id).await["etag"].clone();
    world
        .call("RunService/ResumeRun", json!({ "run_id": run_id, "etag": etag }))
        .await;
    let stale = world
        .refusal("RunService/PauseRun", json!({ "run_id": run_id, "etag": etag }))
        .await;
    assert_eq!(stale.is(), (Code::Aborted, "ETAG_MISMATCH"));
    world.close().await;
}

#[tokio::test]
async fn s76_one_of_two_runs_of_a_plan_is_made() {
    let world = World::start().await;
    let plan = with(
        create("Once", json!({})),
        json!({ "document": document(json!([question("q")])) }),
    );
    let plan_id = text(&world.call("PlanService/CreatePlan", plan).await["plan"]["plan_id"]);
    let request = unattended(json!({ "plan_id": plan_id }));
    let (one, other) = tokio::join!(
        world.try_call("RunService/CreateRun", request.clone()),
        world.try_call("RunService/CreateRun", request.clone()),
    );
    let (made, refusal) = match (one, other) {
        (Ok(made), Err(refusal)) | (Err(refusal), Ok(made)) => (made, refusal),
        both => panic!("{both:?}"),
    };
    let run_id = text(&made["run"]["run_id"]);
    assert_eq!(refusal.is(), (Code::FailedPrecondition, "ALREADY_RUNNING"));
    assert!(refusal.text().contains(&run_id), "it names the run: {refusal:?}");
    let plan = world
        .call("PlanService/GetPlan", json!({ "plan_id": plan_id }))
        .await["plan"]
        .take();
    assert_eq!(plan["live_run_id"], run_id.as_str());
    let refusal = world
        .refusal("PlanService/DeletePlan", json!({ "plan_id": plan_id }))
        .await;
    assert_eq!(refusal.is(), (Code::FailedPrecondition, "ALREADY_RUNNING"));
    world
        .call("RunService/CancelRun", json!({ "run_id": run_id }))
        .await;
    let second = world.create(request).await;
    assert_ne!(second, run_id);
    world.close().await;
}

#[tokio::test]
async fn s88_a_saved_plan_has_defaults_bounds_and_every_field() {
    let world = World::start().await;
    let plan = world
        .call("PlanService/CreatePlan", create("Defaults", json!({})))
        .await["plan"]
        .take();
    for (field, value) in [
        ("priority", json!(5)),
        ("autonomy_level", json!(1)),
        ("max_retries", json!(3)),
        ("status", json!("pending")),
        ("total_steps", json!(0)),
        ("user_id", json!("default")),
        ("preset", json!("standard")),
    ] {
        assert_eq!(plan[field], value, "{field}");
    }
    let refusal = world
        .refusal("PlanService/CreatePlan", json!({ "plan": {} }))
        .await;
    assert_eq!(refusal.code, Code::InvalidArgument);
    let paths: Vec<&str> = refusal.paths().iter().map(|(path, _)| *path).collect();
    assert!(
        paths.contains(&"plan.name") && paths.contains(&"plan.goal"),
        "{refusal:?}"
    );
    for (field, value) in [
        ("priority", 0),
        ("priority", 11),
        ("autonomy_level", 5),
        ("max_retries", 101),
    ] {
        let request = with(create("Bounds", json!({})), json!({ field: value }));
        let refusal = world.refusal("PlanService/CreatePlan", request).await;
        assert_eq!(refusal.code, Code::InvalidArgument, "{field}");
        assert!(refusal.text().contains(field), "{refusal:?}");
    }
    let fields = json!({
        "description": "What it does", "user_id": "ada", "source": "agent", "source_id": "s-1", "trigger_id": "t-1",
        "goal_id": "g-1", "external_id": "x-1", "timeout_ms": 60_000, "metadata": { "a": [1.0, "b"] }, "preset": "autonomous",
    });
    let request = with(
        create("Fields", fields.clone()),
        json!({ "priority": 9, "autonomy_level": 4, "max_retries": 0 }),
    );
    let made = world.call("PlanService/CreatePlan", request).await["plan"].take();
    let plan_id = text(&made["plan_id"]);
    let read = world
        .call(
            "PlanService/GetPlan",
            json!({ "plan_id": plan_id, "user_id": "ada" }),
        )
        .await["plan"]
        .take();
    for (field, value) in fields.as_object().unwrap() {
        assert_eq!(&read[field], value, "{field}");
    }
    assert_eq!(
        (&read["priority"], &read["autonomy_level"], &read["max_retries"]),
        (&json!(9), &json!(4), &json!(0))
    );
    let stranger = world
        .refusal(
            "PlanService/GetPlan",
            json!({ "plan_id": plan_id, "user_id": "bob" }),
        )
        .await;
    assert_eq!(stranger.is(), (Code::NotFound, "PLAN_NOT_FOUND"));

    let update = json!({ "plan_id": plan_id, "name": "Renamed", "priority": 2, "metadata": { "c": null } });
    let updated = world.call("PlanService/UpdatePlan", update).await["plan"].take();
    assert_eq!(
        (&updated["name"], &updated["priority"]),
        (&json!("Renamed"), &json!(2))
    );
    assert_eq!(updated["metadata"], json!({ "c": null }));
    assert_eq!(updated["description"], "What it does");
    for (field, value) in [
        ("status", json!("completed")),
        ("progress", json!(50)),
        ("current_step_index", json!(1)),
        ("error", json!("x")),
        ("checkpoint", json!({})),
    ] {
        let refusal = world
            .refusal(
                "PlanService/UpdatePlan",
                json!({ "plan_id": plan_id, field: value }),
            )
            .await;
        assert_eq!(refusal.is(), (Code::InvalidArgument, "OUTPUT_ONLY"), "{field}");
        assert!(refusal.text().contains(field), "{refusal:?}");
    }
    let stale = json!({ "plan_id": plan_id, "name": "Late", "etag": made["etag"] });
    assert_eq!(
        world.refusal("PlanService/UpdatePlan", stale).await.is(),
        (Code::Aborted, "ETAG_MISMATCH")
    );
    world
        .call("PlanService/DeletePlan", json!({ "plan_id": plan_id }))
        .await;
    let gone = world
        .refusal("PlanService/GetPlan", json!({ "plan_id": plan_id }))
        .await;
    assert_eq!(gone.is(), (Code::NotFound, "PLAN_NOT_FOUND"));
    world.close().await;
}

#[tokio::test]
async fn s88_steps_of_all_types_are_added_flat_and_typed() {
    let world = World::start().await;
    let child = text(
        &world
            .call("PlanService/CreatePlan", create("Child", json!({})))
            .await["plan"]["plan_id"],
    );
    let plan_id = text(
        &world
            .call("PlanService/CreatePlan", create("Steps", json!({})))
            .await["plan"]["plan_id"],
    );
    let flat = [
        json!({ "type": "tool_call", "tool_name": "script.pure", "tool_args": { "answer": { "n": 1 } } }),
        json!({ "type": "llm_decision", "prompt": "Which?", "choices": ["a", "b"] }),
        json!({ "type": "user_input", "question": "Colour?", "input_type": "choice", "options": ["red", "blue"] }),
        json!({ "type": "condition", "condition": "true", "true_step": "later" }),
        json!({ "type": "parallel", "parallel_steps": [{ "tool_name": "script.pure" }, { "tool_name": "script.pure", "tool_args": {} }] }),
        json!({ "type": "loop", "tool_name": "script.pure", "max_iterations": 2 }),
        json!({ "type": "sub_plan", "sub_plan_id": child }),
    ];
    let later = json!({ "key": "later", "order": 100, "type": "tool_call", "config": { "tool_name": "script.pure" } });
    let added = world
        .call(
            "PlanService/AddPlanStep",
            json!({ "plan_id": plan_id, "step": later }),
        )
        .await;
    assert_eq!(
        (&added["step_key"], &added["total_steps"]),
        (&json!("later"), &json!(1))
    );
    for (n, step) in (1..).zip(flat) {
        let step = with(
            step,
            json!({ "order": n, "name": format!("Step {n}"), "max_retries": 0 }),
        );
        let step = if step["type"] == "user_input" || step["type"] == "condition" {
            let mut step = step;
            step.as_object_mut().unwrap().remove("max_retries");
            step
        } else {
            step
        };
        let added = world
            .call(
                "PlanService/AddPlanStep",
                json!({ "plan_id": plan_id, "flat": step }),
            )
            .await;
        assert_eq!(
            (&added["step_key"], &added["total_steps"]),
            (&json!(format!("step_{n}")), &json!(n + 1))
        );
    }
    let refusal = world
        .refusal(
            "PlanService/AddPlanStep",
            json!({ "plan_id": plan_id, "flat": {} }),
        )
        .await;
    assert_eq!(refusal.code, Code::InvalidArgument);
    assert!(refusal.text().contains("order"), "{refusal:?}");

    world.shared.model_says(&["b"]);
    let run_id = world.create(json!({ "plan_id": plan_id })).await;
    // A changed plan does not change its live run.
    let request = world.open_request(&run_id).await;
    let removed = world
        .call(
            "PlanService/DeletePlanStep",
            json!({ "plan_id": plan_id, "step_key": "step_6" }),
        )
        .await;
    assert_eq!(removed["plan"]["total_steps"], 7);
    world.respond(&request, json!({ "choice": "red" })).await.unwrap();
    let run = world.ended(&run_id).await;
    assert_eq!(
        (&run["state"], &run["total_steps"]),
        (&json!("completed"), &json!(8)),
        "{run:#}"
    );
    let plan = world
        .call("PlanService/GetPlan", json!({ "plan_id": plan_id }))
        .await["plan"]
        .take();
    assert_eq!(
        (&plan["status"], &plan["last_run_id"]),
        (&json!("completed"), &json!(run_id))
    );
    assert_ne!(plan["revision_digest"], run["revision_digest"]);
    world.close().await;
}

#[tokio::test]
async fn s88_a_cycle_is_told_with_the_names_of_its_steps() {
    let world = World::start().await;
    let steps = json!([
        with(
            call("a", "script.pure", json!({})),
            json!({ "name": "A", "depends_on": ["c"] })
        ),
        with(
            call("b", "script.pure", json!({})),
            json!({ "name": "B", "depends_on": ["a"] })
        ),
        call("c", "script.pure", json!({})),
    ]);
    let plan = with(create("Cycle", json!({})), json!({ "document": document(steps) }));
    let made = world.call("PlanService/CreatePlan", plan).await["plan"].take();
    // The step that closes the cycle is told as the new one.
    let step = with(
        call("c", "script.pure", json!({})),
        json!({ "name": "C", "depends_on": ["b"] }),
    );
    let request = json!({ "plan_id": made["plan_id"], "step_key": "c", "step": step });
    let refusal = world.refusal("PlanService/UpdatePlanStep", request).await;
    assert_eq!(refusal.is(), (Code::InvalidArgument, "PLAN_INVALID"));
    assert!(
        refusal
            .paths()
            .iter()
            .any(|(_, code)| *code == "CYCLIC_DEPENDENCY"),
        "{refusal:?}"
    );
    let says = refusal
        .violations
        .iter()
        .any(|(_, _, text)| text.contains("Circular dependency detected: ") && text.contains("A -> "));
    assert!(says, "{refusal:?}");
    let plan = world
        .call("PlanService/GetPlan", json!({ "plan_id": made["plan_id"] }))
        .await["plan"]
        .take();
    assert_eq!(
        plan["revision_digest"], made["revision_digest"],
        "nothing was stored"
    );
    world.close().await;
}
