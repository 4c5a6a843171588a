//! The plans that come with the orchestrator.

use crate::plan_words::{text, with};
use crate::script::ScriptWorker;
use crate::triggers::firings;
use crate::webhooks::Hook;
use crate::world::{LIMIT, World};
use escapement_tests::{PrivateDirectory, WorkerSettings, wait_for};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What the samples call.
const ACTIONS: [&str; 19] = [
    "calendar_list",
    "email_archive",
    "email_fetch",
    "get_next_actions",
    "github_comment_post",
    "github_pr_fetch",
    "goals_list",
    "goals_progress",
    "goals_review_complete",
    "goals_update",
    "list_goals",
    "list_memories",
    "list_tasks",
    "memory_create",
    "memory_search",
    "notes_create",
    "send_notification",
    "tasks_list",
    "web_fetch",
];

impl World {
    async fn samples(&self) -> BTreeMap<String, Value> {
        let answer = self
            .call("PlanService/LoadSamples", json!({ "user_id": "ada" }))
            .await;
        let plans = answer["plans"].as_array().unwrap().iter();
        plans
            .map(|plan| (text(&plan["source_id"]), plan.clone()))
            .collect()
    }

    /// Runs a sample, and gives the states of its steps.
    async fn sample(&self, plan: &Value, model: &[&str], answers: &[Value]) -> BTreeMap<String, String> {
        self.shared.model_says(model);
        let run_id = self
            .create(json!({"plan_id": plan["plan_id"], "user_id": "ada"}))
            .await;
        for answer in answers {
            let request = self.open_request(&run_id).await;
            self.respond(&request, answer.clone()).await.unwrap();
        }
        let run = self.ended(&run_id).await;
        assert_eq!(run["state"], "completed", "{}: {run:#}", plan["name"]);
        let steps = self.steps(&run_id).await;
        steps
            .into_iter()
            .map(|(key, step)| (key, text(&step["state"])))
            .collect()
    }
}

#[tokio::test]
async fn s39_the_sample_plans_run_to_their_ends_with_both_arms() {
    let world = World::without_worker(|settings| settings).await;
    let actions: Vec<&str> = ACTIONS.into_iter().chain(["web_search"]).collect();
    let _worker = ScriptWorker::offering(&world.orchestrator.url(), &world.shared, &actions);
    let samples = world.samples().await;
    let steps = world
        .sample(&samples["morning-routine-analysis"], &["can_defer"], &[])
        .await;
    assert!(steps.values().all(|state| state == "completed"), "{steps:?}");
    let called: Vec<String> = world
        .shared
        .ledger()
        .iter()
        .filter(|line| line["event"] == "begin")
        .map(|line| text(&line["action"]))
        .collect();
    assert_eq!(
        called,
        ["calendar_list", "tasks_list", "llm.chat", "send_notification"],
        "in the order of the steps"
    );
    for (choice, applied) in [("Extend deadlines", "completed"), ("Keep as is", "skipped")] {
        let steps = world
            .sample(
                &samples["weekly-goal-review"],
                &["half way"],
                &[json!({"choice": choice})],
            )
            .await;
        assert_eq!(
            (&steps["apply_changes"][..], &steps["complete"][..]),
            (applied, "completed")
        );
    }
    for (count, urgent, normal) in [(2, "completed", "skipped"), (0, "skipped", "completed")] {
        world
            .shared
            .action_says("email_fetch", json!({"urgentCount": count}));
        let steps = world
            .sample(&samples["email-processing-pipeline"], &["spam"], &[])
            .await;
        assert_eq!(
            (&steps["notify_urgent"][..], &steps["process_normal"][..]),
            (urgent, normal)
        );
    }
    for (confirm, posted) in [(true, "completed"), (false, "skipped")] {
        let answers = [
            json!({"text": "https://example.org/1"}),
            json!({"confirm": confirm}),
        ];
        let steps = world
            .sample(&samples["code-review-assistant"], &["fine"], &answers)
            .await;
        assert_eq!(steps["post_review"], posted);
    }
    let answers = [json!({"text": "clocks"})];
    world
        .sample(&samples["research-topic-deep-dive"], &["they tick"], &answers)
        .await;
    world
        .sample(&samples["goal-check"], &["needs_attention"], &[])
        .await;
    world
        .sample(&samples["daily-memory-digest"], &["a day"], &[])
        .await;
    world.sample(&samples["task-cleanup"], &["some_stale"], &[]).await;
    world.close().await;
}

#[tokio::test]
async fn s39_loading_the_samples_twice_makes_nothing_twice() {
    let world = World::without_worker(|settings| settings).await;
    let first = world.samples().await;
    assert_eq!(first.len(), 10);

    let second = world.samples().await;
    let ids = |samples: &BTreeMap<String, Value>| {
        let plans = samples.values();
        plans.map(|plan| text(&plan["plan_id"])).collect::<Vec<_>>()
    };
    assert_eq!(ids(&first), ids(&second));
    let listed = world
        .call(
            "PlanService/ListPlans",
            json!({"user_id": "ada", "page_size": 100}),
        )
        .await;
    assert_eq!(listed["plans"].as_array().unwrap().len(), 10);
    for (key, autonomy_level, priority) in [("morning-routine-analysis", 3, 4), ("goal-check", 1, 7)] {
        assert_eq!(first[key]["autonomy_level"], autonomy_level);
        assert_eq!(first[key]["priority"], priority);
    }
    world.close().await;
}

/// Loads the samples. Returns the secret of the webhook, and the triggers by the one word of their kind.
async fn sample_triggers(world: &World) -> (String, BTreeMap<String, Value>) {
    let load = json!({ "user_id": "ada" });
    let answer = world.call("PlanService/LoadSamples", load).await;
    let kind = |trigger: &Value| {
        let kinds = ["schedule", "event", "condition", "webhook"].into_iter();
        kinds
            .filter(|kind| trigger.get(kind).is_some_and(|config| !config.is_null()))
            .collect()
    };
    let triggers = answer["triggers"].as_array().unwrap().iter();
    let triggers = triggers.map(|trigger| (kind(trigger), trigger.clone()));
    (text(&answer["webhook_secret"]), triggers.collect())
}

#[tokio::test]
async fn s39_a_trigger_of_each_kind_comes_with_its_plan_and_is_disabled() {
    let world = World::without_worker(|settings| settings).await;
    let (secret, first) = sample_triggers(&world).await;
    assert!(secret.starts_with("whsec_"), "{secret}");
    let plans = world.samples().await;
    for (kind, name, key) in [
        ("schedule", "Weekly Goal Review", "weekly-goal-review"),
        ("event", "Email Processing Pipeline", "email-processing-pipeline"),
        ("condition", "Task Cleanup", "task-cleanup"),
        ("webhook", "Code Review Assistant", "code-review-assistant"),
    ] {
        let trigger = &first[kind];
        assert_eq!(
            (&trigger["name"], &trigger["user_id"]),
            (&json!(name), &json!("ada"))
        );
        assert_eq!(trigger["run"]["plan_id"], plans[key]["plan_id"], "{kind}");
        assert_eq!(
            (&trigger["enabled"], &trigger["next_fire_at"]),
            (&json!(false), &json!(0))
        );
    }
    assert_eq!(first.len(), 4);

    // What a user has made of one stays. One that was deleted comes again.
    let id = |kind: &str| json!({ "trigger_id": first[kind]["trigger_id"] });
    let enable = with(id("event"), json!({ "enabled": true }));
    world.call("TriggerService/EnableTrigger", enable).await;
    world.call("TriggerService/DeleteTrigger", id("condition")).await;
    let (secret, second) = sample_triggers(&world).await;
    assert_eq!(secret, "", "it was shown once");
    for (kind, trigger) in &second {
        assert_eq!(trigger["trigger_id"], first[kind]["trigger_id"], "{kind}");
        assert_eq!(trigger["enabled"], kind == "event", "{kind}");
    }
    let listed = world
        .call("TriggerService/ListTriggers", json!({ "user_id": "ada" }))
        .await;
    assert_eq!(listed["total_size"], 4);
    world.close().await;
}

#[tokio::test]
async fn s39_each_sample_trigger_starts_its_plan_once_it_is_enabled() {
    let world = World::without_worker(|settings| settings.flag("--webhook-listen", "127.0.0.1:0")).await;
    let actions: Vec<&str> = ACTIONS.into_iter().chain(["web_search"]).collect();
    let _worker = ScriptWorker::offering(&world.orchestrator.url(), &world.shared, &actions);
    let (secret, triggers) = sample_triggers(&world).await;
    let mut hook = Hook::of(&secret);
    hook.finds(&world).await;
    hook.trigger_id = text(&triggers["webhook"]["trigger_id"]);
    let (status, _) = hook.try_post("d-1", 0, b"{}", None).await.unwrap();
    assert_ne!(status, 202, "it is disabled");
    for trigger in triggers.values() {
        let enable = json!({ "trigger_id": trigger["trigger_id"], "enabled": true });
        world.call("TriggerService/EnableTrigger", enable).await;
    }

    let schedule = json!({ "trigger_id": triggers["schedule"]["trigger_id"] });
    let enabled = world.call("TriggerService/GetTrigger", schedule.clone()).await;
    let preview = json!({ "cron": "0 18 * * 0", "count": 1 });
    let preview = world.call("TriggerService/PreviewSchedule", preview).await;
    assert_eq!(enabled["trigger"]["next_fire_at"], preview["instants"][0]);
    let fired = world.call("TriggerService/FireTrigger", schedule).await;
    assert_eq!(fired["firing"]["status"], "started", "{fired:#}");

    let mail = json!({ "type": "email_received", "id": "m-1" });
    let told = world.call("TriggerService/PublishEvent", mail).await;
    assert_eq!(told["firings"][0]["status"], "started", "{told:#}");
    let (status, said) = hook.try_post("d-2", 0, b"{}", None).await.unwrap();
    assert_eq!(status, 202, "{said}");

    // The check comes sooner than each hour here, and needs no approval.
    let safe = json!({ "action": "list_tasks", "effect": "pure", "risk": "safe" });
    world.profile(safe).await;
    let tasks = |n: usize| json!({ "tasks": vec![json!({}); n] });
    world.shared.action_says("list_tasks", tasks(10));
    let mut sooner = triggers["condition"].clone();
    for output in ["etag", "created_at", "updated_at"] {
        sooner.as_object_mut().unwrap().remove(output);
    }
    sooner["enabled"] = json!(true);
    sooner["condition"]["check_interval_ms"] = json!(1_000);
    world
        .call("TriggerService/UpdateTrigger", json!({ "trigger": sooner }))
        .await;
    let is_probed = async || {
        let ledger = world.shared.ledger();
        let probes = ledger.iter().filter(|line| line["action"] == "list_tasks");
        (probes.count() >= 4).then_some(())
    };
    wait_for("two looks", LIMIT, is_probed).await.unwrap();
    let trigger_id = text(&sooner["trigger_id"]);
    assert_eq!(firings(&world, &trigger_id).await, Vec::<Value>::new());
    world.shared.action_says("list_tasks", tasks(11));
    let fired = async || firings(&world, &trigger_id).await.pop();
    let fired = wait_for("the condition", LIMIT, fired).await.unwrap();
    assert_eq!(fired["status"], "started", "{fired:#}");

    let runs = world.all_runs(json!({ "user_id": "ada", "live": true })).await;
    for run in runs {
        let cancel = json!({ "run_id": run["run_id"] });
        world.call("RunService/CancelRun", cancel).await;
    }
    world.close().await;
}

#[tokio::test]
async fn first_samples_run_with_the_stock_worker_alone() {
    let world = World::without_worker(|settings| settings).await;
    let load = json!({ "user_id": "ada" });
    let needs = |answer: &Value| answer["needs"].as_array().unwrap().clone();
    let before = needs(&world.call("PlanService/LoadSamples", load.clone()).await);
    assert_eq!(
        before[0]["not_offered"], before[0]["actions"],
        "no worker is there"
    );
    assert_eq!(before[0]["actions"], json!(["json.filter", "template.fill"]));

    let directory = PrivateDirectory::new("run-stories-samples").unwrap();
    let settings = WorkerSettings::new(
        &world.orchestrator.url(),
        "stock",
        directory.path(),
        directory.path(),
    );
    let _worker = settings.connect().await.unwrap();
    let answer = world.call("PlanService/LoadSamples", load).await;
    let after = needs(&answer);
    assert_eq!(after.len(), 10);
    for (plan, needs) in answer["plans"].as_array().unwrap().iter().zip(&after) {
        assert_eq!(plan["plan_id"], needs["plan_id"]);
    }
    let lacking = |needs: &Value| needs["not_offered"].as_array().map_or(0, Vec::len);
    assert_eq!(after.iter().map(lacking).filter(|n| *n == 0).count(), 2);
    let samples = world.samples().await;
    world.sample(&samples["hello"], &[], &[]).await;
    world
        .sample(&samples["ask-first"], &[], &[json!({"text": "Ada"})])
        .await;
    world.close().await;
}
