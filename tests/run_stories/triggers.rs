//! Triggers: what fires them, and that each cause starts one run.

use crate::plan_words::{call, document, question, text, with};
use crate::world::{LIMIT, World};
use escapement_tests::wait_for;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// What triggers of these stories start.
fn template(steps: Value) -> Value {
    json!({ "document": document(steps), "autonomy_level": 4 })
}

fn pure() -> Value {
    template(json!([call(
        "a",
        "script.pure",
        json!({ "seen": "${input:/trigger/event/data/n}" })
    )]))
}

pub(crate) async fn created(world: &World, trigger: Value) -> String {
    let made = world
        .call("TriggerService/CreateTrigger", json!({ "trigger": trigger }))
        .await;
    text(&made["trigger"]["trigger_id"])
}

pub(crate) async fn firings(world: &World, trigger_id: &str) -> Vec<Value> {
    let request = json!({ "trigger_id": trigger_id, "page_size": 200 });
    let listed = world.call("TriggerService/ListFirings", request).await;
    listed["firings"].as_array().unwrap().clone()
}

async fn fires(world: &World, trigger_id: &str, n: usize) -> Vec<Value> {
    let asked = async || Some(firings(world, trigger_id).await).filter(|firings| firings.len() >= n);
    wait_for("firings", LIMIT, asked).await.unwrap()
}

async fn publish(world: &World, kind: &str, id: &str, data: Value) -> Vec<Value> {
    let event = json!({ "type": kind, "id": id, "data": data });
    let told = world.call("TriggerService/PublishEvent", event).await;
    told["firings"].as_array().unwrap().clone()
}

async fn instants(world: &World, cron: &str, zone: &str, after: i64, count: i32) -> Vec<i64> {
    let request = json!({ "cron": cron, "time_zone": zone, "after": after, "count": count });
    let told = world.call("TriggerService/PreviewSchedule", request).await;
    let instants = told["instants"].as_array().unwrap().iter();
    instants.map(|instant| instant.as_i64().unwrap()).collect()
}

const HOUR: i64 = 3_600_000;

#[tokio::test]
async fn s64_schedules_tell_their_instants_over_changes_of_the_clock() {
    let world = World::without_worker(|settings| settings).await;
    for (zone, spring, autumn) in [
        // 2026-03-29 and 2026-10-25, one o'clock UTC.
        ("Europe/Berlin", 1_774_746_000_000_i64, 1_792_890_000_000_i64),
        // 2026-03-08, seven o'clock UTC, and 2026-11-01, six o'clock UTC.
        ("America/New_York", 1_772_953_200_000, 1_793_512_800_000),
        // 2026-10-04 and 2026-04-05, of a half hour: 15:30 and 15:00 UTC of the days before.
        ("Australia/Lord_Howe", 1_791_041_400_000, 1_775_314_800_000),
    ] {
        let every_half_hour = instants(&world, "*/30 * * * *", zone, spring - HOUR / 2, 2).await;
        assert_eq!(
            every_half_hour,
            [spring, spring + HOUR / 2],
            "{zone}: once, behind the gap"
        );
        // In the hour before the change the local times are those of the hour behind it.
        let back = if zone == "Australia/Lord_Howe" {
            HOUR / 2
        } else {
            HOUR
        };
        let around = instants(&world, "*/30 * * * *", zone, autumn - HOUR / 2 - 1, 2).await;
        assert_eq!(
            around,
            [autumn - HOUR / 2, autumn + back],
            "{zone}: at the first alone"
        );
    }
    let leap = instants(&world, "0 0 29 2 *", "UTC", 1_767_225_600_000, 1).await;
    assert_eq!(leap, [1_835_395_200_000], "2028-02-29");
    let weekly = instants(&world, "0 18 * * 0", "", 1_767_225_600_000, 2).await;
    assert_eq!(weekly, [1_767_549_600_000, 1_767_549_600_000 + 7 * 24 * HOUR]);
    for (cron, zone, reason, field) in [
        ("* * * *", "UTC", "INVALID_CRON", "cron"),
        ("61 * * * *", "UTC", "INVALID_CRON", "cron"),
        ("0 0 31 2 *", "UTC", "INVALID_CRON", "cron"),
        ("* * * * *", "Mars/Olympus", "INVALID_TIME_ZONE", "time_zone"),
    ] {
        let request = json!({ "cron": cron, "time_zone": zone });
        let refusal = world.refusal("TriggerService/PreviewSchedule", request).await;
        assert_eq!(refusal.reason, reason, "{cron}");
        assert!(refusal.message.starts_with(field), "{refusal:?}");
        let schedule = json!({ "name": "t", "run": pure(), "schedule": { "cron": cron, "time_zone": zone } });
        let request = json!({ "trigger": schedule });
        let refusal = world.refusal("TriggerService/CreateTrigger", request).await;
        assert_eq!(refusal.reason, reason, "{cron}");
    }
    world.close().await;
}

// TRIG-3.1, TRIG-3.2, TRIG-3.3
#[tokio::test]
async fn s65_events_fire_by_equal_values_any_of_several_and_expressions() {
    let world = World::start().await;
    let trigger =
        |name: &str, event: Value| json!({ "name": name, "run": pure(), "event": event, "overlap": "allow" });
    let equal = json!({ "type": "push", "equals": { "branch": "main" } });
    let any_of = json!({ "type": "push", "any_of": { "/repository/name": ["one", "two"] } });
    let expression = json!({ "type": "push", "expression": "input.n > 2" });
    let equal = created(&world, trigger("equal", equal)).await;
    let any_of = created(&world, trigger("any of", any_of)).await;
    let expression = created(&world, trigger("expression", expression)).await;

    let fired = publish(&world, "push", "1", json!({ "branch": "main", "n": 1 })).await;
    assert_eq!(fired.len(), 1, "{fired:#?}");
    assert_eq!(
        (&fired[0]["trigger_id"], &fired[0]["status"]),
        (&json!(equal), &json!("started"))
    );
    let run = world.ended(&text(&fired[0]["run_id"])).await;
    assert_eq!(
        (&run["state"], &run["trigger_id"]),
        (&json!("completed"), &json!(equal))
    );

    let data = json!({ "branch": "main", "n": 3, "repository": { "name": "two" } });
    let fired = publish(&world, "push", "2", data.clone()).await;
    let of: BTreeSet<String> = fired.iter().map(|firing| text(&firing["trigger_id"])).collect();
    assert_eq!(of, [equal.clone(), any_of, expression].into());
    // The trigger below shall hear of its own run alone.
    for firing in &fired {
        world.ended(&text(&firing["run_id"])).await;
    }
    // The same event starts nothing again, also after a restart.
    let runs = world.all_runs(json!({})).await.len();
    let mut world = world;
    world.crash().await;
    let again = publish(&world, "push", "2", data).await;
    assert_eq!(again, fired);
    assert_eq!(world.all_runs(json!({})).await.len(), runs);
    assert_eq!(publish(&world, "pull", "3", json!({})).await, Vec::<Value>::new());

    // What happens to runs is an event, too, but not for the trigger that has started the run.
    let own = json!({ "type": "run_completed" });
    let own = created(&world, trigger("after runs", own)).await;
    let run_id = world.run(json!([call("a", "script.pure", json!({}))])).await;
    let fired = fires(&world, &own, 1).await;
    assert_eq!(fired[0]["event_id"], json!(run_id));
    world.ended(&text(&fired[0]["run_id"])).await;
    let request = json!({ "type": "run_completed", "id": "x" });
    let refusal = world.refusal("TriggerService/PublishEvent", request).await;
    assert_eq!(refusal.reason, "INVALID_ARGUMENT");
    assert_eq!(
        firings(&world, &own).await.len(),
        1,
        "it never hears of its own runs"
    );
    world.close().await;
}

// TRIG-4.1
#[tokio::test]
async fn s66_a_condition_fires_at_its_edge_and_not_again_before_its_cooldown() {
    let mut world = World::start().await;
    let condition = json!({ "expression": "input.runs.waiting > 0", "check_interval_ms": 1000 });
    let trigger = json!({ "name": "waiting", "user_id": "ada", "run": pure(), "condition": condition });
    let trigger = created(&world, trigger).await;
    let asking = json!({ "document": document(json!([question("q")])), "user_id": "ada" });
    let run_id = world.create(asking.clone()).await;
    let fired = fires(&world, &trigger, 1).await;
    assert_eq!(
        (&fired[0]["kind"], &fired[0]["status"]),
        (&json!("condition"), &json!("started"))
    );
    world.ended(&text(&fired[0]["run_id"])).await;
    // A restart is no edge: while the run waits, the condition stays true.
    world.crash().await;
    let request = world.open_request(&run_id).await;
    world
        .respond(&request, json!({ "text": "nothing" }))
        .await
        .unwrap();
    world.ended(&run_id).await;
    // The next edge comes once a look has found it false; the run that makes it then waits until it was seen.
    let mut cooled = false;
    for _ in 0..10 {
        let second = async || Some(firings(&world, &trigger).await).filter(|all| all.len() > 1);
        let looks = std::time::Duration::from_secs(2);
        // Nothing waits, so that this wait ends with its limit.
        assert!(wait_for("no edge", looks, second).await.is_err());
        let run_id = world.create(asking.clone()).await;
        let request = world.open_request(&run_id).await;
        cooled = wait_for("a second edge", looks, second).await.is_ok();
        world
            .respond(&request, json!({ "text": "nothing" }))
            .await
            .unwrap();
        world.ended(&run_id).await;
        if cooled {
            break;
        }
    }
    assert!(cooled, "the second edge is recorded");
    let all = firings(&world, &trigger).await;
    assert_eq!(
        (&all[0]["status"], &all[0]["reason"]),
        (&json!("skipped"), &json!("COOLDOWN"))
    );
    assert_eq!(
        all.iter().filter(|firing| firing["status"] == "started").count(),
        1
    );
    world.close().await;
}

// TRIG-4.2, TRIG-4.3
#[tokio::test]
async fn s66_a_condition_is_about_a_session_and_a_probe() {
    let mut world = World::start().await;
    for (session, user) in [("hers", "ada"), ("his", "bob")] {
        let session = json!({ "session_id": session, "user_id": user });
        world.call("SessionService/CreateSession", session).await;
    }
    let trigger = |more: Value| {
        let probe = json!({ "action": "script.safe", "payload": { "shelf": 7 } });
        let condition = json!({ "expression": "input.probe.n > 2 && input.session.on", "check_interval_ms": 1000,
            "cooldown_ms": 0, "session_id": "hers", "probe": probe });
        json!({ "trigger": { "name": "low", "user_id": "ada", "run": pure(), "condition": with(condition, more) } })
    };
    for (more, reason) in [
        (json!({ "session_id": "his" }), "SESSION_NOT_FOUND"),
        (json!({ "probe": { "action": "" } }), "INVALID_ARGUMENT"),
        (
            json!({ "probe": { "action": "a", "timeout_ms": 1 } }),
            "INVALID_ARGUMENT",
        ),
        (
            json!({ "probe": { "action": "a", "payload": { "x": "${nothing:/n}" } } }),
            "PLAN_INVALID",
        ),
    ] {
        let refusal = world.refusal("TriggerService/CreateTrigger", trigger(more)).await;
        assert_eq!(refusal.reason, reason, "{refusal:?}");
    }
    world.shared.action_says("script.safe", json!({ "n": 1 }));
    let made = world
        .call("TriggerService/CreateTrigger", trigger(json!({})))
        .await;
    let trigger_id = text(&made["trigger"]["trigger_id"]);
    let n_probes = |world: &World| {
        let calls = world.shared.ledger();
        calls
            .iter()
            .filter(|line| line["event"] == "begin" && line["payload"]["shelf"] == 7)
            .count()
    };
    let looked = async |world: &World, more: usize| {
        let wanted = n_probes(world) + more;
        let seen = async || (n_probes(world) >= wanted).then_some(());
        wait_for("probes", LIMIT, seen).await.unwrap();
    };
    // Without a value it stays as it was: the session has no member `on`, and then the probe says something else.
    looked(&world, 2).await;
    let patch = json!({ "session_id": "hers", "patch": { "on": true } });
    world.call("SessionService/MergeSessionState", patch).await;
    world.shared.action_says("script.safe", json!("none"));
    looked(&world, 2).await;
    assert_eq!(firings(&world, &trigger_id).await, Vec::<Value>::new());
    world.shared.action_says("script.safe", json!({ "n": 3 }));
    world.crash().await;
    let fired = fires(&world, &trigger_id, 1).await;
    assert_eq!(
        (&fired[0]["kind"], &fired[0]["event_id"], &fired[0]["status"]),
        (&json!("condition"), &json!("1"), &json!("started"))
    );
    looked(&world, 2).await;
    assert_eq!(firings(&world, &trigger_id).await.len(), 1, "it stayed true");
    // Of all the probes, the runs of the last look or two are kept, and they are none of the trigger's.
    let off = json!({ "trigger_id": trigger_id, "enabled": false });
    world.call("TriggerService/EnableTrigger", off).await;
    let runs = world.all_runs(json!({ "user_id": "ada" })).await;
    let (probes, own): (Vec<_>, Vec<_>) = runs.iter().partition(|run| run["source"] == "probe");
    assert!((1..=2).contains(&probes.len()), "{probes:#?}");
    assert_eq!(own.len(), 1);
    world.close().await;
}

// TRIG-4.3
#[tokio::test]
async fn s66_a_probe_left_in_doubt_fails_and_the_next_probe_fires() {
    let mut world = World::start().await;
    let probe = json!({ "action": "script.safe", "payload": { "gate": "go", "answer": { "n": 3 } } });
    let condition = json!({ "expression": "input.probe.n > 2", "check_interval_ms": 1000, "probe": probe });
    let trigger = json!({ "name": "low", "user_id": "ada", "run": pure(), "condition": condition });
    let trigger = created(&world, trigger).await;
    let begun = async || (!world.shared.ledger().is_empty()).then_some(());
    wait_for("a probe", LIMIT, begun).await.unwrap();
    world.crash().await;
    world.shared.open("go");
    let fired = fires(&world, &trigger, 1).await;
    assert_eq!(fired[0]["status"], json!("started"));
    let inbox = world
        .call("InboxService/ListInputRequests", json!({ "user_id": "ada" }))
        .await;
    assert_eq!(
        inbox["input_requests"],
        json!([]),
        "no person is asked about a probe"
    );
    world.close().await;
}

// TRIG-1.1, TRIG-1.2
#[tokio::test]
async fn s66_each_cause_starts_one_run_whatever_is_killed() {
    let mut world = World::start().await;
    let trigger = json!({ "name": "events", "run": pure(), "event": { "type": "e" }, "overlap": "allow" });
    let trigger = created(&world, trigger).await;
    const EVENTS: usize = 24;
    for n in 0..EVENTS {
        // The answer may be lost, and the publisher asks again.
        let event = json!({ "type": "e", "id": format!("{n}"), "data": { "n": n } });
        if n % 4 == 3 {
            let asked = world.try_call("TriggerService/PublishEvent", event.clone());
            let asked = tokio::time::timeout(std::time::Duration::from_millis(n as u64), asked);
            let _lost = asked.await;
            world.crash().await;
        }
        world.call("TriggerService/PublishEvent", event.clone()).await;
        world.call("TriggerService/PublishEvent", event).await;
    }
    let runs = world.all_runs(json!({ "trigger_id": trigger })).await;
    assert_eq!(runs.len(), EVENTS);
    let firings = firings(&world, &trigger).await;
    let started: BTreeSet<String> = firings.iter().map(|firing| text(&firing["run_id"])).collect();
    let made: BTreeSet<String> = runs.iter().map(|run| text(&run["run_id"])).collect();
    assert_eq!(started, made);
    for run_id in &made {
        assert_eq!(world.ended(run_id).await["state"], "completed");
    }
    let seen = world
        .call("TriggerService/GetTrigger", json!({ "trigger_id": trigger }))
        .await;
    assert_eq!(seen["trigger"]["fire_count"], json!(EVENTS));
    world.close().await;
}

// TRIG-1.3, TRIG-1.4
#[tokio::test]
async fn s66_a_firing_waits_is_skipped_or_runs_while_another_run_lives() {
    let mut world = World::start().await;
    let asks = template(json!([question("q")]));
    let fire = |trigger: String, id: &'static str| json!({ "trigger_id": trigger, "request_id": id });
    let mut made = Vec::new();
    for overlap in ["skip", "queue", "allow"] {
        // A trigger that is not enabled fires by hand.
        let trigger = json!({ "name": overlap, "run": asks, "event": { "type": "never" }, "overlap": overlap, "enabled": false });
        made.push(created(&world, trigger).await);
    }
    let mut second = Vec::new();
    for trigger in &made {
        let first = world
            .call("TriggerService/FireTrigger", fire(trigger.clone(), "one"))
            .await;
        assert_eq!(first["firing"]["status"], "started");
        let again = world
            .call("TriggerService/FireTrigger", fire(trigger.clone(), "one"))
            .await;
        assert_eq!(again, first, "the same request");
        let fired = world
            .call("TriggerService/FireTrigger", fire(trigger.clone(), "two"))
            .await;
        second.push((text(&first["firing"]["run_id"]), fired["firing"].clone()));
    }
    let told: Vec<_> = second
        .iter()
        .map(|(_, firing)| (text(&firing["status"]), text(&firing["reason"])))
        .collect();
    let expected = [("skipped", "OVERLAP"), ("waiting", ""), ("started", "")];
    assert_eq!(
        told,
        expected.map(|(status, reason)| (status.to_owned(), reason.to_owned()))
    );
    world.crash().await;
    let request = world.open_request(&second[1].0).await;
    world.respond(&request, json!({ "text": "x" })).await.unwrap();
    let goes_on = async || {
        let all = firings(&world, &made[1]).await;
        all.iter()
            .all(|firing| firing["status"] == "started")
            .then_some(all.len())
    };
    assert_eq!(
        wait_for("the turn of what waits", LIMIT, goes_on).await.unwrap(),
        2
    );

    // Deletion keeps runs and firings, and saved plans, which name it no more.
    let steps = document(json!([question("q")]));
    let plan = json!({ "plan": { "name": "p", "goal": "g", "trigger_id": made[2] }, "document": steps });
    let plan = world.call("PlanService/CreatePlan", plan).await["plan"].take();
    assert_eq!(plan["trigger_id"], json!(made[2]));
    world
        .call("TriggerService/DeleteTrigger", json!({ "trigger_id": made[2] }))
        .await;
    assert_eq!(world.all_runs(json!({ "trigger_id": made[2] })).await.len(), 2);
    assert_eq!(firings(&world, &made[2]).await.len(), 2);
    let left = json!({ "plan_id": plan["plan_id"] });
    let left = world.call("PlanService/GetPlan", left).await["plan"].take();
    assert_eq!((&left["name"], &left["trigger_id"]), (&json!("p"), &json!("")));
    let refusal = world
        .refusal("TriggerService/GetTrigger", json!({ "trigger_id": made[2] }))
        .await;
    assert_eq!(refusal.reason, "TRIGGER_NOT_FOUND");
    world.close().await;
}

#[tokio::test]
async fn a_trigger_starts_whatever_the_request_of_a_run_can_say() {
    let world = World::start().await;
    for (session, user) in [("hers", "ada"), ("his", "bob")] {
        let session = json!({ "session_id": session, "user_id": user });
        world.call("SessionService/CreateSession", session).await;
    }
    let run = with(
        pure(),
        json!({ "session_id": "hers", "budget": { "max_tool_calls": 3 }, "notices": "end",
            "fallback": { "output": { "text": "later" } }, "constraints": { "allowed_actions": ["script.pure"] } }),
    );
    let trigger = |run: &Value, more: Value| {
        let trigger = json!({ "name": "t", "user_id": "ada", "run": run, "event": { "type": "never" } });
        json!({ "trigger": with(trigger, json!({ "run": with(run.clone(), more) })) })
    };
    for (more, reason, path) in [
        (
            json!({ "user_id": "ada" }),
            "INVALID_ARGUMENT",
            "trigger.run.user_id",
        ),
        (
            json!({ "validate_only": true }),
            "INVALID_ARGUMENT",
            "trigger.run.validate_only",
        ),
        (
            json!({ "budget": { "max_tool_calls": -1 } }),
            "INVALID_ARGUMENT",
            "trigger.run.budget.max_tool_calls",
        ),
        (json!({ "session_id": "his" }), "SESSION_NOT_FOUND", ""),
    ] {
        let refusal = world
            .refusal("TriggerService/CreateTrigger", trigger(&run, more))
            .await;
        assert_eq!(refusal.reason, reason, "{refusal:?}");
        assert_eq!(refusal.paths().first().map_or("", |(path, _)| path), path);
    }
    let made = world
        .call("TriggerService/CreateTrigger", trigger(&run, json!({})))
        .await;
    let fire = json!({ "trigger_id": made["trigger"]["trigger_id"], "data": { "n": 1 } });
    let fired = world.call("TriggerService/FireTrigger", fire.clone()).await;
    let run = world.ended(&text(&fired["firing"]["run_id"])).await;
    let said = [
        &run["state"],
        &run["session_id"],
        &run["budget"]["max_tool_calls"],
    ];
    assert_eq!(said, [&json!("completed"), &json!("hers"), &json!(3)], "{run:#}");

    world
        .call("SessionService/DeleteSession", json!({ "session_id": "hers" }))
        .await;
    let fired = world.call("TriggerService/FireTrigger", fire).await;
    assert_eq!(
        (&fired["firing"]["status"], &fired["firing"]["reason"]),
        (&json!("failed"), &json!("SESSION_NOT_FOUND"))
    );
    world.close().await;
}
