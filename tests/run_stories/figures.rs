//! What figures tell of runs: each is made to happen a known number of times.

use crate::plan_words::{call, document, question, text, unattended, with};
use crate::triggers;
use crate::world::{LIMIT, UNDER_WAY_FLAG, World};
use escapement_tests::{checkout, http, wait_for};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The figures of the process that keeps runs, and the most that each was seen at.
struct Figures {
    address: String,
    most: BTreeMap<String, f64>,
}

impl Figures {
    async fn of(world: &World) -> Self {
        let log = world.directory.join("orchestrator.stderr");
        let told = async || {
            let log = std::fs::read_to_string(&log).ok()?;
            let line = log.lines().rfind(|line| line.contains("metrics served"))?;
            let (_, address) = line.split_once("address=")?;
            Some(address.split_whitespace().next()?.to_owned())
        };
        let address = wait_for("the listener of metrics", LIMIT, told).await.unwrap();
        Self {
            address,
            most: BTreeMap::new(),
        }
    }

    async fn scrape(&self) -> BTreeMap<String, f64> {
        let (status, text) = http::get(&self.address, "/metrics", "text/plain").await.unwrap();
        assert_eq!(status, 200);
        let samples = text.lines().filter(|line| line.starts_with("escapement_run"));
        let sample = |line: &str| {
            let (name, value) = line.rsplit_once(' ').unwrap();
            (name.to_owned(), value.parse().unwrap())
        };
        samples.map(sample).collect()
    }

    /// Looks until these figures stand at these numbers in one scrape.
    async fn until(&mut self, expected: &[(&str, f64)]) {
        let stands = async || {
            let samples = self.scrape().await;
            let is_so = |(name, value): &(&str, f64)| samples.get(*name) == Some(value);
            expected.iter().all(is_so).then_some(samples)
        };
        let Ok(samples) = wait_for("figures", LIMIT, stands).await else {
            panic!("not {expected:?}: {:#?}", self.scrape().await);
        };
        for (sample, value) in samples {
            let most = self.most.entry(sample).or_default();
            *most = most.max(value);
        }
    }
}

/// What runs, what waits for its turn, and what is paused.
async fn states_of_runs(world: &World, figures: &mut Figures) {
    let holds = world
        .run(json!([call("a", "script.pure", json!({ "gate": "a" }))]))
        .await;
    world.until_calls(&holds, 1).await;
    let queued = world.run(json!([call("b", "script.pure", json!({}))])).await;
    let (running, waits) = (
        r#"escapement_runs{state="running"}"#,
        r#"escapement_runs{state="queued"}"#,
    );
    let max = ("escapement_runs_max", 100.0);
    figures.until(&[(running, 1.0), (waits, 1.0), max]).await;
    world
        .call("RunService/PauseRun", json!({ "run_id": holds }))
        .await;
    figures
        .until(&[(r#"escapement_runs{state="pausing"}"#, 1.0), (waits, 1.0)])
        .await;
    world.shared.open("a");
    world.ended(&queued).await;
    figures
        .until(&[(r#"escapement_runs{state="paused"}"#, 1.0), (waits, 0.0)])
        .await;
    world
        .call("RunService/ResumeRun", json!({ "run_id": holds }))
        .await;
    world.ended(&holds).await;

    // Nobody looks at the file that the artifact is.
    let made = json!({ "answer": { "$artifacts": [{ "type": "image", "mime_type": "image/png", "path": "cat.png" }] } });
    let run = json!({ "document": document(json!([call("paint", "script.safe", made)])),
                      "constraints": { "must_produce": ["image"] } });
    let verifies = world.create(run).await;
    figures
        .until(&[(r#"escapement_runs{state="verifying"}"#, 1.0)])
        .await;
    world
        .call("RunService/CancelRun", json!({ "run_id": verifies }))
        .await;
    figures
        .until(&[(r#"escapement_runs{state="verifying"}"#, 0.0)])
        .await;
}

/// A question that is answered, one that nobody needs any more, one that is too late, and an approval.
async fn people(world: &World, figures: &mut Figures) {
    let oldest = "escapement_run_input_request_oldest_timestamp_seconds";
    assert_eq!(figures.scrape().await[oldest], 0.0);
    let asks = world.run(json!([question("colour")])).await;
    let open = world.open_request(&asks).await;
    let waiting = r#"escapement_run_input_requests{request="question"}"#;
    figures
        .until(&[(r#"escapement_runs{state="waiting"}"#, 1.0), (waiting, 1.0)])
        .await;
    let opened_s = open["created_at"].as_i64().unwrap() / 1_000;
    assert_eq!(figures.scrape().await[oldest], opened_s as f64);
    world.respond(&open, json!({ "text": "red" })).await.unwrap();
    world.ended(&asks).await;
    figures.until(&[(waiting, 0.0), (oldest, 0.0)]).await;

    let cancelled = world.run(json!([question("size")])).await;
    world.open_request(&cancelled).await;
    world
        .call("RunService/CancelRun", json!({ "run_id": cancelled }))
        .await;
    let late = json!({ "document": document(json!([question("age")])), "limits": { "lifetime_ms": 500 } });
    let late = world.create(late).await;
    assert_eq!(world.ended(&late).await["state"], "timeout");

    let danger = document(json!([call("boom", "script.danger", json!({}))]));
    let asks = world
        .create(json!({ "document": danger, "autonomy_level": 2 }))
        .await;
    let open = world.open_request(&asks).await;
    figures
        .until(&[(r#"escapement_run_input_requests{request="approval"}"#, 1.0)])
        .await;
    world
        .respond(&open, json!({ "approval": { "approve": {} } }))
        .await
        .unwrap();
    world.ended(&asks).await;
    let ended = |request: &str, became: &str| {
        format!(r#"escapement_run_input_requests_ended_total{{request="{request}",became="{became}"}}"#)
    };
    let expected = [
        (ended("question", "answered"), 1.0),
        (ended("question", "closed"), 2.0),
        (ended("approval", "answered"), 1.0),
        (
            r#"escapement_run_decisions_total{decision="answer"}"#.to_owned(),
            1.0,
        ),
        (
            r#"escapement_run_decisions_total{decision="approve"}"#.to_owned(),
            1.0,
        ),
        (
            r#"escapement_run_decisions_total{decision="deny"}"#.to_owned(),
            0.0,
        ),
        (
            r#"escapement_run_input_request_wait_seconds_count{request="question"}"#.to_owned(),
            1.0,
        ),
        (r#"escapement_run_limits_total{limit="lifetime"}"#.to_owned(), 1.0),
    ];
    let expected: Vec<_> = expected.iter().map(|(name, n)| (name.as_str(), *n)).collect();
    figures.until(&expected).await;
}

/// A plan that a planner makes at the second try, that fails, and that another one takes the place of; and what models use.
async fn planning(world: &World, figures: &mut Figures) {
    // What failed for good is not called by the next plan.
    let plan = |action: &str, payload: Value| json!({ "answer": { "plan": document(json!([call("a", action, payload)])) } });
    let plans = json!([
        { "answer": { "content": "no plan" }, "gate": "plan" },
        plan("script.pure", json!({ "fail": "BROKEN", "fatal": true })),
        plan("script.world", json!({ "answer": { "kg": 3 } })),
    ]);
    let planner = json!({ "action": "script.planner", "parameters": { "plans": plans } });
    let run = world
        .create(json!({ "goal": "Weigh the bears", "planner": planner, "limits": { "max_generations": 4 } }))
        .await;
    figures
        .until(&[(r#"escapement_runs{state="planning"}"#, 1.0)])
        .await;
    world.shared.open("plan");
    assert_eq!(world.ended(&run).await["state"], "completed");

    let profile = json!({ "action": "llm.chat", "effect": "llm", "risk": "safe" });
    world.profile(profile).await;
    let usage = json!({ "prompt_tokens": 30, "completion_tokens": 10, "total_tokens": 40 });
    world
        .shared
        .model_answers([json!({ "content": "yes", "usage": usage })]);
    let think = json!([{ "key": "think", "type": "llm_decision", "config": { "prompt": "Well?" } }]);
    world.ended_run(think).await;
    let expected = [
        (r#"escapement_run_generations_total{verdict="refused"}"#, 1.0),
        (r#"escapement_run_generations_total{verdict="accepted"}"#, 2.0),
        (r#"escapement_run_replans_total{cause="planner"}"#, 1.0),
        (r#"escapement_run_tokens_total{tokens="prompt"}"#, 30.0),
        (r#"escapement_run_tokens_total{tokens="completion"}"#, 10.0),
    ];
    figures.until(&expected).await;
}

/// Runs that fail wholly and in part, one that takes the results of another, and one that a trigger starts.
async fn endings(world: &World, figures: &mut Figures) {
    let fails = || call("fails", "script.pure", json!({ "fail": "BROKEN", "fatal": true }));
    world.ended_run(json!([fails()])).await;
    world
        .ended_run(json!([with(fails(), json!({ "on_failure": "skip" }))]))
        .await;
    let first = world
        .ended_run(json!([
            call("a", "script.pure", json!({})),
            call("b", "script.pure", json!({}))
        ]))
        .await;
    let fork = json!({ "run_id": first["run_id"] });
    let fork = world.call("RunService/ForkRun", fork).await["run"].take();
    world.ended(&text(&fork["run_id"])).await;
    let run = unattended(json!({ "document": document(json!([])) }));
    let trigger = json!({ "name": "T", "event": { "type": "never" }, "run": run });
    let trigger_id = triggers::created(world, trigger).await;
    let fired = json!({ "trigger_id": trigger_id });
    let fired = world.call("TriggerService/FireTrigger", fired).await;
    world.ended(&text(&fired["firing"]["run_id"])).await;
    let ended =
        |outcome: &str| format!(r#"escapement_runs_ended_total{{namespace="default",outcome="{outcome}"}}"#);
    let expected = [
        // Two of states, two of people, two of planners, three of these.
        (ended("completed"), 9.0),
        (ended("partial"), 1.0),
        (ended("failed"), 1.0),
        (ended("timeout"), 1.0),
        (ended("cancelled"), 2.0),
        (
            r#"escapement_runs_created_total{namespace="default"}"#.to_owned(),
            14.0,
        ),
        (
            r#"escapement_run_duration_seconds_count{outcome="cancelled"}"#.to_owned(),
            2.0,
        ),
        (
            r#"escapement_run_attempts_total{class="failed_for_good"}"#.to_owned(),
            3.0,
        ),
        (
            r#"escapement_run_trigger_causes_total{trigger="manual",firing="started"}"#.to_owned(),
            1.0,
        ),
        ("escapement_run_results_reused_total".to_owned(), 2.0),
        ("escapement_runs_recovered_total".to_owned(), 0.0),
    ];
    let expected: Vec<_> = expected.iter().map(|(name, n)| (name.as_str(), *n)).collect();
    figures.until(&expected).await;
}

#[tokio::test]
async fn every_figure_of_runs_tells_what_happened() {
    let mut world = World::start_with(|settings| {
        let settings = settings
            .flag("--metrics-listen", "127.0.0.1:0")
            .flag("--max-runs", 100);
        settings
            .flag(UNDER_WAY_FLAG, 1)
            .flag("--declare-action", "file.stat")
    })
    .await;
    let produces =
        json!({ "action": "script.safe", "effect": "side_effect", "risk": "safe", "produces": ["image"] });
    world.profile(produces).await;
    let mut figures = Figures::of(&world).await;
    states_of_runs(&world, &mut figures).await;
    people(&world, &mut figures).await;
    planning(&world, &mut figures).await;
    endings(&world, &mut figures).await;

    // What a start takes up is counted anew.
    let asks = world.run(json!([question("name")])).await;
    let open = world.open_request(&asks).await;
    world.crash().await;
    figures.address = Figures::of(&world).await.address;
    let expected = [
        ("escapement_runs_recovered_total", 1.0),
        (r#"escapement_runs{state="waiting"}"#, 1.0),
        (r#"escapement_run_input_requests{request="question"}"#, 1.0),
        ("escapement_runs_max", 100.0),
    ];
    figures.until(&expected).await;
    let oldest = figures.scrape().await["escapement_run_input_request_oldest_timestamp_seconds"];
    assert_eq!(oldest, (open["created_at"].as_i64().unwrap() / 1_000) as f64);

    let page = std::fs::read_to_string(checkout::root().join("deploy/METRICS.md")).unwrap();
    let named = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `escapement_run"));
    let named: Vec<&str> = named.map(|row| row.split('`').next().unwrap()).collect();
    assert!(named.len() > 15, "{named:?}");
    for name in named {
        let seen = figures.most.iter().any(|(sample, most)| {
            let rest = sample
                .strip_prefix("escapement_run")
                .and_then(|rest| rest.strip_prefix(name));
            *most > 0.0 && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['{', '_']))
        });
        assert!(seen, "escapement_run{name} was never above 0");
    }
    world.close().await;
}
