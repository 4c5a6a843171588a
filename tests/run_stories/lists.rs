//! Lists, counts and what is left of runs.

use crate::discards::n_payloads;
use crate::plan_words::{call, document, question, text, unattended, with};
use crate::triggers::created;
use crate::world::{LIMIT, UNDER_WAY_FLAG, World};
use escapement_tests::wait_for;
use serde_json::{Value, json};
use tonic::Code;

fn ids(runs: &[Value]) -> Vec<String> {
    runs.iter().map(|run| text(&run["run_id"])).collect()
}

#[tokio::test]
async fn s89_lists_are_sorted_filtered_and_paged() {
    let world = World::start_with(|settings| settings.flag(UNDER_WAY_FLAG, 2)).await;
    let mut made = Vec::new();
    for n in 0..23 {
        let steps = json!([call("a", "script.pure", json!({ "hang": true }))]);
        let fields = json!({
            "document": document(steps), "priority": 1 + n % 3, "user_id": if n % 2 == 0 { "ada" } else { "bob" },
            "goal_id": format!("g-{}", n % 4), "trigger_id": "t",
        });
        made.push((1 + n % 3, n, world.create(fields).await));
    }
    let first = world.call("RunService/ListRuns", json!({})).await;
    assert_eq!(first["runs"].as_array().unwrap().len(), 20, "the default page");
    assert_ne!(first["next_page_token"], "");
    assert_eq!(
        (&first["total_size"], &first["total_is_at_least"]),
        (&json!(23), &json!(false))
    );
    let mut expected = made.clone();
    expected.sort_by_key(|(priority, n, _)| (-priority, -n));
    let expected: Vec<String> = expected.into_iter().map(|(_, _, id)| id).collect();
    let all = ids(&world.all_runs(json!({})).await);
    assert_eq!(all, expected, "the highest priority first, then the newest");

    let queued = world.all_runs(json!({ "state": "queued" })).await;
    assert_eq!(queued.len(), 21);
    let mut waiting: Vec<_> = made
        .iter()
        .filter(|(_, _, id)| ids(&queued).contains(id))
        .collect();
    waiting.sort_by_key(|(priority, n, _)| (-priority, *n));
    let waiting: Vec<String> = waiting.into_iter().map(|(_, _, id)| id.clone()).collect();
    assert_eq!(
        ids(&queued),
        waiting,
        "the highest priority first, then the oldest"
    );

    assert_eq!(world.all_runs(json!({ "user_id": "ada" })).await.len(), 12);
    for (goal, of_ada) in [("g-0", 6), ("g-1", 0), ("g-2", 6)] {
        let both = json!({ "user_id": "ada", "goal_id": goal });
        assert_eq!(world.all_runs(both).await.len(), of_ada, "{goal}");
    }
    assert_eq!(world.all_runs(json!({ "trigger_id": "t" })).await.len(), 23);
    assert_eq!(world.all_runs(json!({ "trigger_id": "nobody" })).await.len(), 0);
    let status = world.call("RunService/GetRunsStatus", json!({})).await;
    assert_eq!(
        (&status["live"], &status["queued"], &status["under_way"]),
        (&json!(23), &json!(21), &json!(2))
    );
    assert_eq!(status["running_run_ids"].as_array().unwrap().len(), 2);

    let token = json!({ "page_token": first["next_page_token"], "user_id": "ada" });
    let refusal = world.refusal("RunService/ListRuns", token).await;
    assert_eq!(
        refusal.code,
        Code::InvalidArgument,
        "a token belongs to its filters"
    );
    for (_, _, run_id) in made {
        world
            .call("RunService/CancelRun", json!({ "run_id": run_id }))
            .await;
    }
    assert_eq!(world.all_runs(json!({ "live": true })).await.len(), 0);
    assert_eq!(
        world.all_runs(json!({ "plan_status": "cancelled" })).await.len(),
        23
    );
    world.close().await;
}

/// Returns the length of a list, as its page has it.
async fn size(world: &World, method: &str, filter: Value) -> (i64, bool) {
    let page = world.call(method, filter).await;
    (
        page["total_size"].as_i64().unwrap(),
        page["total_is_at_least"].as_bool().unwrap(),
    )
}

#[tokio::test]
async fn s89_a_list_says_how_long_it_was_when_its_first_page_was_read() {
    let world = World::start().await;
    let steps = document(json!([question("q")]));
    let goal = json!({ "goal": { "title": "Ship" } });
    let goal = world.call("GoalService/CreateGoal", goal).await;
    let goal_id = text(&goal["goal"]["goal_id"]);
    let (mut plans, mut runs) = (Vec::new(), Vec::new());
    for n in 0..5 {
        let (user, goal_id) = match n % 2 {
            0 => ("ada", &goal_id[..]),
            _ => ("bob", ""),
        };
        let plan = json!({ "name": "p", "goal": "g", "user_id": user, "goal_id": goal_id });
        let plan = json!({ "plan": plan, "document": steps });
        let made = world.call("PlanService/CreatePlan", plan).await;
        plans.push(text(&made["plan"]["plan_id"]));
        let run = json!({ "document": steps, "user_id": user, "goal_id": goal_id });
        runs.push(world.create(run).await);
        world.open_request(&runs[n]).await;
    }
    let planned = world
        .create(json!({ "plan_id": plans[0], "user_id": "ada" }))
        .await;
    world.open_request(&planned).await;
    let run = json!({ "document": steps, "autonomy_level": 4 });
    let event = json!({ "name": "t", "run": run, "event": { "type": "mail" } });
    let trigger = created(&world, event).await;
    for id in ["a", "b"] {
        let event = json!({ "type": "mail", "id": id });
        world.call("TriggerService/PublishEvent", event).await;
    }
    for (method, filter, n) in [
        ("RunService/ListRuns", json!({}), 7),
        ("RunService/ListRuns", json!({ "user_id": "ada" }), 4),
        (
            "RunService/ListRuns",
            json!({ "user_id": "ada", "goal_id": goal_id }),
            3,
        ),
        ("RunService/ListRuns", json!({ "state": "failed" }), 0),
        ("PlanService/ListPlans", json!({}), 5),
        ("PlanService/ListPlans", json!({ "goal_id": goal_id }), 3),
        ("PlanService/ListPlans", json!({ "status": "pending" }), 4),
        ("PlanService/ListPlans", json!({ "user_id": "carl" }), 0),
        ("GoalService/ListGoals", json!({}), 1),
        ("GoalService/ListGoals", json!({ "state": "completed" }), 0),
        ("TriggerService/ListTriggers", json!({}), 1),
        ("TriggerService/ListFirings", json!({ "trigger_id": trigger }), 2),
        ("InboxService/ListInputRequests", json!({ "user_id": "bob" }), 2),
        ("InboxService/ListInputRequests", json!({ "run_id": planned }), 1),
    ] {
        let filter = with(filter, json!({ "page_size": 1 }));
        assert_eq!(
            size(&world, method, filter.clone()).await,
            (n, false),
            "{method} {filter}"
        );
    }

    // The second page has the length of the first one, although the list has grown.
    let first = world
        .call("PlanService/ListPlans", json!({ "page_size": 2 }))
        .await;
    let plan = json!({ "plan": { "name": "p", "goal": "g" }, "document": steps });
    world.call("PlanService/CreatePlan", plan).await;
    let second = json!({ "page_size": 2, "page_token": first["next_page_token"] });
    assert_eq!(size(&world, "PlanService/ListPlans", second).await, (5, false));
    assert_eq!(size(&world, "PlanService/ListPlans", json!({})).await, (6, false));
    for run in world.all_runs(json!({})).await {
        let cancel = json!({ "run_id": run["run_id"] });
        world.call("RunService/CancelRun", cancel).await;
    }
    world.close().await;
}

#[tokio::test]
async fn s89_history_details_counts_and_the_next_step() {
    let world = World::start().await;
    let three = json!([
        call("a", "script.pure", json!({})),
        call("b", "script.pure", json!({})),
        call("c", "script.pure", json!({}))
    ]);
    let completed = text(&world.ended_run(three.clone()).await["run_id"]);
    let waiting = world
        .run(json!([question("q"), call("then", "script.pure", json!({}))]))
        .await;
    world.open_request(&waiting).await;
    let running = world
        .run(json!([
            call("slow", "script.pure", json!({ "hang": true })),
            call("next", "script.pure", json!({}))
        ]))
        .await;
    world.called_times(&running, "slow", 1).await;
    let stats = world.call("RunService/GetRunStats", json!({})).await;
    assert_eq!(
        (&stats["total"], &stats["completion_rate"]),
        (&json!(3), &json!(33.3))
    );
    assert_eq!(stats["avg_steps_per_run"], 3.0);
    assert_eq!(
        stats["by_status"],
        json!({ "completed": 1, "paused": 1, "running": 1 })
    );
    let run = world.get(&completed).await;
    let took = run["completed_at"].as_i64().unwrap() - run["created_at"].as_i64().unwrap();
    assert_eq!(stats["avg_duration_ms"], took);

    let long = json!([{ "key": "loop", "type": "loop", "config": { "tool_name": "script.pure", "max_iterations": 30 } }]);
    let long = text(&world.ended_run(long).await["run_id"]);
    let history = world
        .call("RunService/ListRunEvents", json!({ "run_id": long }))
        .await;
    let newest = history["events"].as_array().unwrap();
    assert_eq!(newest.len(), 50);
    assert_eq!(newest[0]["event_type"], "run_completed");
    assert_eq!(newest[0]["sequence"], history["last_sequence"]);
    let details = world.call("RunService/GetRun", json!({ "run_id": long })).await;
    assert_eq!(details["last_events"].as_array().unwrap()[..], newest[..20]);

    let explained = world
        .call("RunService/ExplainRun", json!({ "run_id": running }))
        .await;
    let said = text(&explained["run"]["text"]);
    assert!(
        said.starts_with("The run executes: step slow has 1 attempt in flight."),
        "{said}"
    );
    assert!(said.contains("Z (in "), "{said}");
    let slow = explained["steps"]
        .as_array()
        .unwrap()
        .iter()
        .find(|step| step["step_key"] == "slow");
    let slow = slow.unwrap();
    let attempt = &slow["attempts"][0];
    assert_eq!(attempt["step"]["state"], "started", "{explained:#}");
    assert!(!text(&attempt["step"]["worker_id"]).is_empty());
    assert!(
        text(&slow["text"]).ends_with(&text(&attempt["step"]["text"])),
        "{slow:#}"
    );
    let next = explained["steps"]
        .as_array()
        .unwrap()
        .iter()
        .find(|step| step["step_key"] == "next")
        .unwrap();
    assert_eq!(next["state"], "pending");
    assert_eq!(next["waits_for_step_keys"], json!(["slow"]), "{explained:#}");
    let explained = world
        .call("RunService/ExplainRun", json!({ "run_id": waiting }))
        .await;
    let asked = explained["steps"]
        .as_array()
        .unwrap()
        .iter()
        .find(|step| step["step_key"] == "q")
        .unwrap();
    assert_eq!(asked["waits_for_input_request_ids"].as_array().unwrap().len(), 1);
    world
        .call("RunService/CancelRun", json!({ "run_id": running }))
        .await;
    world.close().await;
}

#[tokio::test]
async fn s89_a_row_and_a_log_line_name_a_run_that_failed() {
    let world = World::start_with(|settings| settings.flag("--log-format", "json")).await;
    let mut plan = document(json!([call("pay", "script.pure", json!({ "fail": "NO_FUNDS" }))]));
    plan["name"] = json!("Pay the bill");
    plan["goal"] = json!("No debts");
    let run_id = world.create(json!({ "document": plan })).await;
    let run = world.ended(&run_id).await;
    let row = &world.all_runs(json!({ "state": "failed" })).await[0];
    assert_eq!(
        (&row["run_id"], &row["name"], &row["goal"]),
        (&json!(run_id), &json!("Pay the bill"), &json!("No debts"))
    );
    assert_eq!(row["error"]["code"], run["error"]["code"]);
    assert!(row["limits"].is_null() && row["policy"].is_null(), "{row:#}");

    let log = world.directory.join("orchestrator.stderr");
    let line = async || {
        let log = std::fs::read_to_string(&log).ok()?;
        let lines = log
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.into_iter().find(|line| line["run_id"] == json!(run_id))
    };
    let line = wait_for("the line of the run", LIMIT, line).await.unwrap();
    assert_eq!(
        (&line["message"], &line["level"], &line["code"], &line["step"]),
        (
            &json!("run failed"),
            &json!("INFO"),
            &run["error"]["code"],
            &json!("pay")
        ),
        "{line:#}"
    );
    world.close().await;
}

#[tokio::test]
async fn s73_the_explanation_of_a_step_names_the_action_without_a_worker() {
    let world = World::start().await;
    // Otherwise the run would wait in the queue for a worker to describe the action.
    let known = json!({ "action": "unoffered.action", "effect": "pure", "risk": "safe" });
    world.profile(known).await;
    let run_id = world.run(json!([call("a", "unoffered.action", json!({}))])).await;
    let held_back = async || {
        let explained = world
            .call("RunService/ExplainRun", json!({ "run_id": run_id }))
            .await;
        let step = explained["steps"][0].clone();
        let action = &step["attempts"][0]["execution"]["held_back_for_action"];
        (action == "unoffered.action").then_some(step)
    };
    let step = wait_for("the execution is held back", LIMIT, held_back)
        .await
        .unwrap();
    assert!(text(&step["text"]).contains("no live worker offers"), "{step:#}");
    assert_eq!(step["state"], "running");
    world
        .call("RunService/CancelRun", json!({ "run_id": run_id }))
        .await;
    world.close().await;
}

#[tokio::test]
async fn s73_a_live_run_is_not_deleted_and_of_an_ended_one_its_id_stays() {
    let world = World::start().await;
    let waiting = world.run(json!([question("q")])).await;
    world.open_request(&waiting).await;
    let running = world
        .run(json!([call("a", "script.pure", json!({ "hang": true }))]))
        .await;
    world.called_times(&running, "a", 1).await;
    for run_id in [waiting, running] {
        let refusal = world
            .refusal("RunService/DeleteRun", json!({ "run_id": run_id }))
            .await;
        assert_eq!(refusal.is(), (Code::FailedPrecondition, "RUN_NOT_ENDED"));
        world
            .call("RunService/CancelRun", json!({ "run_id": run_id }))
            .await;
    }
    let large = |unit: &str| {
        let bytes =
            |key: &str, unit: &str| call(key, "script.pure", json!({ "bytes": 50_000, "unit": unit }));
        json!([bytes("a", "x"), bytes("b", unit)])
    };
    let kept = text(&world.ended_run(large("y")).await["run_id"]);
    let request = unattended(json!({ "document": document(large("z")), "request_id": "once" }));
    let removed = world.create(request.clone()).await;
    world.ended(&removed).await;
    assert_eq!(n_payloads(&world), 3, "one of both, and one of each");
    world
        .call("RunService/DeleteRun", json!({ "run_id": removed }))
        .await;
    for method in ["GetRun", "ListRunEvents", "ListRunSteps"] {
        let refusal = world
            .refusal(&format!("RunService/{method}"), json!({ "run_id": removed }))
            .await;
        assert_eq!(refusal.is(), (Code::NotFound, "RUN_REMOVED"), "{method}");
    }
    // What another run has of the same bytes stays.
    assert_eq!(n_payloads(&world), 2);
    assert_eq!(text(&world.result(&kept, "a").await["text"]).len(), 50_000);
    // The id stays used: the request that made it makes no second one.
    let refusal = world.refusal("RunService/CreateRun", request).await;
    assert_eq!(refusal.is(), (Code::NotFound, "RUN_REMOVED"));
    assert_eq!(world.called(&removed).len(), 2);
    world.close().await;
}

#[tokio::test]
async fn s73_retention_removes_the_oldest_runs_that_have_ended_and_none_that_lives() {
    let world = World::start_with(|settings| settings.flag("--keep-runs-count", 1)).await;
    let live = world.run(json!([question("q")])).await;
    world.open_request(&live).await;
    let large = json!([call("a", "script.pure", json!({ "bytes": 50_000 }))]);
    let mut ended = Vec::new();
    for _ in 0..3 {
        ended.push(text(&world.ended_run(large.clone()).await["run_id"]));
    }
    let is_gone = async || {
        let runs = world.all_runs(json!({})).await;
        (runs.len() == 2).then_some(())
    };
    wait_for("the removal of two runs", LIMIT, is_gone).await.unwrap();
    let kept = ended.pop().unwrap();
    for run_id in ended {
        let refusal = world
            .refusal("RunService/GetRun", json!({ "run_id": run_id }))
            .await;
        assert_eq!(refusal.is(), (Code::NotFound, "RUN_REMOVED"));
    }
    assert_eq!(text(&world.result(&kept, "a").await["text"]).len(), 50_000);
    let request = world.open_request(&live).await;
    world.respond(&request, json!({ "text": "on" })).await.unwrap();
    assert_eq!(world.ended(&live).await["state"], "completed");
    world.orchestrator.stop().await.unwrap();
}

#[tokio::test]
async fn s97_runs_of_several_users_do_not_meet() {
    let world = World::start().await;
    let mut made = Vec::new();
    for user in ["ada", "bob"] {
        for n in 0..5 {
            let steps = json!([
                with(
                    call(
                        "c",
                        "script.pure",
                        json!({ "answer": { "n": n, "who": "${run:/user_id}" } })
                    ),
                    json!({ "depends_on": ["b"] })
                ),
                with(
                    call("b", "script.pure", json!({})),
                    json!({ "depends_on": ["a"] })
                ),
                call("a", "script.pure", json!({})),
            ]);
            let created = world
                .call(
                    "RunService/CreateRun",
                    unattended(json!({ "document": document(steps), "user_id": user })),
                )
                .await;
            // Its revision can be read as soon as the run is there.
            let revision = json!({ "revision": { "run_id": created["run"]["run_id"], "number": 1 } });
            let revision = world.call("RunService/GetRevision", revision).await;
            assert_eq!(
                revision["revision"]["revision_digest"],
                created["run"]["revision_digest"]
            );
            made.push((user, n, text(&created["run"]["run_id"])));
        }
    }
    for (user, n, run_id) in made {
        let run = world.ended(&run_id).await;
        assert_eq!(run["output"], json!({ "n": f64::from(n), "who": user }));
        assert_eq!(world.called(&run_id), ["a", "b", "c"]);
        assert!(
            world.calls_of(&run_id).iter().all(|call| call["user_id"] == user),
            "the user reaches the worker"
        );
    }
    world.close().await;
}
