//! What runs of a session share, and what they do not.

use crate::plan_words::{call, document, question, text, with};
use crate::world::World;
use serde_json::{Value, json};
use tonic::Code;

impl World {
    async fn session(&self, session_id: &str) {
        self.call(
            "SessionService/CreateSession",
            json!({ "session_id": session_id }),
        )
        .await;
    }

    async fn state(&self, session_id: &str) -> Value {
        let mut answer = self
            .call("SessionService/GetSession", json!({ "session_id": session_id }))
            .await;
        answer["session"]["state"].take()
    }

    async fn health(&self, session_id: &str) -> Vec<(String, String)> {
        let answer = self
            .call(
                "SessionService/ListSkillHealth",
                json!({ "session_id": session_id }),
            )
            .await;
        let skills = answer["skills"].as_array().unwrap().iter();
        skills
            .map(|skill| (text(&skill["skill"]), text(&skill["health"])))
            .collect()
    }

    /// A run in the session that fails once, for good.
    async fn fails(&self, session_id: &str) {
        let steps = json!([with(
            call("a", "script.pure", json!({"fail": "BROKEN"})),
            json!({"retry": {"max_retries": 0}})
        )]);
        let request = json!({"document": document(steps), "session_id": session_id});
        let run_id = self.create(request).await;
        assert_eq!(self.ended(&run_id).await["state"], "failed");
    }
}

#[tokio::test]
async fn s97_runs_of_two_sessions_share_theirs_and_do_not_meet() {
    let world = World::start().await;
    let mut runs = Vec::new();
    for session_id in ["left", "right"] {
        world.session(session_id).await;
        for n in 0..5 {
            let key = format!("{session_id}{n}");
            let patch = json!({"answer": {"$state_patch": {"runs": {key: n}}}});
            let steps = json!([
                call("first", "script.pure", patch),
                call(
                    "second",
                    "script.pure",
                    json!({"answer": {"seen": "${session:/runs}"}})
                ),
            ]);
            let request = json!({"document": document(steps), "session_id": session_id});
            runs.push(world.create(request).await);
        }
    }
    for (n, run_id) in runs.iter().enumerate() {
        let run = world.ended(run_id).await;
        assert_eq!(run["state"], "completed", "{run:#}");
        let own = format!("{}{}", ["left", "right"][n / 5], n % 5);
        let other = ["right", "left"][n / 5];
        let seen = run["output"]["seen"].as_object().unwrap().clone();
        assert!(seen.contains_key(&own), "{seen:?} has {own}");
        assert!(seen.keys().all(|key| !key.starts_with(other)), "{seen:?}");
    }
    for session_id in ["left", "right"] {
        let state = world.state(session_id).await;
        assert_eq!(state["runs"].as_object().unwrap().len(), 5, "{state}");
    }
    world.close().await;
}

#[tokio::test]
async fn a_session_is_made_patched_and_deleted_and_each_mistake_has_its_error() {
    let mut world = World::start().await;
    let made = world
        .call(
            "SessionService/CreateSession",
            json!({"session_id": "s", "user_id": "ada", "state": {"a": {"b": 1, "gone": null}}}),
        )
        .await;
    assert_eq!(made["session"]["state"], json!({"a": {"b": 1.0}}));
    let twice = world
        .refusal("SessionService/CreateSession", json!({"session_id": "s"}))
        .await;
    assert_eq!(twice.is(), (Code::AlreadyExists, "SESSION_EXISTS"));
    let patch = json!({"session_id": "s", "patch": {"a": {"b": null, "c": [1, null]}}, "etag": made["session"]["etag"]});
    let patched = world
        .call("SessionService/MergeSessionState", patch.clone())
        .await;
    assert_eq!(patched["session"]["state"], json!({"a": {"c": [1.0, null]}}));
    let stale = world.refusal("SessionService/MergeSessionState", patch).await;
    assert_eq!(stale.is(), (Code::Aborted, "ETAG_MISMATCH"));
    let half = |key: &str| json!({"session_id": "s", "patch": {key: "x".repeat(600_000)}});
    world.call("SessionService/MergeSessionState", half("more")).await;
    let large = world
        .refusal("SessionService/MergeSessionState", half("most"))
        .await;
    assert_eq!(large.is(), (Code::InvalidArgument, "STATE_TOO_LARGE"));
    assert_eq!(large.paths(), [("patch", "STATE_TOO_LARGE")]);
    let less = json!({"session_id": "s", "patch": {"more": null}});
    world.call("SessionService/MergeSessionState", less).await;
    let bobs = json!({"session_id": "s", "user_id": "bob"});
    let bobs = world.refusal("SessionService/GetSession", bobs).await;
    assert_eq!(bobs.is(), (Code::NotFound, "SESSION_NOT_FOUND"));
    let run = json!({"document": document(json!([question("q")])), "session_id": "s", "autonomy_level": 4});
    let refused = world
        .refusal(
            "RunService/CreateRun",
            with(run.clone(), json!({"user_id": "bob"})),
        )
        .await;
    assert_eq!(refused.is(), (Code::NotFound, "SESSION_NOT_FOUND"));
    let run_id = world.create(with(run, json!({"user_id": "ada"}))).await;
    world.open_request(&run_id).await;
    world.crash().await;
    assert_eq!(world.state("s").await, json!({"a": {"c": [1.0, null]}}));
    let in_use = world
        .refusal("SessionService/DeleteSession", json!({"session_id": "s"}))
        .await;
    assert_eq!(in_use.is(), (Code::FailedPrecondition, "SESSION_IN_USE"));
    world
        .call("RunService/CancelRun", json!({ "run_id": run_id }))
        .await;
    world
        .call("SessionService/DeleteSession", json!({"session_id": "s"}))
        .await;
    world.crash().await;
    let gone = world
        .refusal("SessionService/GetSession", json!({"session_id": "s"}))
        .await;
    assert_eq!(gone.is(), (Code::NotFound, "SESSION_NOT_FOUND"));
    world.close().await;
}

#[tokio::test]
async fn s57_failures_in_a_row_degrade_a_skill_and_put_it_out() {
    let world = World::start().await;
    world.session("s").await;
    world.session("other").await;
    let wanted = [
        "healthy",
        "healthy",
        "degraded",
        "degraded",
        "degraded",
        "permanent_failure",
    ];
    for health in wanted {
        world.fails("s").await;
        assert_eq!(
            world.health("s").await,
            [("script.pure".to_owned(), health.to_owned())]
        );
    }
    assert!(world.health("other").await.is_empty());
    let run_id = world
        .create(json!({"document": document(json!([question("q")])), "session_id": "s"}))
        .await;
    world.open_request(&run_id).await;
    assert_eq!(
        world.get(&run_id).await["disabled_skills"],
        json!(["script.pure"])
    );
    let reset = json!({"session_id": "s", "skill": "script.pure"});
    world.call("SessionService/ResetSkillHealth", reset).await;
    assert!(world.health("s").await.is_empty());
    world.close().await;
}

#[tokio::test]
async fn s58_a_skill_that_is_out_survives_a_kill_and_is_cleared_by_a_restart_of_the_session() {
    let mut world = World::start().await;
    world.session("s").await;
    for _ in 0..6 {
        world.fails("s").await;
    }
    let out = [("script.pure".to_owned(), "permanent_failure".to_owned())];
    world.crash().await;
    assert_eq!(world.health("s").await, out);
    let restarted = world
        .call("SessionService/RestartSession", json!({"session_id": "s"}))
        .await;
    assert_eq!(restarted["session"]["restarts"], 1);
    world.crash().await;
    assert!(world.health("s").await.is_empty());
    world.close().await;
}
