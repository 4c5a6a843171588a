//! The pods of the chart execute plans by mutual TLS, and are replaced one after the other under load: nothing is lost.

use super::kubelet::Node;
use super::{issued, rendered, secure};
use crate::stage::{LIMIT, serves_a_plan_and_a_run};
use escapement_tests::authority::Authority;
use escapement_tests::plans::{StepWords, plan, request, step};
use escapement_tests::{PrivateDirectory, calls, fresh_id, wait_for};
use escapement_wire::v1::SubmitPlanRequest;
use escapement_wire::v1::plan_execution_service_client::PlanExecutionServiceClient;
use escapement_wire::v1::plan_result::Status;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

/// Callers that hand plans in as long as pods are replaced, each under an id of its own, and again until it is taken.
async fn hand_in(plans: PlanExecutionServiceClient<Channel>, ends: Arc<AtomicBool>) -> Vec<String> {
    let mut taken = Vec::new();
    while !ends.load(Ordering::Relaxed) {
        let asked = request(plan([step(0, "delay").payload(json!({ "ms": 20 }))]));
        let execution_id = fresh_id();
        let submission = SubmitPlanRequest {
            execution_id: Some(execution_id.clone()),
            plan: asked.plan,
            environment: asked.environment,
            ..SubmitPlanRequest::default()
        };
        let submit = async || plans.clone().submit_plan(submission.clone()).await.ok();
        wait_for("a plan to be taken", LIMIT, submit).await.unwrap();
        taken.push(execution_id);
    }
    taken
}

fn channel(authority: &Authority, port: u16) -> Channel {
    let caller = authority.issue(&["caller"]).unwrap();
    let tls = ClientTlsConfig::new()
        .ca_certificate(Certificate::from_pem(authority.pem()))
        .identity(Identity::from_pem(caller.cert, caller.key));
    let endpoint = Endpoint::from_shared(format!("https://localhost:{port}")).unwrap();
    endpoint.tls_config(tls).unwrap().connect_lazy()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_are_replaced_under_load_and_nothing_is_lost() {
    let mut values = secure();
    values["access"] = json!({ "policy": POLICY });
    let Some(objects) = rendered(&values) else { return };
    let mut node = Node::new(objects, PrivateDirectory::new("chart").unwrap());
    let authority = Authority::new("cluster").unwrap();
    for (secret, name) in [("server", "localhost"), ("worker", "worker")] {
        let issued = authority.issue(&[name]).unwrap();
        node.secret(
            secret,
            [
                ("ca.crt", authority.pem()),
                ("tls.crt", issued.cert),
                ("tls.key", issued.key),
            ],
        );
    }
    let orchestrator = node.orchestrator().await;
    let channel = channel(&authority, orchestrator.address().port());
    let plans = PlanExecutionServiceClient::new(channel.clone());
    assert_eq!(
        (node.replicas("StatefulSet"), node.replicas("Deployment")),
        (1, 2)
    );
    let mut workers = vec![node.worker("worker-0").await, node.worker("worker-1").await];
    serves_a_plan_and_a_run(channel.clone()).await;

    let ends = Arc::new(AtomicBool::new(false));
    let callers: Vec<_> = (0..4)
        .map(|_| tokio::spawn(hand_in(plans.clone(), Arc::clone(&ends))))
        .collect();
    // No worker is missing meanwhile, and one is too many: `maxUnavailable: 0`, `maxSurge: 1`.
    for number in 2..4 {
        workers.push(node.worker(&format!("worker-{number}")).await);
        node.end("Deployment", workers.remove(0)).await;
    }
    // The volume has one pod at a time.
    node.end("StatefulSet", orchestrator.process).await;
    let orchestrator = node.orchestrator().await;
    serves_a_plan_and_a_run(channel.clone()).await;
    ends.store(true, Ordering::Relaxed);
    let mut n_taken = 0;
    for caller in callers {
        for execution_id in caller.await.unwrap() {
            let result = calls::result_of(plans.clone(), &execution_id, LIMIT)
                .await
                .unwrap();
            assert_eq!(result.status(), Status::Success, "{result:?}");
            n_taken += 1;
        }
    }
    assert!(n_taken > 20, "{n_taken} plans are no load");
    for worker in workers {
        node.end("Deployment", worker).await;
    }
    node.end("StatefulSet", orchestrator.process).await;
}

#[tokio::test]
async fn pods_with_the_certificates_of_cert_manager_serve_a_plan_and_a_run() {
    let mut values = issued();
    values["access"] =
        json!({ "policy": POLICY.replace("\"worker\"\nroles", "\"try-escapement-worker\"\nroles") });
    let Some(objects) = rendered(&values) else { return };
    let mut node = Node::new(objects, PrivateDirectory::new("issued").unwrap());
    let authority = Authority::new("issuer").unwrap();
    node.issue(&authority);
    let orchestrator = node.orchestrator().await;
    let worker = node.worker("worker-0").await;
    serves_a_plan_and_a_run(channel(&authority, orchestrator.address().port())).await;
    node.end("Deployment", worker).await;
    node.end("StatefulSet", orchestrator.process).await;
}

const POLICY: &str = r#"
version = 1

[[certificate]]
dns = "worker"
roles = ["worker"]

[[certificate]]
dns = "caller"
roles = ["submitter", "viewer"]
"#;
