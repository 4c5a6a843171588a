//! What users are told of their runs, and how a decomposed question is answered.

use crate::api::Answers;
use crate::plan_words::{call, document, question, text, with};
use crate::world::{LIMIT, World};
use serde_json::{Value, json};
use tokio::time::timeout;
use tonic::Code;

/// Notices up to the first that fits, that one included.
async fn until(answers: &mut Answers, fits: impl Fn(&Value) -> bool) -> Vec<Value> {
    let mut seen = Vec::new();
    loop {
        let answer = timeout(LIMIT, answers.next())
            .await
            .unwrap_or_else(|_| panic!("a notice comes in time, after {seen:#?}"));
        let mut answer = answer.unwrap().expect("the stream goes on");
        if answer["notice"].is_object() {
            let notice = answer["notice"].take();
            let is_last = fits(&notice);
            seen.push(notice);
            if is_last {
                return seen;
            }
        }
    }
}

fn is_agent(notice: &Value) -> bool {
    notice["kind"] == "agent"
}

fn texts(notices: &[Value]) -> Vec<&str> {
    notices
        .iter()
        .map(|notice| notice["text"].as_str().unwrap())
        .collect()
}

fn decomposition() -> Value {
    json!({"goal": "Compare two files", "steps": [
        {"id": "a", "description": "Read the first file"},
        {"id": "b", "description": "Read the second file"},
        {"id": "c", "description": "Compare what was read", "depends_on": ["a", "b"]}]})
}

#[tokio::test]
async fn s33_a_decomposed_question_is_spawned_at_once_and_answered_by_a_notice() {
    let world = World::start().await;
    world.shared.model_says(&["one", "two", "they differ"]);
    let mut stream = world
        .stream(
            "RunService/WatchNotices",
            json!({ "user_id": "ada", "only_new": true }),
        )
        .await;
    let ask = json!({"document": decomposition(), "format": "decomposition/1", "user_id": "ada"});
    let created = world.call("RunService/CreateRun", ask.clone()).await;
    assert_eq!(created["status"], "spawned");
    assert_eq!(created["n_steps"], 3);
    assert_eq!(created["run"]["preset"], "plan_mode");
    assert!(!text(&created["chain_id"]).is_empty());
    let notices = until(&mut stream, is_agent).await;
    assert_eq!(
        texts(&notices),
        [
            "plan: Compare two files\n1. Read the first file\n2. Read the second file\n3. Compare what was read",
            "plan step 1/3: Read the first file",
            "plan step 1/3: Read the first file → done",
            "plan step 2/3: Read the second file",
            "plan step 2/3: Read the second file → done",
            "plan step 3/3: Compare what was read",
            "plan step 3/3: Compare what was read → done",
            "they differ",
        ]
    );
    assert!(
        notices
            .iter()
            .all(|notice| notice["run_id"] == created["run"]["run_id"])
    );
    // A reader goes on behind what it saw.
    let after = json!({ "user_id": "ada", "after_cursor": notices[5]["cursor"] });
    let mut again = world.stream("RunService/WatchNotices", after).await;
    assert_eq!(until(&mut again, is_agent).await, notices[6..]);
    for n in [1, 8] {
        let steps: Vec<Value> = (0..n)
            .map(|n| json!({"id": format!("s{n}"), "description": "Ask"}))
            .collect();
        let refused = world
            .refusal(
                "RunService/CreateRun",
                with(ask.clone(), json!({"document": {"goal": "Ask", "steps": steps}})),
            )
            .await;
        assert_eq!(refused.is(), (Code::InvalidArgument, "PLAN_INVALID"));
        assert_eq!(refused.paths(), [("document.steps", "PLAN_SIZE")]);
    }
    world.close().await;
}

#[tokio::test]
async fn s35_answers_come_in_the_order_of_completion() {
    let world = World::start().await;
    let mut stream = world
        .stream("RunService/WatchNotices", json!({ "user_id": "ada" }))
        .await;
    let run = |payload: Value| {
        let steps = json!([
            call("a", "script.pure", payload),
            call("b", "script.pure", json!({"answer": {"n": 1}}))
        ]);
        world.create(json!({"document": document(steps), "preset": "plan_mode", "user_id": "ada"}))
    };
    let slow = run(json!({"gate": "slow"})).await;
    let fast = run(json!({})).await;
    let first = until(&mut stream, is_agent).await;
    assert_eq!(first.last().unwrap()["run_id"], json!(fast));
    world.shared.open("slow");
    let second = until(&mut stream, is_agent).await;
    assert_eq!(second.last().unwrap()["run_id"], json!(slow));
    assert_eq!(second.last().unwrap()["text"], "{\"n\":1}");
    for run_id in [slow, fast] {
        assert_eq!(world.ended(&run_id).await["state"], "completed");
    }
    world.close().await;
}

#[tokio::test]
async fn s38_steps_retries_and_failures_are_told() {
    let world = World::start().await;
    let steps = json!([
        with(
            call("a", "script.pure", json!({"each": [{"fail": "BROKEN"}, {}]})),
            json!({"description": "ö".repeat(61)})
        ),
        with(
            call(
                "b",
                "script.pure",
                json!({"fail": "NEVER_OFF", "message": "not here"})
            ),
            json!({"description": "Fails"})
        ),
    ]);
    let run_id = world
        .create(json!({"document": document(steps), "preset": "plan_mode", "user_id": "ada", "locale": "ja"}))
        .await;
    world.ended(&run_id).await;
    let mut stream = world
        .stream("RunService/WatchNotices", json!({ "user_id": "ada" }))
        .await;
    let notices = until(&mut stream, is_agent).await;
    let described = "ö".repeat(60);
    let texts = texts(&notices);
    assert_eq!(texts[0], format!("計画: Story\n1. {described}\n2. Fails"));
    assert_eq!(texts[2], format!("再試行 1/3: {described}"));
    assert_eq!(texts[5], "計画のステップ 2/2: Fails → 失敗 (NEVER_OFF: not here)");
    let answer = texts.last().unwrap();
    assert!(
        answer.ends_with("\n2 件のステップのうち 1 件が失敗しました"),
        "{answer}"
    );
    world.close().await;
}

#[tokio::test]
async fn s6_a_run_that_a_restart_discards_asks_its_user_to_ask_again() {
    let mut world = World::start().await;
    let run_id = world
        .create(
            json!({"document": document(json!([question("q")])), "policy": {"resume": "discard"},
            "notices": "end", "user_id": "ada"}),
        )
        .await;
    world.open_request(&run_id).await;
    world.crash().await;
    assert_eq!(world.ended(&run_id).await["reason"], "discarded");
    let mut stream = world
        .stream("RunService/WatchNotices", json!({ "user_id": "ada" }))
        .await;
    let told = until(&mut stream, |notice| {
        notice["text"].as_str().unwrap().contains("please ask again")
    })
    .await;
    assert_eq!(
        texts(&told),
        [
            "needs an answer: What is q?",
            "Story → discarded; please ask again"
        ]
    );
    let mistake = world
        .refusal("RunService/WatchNotices", json!({ "session_id": "nobody's" }))
        .await;
    assert_eq!(mistake.is(), (Code::NotFound, "SESSION_NOT_FOUND"));
    world.close().await;
}

#[tokio::test]
async fn s7_the_user_of_a_damaged_run_that_is_discarded_is_asked_to_ask_again() {
    let mut world = World::start().await;
    let run = json!({"document": document(json!([question("q")])), "notices": "end", "user_id": "ada"});
    let run_id = world.create(run).await;
    world.open_request(&run_id).await;
    world.kill();
    let file = rusqlite::Connection::open(world.directory.join("store").join("store.db")).unwrap();
    let damage = "UPDATE journal SET entry = x'00' WHERE place = (SELECT max(place) FROM journal)";
    file.execute(damage, ()).unwrap();
    drop(file);
    world.starts().await;
    world
        .call("RunService/DiscardRun", json!({ "run_id": run_id }))
        .await;
    let mut stream = world
        .stream("RunService/WatchNotices", json!({ "user_id": "ada" }))
        .await;
    let told = until(&mut stream, |notice| {
        notice["text"].as_str().unwrap().contains("please ask again")
    })
    .await;
    let last = format!("{run_id} → discarded; please ask again");
    assert_eq!(texts(&told), ["needs an answer: What is q?", &last]);
    world.close().await;
}
