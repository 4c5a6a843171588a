//! A record that says where it came from: its namespace, who handed it in, and the trace of the call.

use super::{Recorded, plan, recorded};
use crate::readers;
use crate::stage::{Stage, WORK};
use bytes::Bytes;
use escapement_tests::{Binaries, PrivateDirectory};
use escapement_wire::v1;
use escapement_wire::v1::plan_result::Status;
use prost::Message;
use serde_json::{Value, json};
use std::process::Command;

const TRACEPARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// Returns an orchestrator with a namespace, whose only holder of a credential is `planner`; strangers may do everything here.
pub(super) async fn stage(directory: &PrivateDirectory) -> (Stage, String) {
    let made = Command::new(Binaries::build().unwrap().orchestrator)
        .args(["token", "new", "--name", "planner"])
        .output()
        .unwrap();
    let made: Value = serde_json::from_slice(&made.stdout).unwrap();
    let sha256 = made["sha256"].as_str().unwrap();
    let policy = directory.join("policy.toml");
    let text = format!(
        "version = 1\n[anonymous]\nroles = [\"admin\", \"worker\"]\n[[namespace]]\nname = \"billing\"\n\
         [[token]]\nname = \"planner\"\nsha256 = \"{sha256}\"\nroles = [\"submitter\"]\nnamespaces = [\"billing\"]\n"
    );
    std::fs::write(&policy, text).unwrap();
    let stage = Stage::open(|settings| settings.flag("--access-policy", policy.display())).await;
    (stage, made["token"].as_str().unwrap().to_owned())
}

pub(super) async fn everything(stage: &Stage, token: &str) -> Recorded {
    let mut worker = stage.worker(1).await;
    let mut request = tonic::Request::new(plan("provenance").step(WORK, json!({}), &[]).submit());
    let metadata = request.metadata_mut();
    metadata.insert("authorization", format!("Bearer {token}").parse().unwrap());
    metadata.insert("traceparent", TRACEPARENT.parse().unwrap());
    metadata.insert("tracestate", "vendor=1".parse().unwrap());
    let accepted = stage.orchestrator.plans().submit_plan(request).await.unwrap();
    let id = accepted.into_inner().execution.unwrap().execution_id;
    worker.complete_next(json!({ "done": true })).await;
    worker.goodbye().await;
    recorded(stage, "success-with-provenance", &id, Status::Success, "").await
}

/// What the record says of where it came from, and each byte of it counts.
pub(super) fn assert_said(record: &Bytes) {
    let read = escapement_codec::archive::file::read(record).unwrap();
    let stored = v1::StoredAcceptance::decode(read.archive.accepted.clone()).unwrap();
    let by = stored.accepted_by.unwrap();
    assert_eq!(
        (by.name.as_str(), by.kind()),
        ("planner", v1::accepted_by::Kind::Token)
    );
    assert_eq!(stored.namespace, "billing");
    let trace = stored.trace_context.unwrap();
    assert_eq!(
        (trace.traceparent.as_str(), trace.tracestate.as_str()),
        (TRACEPARENT, "vendor=1")
    );
    for said in ["billing", "planner", TRACEPARENT, "vendor=1"] {
        let places = record.windows(said.len()).enumerate();
        let places: Vec<usize> = places
            .filter(|(_, bytes)| *bytes == said.as_bytes())
            .map(|(at, _)| at)
            .collect();
        assert!(!places.is_empty(), "{said} is recorded");
        for at in places.into_iter().flat_map(|at| at..at + said.len()) {
            let mut bent = record.to_vec();
            bent[at] ^= 1;
            let bent = Bytes::from(bent);
            for found in [readers::orchestrator(&bent), readers::second(&bent)] {
                assert!(!found.is_good(), "byte {at} of {said} is changed unseen");
            }
        }
    }
}
