//! A thousand causes of all kinds while the process is killed fifty times and the clock jumps: each fires once. The expected
//! instants are counted here, minute by minute.
//!
//! It was seen to fail: with the record of each firing written with the next firing, and not with its run, four of the 200 runs of
//! one trigger had no firing after the kills.

use crate::plan_words::{document, text, with};
use crate::triggers::created;
use crate::webhooks::Hook;
use crate::world::{LIMIT, World};
use escapement_tests::clock_layer::WallClock;
use escapement_tests::{OrchestratorSettings, PrivateDirectory, wait_for};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::timeout;

const KILLS: u64 = 50;
/// Calls of each kind between two kills.
const CALLS: u64 = 4;
const MINUTE: i64 = 60_000;
const THIRTY_DAYS_S: i64 = 30 * 86_400;

/// The wall clock of the process, which only goes forward.
struct Clock {
    of_process: WallClock,
    off_s: i64,
    _directory: PrivateDirectory,
}

impl Clock {
    fn new() -> Self {
        let directory = PrivateDirectory::new("firings-clock").unwrap();
        Self {
            of_process: WallClock::new(directory.path()).unwrap(),
            off_s: 0,
            _directory: directory,
        }
    }

    fn settings(&self, settings: OrchestratorSettings) -> OrchestratorSettings {
        let settings = settings.flag("--webhook-listen", "127.0.0.1:0");
        let variables = self.of_process.variables().into_iter();
        variables.fold(settings, |settings, (name, value)| {
            settings.variable(name, value.display())
        })
    }

    fn jump(&mut self, seconds: i64) {
        self.off_s += seconds;
        self.of_process.set(self.off_s).unwrap();
    }

    fn now_ms(&self) -> i64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        i64::try_from(now.as_millis()).unwrap() + self.off_s * 1_000
    }
}

/// The triggers of this story by their names.
async fn triggers(world: &World, hook: &Hook) -> BTreeMap<&'static str, String> {
    let cron = |catch_up: &str| json!({ "schedule": { "cron": "* * * * *", "catch_up": catch_up, "catch_up_max": 60 } });
    let event = |kind: &str| json!({ "event": { "type": kind } });
    let condition = json!({ "expression": "input.session.on", "check_interval_ms": 1000, "cooldown_ms": 0, "session_id": "s" });
    let mut made = BTreeMap::new();
    for (name, overlap, config) in [
        ("every", "allow", cron("all")),
        ("latest", "skip", cron("latest")),
        ("none", "allow", cron("skip")),
        ("allow", "allow", event("busy")),
        ("skip", "skip", event("busy")),
        ("queue", "queue", event("rare")),
        ("condition", "allow", json!({ "condition": condition })),
        (
            "webhook",
            "allow",
            json!({ "webhook": { "secret": hook.secret() } }),
        ),
    ] {
        let run = json!({ "document": document(json!([])), "autonomy_level": 4 });
        let trigger = json!({ "name": name, "overlap": overlap, "run": run });
        made.insert(name, created(world, with(trigger, config)).await);
    }
    made
}

/// A cause that its sender repeats until it is answered.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Call {
    Event(&'static str, u64),
    Delivery(u64),
}

async fn is_answered(world: &World, hook: &Hook, clock: &Clock, call: &Call) -> bool {
    match call {
        Call::Event(kind, n) => {
            let event = json!({ "type": kind, "id": n.to_string(), "data": { "n": n } });
            world.try_call("TriggerService/PublishEvent", event).await.is_ok()
        }
        Call::Delivery(n) => {
            let posted = hook.try_post(&n.to_string(), -clock.off_s, b"{}", None).await;
            // What has fired before answers with a conflict.
            matches!(posted, Some((202 | 409, _)))
        }
    }
}

// TRIG-1.1, TRIG-1.2, TRIG-1.3, TRIG-2.2, TRIG-4.1, TRIG-4.2
#[tokio::test]
async fn s63_a_thousand_causes_make_one_run_each_over_fifty_kills() {
    let mut clock = Clock::new();
    let mut world = World::without_worker(|settings| clock.settings(settings)).await;
    let session = json!({ "session_id": "s", "state": { "on": false } });
    world.call("SessionService/CreateSession", session).await;
    let mut hook = Hook::new([7; 32]);
    let before = clock.now_ms();
    let triggers = triggers(&world, &hook).await;
    hook.trigger_id.clone_from(&triggers["webhook"]);
    hook.finds(&world).await;

    let open: Mutex<BTreeSet<Call>> = Mutex::default();
    for round in 0..KILLS {
        let new =
            (round * CALLS..(round + 1) * CALLS).flat_map(|n| [Call::Event("busy", n), Call::Delivery(n)]);
        open.lock().unwrap().extend(new);
        if round % 5 == 0 {
            open.lock().unwrap().insert(Call::Event("rare", round));
        }
        let patch = json!({ "session_id": "s", "patch": { "on": round % 2 == 0 } });
        world.call("SessionService/MergeSessionState", patch).await;
        // The kill comes at another point of the work each time.
        let some = |is_event: bool| {
            let all = open.lock().unwrap().clone();
            all.into_iter()
                .filter(move |call| matches!(call, Call::Event(..)) == is_event)
        };
        let send = async |is_event| {
            for call in some(is_event) {
                if is_answered(&world, &hook, &clock, &call).await {
                    open.lock().unwrap().remove(&call);
                }
            }
        };
        let patience = Duration::from_millis(20 + round * 37 % 130);
        let _killed = timeout(patience, async { tokio::join!(send(true), send(false)) }).await;
        world.kill();
        clock.jump(i64::try_from(60 + round * 97 % 600).unwrap());
        world.starts().await;
        hook.finds(&world).await;
    }
    for call in open.into_inner().unwrap() {
        assert!(is_answered(&world, &hook, &clock, &call).await, "{call:?}");
    }
    judge(&world, &triggers, &clock, before).await;
    world.orchestrator.stop().await.unwrap();
}

// 003-166
#[tokio::test]
async fn s63_a_firing_is_kept_for_thirty_days() {
    let mut clock = Clock::new();
    let mut world = World::without_worker(|settings| clock.settings(settings)).await;
    let run = json!({ "document": document(json!([])), "autonomy_level": 4 });
    let event = json!({ "name": "kept", "overlap": "allow", "run": run, "event": { "type": "seldom" } });
    let trigger_id = created(&world, event).await;
    let events = async |world: &World| -> Vec<String> {
        let kept = all_firings(world, &trigger_id).await;
        kept.iter().map(|firing| text(&firing["event_id"])).collect()
    };
    let publish = async |world: &World, id: &str| {
        let event = json!({ "type": "seldom", "id": id, "data": {} });
        world.call("TriggerService/PublishEvent", event).await;
    };
    publish(&world, "first").await;
    // Times of runs follow the wall clock from start to start.
    world.kill();
    clock.jump(THIRTY_DAYS_S - 60);
    world.starts().await;
    publish(&world, "second").await;
    assert_eq!(events(&world).await, ["second", "first"]);
    // Old ones are looked for at a start.
    world.kill();
    clock.jump(120);
    world.starts().await;
    let fewer = async || Some(events(&world).await).filter(|left| left.len() < 2);
    let left = wait_for("the first to be removed", LIMIT, fewer).await.unwrap();
    assert_eq!(left, ["second"]);
    world.orchestrator.stop().await.unwrap();
}

async fn judge(world: &World, triggers: &BTreeMap<&'static str, String>, clock: &Clock, before: i64) {
    // The last instant that all schedules have handled; none comes until they are told not to fire.
    let minute = clock.now_ms() / MINUTE * MINUTE;
    let mut all = BTreeMap::new();
    for (name, trigger_id) in triggers {
        let settled = async || {
            let firings = all_firings(world, trigger_id).await;
            let is_late = matches!(*name, "every" | "latest" | "none")
                && firings.iter().all(|firing| last_of(firing) < minute);
            let waits = firings.iter().any(|firing| firing["status"] == "waiting");
            (!is_late && !waits).then_some(firings)
        };
        let found = wait_for(name, LIMIT, settled).await.unwrap();
        let off = json!({ "trigger_id": trigger_id, "enabled": false });
        world.call("TriggerService/EnableTrigger", off).await;
        all.insert(*name, found);
    }
    let n_causes: usize = all.values().map(Vec::len).sum();
    assert!(n_causes >= 1_000, "{n_causes} firings");
    for (name, trigger_id) in triggers {
        one_run_for_each(world, name, trigger_id, &all[name]).await;
    }
    for name in ["every", "latest", "none"] {
        no_instant_is_left_out(name, &all[name], before);
    }
    let ids = |name: &str| -> BTreeSet<u64> {
        let ids = all[name].iter().map(|firing| text(&firing["event_id"]).parse());
        ids.collect::<Result<_, _>>().unwrap()
    };
    let sent: BTreeSet<u64> = (0..KILLS * CALLS).collect();
    for name in ["allow", "skip", "webhook"] {
        assert_eq!(ids(name), sent, "{name}");
    }
    assert_eq!(ids("queue"), (0..KILLS).step_by(5).collect());
    let edges = ids("condition");
    let n_edges = u64::try_from(edges.len()).unwrap();
    assert_eq!(edges, (1..=n_edges).collect(), "edges are numbered");
    assert!((1..=KILLS / 2).contains(&n_edges), "{n_edges} edges");
}

/// The last instant that a firing of a schedule stands for.
fn last_of(firing: &Value) -> i64 {
    firing["due_at"].as_i64().unwrap() + (firing["count"].as_i64().unwrap() - 1) * MINUTE
}

async fn one_run_for_each(world: &World, name: &str, trigger_id: &str, firings: &[Value]) {
    let keys: BTreeSet<String> = firings.iter().map(|firing| text(&firing["firing_id"])).collect();
    assert_eq!(keys.len(), firings.len(), "{name}");
    let started: Vec<&Value> = firings
        .iter()
        .filter(|firing| firing["status"] == "started")
        .collect();
    let of: BTreeSet<String> = started.iter().map(|firing| text(&firing["run_id"])).collect();
    assert_eq!(of.len(), started.len(), "{name}: each has a run of its own");
    let ended = async || {
        let runs = world.all_runs(json!({ "trigger_id": trigger_id })).await;
        runs.iter().all(|run| run["state"] == "completed").then_some(runs)
    };
    let runs = wait_for("the ends of all runs", LIMIT, ended).await.unwrap();
    let made: BTreeSet<String> = runs.iter().map(|run| text(&run["run_id"])).collect();
    assert_eq!(runs.len(), made.len(), "{name}");
    assert_eq!(made, of, "{name}: the runs that there are");
    let reasons: BTreeSet<&str> = firings
        .iter()
        .map(|firing| firing["reason"].as_str().unwrap())
        .collect();
    let allowed: &[&str] = match name {
        "skip" => &["", "OVERLAP"],
        "latest" => &["", "OVERLAP", "MISSED"],
        "none" => &["", "MISSED"],
        _ => &[""],
    };
    assert!(
        reasons.iter().all(|reason| allowed.contains(reason)),
        "{name}: {reasons:?}"
    );
    let seen = world
        .call("TriggerService/GetTrigger", json!({ "trigger_id": trigger_id }))
        .await;
    assert_eq!(seen["trigger"]["fire_count"], json!(started.len()), "{name}");
}

/// Each minute since the triggers were made is in one firing, alone or among those that were missed.
fn no_instant_is_left_out(name: &str, firings: &[Value], before: i64) {
    let mut spans: Vec<(i64, i64)> = firings
        .iter()
        .map(|firing| (firing["due_at"].as_i64().unwrap(), last_of(firing)))
        .collect();
    spans.sort_unstable();
    // The triggers were made within a minute.
    let first = before / MINUTE * MINUTE + MINUTE;
    assert!(
        (first..=first + MINUTE).contains(&spans[0].0),
        "{name}: {}",
        spans[0].0
    );
    for pair in spans.windows(2) {
        assert_eq!(pair[0].1 + MINUTE, pair[1].0, "{name}");
    }
}

async fn all_firings(world: &World, trigger_id: &str) -> Vec<Value> {
    let (mut all, mut page_token) = (Vec::new(), String::new());
    loop {
        let request = json!({ "trigger_id": trigger_id, "page_size": 200, "page_token": page_token });
        let mut page = world.call("TriggerService/ListFirings", request).await;
        all.extend(page["firings"].as_array().unwrap().iter().cloned());
        page_token = text(&page["next_page_token"].take());
        if page_token.is_empty() {
            return all;
        }
    }
}
