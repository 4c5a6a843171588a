//! What callers may ask of runs: plans of 1 MiB, lists of 16, journals of hundreds of entries, sixty-four checkpoints.

use super::Kind;
use super::stage::{Stage, ask, drain};
use crate::den::LIMIT;
use crate::large::{LARGE, PLAIN, Tireless, object_of};
use crate::large_runs::{creation, dense_document, document, question, references};
use escapement_model::OpaqueValue;
use escapement_model::limits::{LABEL_CHARS_MAX, OUTPUT_BYTES_MAX};
use escapement_model::opaque::ValueView;
use escapement_tests::dearest::{many_keys, nested_keys};
use escapement_tests::wait_for;
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::override_step_request::{Complete, Fail, Word};
use escapement_wire::runs::v1::run_service_client::RunServiceClient;
use serde_json::json;
use tonic::transport::Channel;

type Client = RunServiceClient<Channel>;

pub(super) async fn measure(stage: &mut Stage) {
    let client = RunServiceClient::new(stage.den.channel().await).max_decoding_message_size(64 << 20);
    let large = made(stage, client.clone()).await;
    rendered(stage, client.clone()).await;
    looked_at(stage, client.clone(), &large).await;
    changed(stage, client.clone(), &large).await;
    worked(stage, client.clone()).await;
    listed(stage, client).await;
}

fn kind(name: &'static str, worst: &'static str, other_max: u32) -> Kind {
    Kind {
        name,
        worst,
        engine_max: ENGINE_MAX,
        other_max,
    }
}

/// As much as one request may bring.
fn dear(name: &str) -> v1::CreateRunRequest {
    v1::CreateRunRequest {
        input: Some(many_keys(OBJECT_BYTES_MAX)),
        environment: Some(many_keys(OBJECT_BYTES_MAX)),
        metadata: Some(many_keys(64 << 10)),
        ..creation(dense_document(name))
    }
}

const DEAR: &str = "1,024 steps, 100,000 references, input and environment of 1 MiB in 80,000 keys each";

async fn made(stage: &mut Stage, mut client: Client) -> String {
    let request = v1::PreviewRunRequest {
        run: Some(dear("previewed")),
    };
    let previewed = kind("RunService/PreviewRun", DEAR, 100);
    stage.cost(previewed, 1, ask!(client, preview_run, request)).await;
    let mut run_id = String::new();
    let request = dear("created");
    let create = async |_| run_id = create(&mut client, request.clone()).await;
    stage
        .cost(kind("RunService/CreateRun", DEAR, 100), 1, create)
        .await;
    run_id
}

/// Templates that look into large inputs.
async fn rendered(stage: &mut Stage, client: Client) {
    for (reference, input, worst) in [
        (
            "${input:/00000}",
            many_keys(OBJECT_BYTES_MAX),
            "a question of 6,600 references into an input of 80,000 keys",
        ),
        (
            "${input:/o/00000}",
            nested_keys(OBJECT_BYTES_MAX),
            "a question of 5,800 references below one key of such an input",
        ),
    ] {
        let request = references(reference, input);
        let created = kind("RunService/CreateRun", worst, 150);
        stage.cost(created, 1, ask!(client, create_run, request)).await;
    }
}

async fn create(client: &mut Client, request: v1::CreateRunRequest) -> String {
    let created = client.create_run(request).await.unwrap().into_inner();
    created.run.unwrap().run_id
}

/// Answers out of a run with many steps.
async fn looked_at(stage: &mut Stage, mut client: Client, run_id: &str) {
    let run_id = || run_id.to_owned();
    let steps = "of 1,024 steps, with 1 MiB of input";
    let request = v1::GetRunRequest { run_id: run_id() };
    stage
        .cost(
            kind("RunService/GetRun", steps, 100),
            2,
            ask!(client, get_run, request),
        )
        .await;
    let request = v1::WaitRunRequest {
        run_id: run_id(),
        timeout_ms: Some(0),
    };
    stage
        .cost(
            kind("RunService/WaitRun", steps, 100),
            2,
            ask!(client, wait_run, request),
        )
        .await;
    let steps = "of 1,024 steps with 100,000 references";
    let request = v1::ListRunStepsRequest {
        run_id: run_id(),
        page_size: Some(1_024),
        page_token: String::new(),
    };
    let listed = kind("RunService/ListRunSteps", steps, 100);
    stage.cost(listed, 2, ask!(client, list_run_steps, request)).await;
    let request = v1::GetRunStepRequest {
        run_id: run_id(),
        step_key: "k3ff".to_owned(),
    };
    let got = kind("RunService/GetRunStep", steps, 100);
    stage.cost(got, 2, ask!(client, get_run_step, request)).await;
    let request = v1::ExplainRunRequest {
        run_id: run_id(),
        step_keys: (0..1_024).map(|n| format!("k{n:03x}")).collect(),
    };
    let explained = kind("RunService/ExplainRun", "all of 1,024 steps by their keys", 100);
    stage.cost(explained, 1, ask!(client, explain_run, request)).await;
    let request = v1::ListRevisionsRequest {
        run_id: run_id(),
        ..v1::ListRevisionsRequest::default()
    };
    let listed = kind("RunService/ListRevisions", "of a plan of 1 MiB", 100);
    stage.cost(listed, 2, ask!(client, list_revisions, request)).await;
    let name = |run_id: String| {
        Some(v1::RevisionName {
            run_id,
            ..v1::RevisionName::default()
        })
    };
    let request = v1::GetRevisionRequest {
        revision: name(run_id()),
    };
    let got = kind("RunService/GetRevision", "of 1 MiB", 100);
    stage.cost(got, 2, ask!(client, get_revision, request)).await;
    let other = create(&mut client, creation(dense_document("another"))).await;
    let request = v1::DiffRevisionsRequest {
        from: name(run_id()),
        to: name(other),
    };
    let compared = kind("RunService/DiffRevisions", "two of 1,024 steps", 100);
    stage
        .cost(compared, 1, ask!(client, diff_revisions, request))
        .await;
}

/// What is done with it.
async fn changed(stage: &mut Stage, mut client: Client, run_id: &str) {
    let run_id = || run_id.to_owned();
    let steps = "of 1,024 steps with 100,000 references";
    let request = v1::CreateCheckpointRequest {
        run_id: run_id(),
        data: Some(many_keys(CHECKPOINT_BYTES_MAX)),
        ..v1::CreateCheckpointRequest::default()
    };
    let kept = kind("RunService/CreateCheckpoint", "of 500 KB in 38,000 keys", 100);
    stage
        .cost(kept, 8, ask!(client, create_checkpoint, request))
        .await;
    let request = v1::ListCheckpointsRequest {
        run_id: run_id(),
        page_size: Some(64),
        page_token: String::new(),
    };
    let listed = kind("RunService/ListCheckpoints", "a page of 2 MiB", 100);
    stage
        .cost(listed, 2, ask!(client, list_checkpoints, request))
        .await;
    let request = v1::PauseRunRequest {
        run_id: run_id(),
        ..v1::PauseRunRequest::default()
    };
    let paused = kind("RunService/PauseRun", steps, 100);
    stage.cost(paused, 1, ask!(client, pause_run, request)).await;
    let request = v1::ResumeRunRequest {
        run_id: run_id(),
        ..v1::ResumeRunRequest::default()
    };
    let resumed = kind("RunService/ResumeRun", steps, 100);
    stage.cost(resumed, 1, ask!(client, resume_run, request)).await;
    let output = many_keys(OUTPUT_BYTES_MAX - 64);
    let output = Some(OpaqueValue::from_view(ValueView::Struct(output.as_encoded())));
    let request = v1::OverrideStepRequest {
        run_id: run_id(),
        step_key: "k000".to_owned(),
        word: Some(Word::Complete(Complete { output })),
        reason: "large".to_owned(),
        ..v1::OverrideStepRequest::default()
    };
    let overridden = kind(
        "RunService/OverrideStep",
        "with a result of 1 MiB in 80,000 keys",
        100,
    );
    stage
        .cost(overridden, 1, ask!(client, override_step, request))
        .await;
    let request = v1::RewindRunRequest {
        run_id: run_id(),
        step_key: "k000".to_owned(),
        allow_repeat_effects: true,
        ..v1::RewindRunRequest::default()
    };
    let rewound = kind("RunService/RewindRun", steps, 100);
    stage.cost(rewound, 1, ask!(client, rewind_run, request)).await;
    let request = v1::RollbackRunRequest {
        run_id: run_id(),
        allow_repeat_effects: true,
        ..v1::RollbackRunRequest::default()
    };
    let rolled_back = kind("RunService/RollbackRun", steps, 100);
    stage
        .cost(rolled_back, 1, ask!(client, rollback_run, request))
        .await;
    let request = v1::ForkRunRequest {
        run_id: run_id(),
        document: Some(dense_document("forked")),
        ..v1::ForkRunRequest::default()
    };
    let mut forked = String::new();
    let fork = async |_| {
        let answer = client.fork_run(request.clone()).await.unwrap().into_inner();
        forked = answer.run.unwrap().run_id;
    };
    stage
        .cost(
            kind("RunService/ForkRun", "with another plan of 1 MiB", 100),
            1,
            fork,
        )
        .await;
    let request = v1::DiscardRunRequest {
        run_id: forked,
        ..v1::DiscardRunRequest::default()
    };
    let discarded = kind("RunService/DiscardRun", steps, 100);
    stage.cost(discarded, 1, ask!(client, discard_run, request)).await;
    let request = v1::CancelRunRequest {
        run_id: run_id(),
        ..v1::CancelRunRequest::default()
    };
    let cancelled = kind("RunService/CancelRun", steps, 100);
    stage.cost(cancelled, 1, ask!(client, cancel_run, request)).await;
    let failed = create(&mut client, dear("failed")).await;
    let fail = Fail {
        code: "LARGE".to_owned(),
        message: String::new(),
    };
    let request = v1::OverrideStepRequest {
        run_id: failed.clone(),
        step_key: "k000".to_owned(),
        word: Some(Word::Fail(fail)),
        reason: "large".to_owned(),
        ..v1::OverrideStepRequest::default()
    };
    client.override_step(request).await.unwrap();
    let request = v1::RetryRunRequest {
        run_id: failed,
        ..v1::RetryRunRequest::default()
    };
    let retried = kind("RunService/RetryRun", steps, 100);
    stage.cost(retried, 1, ask!(client, retry_run, request)).await;
    let request = v1::DeleteRunRequest { run_id: run_id() };
    let deleted = kind("RunService/DeleteRun", "with 4 MiB of checkpoints", 100);
    stage.cost(deleted, 1, ask!(client, delete_run, request)).await;
}

/// Runs that have done much.
async fn worked(stage: &mut Stage, mut client: Client) {
    let worker = Tireless::start(stage.den.address()).await;
    let parallel = |action, n| {
        let steps = vec![json!({"tool_name": action}); n];
        document(&json!([{"key": "all", "type": "parallel", "config": {"steps": steps}}]))
    };
    let large = create(&mut client, creation(parallel(LARGE, 15))).await;
    let many = create(&mut client, creation(parallel(PLAIN, 256))).await;
    for run_id in [&large, &many] {
        ended(&mut client, run_id).await;
    }
    drop(worker);
    let request = v1::GetStepResultRequest {
        run_id: large.clone(),
        step_key: "all".to_owned(),
        offset: Some(0),
        ..v1::GetStepResultRequest::default()
    };
    let range = kind("RunService/GetStepResult", "a range of a list of 15 MiB", 100);
    stage.cost(range, 2, ask!(client, get_step_result, request)).await;
    for (run_id, worst) in [(&large, "15 results of 1 MiB"), (&many, "256 attempts")] {
        let run_id = || run_id.clone();
        let request = v1::ListRunEventsRequest {
            run_id: run_id(),
            page_size: Some(1_000),
            ..v1::ListRunEventsRequest::default()
        };
        let listed = kind("RunService/ListRunEvents", worst, 100);
        stage
            .cost(listed, 2, ask!(client, list_run_events, request))
            .await;
        let request = v1::ListEvidenceRequest {
            run_id: run_id(),
            page_size: Some(100),
            ..v1::ListEvidenceRequest::default()
        };
        // The contract is asked twice for each of them.
        let listed = Kind {
            engine_max: 80,
            ..kind("RunService/ListEvidence", worst, 300)
        };
        stage.cost(listed, 2, ask!(client, list_evidence, request)).await;
        let request = v1::WatchRunRequest {
            run_id: run_id(),
            from_sequence: 1,
        };
        let watched = kind("RunService/WatchRun", worst, 100);
        stage.cost(watched, 1, drain!(client, watch_run, request)).await;
        let request = v1::ReplayRunRequest { run_id: run_id() };
        let replayed = kind("RunService/ReplayRun", worst, 100);
        stage.cost(replayed, 1, ask!(client, replay_run, request)).await;
        let request = v1::ExportRunRequest { run_id: run_id() };
        let exported = kind("RunService/ExportRun", worst, 100);
        stage.cost(exported, 1, drain!(client, export_run, request)).await;
    }
}

async fn ended(client: &mut Client, run_id: &str) {
    let has_ended = async || {
        let request = v1::WaitRunRequest {
            run_id: run_id.to_owned(),
            timeout_ms: Some(1_000),
        };
        let run = client.clone().wait_run(request).await.unwrap().into_inner().run;
        run.unwrap().completed_at.map(|_| ())
    };
    wait_for("the end of a run", LIMIT, has_ended).await.unwrap();
}

/// All runs together.
async fn listed(stage: &mut Stage, mut client: Client) {
    let label = |n: usize| {
        (
            format!("{n:03}{}", "\u{1f552}".repeat(LABEL_CHARS_MAX - 3)),
            "\u{1f552}".repeat(1_024),
        )
    };
    for _ in 0..N_RUNS {
        let request = v1::CreateRunRequest {
            labels: (0..64).map(label).collect(),
            metadata: Some(object_of((64 << 10) - 64)),
            notices: "all".to_owned(),
            ..question(&"\u{1f552}".repeat(900))
        };
        create(&mut client, request).await;
    }
    let request = v1::ListRunsRequest {
        page_size: Some(200),
        ..v1::ListRunsRequest::default()
    };
    let listed = kind(
        "RunService/ListRuns",
        "a page of 4 MiB of labels and metadata",
        100,
    );
    stage.cost(listed, 2, ask!(client, list_runs, request)).await;
    let request = v1::GetRunStatsRequest::default();
    let counted = kind("RunService/GetRunStats", "of some 30 runs", 100);
    stage.cost(counted, 2, ask!(client, get_run_stats, request)).await;
    let request = v1::GetRunsStatusRequest::default();
    let counted = kind("RunService/GetRunsStatus", "of some 30 runs", 100);
    stage
        .cost(counted, 2, ask!(client, get_runs_status, request))
        .await;
    let request = v1::ClassifyIntentRequest {
        query: "\u{1f552} ".repeat(2_500),
        intent: String::new(),
    };
    let classified = kind("RunService/ClassifyIntent", "5,000 characters", 100);
    stage
        .cost(classified, 2, ask!(client, classify_intent, request))
        .await;
    let request = v1::WatchNoticesRequest::default();
    let watch = async |_| {
        let mut told = client.watch_notices(request.clone()).await.unwrap().into_inner();
        for _ in 0..N_RUNS {
            told.message().await.unwrap().unwrap();
        }
    };
    let watched = kind("RunService/WatchNotices", "of some 20 questions", 100);
    stage.cost(watched, 1, watch).await;
    ends_read(stage, client).await;
}

async fn ends_read(stage: &mut Stage, mut client: Client) {
    let request = v1::ReadEventsRequest {
        wait_ms: Some(0),
        ..v1::ReadEventsRequest::default()
    };
    let all = async |_| {
        let mut told = client.read_events(request.clone()).await.unwrap().into_inner();
        while told.message().await.unwrap().is_some() {}
    };
    let read = kind("RunService/ReadEvents", "all that has ended", 100);
    stage.cost(read, 1, all).await;
}

const OBJECT_BYTES_MAX: usize = 1 << 20;
const CHECKPOINT_BYTES_MAX: usize = 512_000;
const N_RUNS: usize = 20;
/// Runs hand over what they call.
const ENGINE_MAX: u32 = 20;
