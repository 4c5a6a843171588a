//! Artifacts that are uploaded, listed and downloaded.

use crate::world::{World, call, reason, run_of, violations};
use escapement_run::artifacts::UPLOAD_BYTES_MAX;
use escapement_runs_api::Artifacts;
use escapement_transport::response_budget::ResponseBudget;
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::artifact_service_client::ArtifactServiceClient;
use escapement_wire::runs::v1::artifact_service_server::ArtifactServiceServer;
use escapement_wire::runs::v1::run::State;
use escapement_wire::runs::v1::upload_request::Part;
use serde_json::json;
use sha2::{Digest, Sha256};
use tonic::{Code, Status};

type Client = ArtifactServiceClient<ArtifactServiceServer<Artifacts>>;

fn client(world: &World) -> Client {
    ArtifactServiceClient::new(ArtifactServiceServer::new(Artifacts::new(
        world.handle.clone(),
        ResponseBudget::default(),
    )))
}

fn header(run_id: &str) -> v1::UploadHeader {
    v1::UploadHeader {
        run_id: run_id.to_owned(),
        r#type: "image".to_owned(),
        mime_type: "image/png".to_owned(),
        name: "cat.png".to_owned(),
        ..v1::UploadHeader::default()
    }
}

fn png(n_bytes: usize) -> Vec<u8> {
    let mut bytes = b"\x89PNG\r\n\x1a\n".to_vec();
    bytes.extend((8..n_bytes).map(|n| (n % 251) as u8));
    bytes
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

async fn upload(
    client: &mut Client,
    header: v1::UploadHeader,
    content: &[u8],
) -> Result<v1::Artifact, Status> {
    let mut parts = vec![Part::Header(header)];
    parts.extend(
        content
            .chunks(100_000)
            .map(|data| Part::Data(data.to_vec().into())),
    );
    let requests = parts
        .into_iter()
        .map(|part| v1::UploadRequest { part: Some(part) });
    let requests: Vec<_> = requests.collect();
    let answer = client.upload(tokio_stream::iter(requests)).await?;
    Ok(answer.into_inner().artifact.unwrap())
}

async fn download(client: &mut Client, run_id: &str, artifact_id: &str) -> Result<Vec<u8>, Status> {
    let request = v1::DownloadRequest {
        run_id: run_id.to_owned(),
        artifact_id: artifact_id.to_owned(),
    };
    let mut pieces = client.download(request).await?.into_inner();
    let mut all = Vec::new();
    while let Some(piece) = pieces.message().await? {
        assert!(piece.data.len() <= 65_536);
        all.extend_from_slice(&piece.data);
    }
    Ok(all)
}

// RUN-12.12
#[tokio::test]
async fn an_upload_is_kept_over_a_kill_and_listed_once() {
    let mut world = World::new();
    let run_id = world.create(run_of(json!([call("a", "hang", &[])]))).await.run_id;
    world.reaches(&run_id, State::Running).await;
    let content = png(1_000_000);
    let given = v1::UploadHeader {
        size_bytes: Some(1_000_000),
        sha256: sha256(&content).to_uppercase(),
        ..header(&run_id)
    };
    let first = upload(&mut client(&world), given.clone(), &content)
        .await
        .unwrap();
    assert_eq!(
        (first.size_bytes, first.sha256.as_str()),
        (1_000_000, sha256(&content).as_str())
    );
    assert_eq!((first.step_key.as_str(), first.name.as_str()), ("", "cat.png"));
    let mut world = world.killed();
    let mut client = client(&world);
    let second = upload(&mut client, given, &content).await.unwrap();
    assert_eq!(second, first);
    let other = v1::UploadHeader {
        r#type: "picture".to_owned(),
        ..header(&run_id)
    };
    let other = upload(&mut client, other, &content).await.unwrap();
    let list = v1::ListArtifactsRequest {
        run_id: run_id.clone(),
        page_size: Some(1),
        ..v1::ListArtifactsRequest::default()
    };
    let page = client.list_artifacts(list.clone()).await.unwrap().into_inner();
    assert_eq!(page.artifacts, std::slice::from_ref(&first));
    let next = v1::ListArtifactsRequest {
        page_token: page.next_page_token,
        ..list.clone()
    };
    let page = client.list_artifacts(next).await.unwrap().into_inner();
    assert_eq!(
        (page.artifacts, page.next_page_token.as_str()),
        (vec![other.clone()], "")
    );
    let of_type = v1::ListArtifactsRequest {
        r#type: "picture".to_owned(),
        ..list
    };
    let page = client.list_artifacts(of_type).await.unwrap().into_inner();
    assert_eq!(page.artifacts, [other]);
    assert_eq!(
        download(&mut client, &run_id, &first.artifact_id).await.unwrap(),
        content
    );
    world.reaches(&run_id, State::Running).await;
    while world.hung.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    world.release();
    world.ended(&run_id).await;
    let late = upload(&mut client, header(&run_id), &png(20)).await.unwrap_err();
    assert_eq!(
        (late.code(), reason(&late).as_str()),
        (Code::FailedPrecondition, "RUN_ENDED")
    );
    let replay = v1::ReplayRunRequest {
        run_id: run_id.clone(),
    };
    let replay = world.client.replay_run(replay).await.unwrap().into_inner();
    assert!(replay.identical && replay.state_identical, "{replay:?}");
    assert_eq!(
        download(&mut client, &run_id, &first.artifact_id).await.unwrap(),
        content
    );
}

#[tokio::test]
async fn an_upload_that_is_not_what_it_says_names_its_field() {
    let mut world = World::new();
    let run_id = world.create(run_of(json!([call("a", "hang", &[])]))).await.run_id;
    world.reaches(&run_id, State::Running).await;
    let mut client = client(&world);
    let content = png(100);
    let with = |change: fn(&mut v1::UploadHeader)| {
        let mut header = header(&run_id);
        change(&mut header);
        header
    };
    for (header, field) in [
        (with(|header| header.run_id.clear()), "header.run_id"),
        (with(|header| header.r#type.clear()), "header.type"),
        (
            with(|header| header.mime_type = "png".to_owned()),
            "header.mime_type",
        ),
        (with(|header| header.name = "a\nb".to_owned()), "header.name"),
        (with(|header| header.size_bytes = Some(99)), "header.size_bytes"),
        (with(|header| header.sha256 = "0".repeat(64)), "header.sha256"),
        (with(|header| header.sha256 = "x".to_owned()), "header.sha256"),
    ] {
        let refused = upload(&mut client, header, &content).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{field}");
        assert_eq!(violations(&refused)[0].0, field);
    }
    for wrong in [&b"GIF89a, which is no PNG"[..], &png(9), &[]] {
        let refused = upload(&mut client, header(&run_id), wrong).await.unwrap_err();
        assert_eq!(reason(&refused), "ARTIFACT_INVALID");
        assert!(refused.message().contains("data: "), "{}", refused.message());
    }
    let large = upload(&mut client, header(&run_id), &png(UPLOAD_BYTES_MAX + 1))
        .await
        .unwrap_err();
    assert_eq!(
        violations(&large),
        [("data".to_owned(), "ARTIFACT_INVALID".to_owned())]
    );
    let data = Part::Data(content.into());
    let headless = [v1::UploadRequest { part: Some(data) }];
    let headless = client.upload(tokio_stream::iter(headless)).await.unwrap_err();
    assert_eq!(violations(&headless)[0].0, "header");
    let missing = download(&mut client, &run_id, &run_id).await.unwrap_err();
    assert_eq!(reason(&missing), "ARTIFACT_NOT_FOUND");
    let nowhere = "6f1d3c52-8a4e-4b7f-9c21-5e0d7a9b4c10";
    let nowhere = upload(&mut client, header(nowhere), &png(20)).await.unwrap_err();
    assert_eq!(reason(&nowhere), "RUN_NOT_FOUND");
}
