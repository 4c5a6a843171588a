//! Questions, approvals, and who may say what.

use crate::plan_words::{call, document, question, text, with};
use crate::world::World;
use serde_json::{Value, json};
use tonic::Code;

fn approve() -> Value {
    json!({ "approval": { "approve": {} } })
}

fn deny() -> Value {
    json!({ "approval": { "deny": {} } })
}

/// A run of one guarded step at this level.
async fn guarded(world: &World, level: u32, more: Value) -> String {
    let steps = json!([call(
        "act",
        "script.danger",
        json!({ "answer": { "done": true } })
    )]);
    world
        .create(with(
            json!({ "document": document(steps), "autonomy_level": level }),
            more,
        ))
        .await
}

#[tokio::test]
async fn s32_two_branches_ask_and_the_second_answer_comes_first() {
    let world = World::start().await;
    let overlapping = |step: Value| with(step, json!({ "async": true }));
    let after = |key: &str, on: &str| {
        with(
            overlapping(call(key, "script.pure", json!({}))),
            json!({ "depends_on": [on] }),
        )
    };
    let steps = json!([
        overlapping(question("left")),
        overlapping(question("right")),
        after("l", "left"),
        after("r", "right"),
    ]);
    let plan = with(document(steps), json!({ "parallel": true }));
    let run_id = world
        .create(json!({ "document": plan, "limits": { "max_concurrency": 4 } }))
        .await;
    let open = world.open_requests(&run_id, 2).await;
    let of = |key: &str| open.iter().find(|request| request["step_key"] == key).unwrap();
    let inbox = world.call("InboxService/ListInputRequests", json!({})).await;
    assert_eq!(inbox["input_requests"].as_array().unwrap().len(), 2);
    world
        .respond(of("right"), json!({ "text": "blue" }))
        .await
        .unwrap();
    world.step_in(&run_id, "r", "completed").await;
    assert_eq!(world.steps(&run_id).await["l"]["state"], "pending");

    // Two people answer the same one at once: one decision.
    let (one, other) = tokio::join!(
        world.respond_as(of("left"), "ada", json!({ "text": "red" })),
        world.respond_as(of("left"), "bob", json!({ "text": "green" })),
    );
    let refused = match (&one, &other) {
        (Ok(_), Err(refusal)) | (Err(refusal), Ok(_)) => refusal,
        both => panic!("{both:?}"),
    };
    assert_eq!(refused.is(), (Code::FailedPrecondition, "ALREADY_ANSWERED"));
    world.ended(&run_id).await;
    let said = if one.is_ok() { "red" } else { "green" };
    assert_eq!(world.result(&run_id, "left").await, said);
    // The same answer of the same person again changes nothing.
    let winner = if one.is_ok() { "ada" } else { "bob" };
    let again = world
        .respond_as(of("left"), winner, json!({ "text": said }))
        .await;
    assert!(again.is_ok() || again.unwrap_err().reason == "RUN_ENDED");
    world.close().await;
}

#[tokio::test]
async fn s51_level_3_asks_for_what_may_destroy_and_level_4_does_not() {
    let world = World::start().await;
    for (level, action, asks) in [
        (0, "script.safe", true),
        (2, "script.safe", false),
        (2, "script.plain", true),
        (2, "script.danger", true),
        (3, "script.plain", false),
        (3, "script.danger", true),
        (4, "script.danger", false),
    ] {
        let steps = json!([call("act", action, json!({}))]);
        let run_id = world
            .create(json!({ "document": document(steps), "autonomy_level": level }))
            .await;
        if asks {
            let request = world.open_request(&run_id).await;
            assert_eq!(
                (&request["kind"], &request["step_key"]),
                (&json!("approval"), &json!("act"))
            );
            assert!(world.called(&run_id).is_empty(), "{action} at level {level}");
            world.respond(&request, approve()).await.unwrap();
        }
        assert_eq!(
            world.ended(&run_id).await["state"],
            "completed",
            "{action} at level {level}"
        );
    }
    world.close().await;
}

#[tokio::test]
async fn s51_a_safety_check_lets_a_call_run_or_a_person_decides() {
    let world = World::start().await;
    let judge = json!({ "action": "script.judge", "effect": "pure", "risk": "safe", "attempt_ms": 300 });
    world.profile(judge).await;
    let judged = async |verdict: Value| {
        let payload = json!({ "answer": { "done": true }, "judge": verdict });
        let steps = json!([call("act", "script.danger", payload)]);
        let request = json!({
            "document": document(steps), "autonomy_level": 3, "policy": { "safety_action": "script.judge" },
        });
        world.create(request).await
    };
    let run_id = judged(json!({ "answer": { "safe": true } })).await;
    let run = world.ended(&run_id).await;
    assert_eq!(run["output"], json!({ "done": true }));
    assert_eq!(run["policy"]["safety_action"], "script.judge");
    let calls = world.calls_of(&run_id);
    let actions: Vec<_> = calls.iter().map(|call| text(&call["action"])).collect();
    assert_eq!(actions, ["script.judge", "script.danger"]);
    assert_eq!(calls[0]["payload"]["action"], "script.danger");
    assert_eq!(calls[0]["payload"]["payload"], calls[1]["payload"]);
    // A no, an error, an answer that says nothing, and none within the time that the profile says.
    for verdict in [
        json!({ "answer": { "safe": false } }),
        json!({ "fail": "NO_OPINION" }),
        json!({}),
        json!({ "hang": true }),
    ] {
        let run_id = judged(verdict.clone()).await;
        let request = world.open_request(&run_id).await;
        assert_eq!(
            (&request["kind"], &request["step_key"]),
            (&json!("approval"), &json!("act"))
        );
        let calls = world.calls_of(&run_id);
        assert!(
            calls.iter().all(|call| call["action"] == "script.judge"),
            "{verdict}"
        );
        world.respond(&request, approve()).await.unwrap();
        assert_eq!(world.ended(&run_id).await["output"], json!({ "done": true }));
    }
    world.close().await;
}

#[tokio::test]
async fn s52_a_worker_asks_for_an_approval_and_is_called_with_it() {
    let world = World::start().await;
    let payload = json!({ "each": [
        { "fail": "APPROVAL_REQUIRED", "message": "This sends 3 mails.", "context": { "mails": 3 } },
        { "answer": { "sent": 3 } },
    ] });
    let steps = json!([call("send", "script.effect", payload)]);
    let run_id = world.run(steps.clone()).await;
    let request = world.open_request(&run_id).await;
    assert_eq!(request["kind"], "approval");
    assert!(
        text(&request["error"]["message"]).contains("3 mails"),
        "{request:#}"
    );
    assert!(
        request["subject"].to_string().contains("APPROVAL_REQUIRED"),
        "exactly what was sent: {request:#}"
    );
    let asked = json!({ "input_request_id": request["input_request_id"] });
    let asked = world.call("InboxService/GetInputRequest", asked).await;
    for request in [&request, &asked["input_request"]] {
        assert_eq!(
            request["data"],
            json!({ "mails": 3.0 }),
            "what its handler says about it"
        );
    }
    world.respond(&request, approve()).await.unwrap();
    assert_eq!(world.ended(&run_id).await["output"], json!({ "sent": 3.0 }));
    for event in world.events(&run_id).await {
        if text(&event["event_type"]).starts_with("approval_") {
            assert_eq!(
                (&event["step_key"], &event["step_index"]),
                (&json!("send"), &json!(0))
            );
        }
    }
    let calls = world.calls_of(&run_id);
    assert_eq!(calls.len(), 2);
    assert_eq!(calls[0].get("approval"), None);
    assert_eq!(calls[1]["approval"], request["input_request_id"]);
    assert_eq!(calls[0]["key"], calls[1]["key"]);

    let run_id = world.run(steps).await;
    let request = world.open_request(&run_id).await;
    world.respond(&request, deny()).await.unwrap();
    let run = world.ended(&run_id).await;
    assert_eq!(
        (&run["state"], &run["error"]["code"]),
        (&json!("failed"), &json!("APPROVAL_DENIED"))
    );
    assert_eq!(world.calls_of(&run_id).len(), 1);
    world.close().await;
}

#[tokio::test]
async fn s55_an_approval_is_bound_to_what_is_sent() {
    let world = World::start().await;
    let run_id = guarded(&world, 3, json!({})).await;
    let request = world.open_request(&run_id).await;
    let mut other = request.clone();
    other["subject_digest"] = json!("0".repeat(64));
    let refusal = world.respond(&other, approve()).await.unwrap_err();
    assert_eq!(refusal.is(), (Code::FailedPrecondition, "DIGEST_MISMATCH"));
    let refusal = world
        .respond(&request, json!({ "text": "yes" }))
        .await
        .unwrap_err();
    assert_eq!(refusal.is(), (Code::InvalidArgument, "ANSWER_INVALID"));
    let agent = with(
        approve(),
        json!({
            "input_request_id": request["input_request_id"], "subject_digest": request["subject_digest"],
            "responder": { "id": "robot", "kind": "agent" },
        }),
    );
    let refusal = world.refusal("InboxService/RespondToInput", agent).await;
    assert_eq!(refusal.is(), (Code::PermissionDenied, "NOT_AN_APPROVER"));
    let edits =
        json!({ "approval": { "approve_with_edits": { "payload": { "answer": { "edited": true } } } } });
    world.respond(&request, edits).await.unwrap();
    assert_eq!(world.ended(&run_id).await["output"], json!({ "edited": true }));
    assert_eq!(
        world.calls_of(&run_id)[0]["payload"],
        json!({ "answer": { "edited": true } })
    );
    let request = json!({ "input_request_id": request["input_request_id"] });
    let answered = world.call("InboxService/GetInputRequest", request).await["input_request"].take();
    assert_eq!(answered["state"], "answered");
    let decision = &answered["decisions"][0];
    assert_eq!(
        (&decision["decision"], &decision["responder"]["id"]),
        (&json!("approve_with_edits"), &json!("ada"))
    );
    assert_ne!(
        decision["subject_digest"], answered["subject_digest"],
        "both digests are recorded"
    );
    world.close().await;
}

#[tokio::test]
async fn s55_four_eyes_quorum_and_time() {
    let world = World::start().await;
    let run_id = guarded(
        &world,
        3,
        json!({ "user_id": "ada", "policy": { "four_eyes": true } }),
    )
    .await;
    let request = world.open_request(&run_id).await;
    let refusal = world.respond_as(&request, "ada", approve()).await.unwrap_err();
    assert_eq!(refusal.is(), (Code::PermissionDenied, "SELF_APPROVAL"));
    world.respond_as(&request, "bob", approve()).await.unwrap();
    assert_eq!(world.ended(&run_id).await["state"], "completed");

    let run_id = guarded(&world, 3, json!({ "policy": { "quorum": 2 } })).await;
    let request = world.open_request(&run_id).await;
    let answer = world.respond_as(&request, "ada", approve()).await.unwrap();
    assert_eq!(answer["input_request"]["state"], "open", "one of two");
    assert!(world.called(&run_id).is_empty());
    world.respond_as(&request, "bob", approve()).await.unwrap();
    assert_eq!(world.ended(&run_id).await["state"], "completed");

    let run_id = guarded(&world, 3, json!({ "policy": { "approvers": ["eve"] } })).await;
    let request = world.open_request(&run_id).await;
    let refusal = world.respond_as(&request, "ada", approve()).await.unwrap_err();
    assert_eq!(refusal.is(), (Code::PermissionDenied, "NOT_AN_APPROVER"));
    world.respond_as(&request, "eve", approve()).await.unwrap();
    assert_eq!(world.ended(&run_id).await["state"], "completed");

    let run_id = guarded(&world, 3, json!({ "limits": { "approval_ms": 100 } })).await;
    let run = world.ended(&run_id).await;
    assert_eq!(
        run["error"]["code"], "APPROVAL_DENIED",
        "what is not decided in time is denied"
    );
    assert!(world.called(&run_id).is_empty());
    world.close().await;
}

#[tokio::test]
async fn s55_a_plan_is_approved_edited_or_denied_as_a_whole() {
    let world = World::start().await;
    let steps = json!([call("a", "script.pure", json!({ "answer": { "plan": "first" } }))]);
    let whole = json!({ "document": document(steps), "autonomy_level": 1 });
    let run_id = world.create(whole.clone()).await;
    let request = world.open_request(&run_id).await;
    assert_eq!(
        (&request["kind"], &request["step_key"]),
        (&json!("approval"), &json!(""))
    );
    world.respond(&request, deny()).await.unwrap();
    let run = world.ended(&run_id).await;
    assert_eq!(
        (&run["state"], &run["reason"]),
        (&json!("cancelled"), &json!("plan_rejected"))
    );

    let run_id = world.create(whole.clone()).await;
    let request = world.open_request(&run_id).await;
    world.respond(&request, approve()).await.unwrap();
    assert_eq!(world.ended(&run_id).await["output"], json!({ "plan": "first" }));

    let run_id = world.create(whole).await;
    let first = world.get(&run_id).await["revision_digest"].clone();
    let request = world.open_request(&run_id).await;
    let better = json!([call(
        "a",
        "script.pure",
        json!({ "answer": { "plan": "better" } })
    )]);
    let edits = json!({ "approval": { "approve_with_edits": { "document": document(better) } } });
    world.respond(&request, edits).await.unwrap();
    let run = world.ended(&run_id).await;
    assert_eq!(run["output"], json!({ "plan": "better" }));
    let revisions = world
        .call("RunService/ListRevisions", json!({ "run_id": run_id }))
        .await;
    let revisions = revisions["revisions"].as_array().unwrap();
    assert_eq!(revisions.len(), 2);
    assert_eq!(
        (&revisions[0]["revision_digest"], &revisions[0]["cause"]),
        (&first, &json!("caller"))
    );
    assert_eq!(
        (&revisions[1]["revision_digest"], &revisions[1]["cause"]),
        (&run["revision_digest"], &json!("edit"))
    );
    let name = json!({ "revision": { "run_id": run_id, "number": 1 } });
    let replaced = world.call("RunService/GetRevision", name).await["result"].take();
    assert_eq!(
        (&replaced["success"], &replaced["can_replan"], &replaced["error"]),
        (&json!(false), &json!(true), &Value::Null)
    );
    let diff = json!({ "from": { "run_id": run_id, "number": 1 }, "to": { "run_id": run_id, "number": 2 } });
    let diff = world.call("RunService/DiffRevisions", diff).await;
    assert_eq!(
        diff["changed_steps"],
        json!([{ "step_key": "a", "changed_fields": ["config"] }])
    );
    world.close().await;
}
