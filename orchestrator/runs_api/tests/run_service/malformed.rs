//! Requests that are wrong: each names the field, with a reason, and nothing is stored.

use crate::world::{World, call, document, object, reason, run_of, violations};
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::create_run_request::What;
use escapement_wire::runs::v1::override_step_request::{Complete, Fail, Word};
use serde_json::{Value, json};
use tonic::{Code, Status};

type Row = (&'static str, &'static str, v1::CreateRunRequest);

const WRONG: &str = "INVALID_ARGUMENT";

fn with(change: impl FnOnce(&mut v1::CreateRunRequest)) -> v1::CreateRunRequest {
    let mut request = run_of(json!([]));
    change(&mut request);
    request
}

fn limits(change: impl FnOnce(&mut v1::Limits)) -> v1::CreateRunRequest {
    let mut limits = v1::Limits::default();
    change(&mut limits);
    with(|request| request.limits = Some(limits))
}

fn policy(change: impl FnOnce(&mut v1::Policy)) -> v1::CreateRunRequest {
    let mut policy = v1::Policy::default();
    change(&mut policy);
    with(|request| request.policy = Some(policy))
}

fn fallback(action: &str, payload: &Value) -> v1::CreateRunRequest {
    let action = v1::FallbackAction {
        action: action.to_owned(),
        payload: Some(object(payload)),
    };
    with(|r| {
        r.fallback = Some(v1::Fallback {
            kind: Some(v1::fallback::Kind::Action(action)),
        });
    })
}

fn deep(levels: usize) -> Value {
    (0..levels).fold(json!({}), |inner, _| json!({"a": inner}))
}

fn what(what: What) -> v1::CreateRunRequest {
    with(|request| request.what = Some(what))
}

fn requests() -> Vec<Row> {
    let long = |n: usize| "ö".repeat(n);
    let many = || (0..65).map(|n| format!("a{n}"));
    vec![
        ("document", WRONG, with(|r| r.what = None)),
        ("plan_id", WRONG, what(What::PlanId(String::new()))),
        ("plan_id", WRONG, what(What::PlanId("7".to_owned()))),
        (
            "revision_digest",
            WRONG,
            what(What::RevisionDigest("sha256:12".to_owned())),
        ),
        (
            "revision_digest",
            WRONG,
            what(What::RevisionDigest("0".repeat(64))),
        ),
        (
            "revision_digest",
            WRONG,
            what(What::RevisionDigest(format!("sha256:{}", "g".repeat(64)))),
        ),
        ("name", WRONG, with(|r| r.name = long(256))),
        (
            "fallback",
            WRONG,
            with(|r| r.fallback = Some(v1::Fallback::default())),
        ),
        ("fallback.action.action", WRONG, fallback("", &json!({}))),
        (
            "fallback.action.payload",
            WRONG,
            fallback("a", &json!({"of": "${step}"})),
        ),
        (
            "fallback.action.payload",
            WRONG,
            fallback("a", &json!({"long": long(16 << 10)})),
        ),
        (
            "input",
            WRONG,
            with(|r| r.input = Some(object(&json!({"a": "x".repeat(1 << 20)})))),
        ),
        ("input", WRONG, with(|r| r.input = Some(object(&deep(60))))),
        (
            "environment",
            WRONG,
            with(|r| r.environment = Some(object(&json!({"a": "x".repeat(1 << 20)})))),
        ),
        (
            "environment",
            WRONG,
            with(|r| r.environment = Some(object(&deep(60)))),
        ),
        (
            "environment",
            WRONG,
            with(|r| r.environment = Some(object(&json!({"escapement_run": 1})))),
        ),
        (
            "metadata",
            WRONG,
            with(|r| r.metadata = Some(object(&json!({"a": "x".repeat(64 << 10)})))),
        ),
        ("metadata", WRONG, with(|r| r.metadata = Some(object(&deep(60))))),
        ("session_id", WRONG, with(|r| r.session_id = "s".repeat(129))),
        ("agent", "NOT_OFFERED", with(|r| r.agent = "a".to_owned())),
        ("locale", WRONG, with(|r| r.locale = "x".repeat(36))),
        ("notices", WRONG, with(|r| r.notices = "some".to_owned())),
        ("format", WRONG, with(|r| r.format = "none/1".to_owned())),
        ("preset", WRONG, with(|r| r.preset = "Standard".to_owned())),
        ("autonomy_level", WRONG, with(|r| r.autonomy_level = Some(5))),
        ("autonomy_level", WRONG, with(|r| r.autonomy_level = Some(-1))),
        ("priority", WRONG, with(|r| r.priority = Some(0))),
        ("priority", WRONG, with(|r| r.priority = Some(11))),
        ("intent", WRONG, with(|r| r.intent = long(256))),
        ("user_id", WRONG, with(|r| r.user_id = long(256))),
        ("request_id", WRONG, with(|r| r.request_id = long(256))),
        ("goal_id", WRONG, with(|r| r.goal_id = long(256))),
        ("trigger_id", WRONG, with(|r| r.trigger_id = long(256))),
        ("source", WRONG, with(|r| r.source = long(256))),
        ("source_id", WRONG, with(|r| r.source_id = long(256))),
        (
            "parent_execution_id",
            WRONG,
            with(|r| r.parent_execution_id = "x".to_owned()),
        ),
        (
            "labels",
            WRONG,
            with(|r| r.labels = many().map(|key| (key, String::new())).collect()),
        ),
        (
            "labels",
            WRONG,
            with(|r| r.labels = [(String::new(), String::new())].into()),
        ),
        (
            "labels",
            WRONG,
            with(|r| r.labels = [(long(256), String::new())].into()),
        ),
        (
            "labels[\"a\"]",
            WRONG,
            with(|r| r.labels = [("a".to_owned(), long(1025))].into()),
        ),
        ("llm_action", WRONG, with(|r| r.llm_action = long(101))),
        ("llm_model", WRONG, with(|r| r.llm_model = long(256))),
        ("limits.attempt_ms", WRONG, limits(|l| l.attempt_ms = Some(0))),
        (
            "limits.attempt_ms",
            WRONG,
            limits(|l| l.attempt_ms = Some(86_400_001)),
        ),
        (
            "limits.queue_wait_ms",
            WRONG,
            limits(|l| l.queue_wait_ms = Some(0)),
        ),
        (
            "limits.worker_wait_ms",
            WRONG,
            limits(|l| l.worker_wait_ms = Some(-5)),
        ),
        ("limits.watchdog_ms", WRONG, limits(|l| l.watchdog_ms = Some(-1))),
        ("limits.revision_ms", WRONG, limits(|l| l.revision_ms = Some(-1))),
        ("limits.run_ms", WRONG, limits(|l| l.run_ms = Some(0))),
        (
            "limits.run_ms",
            WRONG,
            limits(|l| l.run_ms = Some(31_536_000_001)),
        ),
        ("limits.lifetime_ms", WRONG, limits(|l| l.lifetime_ms = Some(0))),
        (
            "limits.lifetime_ms",
            WRONG,
            limits(|l| l.lifetime_ms = Some(i64::MIN)),
        ),
        ("limits.pause_ms", WRONG, limits(|l| l.pause_ms = Some(0))),
        ("limits.question_ms", WRONG, limits(|l| l.question_ms = Some(0))),
        (
            "limits.approval_ms",
            WRONG,
            limits(|l| l.approval_ms = Some(i64::MAX)),
        ),
        ("limits.max_retries", WRONG, limits(|l| l.max_retries = Some(101))),
        ("limits.max_retries", WRONG, limits(|l| l.max_retries = Some(-1))),
        (
            "limits.max_generations",
            WRONG,
            limits(|l| l.max_generations = Some(21)),
        ),
        (
            "limits.max_substitutions",
            WRONG,
            limits(|l| l.max_substitutions = Some(101)),
        ),
        (
            "limits.max_concurrency",
            WRONG,
            limits(|l| l.max_concurrency = Some(0)),
        ),
        (
            "limits.max_concurrency",
            WRONG,
            limits(|l| l.max_concurrency = Some(1025)),
        ),
        ("limits.batch_size", WRONG, limits(|l| l.batch_size = Some(257))),
        (
            "limits.max_iterations",
            WRONG,
            limits(|l| l.max_iterations = Some(1001)),
        ),
        ("limits.max_turns", WRONG, limits(|l| l.max_turns = Some(0))),
        ("limits.backoff_ms", WRONG, limits(|l| l.backoff_ms = Some(-1))),
        (
            "limits.max_backoff_ms",
            WRONG,
            limits(|l| l.max_backoff_ms = Some(86_400_001)),
        ),
        ("limits.multiplier", WRONG, limits(|l| l.multiplier = Some(0.5))),
        (
            "limits.multiplier",
            WRONG,
            limits(|l| l.multiplier = Some(f64::NAN)),
        ),
        (
            "policy.safety_action",
            WRONG,
            policy(|p| p.safety_action = long(101)),
        ),
        ("policy.resume", WRONG, policy(|p| p.resume = "no".to_owned())),
        (
            "policy.ambiguity",
            WRONG,
            policy(|p| p.ambiguity = "Ask".to_owned()),
        ),
        (
            "policy.ambiguous_timeout",
            WRONG,
            policy(|p| p.ambiguous_timeout = "x".to_owned()),
        ),
        (
            "policy.on_failure",
            WRONG,
            policy(|p| p.on_failure = "jump".to_owned()),
        ),
        (
            "policy.on_dependency_failure",
            WRONG,
            policy(|p| p.on_dependency_failure = "x".to_owned()),
        ),
        (
            "policy.auto_retry",
            "NOT_OFFERED",
            policy(|p| p.auto_retry = Some(true)),
        ),
        (
            "policy.approvers",
            WRONG,
            policy(|p| p.approvers = many().collect()),
        ),
        (
            "policy.approvers[1]",
            WRONG,
            policy(|p| p.approvers = vec!["a".to_owned(), String::new()]),
        ),
        ("policy.quorum", WRONG, policy(|p| p.quorum = Some(0))),
        ("policy.quorum", WRONG, policy(|p| p.quorum = Some(17))),
        (
            "policy.quorum",
            WRONG,
            policy(|p| {
                p.approvers = vec!["a".to_owned()];
                p.quorum = Some(2);
            }),
        ),
    ]
}

fn documents() -> Vec<(&'static str, &'static str, Value)> {
    let broken = |change: fn(&mut Value)| {
        let mut document = document(json!([call("a", "echo", &[])]));
        change(&mut document);
        document
    };
    vec![
        (
            "document.schema",
            "INVALID_FIELD",
            broken(|d| d["schema"] = json!("escapement.plan/2")),
        ),
        (
            "document.name",
            "INVALID_FIELD",
            broken(|d| d["name"] = json!("")),
        ),
        (
            "document.colour",
            "UNKNOWN_FIELD",
            broken(|d| d["colour"] = json!("red")),
        ),
        (
            "document.steps",
            "INVALID_FIELD",
            broken(|d| d["steps"] = json!(7)),
        ),
        (
            "document.steps[0].key",
            "INVALID_FIELD",
            broken(|d| d["steps"][0]["key"] = json!("a b")),
        ),
        (
            "document.steps[0].type",
            "UNKNOWN_STEP_TYPE",
            broken(|d| d["steps"][0]["type"] = json!("dream")),
        ),
        (
            "document.steps[0].depends_on[0]",
            "UNKNOWN_REFERENCE",
            broken(|d| d["steps"][0]["depends_on"] = json!(["z"])),
        ),
        (
            "document.steps[1].key",
            "DUPLICATE_KEY",
            broken(|d| d["steps"] = json!([call("a", "echo", &[]), call("a", "echo", &[])])),
        ),
        (
            "document.steps[0].timeout_ms",
            "INVALID_FIELD",
            broken(|d| d["steps"][0]["timeout_ms"] = json!(0)),
        ),
        (
            "document.steps[0].config.tool_name",
            "INVALID_FIELD",
            broken(|d| d["steps"][0]["config"] = json!({})),
        ),
        (
            "document.steps",
            "PLAN_SIZE",
            broken(|d| d["steps"] = json!(vec![call("a", "echo", &[]); 1025])),
        ),
    ]
}

#[tokio::test]
async fn nothing_is_made_of_a_request_that_is_wrong() {
    let mut world = World::new();
    let mut n_rows = 0;
    for (field, expected, request) in requests() {
        let refused = world.client.create_run(request.clone()).await.unwrap_err();
        check(&refused, field, expected);
        let preview = v1::PreviewRunRequest { run: Some(request) };
        let refused = world.client.preview_run(preview).await.unwrap_err();
        check(&refused, field, expected);
        n_rows += 1;
    }
    for (field, expected, document) in documents() {
        let refused = world
            .client
            .create_run(what(What::Document(object(&document))))
            .await
            .unwrap_err();
        assert_eq!(reason(&refused), "PLAN_INVALID", "{field}");
        let found = violations(&refused);
        assert!(
            found.contains(&(field.to_owned(), expected.to_owned())),
            "{field}: {found:?}"
        );
        n_rows += 1;
    }
    assert!(n_rows >= 80, "{n_rows}");
    let listed = world
        .client
        .list_runs(v1::ListRunsRequest::default())
        .await
        .unwrap();
    assert!(listed.into_inner().runs.is_empty());
}

#[track_caller]
fn check(refused: &Status, field: &str, expected: &str) {
    assert_eq!(refused.code(), Code::InvalidArgument, "{field}: {refused:?}");
    assert_eq!(violations(refused), [(field.to_owned(), expected.to_owned())]);
    assert_eq!(reason(refused), expected, "{field}");
}

#[tokio::test]
async fn everything_that_is_wrong_is_said_at_once() {
    let mut world = World::new();
    let request = v1::CreateRunRequest {
        priority: Some(0),
        autonomy_level: Some(9),
        preset: "x".to_owned(),
        session_id: "s".repeat(129),
        ..run_of(json!([]))
    };
    let refused = world.client.create_run(request).await.unwrap_err();
    let fields: Vec<String> = violations(&refused).into_iter().map(|(field, _)| field).collect();
    assert_eq!(fields, ["preset", "autonomy_level", "priority", "session_id"]);
}

macro_rules! refused {
    ($world:ident, $found:ident: $(
        $call:ident($request:ident { $($field:ident: $value:expr),* $(,)? }) => $wrong:literal $reason:literal,
    )*) => {
        $(
            let request = v1::$request { $($field: $value,)* ..Default::default() };
            let status = $world.client.$call(request).await.map(|_| ()).unwrap_err();
            assert_eq!(status.code(), Code::InvalidArgument, "{}: {status:?}", stringify!($call));
            let found = violations(&status);
            assert!(
                found.contains(&($wrong.to_owned(), $reason.to_owned())),
                "{}: {found:?}",
                stringify!($call)
            );
            $found += 1;
        )*
    };
}

#[tokio::test]
#[allow(clippy::needless_update, reason = "some requests have one field")]
async fn every_call_names_the_field_that_is_wrong() {
    let mut world = World::new();
    let run = world.finish(run_of(json!([call("a", "echo", &[])]))).await;
    let id = || run.run_id.clone();
    let long = || "ö".repeat(1001);
    let bad = || "not an id".to_owned();
    let complete = |output| Some(Word::Complete(Complete { output }));
    let fail = |code: &str, message: String| {
        Some(Word::Fail(Fail {
            code: code.to_owned(),
            message,
        }))
    };
    let nested = escapement_wire::json::to_opaque_value(&deep(60));
    let mut n_rows = 0;
    refused! { world, n_rows:
        get_run(GetRunRequest { run_id: bad() }) => "run_id" "INVALID_ARGUMENT",
        get_run(GetRunRequest { run_id: String::new() }) => "run_id" "INVALID_ARGUMENT",
        wait_run(WaitRunRequest { run_id: bad() }) => "run_id" "INVALID_ARGUMENT",
        wait_run(WaitRunRequest { run_id: id(), timeout_ms: Some(-1) }) => "timeout_ms" "INVALID_ARGUMENT",
        wait_run(WaitRunRequest { run_id: id(), timeout_ms: Some(3_600_001) }) => "timeout_ms" "INVALID_ARGUMENT",
        watch_run(WatchRunRequest { run_id: bad() }) => "run_id" "INVALID_ARGUMENT",
        watch_run(WatchRunRequest { run_id: id(), from_sequence: -1 }) => "from_sequence" "INVALID_ARGUMENT",
        list_runs(ListRunsRequest { page_size: Some(0) }) => "page_size" "INVALID_ARGUMENT",
        list_runs(ListRunsRequest { page_size: Some(201) }) => "page_size" "INVALID_ARGUMENT",
        list_runs(ListRunsRequest { page_token: bad() }) => "page_token" "PAGE_TOKEN_INVALID",
        list_runs(ListRunsRequest { state: 99 }) => "state" "INVALID_ARGUMENT",
        list_runs(ListRunsRequest { plan_status: bad() }) => "plan_status" "INVALID_ARGUMENT",
        list_runs(ListRunsRequest { plan_id: bad() }) => "plan_id" "INVALID_ARGUMENT",
        list_runs(ListRunsRequest { parent_run_id: bad() }) => "parent_run_id" "INVALID_ARGUMENT",
        list_runs(ListRunsRequest { user_id: long() }) => "user_id" "INVALID_ARGUMENT",
        list_run_events(ListRunEventsRequest { run_id: bad() }) => "run_id" "INVALID_ARGUMENT",
        list_run_events(ListRunEventsRequest { run_id: id(), page_size: Some(1001) }) => "page_size" "INVALID_ARGUMENT",
        list_run_events(ListRunEventsRequest { run_id: id(), from_sequence: -1 }) => "from_sequence" "INVALID_ARGUMENT",
        list_run_events(ListRunEventsRequest { run_id: id(), page_token: bad() }) => "page_token" "PAGE_TOKEN_INVALID",
        list_run_events(ListRunEventsRequest { run_id: id(), event_types: vec![String::new(); 65] })
            => "event_types" "INVALID_ARGUMENT",
        list_run_steps(ListRunStepsRequest { run_id: id(), page_size: Some(1025) }) => "page_size" "INVALID_ARGUMENT",
        list_run_steps(ListRunStepsRequest { run_id: id(), page_token: bad() }) => "page_token" "PAGE_TOKEN_INVALID",
        get_run_step(GetRunStepRequest { run_id: id(), step_key: bad() }) => "step_key" "UNKNOWN_STEP",
        get_step_result(GetStepResultRequest { run_id: id(), step_key: bad() }) => "step_key" "UNKNOWN_STEP",
        get_step_result(GetStepResultRequest { run_id: id(), index: Some(-1) }) => "index" "INVALID_ARGUMENT",
        get_step_result(GetStepResultRequest { run_id: id(), offset: Some(-1) }) => "offset" "INVALID_ARGUMENT",
        get_step_result(GetStepResultRequest { run_id: id(), length: Some(1) }) => "offset" "INVALID_ARGUMENT",
        get_step_result(GetStepResultRequest { run_id: id(), offset: Some(0), length: Some(0) })
            => "length" "INVALID_ARGUMENT",
        get_step_result(GetStepResultRequest { run_id: id(), offset: Some(0), length: Some(1 << 21) })
            => "length" "INVALID_ARGUMENT",
        list_evidence(ListEvidenceRequest { run_id: id(), page_size: Some(101) }) => "page_size" "INVALID_ARGUMENT",
        list_evidence(ListEvidenceRequest { run_id: id(), page_token: bad() }) => "page_token" "PAGE_TOKEN_INVALID",
        list_revisions(ListRevisionsRequest { run_id: id(), page_size: Some(0) }) => "page_size" "INVALID_ARGUMENT",
        list_revisions(ListRevisionsRequest { run_id: id(), page_token: bad() }) => "page_token" "PAGE_TOKEN_INVALID",
        list_checkpoints(ListCheckpointsRequest { run_id: id(), page_size: Some(65) }) => "page_size" "INVALID_ARGUMENT",
        list_checkpoints(ListCheckpointsRequest { run_id: id(), page_token: bad() }) => "page_token" "PAGE_TOKEN_INVALID",
        get_revision(GetRevisionRequest { revision: None }) => "revision" "INVALID_ARGUMENT",
        get_revision(GetRevisionRequest { revision: Some(v1::RevisionName { run_id: bad(), ..Default::default() }) })
            => "revision.run_id" "INVALID_ARGUMENT",
        get_revision(GetRevisionRequest { revision: Some(v1::RevisionName { revision_digest: bad(), ..Default::default() }) })
            => "revision.revision_digest" "INVALID_ARGUMENT",
        get_revision(GetRevisionRequest { revision: Some(v1::RevisionName { run_id: id(), number: -1, ..Default::default() }) })
            => "revision.number" "INVALID_ARGUMENT",
        diff_revisions(DiffRevisionsRequest { from: None }) => "from" "INVALID_ARGUMENT",
        pause_run(PauseRunRequest { run_id: bad() }) => "run_id" "INVALID_ARGUMENT",
        pause_run(PauseRunRequest { run_id: id(), reason: long() }) => "reason" "INVALID_ARGUMENT",
        pause_run(PauseRunRequest { run_id: id(), etag: bad() }) => "etag" "INVALID_ARGUMENT",
        pause_run(PauseRunRequest { run_id: id(), request_id: long() }) => "request_id" "INVALID_ARGUMENT",
        resume_run(ResumeRunRequest { run_id: id(), reason: long() }) => "reason" "INVALID_ARGUMENT",
        resume_run(ResumeRunRequest { run_id: id(), etag: "-1".to_owned() }) => "etag" "INVALID_ARGUMENT",
        cancel_run(CancelRunRequest { run_id: id(), reason: long() }) => "reason" "INVALID_ARGUMENT",
        discard_run(DiscardRunRequest { run_id: bad() }) => "run_id" "INVALID_ARGUMENT",
        rewind_run(RewindRunRequest { run_id: id() }) => "step_key" "INVALID_ARGUMENT",
        rewind_run(RewindRunRequest { run_id: id(), step_key: "a".to_owned(), scope: 7 }) => "scope" "INVALID_ARGUMENT",
        rollback_run(RollbackRunRequest { run_id: id(), mode: 7 }) => "mode" "INVALID_ARGUMENT",
        rollback_run(RollbackRunRequest { run_id: id(), checkpoint: Some(0), mode: 1 }) => "checkpoint" "INVALID_ARGUMENT",
        rollback_run(RollbackRunRequest { run_id: id(), checkpoint: Some(1) }) => "checkpoint" "INVALID_ARGUMENT",
        fork_run(ForkRunRequest { run_id: bad() }) => "run_id" "INVALID_ARGUMENT",
        fork_run(ForkRunRequest { run_id: id(), from_step: bad() }) => "from_step" "UNKNOWN_STEP",
        fork_run(ForkRunRequest { run_id: id(), etag: bad() }) => "etag" "INVALID_ARGUMENT",
        retry_run(RetryRunRequest { run_id: id(), request_id: long() }) => "request_id" "INVALID_ARGUMENT",
        override_step(OverrideStepRequest { run_id: id(), step_key: "a".to_owned(), word: complete(None) })
            => "reason" "INVALID_ARGUMENT",
        override_step(OverrideStepRequest { run_id: id(), reason: "r".to_owned(), word: complete(None) })
            => "step_key" "INVALID_ARGUMENT",
        override_step(OverrideStepRequest { run_id: id(), reason: "r".to_owned(), word: None })
            => "complete" "INVALID_ARGUMENT",
        override_step(OverrideStepRequest { run_id: id(), word: complete(Some(nested)) })
            => "complete.output" "INVALID_ARGUMENT",
        override_step(OverrideStepRequest { run_id: id(), word: fail("", String::new()) }) => "fail.code" "INVALID_ARGUMENT",
        override_step(OverrideStepRequest { run_id: id(), word: fail("X", long()) }) => "fail.message" "INVALID_ARGUMENT",
        create_checkpoint(CreateCheckpointRequest { run_id: id(), data: Some(object(&deep(60))) })
            => "data" "INVALID_ARGUMENT",
        explain_run(ExplainRunRequest { run_id: id(), step_keys: vec![bad()] }) => "step_keys" "UNKNOWN_STEP",
        replay_run(ReplayRunRequest { run_id: bad() }) => "run_id" "INVALID_ARGUMENT",
        export_run(ExportRunRequest { run_id: bad() }) => "run_id" "INVALID_ARGUMENT",
        get_run_stats(GetRunStatsRequest { user_id: long() }) => "user_id" "INVALID_ARGUMENT",
        delete_run(DeleteRunRequest { run_id: bad() }) => "run_id" "INVALID_ARGUMENT",
        preview_run(PreviewRunRequest { run: None }) => "run" "INVALID_ARGUMENT",
    }
    assert!(n_rows >= 60, "{n_rows}");
    assert_eq!(world.run(&run.run_id).await.etag, run.etag);
}
