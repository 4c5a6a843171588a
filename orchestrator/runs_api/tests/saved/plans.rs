//! Saved plans: what is kept of them, who sees them, and their runs.

use escapement_run::Input;
use escapement_run::presets::Preset;
use escapement_runs_shell::{CallError, Condition};
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::plan_service_server::PlanService;
use serde_json::json;
use tonic::{Code, Request};

use crate::calls::{create, document, get, list, named, put};
use crate::world::{World, id, object, told};

#[tokio::test]
async fn a_plan_has_defaults_and_keeps_every_field() {
    let world = World::new();
    let plan = create(&world, named("One")).await.unwrap();
    let expected = (5, 1, 3, 0, None, "standard", "pending", 1, 0);
    let found = (
        plan.priority,
        plan.autonomy_level,
        plan.max_retries,
        plan.timeout_ms,
        plan.metadata.clone(),
        plan.preset.as_str(),
        plan.status.as_str(),
        plan.revision_number,
        plan.total_steps,
    );
    assert_eq!(found, expected);
    assert_eq!(get(&world, &plan.plan_id, "").await.unwrap(), plan);

    let full = v1::CreatePlanRequest {
        plan: Some(v1::Plan {
            name: "Two".to_owned(),
            description: "described".to_owned(),
            goal: "goal".to_owned(),
            user_id: "bob".to_owned(),
            source: "agent".to_owned(),
            source_id: "s".to_owned(),
            trigger_id: "t".to_owned(),
            goal_id: "g".to_owned(),
            external_id: "e".to_owned(),
            timeout_ms: 5000,
            metadata: Some(object(&json!({"a": 1}))),
            preset: "autonomous".to_owned(),
            ..v1::Plan::default()
        }),
        document: Some(object(&document(&json!([])))),
        priority: Some(10),
        autonomy_level: Some(0),
        max_retries: Some(0),
        ..v1::CreatePlanRequest::default()
    };
    let plan = create(&world, full.clone()).await.unwrap();
    let world = world.killed();
    let found = get(&world, &plan.plan_id, "bob").await.unwrap();
    assert_eq!(found, plan);
    let given = full.plan.unwrap();
    assert_eq!(
        (
            &found.name,
            &found.description,
            &found.goal,
            &found.source,
            &found.source_id
        ),
        (
            &given.name,
            &given.description,
            &given.goal,
            &given.source,
            &given.source_id
        )
    );
    assert_eq!(
        (
            &found.trigger_id,
            &found.goal_id,
            &found.external_id,
            found.timeout_ms,
            &found.metadata
        ),
        (
            &given.trigger_id,
            &given.goal_id,
            &given.external_id,
            given.timeout_ms,
            &given.metadata
        )
    );
    assert_eq!(
        (
            found.priority,
            found.autonomy_level,
            found.max_retries,
            found.preset.as_str()
        ),
        (10, 0, 0, "autonomous")
    );
    assert_eq!(found.document, full.document);
}

#[tokio::test]
async fn a_name_and_a_goal_come_from_the_document_if_nobody_says_them() {
    let world = World::new();
    let request = v1::CreatePlanRequest {
        document: Some(object(&document(&json!([])))),
        ..v1::CreatePlanRequest::default()
    };
    let plan = create(&world, request).await.unwrap();
    assert_eq!(
        (plan.name.as_str(), plan.goal.as_str(), plan.user_id.as_str()),
        ("Document", "its goal", "default")
    );
}

#[tokio::test]
async fn a_request_makes_one_plan() {
    let world = World::new();
    let request = v1::CreatePlanRequest {
        request_id: "r".to_owned(),
        ..named("One")
    };
    let plan = create(&world, request.clone()).await.unwrap();
    let world = world.killed();
    assert_eq!(create(&world, request.clone()).await.unwrap(), plan);
    let mut other = request.clone();
    other.priority = Some(7);
    let refused = create(&world, other).await.unwrap_err();
    assert_eq!(told(&refused).0, Code::AlreadyExists);
    assert_eq!(told(&refused).1, "REQUEST_ID_REUSED");
    let mut of_bob = request;
    of_bob.plan.as_mut().unwrap().user_id = "bob".to_owned();
    let plan_of_bob = create(&world, of_bob).await.unwrap();
    assert_ne!(
        plan_of_bob.plan_id, plan.plan_id,
        "ids of requests are a user's own"
    );
}

#[tokio::test]
async fn another_users_plan_is_not_there() {
    let world = World::new();
    let plan = create(&world, named("One")).await.unwrap();
    let refused = get(&world, &plan.plan_id, "bob").await.unwrap_err();
    assert_eq!(
        (told(&refused).0, told(&refused).1.as_str()),
        (Code::NotFound, "PLAN_NOT_FOUND")
    );
    let delete = v1::DeletePlanRequest {
        plan_id: plan.plan_id.clone(),
        user_id: "bob".to_owned(),
        etag: String::new(),
    };
    let refused = world.plans.delete_plan(Request::new(delete)).await.unwrap_err();
    assert_eq!(told(&refused).1, "PLAN_NOT_FOUND");
    let of_bob = v1::ListPlansRequest {
        user_id: "bob".to_owned(),
        ..v1::ListPlansRequest::default()
    };
    assert_eq!(list(&world, of_bob).await.plans, []);
    get(&world, &plan.plan_id, "ada").await.unwrap();
}

#[tokio::test]
async fn descriptive_fields_change_under_an_etag_and_make_no_revision() {
    let world = World::new();
    let plan = create(&world, named("One")).await.unwrap();
    let update = v1::UpdatePlanRequest {
        plan_id: plan.plan_id.clone(),
        name: Some("Other".to_owned()),
        description: Some(String::new()),
        priority: Some(1),
        autonomy_level: Some(0),
        timeout_ms: Some(9),
        preset: Some("protocol".to_owned()),
        metadata: Some(object(&json!({"x": [1]}))),
        etag: plan.etag.clone(),
        ..v1::UpdatePlanRequest::default()
    };
    let answer = world
        .plans
        .update_plan(Request::new(update.clone()))
        .await
        .unwrap();
    let changed = answer.into_inner().plan.unwrap();
    let expected = v1::Plan {
        name: "Other".to_owned(),
        priority: 1,
        autonomy_level: 0,
        timeout_ms: 9,
        preset: "protocol".to_owned(),
        metadata: update.metadata.clone(),
        etag: "2".to_owned(),
        updated_at: changed.updated_at,
        ..plan.clone()
    };
    assert_eq!(changed, expected);
    let refused = world.plans.update_plan(Request::new(update)).await.unwrap_err();
    assert_eq!(
        (told(&refused).0, told(&refused).1.as_str()),
        (Code::Aborted, "ETAG_MISMATCH")
    );

    // The same request under the same id changes it once.
    let again = v1::UpdatePlanRequest {
        plan_id: plan.plan_id.clone(),
        max_retries: Some(9),
        request_id: "u".to_owned(),
        ..v1::UpdatePlanRequest::default()
    };
    for _ in 0..2 {
        let answer = world
            .plans
            .update_plan(Request::new(again.clone()))
            .await
            .unwrap();
        assert_eq!(answer.into_inner().plan.unwrap().etag, "3");
    }
    let other = v1::UpdatePlanRequest {
        max_retries: Some(8),
        ..again
    };
    let refused = world.plans.update_plan(Request::new(other)).await.unwrap_err();
    assert_eq!(told(&refused).1, "REQUEST_ID_REUSED");
}

#[tokio::test]
async fn one_run_of_a_plan_lives_and_keeps_its_revision() {
    let world = World::new();
    let ask = |question: &str| {
        document(&json!([{"key": "a", "type": "user_input", "config": {"question": question}}]))
    };
    let plan_id = create(&world, named("One")).await.unwrap().plan_id;
    put(&world, &plan_id, &ask("first?")).await.unwrap();
    let policy = || Preset::Standard.policy();
    let run = world.run_of(&plan_id, 1, policy()).await.unwrap();
    let (second, third) = tokio::join!(
        world.run_of(&plan_id, 2, policy()),
        world.run_of(&plan_id, 3, policy())
    );
    assert_eq!(second, Err(CallError::AlreadyRunning(run)));
    assert_eq!(third, Err(CallError::AlreadyRunning(run)));
    let plan = get(&world, &plan_id, "").await.unwrap();
    assert_eq!(
        (&plan.live_run_id, &plan.last_run_id),
        (&run.to_string(), &run.to_string())
    );
    assert!(
        ["running", "paused"].contains(&plan.status.as_str()),
        "{}",
        plan.status
    );

    let before = plan.revision_digest;
    put(&world, &plan_id, &ask("second?")).await.unwrap();
    let kept = world.runs.look(run, |run, _| run.plan().digest).await.unwrap();
    assert_eq!(escapement_run::plan::revision_text(&kept), before);
    let stored = world
        .runs
        .readers()
        .read(move |reader| reader.revision(&kept, &[escapement_store::runs::Scope::EVERYTHING]))
        .await
        .unwrap();
    assert!(stored.is_some(), "the run refers to it");

    let delete = || {
        Request::new(v1::DeletePlanRequest {
            plan_id: plan_id.clone(),
            ..v1::DeletePlanRequest::default()
        })
    };
    let refused = world.plans.delete_plan(delete()).await.unwrap_err();
    assert_eq!(
        (told(&refused).0, told(&refused).1.as_str()),
        (Code::FailedPrecondition, "ALREADY_RUNNING")
    );
    let world = world.killed();
    let refused = world.run_of(&plan_id, 2, policy()).await;
    assert_eq!(refused, Err(CallError::AlreadyRunning(run)));
    let cancel = Input::Cancel {
        reason: "user".to_owned(),
    };
    world.runs.input(run, Condition::default(), cancel).await.unwrap();
    let plan = get(&world, &plan_id, "").await.unwrap();
    assert_eq!(
        (plan.live_run_id.as_str(), plan.status.as_str()),
        ("", "cancelled")
    );
    assert_eq!(world.run_of(&plan_id, 4, policy()).await, Ok(id(4)));
    let cancel = Input::Cancel {
        reason: "user".to_owned(),
    };
    world
        .runs
        .input(id(4), Condition::default(), cancel)
        .await
        .unwrap();
    world.plans.delete_plan(delete()).await.unwrap();
    let refused = world.plans.delete_plan(delete()).await.unwrap_err();
    assert_eq!(told(&refused).1, "PLAN_NOT_FOUND");
}

#[tokio::test]
async fn plans_are_listed_by_priority_then_the_newest_with_filters_and_pages() {
    let world = World::new();
    let mut expected = Vec::new();
    for n in 0..25 {
        let mut request = named(&format!("plan {n}"));
        request.priority = Some(1 + n % 3);
        let plan = request.plan.as_mut().unwrap();
        plan.goal_id = format!("g{}", n % 2);
        let plan = create(&world, request).await.unwrap();
        expected.push((plan.priority, n, plan.plan_id, plan.goal_id));
    }
    expected.sort_by_key(|(priority, n, ..)| (-priority, -n));
    for (goal_id, page_size) in [("", 4), ("", 25), ("g1", 1), ("g1", 200)] {
        let (mut found, mut page_token) = (Vec::new(), String::new());
        loop {
            let request = v1::ListPlansRequest {
                page_size: Some(page_size),
                page_token: page_token.clone(),
                goal_id: goal_id.to_owned(),
                ..v1::ListPlansRequest::default()
            };
            let page = list(&world, request).await;
            found.extend(page.plans.into_iter().map(|plan| plan.plan_id));
            page_token = page.next_page_token;
            if page_token.is_empty() {
                break;
            }
        }
        let wanted = expected
            .iter()
            .filter(|(.., goal)| goal_id.is_empty() || goal == goal_id);
        let wanted: Vec<String> = wanted.map(|(_, _, plan_id, _)| plan_id.clone()).collect();
        assert_eq!(found, wanted, "{goal_id:?} by {page_size}");
    }
    let running = v1::ListPlansRequest {
        status: "running".to_owned(),
        ..v1::ListPlansRequest::default()
    };
    assert_eq!(list(&world, running).await.plans, []);
}

#[tokio::test]
async fn documents_of_five_formats_show_their_native_form_and_are_saved() {
    let world = World::new();
    let sources = [
        (
            "narrative/1",
            "execution",
            json!({
                "requestId": "r", "tools": [{"toolId": "a", "toolPath": "s"}]
            }),
        ),
        (
            "decomposition/1",
            "plan_mode",
            json!({
                "goal": "g", "steps": [{"id": "a", "description": "Which?"}, {"id": "b", "description": "Why?", "depends_on": ["a"]}]
            }),
        ),
        (
            "autonomous/1",
            "autonomous",
            json!({
                "name": "n", "goal": "g", "priority": 8, "autonomyLevel": 0,
                "steps": [{"type": "tool_call", "name": "s", "orderNum": 1, "config": {"toolName": "t"}}]
            }),
        ),
        (
            "core/1",
            "autonomous",
            json!({"goal": "g", "steps": [{"id": 1, "description": "do"}]}),
        ),
        (
            "protocol/1",
            "protocol",
            json!({"objective": "o", "requiresArtifact": false, "steps": [
                {"stepIndex": 0, "toolName": "t", "description": "d", "input": {}, "isGenerator": false}
            ]}),
        ),
    ];
    for (format, preset, source) in sources {
        let request = v1::ImportPlanRequest {
            format: format.to_owned(),
            source_document: Some(object(&source)),
            save: true,
            ..v1::ImportPlanRequest::default()
        };
        let answer = world.plans.import_plan(Request::new(request)).await;
        let answer = answer
            .unwrap_or_else(|refused| panic!("{format}: {refused:?}"))
            .into_inner();
        assert_eq!(answer.preset, preset);
        let saved = answer.plan.unwrap();
        assert_eq!(
            (&saved.document, &saved.revision_digest),
            (&answer.document, &answer.revision_digest)
        );
        assert_eq!(saved.preset, preset);
        if format == "autonomous/1" {
            assert_eq!((saved.priority, saved.autonomy_level), (8, 0));
        }
    }
}

// RUN-1.8.
#[tokio::test]
async fn what_no_run_carries_out_is_not_saved() {
    let world = World::new();
    let step = json!({
        "key": "a", "type": "tool_call", "config": {"tool_name": "t"}, "verify": {"tool_name": "check"}
    });
    let request = v1::CreatePlanRequest {
        document: Some(object(
            &json!({"schema": "escapement.plan/1", "name": "n", "goal": "g", "steps": [step]}),
        )),
        ..v1::CreatePlanRequest::default()
    };
    let refused = world.plans.create_plan(Request::new(request)).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(refused.message().contains("steps[0].verify"), "{refused:?}");
}
