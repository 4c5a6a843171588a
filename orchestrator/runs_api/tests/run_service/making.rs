//! What a run is made from, and that the same request makes it once.

use crate::world::{World, call, document, json_of, object, reason, run_of};
use escapement_runs_api::Plans;
use escapement_store::runs::{BatchOutcome, Content, RunBatch};
use escapement_store_kit::runs::conformance::RunSample;
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::create_run_request::What;
use escapement_wire::runs::v1::plan_service_server::PlanService;
use escapement_wire::runs::v1::run::{ErrorType, Outcome, State};
use serde_json::json;
use tonic::{Code, Request};

#[tokio::test]
async fn a_run_is_there_once_it_is_answered_and_runs_to_its_end() {
    let mut world = World::new();
    let request = v1::CreateRunRequest {
        name: "First".to_owned(),
        input: Some(object(&json!({"a": 1}))),
        labels: [("team".to_owned(), "blue".to_owned())].into(),
        metadata: Some(object(&json!({"ticket": 7}))),
        source: "user".to_owned(),
        ..run_of(json!([call("a", "echo", &[]), call("b", "echo", &["a"])]))
    };
    let answer = world.client.create_run(request).await.unwrap().into_inner();
    assert_eq!((answer.status.as_str(), answer.n_steps), ("spawned", 2));
    let made = answer.run.unwrap();
    assert_eq!((made.name.as_str(), made.goal.as_str()), ("First", "to know"));
    assert_eq!((made.user_id.as_str(), made.priority), ("default", 5));
    assert_eq!(answer.chain_id, made.run_id);
    let ended = world.ended(&made.run_id).await;
    assert_eq!(
        (ended.state(), ended.outcome()),
        (State::Completed, Outcome::Success)
    );
    assert_eq!(ended.error_type(), ErrorType::NoError);
    assert_eq!((ended.completed_steps, ended.total_steps), (2, 2));
    assert_eq!((ended.progress, ended.settled_percent), (100.0, 100.0));
    assert_eq!(ended.plan_status, "completed");
    assert_eq!(ended.labels["team"], "blue");
    assert_eq!(json_of(ended.metadata.as_ref()), json!({"ticket": 7}));
    let output = escapement_wire::json::from_opaque_value(&ended.output.unwrap()).unwrap();
    assert_eq!(output, json!({"key": "b"}));
    let full = world.run(&made.run_id).await;
    assert_eq!(json_of(full.input.as_ref()), json!({"a": 1}));
}

#[tokio::test]
async fn the_same_request_makes_one_run_also_over_a_kill() {
    let mut world = World::new();
    let request = v1::CreateRunRequest {
        request_id: "once".to_owned(),
        ..run_of(json!([call("a", "hang", &[])]))
    };
    let first = world.create(request.clone()).await;
    let mut world = world.killed();
    assert_eq!(world.create(request.clone()).await.run_id, first.run_id);
    let other = v1::CreateRunRequest {
        priority: Some(9),
        ..request
    };
    let refused = world.client.create_run(other).await.unwrap_err();
    assert_eq!(
        (refused.code(), reason(&refused).as_str()),
        (Code::AlreadyExists, "REQUEST_ID_REUSED")
    );
}

#[tokio::test]
async fn the_same_request_is_the_same_run_though_its_saved_plan_is_gone() {
    let mut world = World::new();
    let plans = Plans::new(world.handle.clone());
    let plan = v1::CreatePlanRequest {
        plan: Some(v1::Plan {
            name: "Saved".to_owned(),
            goal: "to know".to_owned(),
            ..v1::Plan::default()
        }),
        document: Some(object(&document(json!([])))),
        ..v1::CreatePlanRequest::default()
    };
    let plan = plans.create_plan(Request::new(plan)).await.unwrap().into_inner();
    let plan_id = plan.plan.unwrap().plan_id;
    let request = v1::CreateRunRequest {
        what: Some(What::PlanId(plan_id.clone())),
        request_id: "once".to_owned(),
        ..run_of(json!([]))
    };
    let first = world.finish(request.clone()).await;
    let delete = v1::DeletePlanRequest {
        plan_id,
        ..v1::DeletePlanRequest::default()
    };
    plans.delete_plan(Request::new(delete)).await.unwrap();
    assert_eq!(world.create(request.clone()).await.run_id, first.run_id);
    let other = v1::CreateRunRequest {
        priority: Some(9),
        ..request.clone()
    };
    let refused = world.client.create_run(other).await.unwrap_err();
    assert_eq!(reason(&refused), "REQUEST_ID_REUSED");
    let fresh = v1::CreateRunRequest {
        request_id: "twice".to_owned(),
        ..request
    };
    let refused = world.client.create_run(fresh).await.unwrap_err();
    assert_eq!(reason(&refused), "PLAN_NOT_FOUND");
}

// S85: the table of presets.
#[tokio::test]
async fn what_a_bare_request_leaves_open_is_the_presets_and_what_it_says_wins() {
    let mut world = World::new();
    let cores = i32::try_from(std::thread::available_parallelism().unwrap().get()).unwrap();
    let rows = [
        ("", 30_000, 3, 1000, 8, 3_600_000, 3, 0, 0),
        ("standard", 30_000, 3, 1000, 8, 3_600_000, 3, 0, 0),
        ("execution", 30_000, 3, 100, cores, 325_000, 4, 60_000, 0),
        ("plan_mode", 30_000, 3, 0, 1, 3_600_000, 4, 0, 0),
        ("autonomous", 60_000, 3, 1000, 1, 3_600_000, 1, 0, 0),
        ("protocol", 60_000, 0, 1000, 1, 3_600_000, 4, 0, 30_000),
    ];
    for (preset, attempt, retries, backoff, concurrency, run_ms, autonomy, revision, watchdog) in rows {
        let request = v1::CreateRunRequest {
            preset: preset.to_owned(),
            autonomy_level: None,
            validate_only: true,
            ..run_of(json!(
                ["a", "b"].map(|key| json!({"key": key, "type": "user_input",
                "config": {"question": "?"}}))
            ))
        };
        let run = world.create(request).await;
        let limits = run.limits.unwrap();
        assert_eq!(limits.attempt_ms, Some(attempt), "{preset}");
        assert_eq!(limits.max_retries, Some(retries), "{preset}");
        assert_eq!(limits.backoff_ms, Some(backoff), "{preset}");
        assert_eq!(limits.max_concurrency, Some(concurrency), "{preset}");
        let is_standard = matches!(preset, "" | "standard");
        let async_by_default = run.policy.unwrap().async_by_default;
        assert_eq!(async_by_default, Some(is_standard), "{preset}");
        assert_eq!(limits.run_ms, Some(run_ms), "{preset}");
        assert_eq!(limits.revision_ms, Some(revision), "{preset}");
        assert_eq!(limits.watchdog_ms, Some(watchdog), "{preset}");
        assert_eq!(run.autonomy_level, autonomy, "{preset}");
    }
    let request = v1::CreateRunRequest {
        preset: "execution".to_owned(),
        limits: Some(v1::Limits {
            attempt_ms: Some(5),
            max_retries: Some(0),
            ..v1::Limits::default()
        }),
        policy: Some(v1::Policy {
            on_failure: "abort".to_owned(),
            four_eyes: Some(true),
            ..v1::Policy::default()
        }),
        ..run_of(json!([]))
    };
    let run = world.finish(request).await;
    let (limits, policy) = (run.limits.unwrap(), run.policy.unwrap());
    assert_eq!(
        (limits.attempt_ms, limits.max_retries, limits.backoff_ms),
        (Some(5), Some(0), Some(100))
    );
    assert_eq!(
        (policy.on_failure.as_str(), policy.on_dependency_failure.as_str()),
        ("abort", "null_if_optional")
    );
    assert_eq!((policy.four_eyes, policy.quorum), (Some(true), Some(1)));
}

#[tokio::test]
async fn validating_stores_nothing() {
    let mut world = World::new();
    let request = v1::CreateRunRequest {
        validate_only: true,
        request_id: "dry".to_owned(),
        ..run_of(json!([call("a", "echo", &[])]))
    };
    let answer = world.client.create_run(request).await.unwrap().into_inner();
    let run = answer.run.unwrap();
    assert_eq!(
        (answer.status.as_str(), run.run_id.as_str(), run.total_steps),
        ("valid", "", 1)
    );
    let listed = world
        .client
        .list_runs(v1::ListRunsRequest::default())
        .await
        .unwrap();
    assert!(listed.into_inner().runs.is_empty());
}

#[tokio::test]
async fn a_plan_is_refused_with_every_violation_and_its_path() {
    let mut world = World::new();
    let request = run_of(json!([call("a", "echo", &["b"]), call("b", "echo", &["a", "c"])]));
    let refused = world.client.create_run(request.clone()).await.unwrap_err();
    assert_eq!(
        (refused.code(), reason(&refused).as_str()),
        (Code::InvalidArgument, "PLAN_INVALID")
    );
    let found = crate::world::violations(&refused);
    assert!(
        found.iter().any(|(field, reason)| {
            field == "document.steps[1].depends_on[1]" && reason == "UNKNOWN_REFERENCE"
        }),
        "{found:?}"
    );
    let preview = v1::PreviewRunRequest { run: Some(request) };
    let preview = world.client.preview_run(preview).await.unwrap().into_inner();
    assert!(!preview.valid);
    assert_eq!(preview.violations.len(), found.len());
}

#[tokio::test]
async fn a_preview_says_how_much_a_run_can_do_and_whom_it_asks() {
    let mut world = World::new();
    let question = json!({"key": "ask", "type": "user_input", "config": {"question": "Which?"}});
    let request = v1::CreateRunRequest {
        autonomy_level: Some(2),
        ..run_of(json!([
            question,
            call("a", "echo", &[]),
            call("b", "unheard_of", &[]),
            call("c", "Ehco", &[])
        ]))
    };
    let preview = v1::PreviewRunRequest { run: Some(request) };
    let preview = world.client.preview_run(preview).await.unwrap().into_inner();
    assert!(preview.valid && !preview.plan_approval);
    assert_eq!(preview.attempts_max, 12);
    assert_eq!(preview.questions, ["ask"]);
    assert_eq!(preview.gates, ["a", "b", "c"]);
    assert_eq!(preview.unknown_actions, ["Ehco", "unheard_of"]);
    let meant = v1::ActionSuggestion {
        action: "Ehco".to_owned(),
        similar: vec!["echo".to_owned()],
    };
    assert_eq!(preview.suggestions, [meant]);
    assert_eq!(preview.canonical_order, ["ask", "a", "b", "c"]);
    assert!(preview.revision_digest.starts_with("sha256:"));
}

#[tokio::test]
async fn a_preview_warns_of_arguments_that_do_not_fit_what_workers_published() {
    let mut world = World::new();
    let schema = json!({
        "type": "object", "additionalProperties": false, "required": ["ms"],
        "properties": {"ms": {"type": "integer"}, "note": {"type": "string"}}
    });
    world.handle.seen().told(vec![escapement_wire::v1::Action {
        name: "echo".to_owned(),
        input_schema: schema.to_string(),
        workers: 1,
        ..escapement_wire::v1::Action::default()
    }]);
    let call_of = |arguments: serde_json::Value| json!({"tool_name": "echo", "tool_args": arguments});
    let with = |key: &str, arguments| json!({"key": key, "type": "tool_call", "config": call_of(arguments)});
    let items = [call_of(json!({"ms": 1})), call_of(json!({"note": 1}))];
    let request = run_of(json!([
        with("fits", json!({"ms": 1})),
        with("later", json!({"ms": "${fits:/ms}", "note": {"$from": "input"}})),
        with("typo", json!({"msec": 1, "ms": "1"})),
        {"key": "many", "type": "parallel", "config": {"steps": items}},
        call("other", "b", &[])
    ]));
    let preview = v1::PreviewRunRequest { run: Some(request) };
    let preview = world.client.preview_run(preview).await.unwrap().into_inner();
    assert!(preview.valid);
    let warnings = preview.warnings.iter();
    let warnings: Vec<(&str, &str)> = warnings.map(|warning| (&*warning.path, &*warning.code)).collect();
    let mismatch = "PAYLOAD_MISMATCH";
    assert_eq!(
        warnings,
        [
            ("steps[2].config.tool_args.ms", mismatch),
            ("steps[2].config.tool_args.msec", mismatch),
            ("steps[3].config.steps[1].tool_args", mismatch),
            ("steps[3].config.steps[1].tool_args.note", mismatch),
        ]
    );
}

#[tokio::test]
async fn a_preview_reads_each_action_once() {
    let mut world = World::new();
    let names: Vec<String> = (0..N_ACTIONS).map(|n| format!("action.{n:03}")).collect();
    let offered = names.iter().map(|name| escapement_wire::v1::Action {
        name: name.clone(),
        input_schema: json!({"type": "object", "required": ["ms"]}).to_string(),
        workers: 1,
        ..escapement_wire::v1::Action::default()
    });
    world.handle.seen().told(offered.collect());
    let steps: Vec<_> = names.iter().map(|name| call(name, name, &[])).collect();
    let preview = v1::PreviewRunRequest {
        run: Some(run_of(json!(steps))),
    };
    let before = world.n_reads();
    let preview = world.client.preview_run(preview).await.unwrap().into_inner();
    let n_reads = world.n_reads() - before;
    assert_eq!(preview.warnings.len() as u64, N_ACTIONS);
    assert!((N_ACTIONS..N_ACTIONS + 10).contains(&n_reads), "{n_reads} reads");
}

const N_ACTIONS: u64 = 40;

// RUN-3.7
#[tokio::test]
async fn a_preview_warns_of_a_parallel_plan_whose_steps_run_one_at_a_time() {
    let mut world = World::new();
    let mut warned = async |preset: &str, async_by_default: Option<bool>, max_concurrency: i32| {
        let mut document = document(json!([call("a", "echo", &[]), call("b", "echo", &[])]));
        document["parallel"] = json!(true);
        let request = v1::CreateRunRequest {
            what: Some(What::Document(object(&document))),
            preset: preset.to_owned(),
            limits: Some(v1::Limits {
                max_concurrency: Some(max_concurrency),
                ..v1::Limits::default()
            }),
            policy: Some(v1::Policy {
                async_by_default,
                ..v1::Policy::default()
            }),
            ..v1::CreateRunRequest::default()
        };
        let preview = v1::PreviewRunRequest { run: Some(request) };
        let preview = world.client.preview_run(preview).await.unwrap().into_inner();
        let warnings = preview.warnings.into_iter();
        warnings
            .map(|warning| (warning.path, warning.code, warning.message))
            .collect::<Vec<_>>()
    };
    let warning = |message: &str| {
        (
            "parallel".to_owned(),
            "STEPS_RUN_ALONE".to_owned(),
            message.to_owned(),
        )
    };
    assert_eq!(warned("", None, 8).await, []);
    assert_eq!(warned("execution", Some(true), 8).await, []);
    let unmarked =
        "the steps run one at a time, because none is `async` and `policy.async_by_default` is false";
    assert_eq!(warned("execution", None, 8).await, [warning(unmarked)]);
    assert_eq!(warned("", Some(false), 8).await, [warning(unmarked)]);
    let limit = "the steps run one at a time, because `limits.max_concurrency` is 1";
    assert_eq!(warned("", None, 1).await, [warning(limit)]);
}

#[tokio::test]
async fn a_revision_can_be_run_again_by_its_digest() {
    let mut world = World::new();
    let first = world.finish(run_of(json!([call("a", "echo", &[])]))).await;
    let again = v1::CreateRunRequest {
        what: Some(What::RevisionDigest(first.revision_digest.clone())),
        autonomy_level: Some(4),
        ..v1::CreateRunRequest::default()
    };
    let second = world.finish(again).await;
    assert_eq!(second.revision_digest, first.revision_digest);
    let unknown = v1::CreateRunRequest {
        what: Some(What::RevisionDigest(format!("sha256:{}", "0".repeat(64)))),
        ..v1::CreateRunRequest::default()
    };
    let refused = world.client.create_run(unknown).await.unwrap_err();
    assert_eq!(
        (refused.code(), reason(&refused).as_str()),
        (Code::NotFound, "REVISION_NOT_FOUND")
    );
}

#[tokio::test]
async fn a_revision_that_is_no_plan_any_more_is_unreadable() {
    let mut world = World::new();
    let document = object(&json!({"schema": "escapement.plan/1", "steps": "none"}));
    let stored = world.handle.with_store(move |store, _, _| {
        let mut write = RunSample::new(2).create();
        write.contents = vec![Content::of_revision(document.as_encoded().clone(), [7; 32])];
        let mut batch = RunBatch::new();
        batch.add(write);
        store.commit(&batch)
    });
    assert_eq!(stored.await.unwrap(), BatchOutcome::Done);
    let request = v1::CreateRunRequest {
        what: Some(What::RevisionDigest(format!("sha256:{}", "07".repeat(32)))),
        ..v1::CreateRunRequest::default()
    };
    let refused = world.client.create_run(request).await.unwrap_err();
    assert_eq!(
        (refused.code(), reason(&refused).as_str()),
        (Code::FailedPrecondition, "PLAN_UNREADABLE")
    );
    assert!(refused.message().contains("name: Required"), "{refused:?}");
}
