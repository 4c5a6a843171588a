//! What people may ask and say, and what they bring: approvals with as much as lists show, contents of 8 MiB.

use super::Kind;
use super::stage::{Stage, ask, drain};
use crate::den::LIMIT;
use crate::large_runs::{approval, creation, dense_document, document, profile_of_approvals, question};
use bytes::Bytes;
use escapement_tests::wait_for;
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::action_service_client::ActionServiceClient;
use escapement_wire::runs::v1::approval::{ApproveWithEdits, Decision};
use escapement_wire::runs::v1::artifact_service_client::ArtifactServiceClient;
use escapement_wire::runs::v1::inbox_service_client::InboxServiceClient;
use escapement_wire::runs::v1::respond_to_input_request::Answer;
use escapement_wire::runs::v1::run_service_client::RunServiceClient;
use escapement_wire::runs::v1::upload_request::Part;
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio_stream::iter;

pub(super) async fn measure(stage: &mut Stage) {
    asked(stage).await;
    artifacts(stage).await;
}

fn kind(name: &'static str, worst: &'static str, other_max: u32) -> Kind {
    Kind {
        name,
        worst,
        engine_max: 20,
        other_max,
    }
}

async fn asked(stage: &mut Stage) {
    let channel = stage.den.channel().await;
    let mut runs = RunServiceClient::new(channel.clone());
    let profile = Some(profile_of_approvals());
    let request = v1::PutActionProfileRequest { profile };
    let mut actions = ActionServiceClient::new(channel.clone());
    actions.put_action_profile(request).await.unwrap();
    let inbox = InboxServiceClient::new(channel).max_decoding_message_size(64 << 20);
    for n in 0..N_APPROVALS {
        runs.create_run(approval(n)).await.unwrap();
    }
    let request = v1::ListInputRequestsRequest {
        page_size: Some(200),
        kind: "approval".to_owned(),
        ..v1::ListInputRequestsRequest::default()
    };
    let all = async || {
        let page = inbox.clone().list_input_requests(request.clone()).await.unwrap();
        (page.into_inner().input_requests.len() >= N_APPROVALS).then_some(())
    };
    wait_for("the runs to ask", LIMIT, all).await.unwrap();
    let listed = kind("InboxService/ListInputRequests", "a page of nearly 4 MiB", 100);
    stage
        .cost(listed, 2, ask!(inbox, list_input_requests, request))
        .await;
    let request = v1::WatchInboxRequest::default();
    let mut watching = inbox.clone();
    let watch = async |_| {
        let mut told = watching.watch_inbox(request.clone()).await.unwrap().into_inner();
        for _ in 0..N_APPROVALS {
            told.message().await.unwrap().unwrap();
        }
    };
    let watched = kind("InboxService/WatchInbox", "what is open, some 4 MiB", 100);
    stage.cost(watched, 1, watch).await;

    let call = json!({"tool_name": "send", "tool_args": {}});
    let steps = json!([{"key": "send", "type": "tool_call", "config": call}]);
    let request = v1::CreateRunRequest {
        autonomy_level: Some(1),
        ..creation(document(&steps))
    };
    let run_id = runs
        .create_run(request)
        .await
        .unwrap()
        .into_inner()
        .run
        .unwrap()
        .run_id;
    let of_run = v1::ListInputRequestsRequest {
        run_id,
        ..v1::ListInputRequestsRequest::default()
    };
    let open = async || {
        let page = inbox.clone().list_input_requests(of_run.clone()).await.unwrap();
        page.into_inner().input_requests.pop()
    };
    let open = wait_for("the approval of the plan", LIMIT, open).await.unwrap();
    let request = v1::GetInputRequestRequest {
        input_request_id: open.input_request_id.clone(),
    };
    let got = kind("InboxService/GetInputRequest", "the approval of a plan", 100);
    stage.cost(got, 2, ask!(inbox, get_input_request, request)).await;
    let edited = ApproveWithEdits {
        document: Some(dense_document("edited")),
        ..ApproveWithEdits::default()
    };
    // Who has shown a certificate needs no other name.
    let is_named = stage.den.orchestrator.tunnel.is_none();
    let responder = is_named.then(|| v1::Responder {
        id: "ada".to_owned(),
        ..v1::Responder::default()
    });
    let request = v1::RespondToInputRequest {
        input_request_id: open.input_request_id,
        subject_digest: open.subject_digest,
        answer: Some(Answer::Approval(v1::Approval {
            decision: Some(Decision::ApproveWithEdits(edited)),
        })),
        responder,
        ..v1::RespondToInputRequest::default()
    };
    let answered = kind("InboxService/RespondToInput", "another plan of 1 MiB", 100);
    stage
        .cost(answered, 1, ask!(inbox, respond_to_input, request))
        .await;
}

async fn artifacts(stage: &mut Stage) {
    let channel = stage.den.channel().await;
    let mut runs = RunServiceClient::new(channel.clone());
    let mut artifacts = ArtifactServiceClient::new(channel).max_decoding_message_size(64 << 20);
    let made = runs.create_run(question("?")).await.unwrap().into_inner();
    let run_id = made.run.unwrap().run_id;
    let content = Bytes::from(vec![7; UPLOAD_BYTES_MAX]);
    let header = v1::UploadHeader {
        run_id: run_id.clone(),
        r#type: "document".to_owned(),
        mime_type: "text/plain".to_owned(),
        name: "x".repeat(255),
        size_bytes: Some(UPLOAD_BYTES_MAX as i64),
        sha256: escapement_model::hex::text(&Sha256::digest(&content)),
    };
    let mut parts = vec![Part::Header(header)];
    parts.extend(
        content
            .chunks(64 << 10)
            .map(|piece| Part::Data(Bytes::copy_from_slice(piece))),
    );
    let parts = parts
        .into_iter()
        .map(|part| v1::UploadRequest { part: Some(part) });
    let parts: Vec<_> = parts.collect();
    let mut artifact_id = String::new();
    let upload = async |_| {
        let uploaded = artifacts.upload(iter(parts.clone())).await.unwrap().into_inner();
        artifact_id = uploaded.artifact.unwrap().artifact_id;
    };
    let uploaded = kind("ArtifactService/Upload", "8 MiB", 150);
    stage.cost(uploaded, 1, upload).await;
    let request = v1::DownloadRequest {
        run_id: run_id.clone(),
        artifact_id: artifact_id.clone(),
    };
    let downloaded = kind("ArtifactService/Download", "8 MiB", 100);
    stage
        .cost(downloaded, 1, drain!(artifacts, download, request))
        .await;
    let request = v1::GetArtifactRequest {
        run_id: run_id.clone(),
        artifact_id,
    };
    let got = kind("ArtifactService/GetArtifact", "of 8 MiB", 100);
    stage.cost(got, 2, ask!(artifacts, get_artifact, request)).await;
    let request = v1::ListArtifactsRequest {
        run_id,
        page_size: Some(256),
        ..v1::ListArtifactsRequest::default()
    };
    let listed = kind("ArtifactService/ListArtifacts", "of a run with one", 100);
    stage
        .cost(listed, 2, ask!(artifacts, list_artifacts, request))
        .await;
}

/// Approvals that nearly fill a page.
const N_APPROVALS: usize = 120;
const UPLOAD_BYTES_MAX: usize = 8 << 20;
