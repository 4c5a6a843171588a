//! Files that are replaced while everything works.

use super::{SecureWorld, client_tls};
use crate::plans::{RequestWords, echo, object, plan, request, step};
use crate::world::LIMIT;
use escapement_tests::authority::{Authority, Issued, replace};
use escapement_tests::{ScriptedWorker, wait_for};
use escapement_wire::v1::access_service_client::AccessServiceClient;
use escapement_wire::v1::plan_execution_service_client::PlanExecutionServiceClient;
use escapement_wire::v1::plan_result::Status;
use escapement_wire::v1::worker::State;
use escapement_wire::v1::{ListWorkersRequest, PlanStep, WaitExecutionRequest, WhoAmIRequest, Worker};
use escapement_wire::worker::v1::outcome_ack::Verdict;
use rustix::process::Signal;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

/// Waits until the orchestrator has said so this often.
async fn said(secure: &SecureWorld, text: &str, n: usize) {
    let process = &secure.world.orchestrator.process;
    let enough = async || (process.stderr().matches(text).count() >= n).then_some(());
    wait_for(text, LIMIT, enough).await.unwrap();
}

const REPLACED: &str = "files read again";
const REFUSED: &str = "changed files are refused";

#[tokio::test]
async fn ten_swaps_under_load_fail_no_call_and_lose_no_attempt() {
    let mut secure = SecureWorld::start().await;
    let (_, files) = secure.issue("worker");
    let _worker = secure.worker("worker", &files).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let callers: Vec<_> = (0..4)
        .map(|_| {
            let channel = secure.world.orchestrator.channel();
            let is_over = Arc::clone(&is_over);
            tokio::spawn(async move {
                let mut plans = PlanExecutionServiceClient::new(channel);
                let mut n_executed = 0;
                while !is_over.load(Ordering::Relaxed) {
                    let answer = plans.execute_plan(request(plan([echo(0, json!({}))]))).await;
                    let result = answer.expect("no call fails").into_inner().result.unwrap();
                    assert_eq!(result.status(), Status::Success, "no attempt is lost: {result:?}");
                    n_executed += 1;
                }
                n_executed
            })
        })
        .collect();
    let directory = secure.world.directory.path().to_owned();
    for n in 1..=10 {
        let issued = secure.servers.issue(&["localhost"]).unwrap();
        // Half of the pair first: it does not fit, and changes nothing.
        replace(&secure.own.cert, &issued.cert).unwrap();
        secure.world.orchestrator.process.signal(Signal::HUP).unwrap();
        said(&secure, REFUSED, n).await;
        issued.write(&directory, "server").unwrap();
        let more = Authority::new("one more").unwrap();
        replace(
            &secure.client_ca,
            &format!("{}{}", more.pem(), secure.clients.pem()),
        )
        .unwrap();
        let revoked = secure.clients.revocation_list(&[1_000 + n as u64]).unwrap();
        replace(&secure.crl, &revoked).unwrap();
        secure.world.orchestrator.process.signal(Signal::HUP).unwrap();
        said(&secure, REPLACED, n).await;
        secure.connect(None).await.expect("new connections are let in");
    }
    is_over.store(true, Ordering::Relaxed);
    for caller in callers {
        assert!(caller.await.unwrap() > 0);
    }
}

/// Executes plans until it is over, each over a connection of its own or all over one; gives how many.
async fn execute_until(
    is_over: Arc<AtomicBool>,
    connect: impl AsyncFn() -> Channel,
    is_new_each_time: bool,
) -> usize {
    let mut channel = connect().await;
    let mut n_executed = 0;
    while !is_over.load(Ordering::Relaxed) {
        if is_new_each_time {
            channel = connect().await;
        }
        let short = PlanStep {
            payload: Some(object(json!({"ms": 50}))),
            ..step(0, "delay")
        };
        let mut plans = PlanExecutionServiceClient::new(channel.clone());
        let answer = plans.execute_plan(request(plan([short]))).await;
        let result = answer.expect("no call fails").into_inner().result.unwrap();
        assert_eq!(result.status(), Status::Success, "no attempt is lost: {result:?}");
        n_executed += 1;
    }
    n_executed
}

#[tokio::test]
async fn what_is_swapped_under_load_is_served_in_time_and_what_is_in_flight_stays() {
    // With the interval that it has by itself.
    let secure = SecureWorld::start_that_looks_as_told(|settings| settings).await;
    let (_, files) = secure.issue("worker");
    let _worker = secure.worker("worker", &files).await;
    let next: Vec<Authority> = (0..3)
        .map(|n| Authority::new(&format!("servers {n}")).unwrap())
        .collect();
    // Who calls trusts all authorities that there will be, as in a rotation in good order.
    let trusted = next.iter().map(Authority::pem).chain([secure.servers.pem()]);
    let trusted: Vec<_> = trusted.map(Certificate::from_pem).collect();
    let (caller, _) = secure.issue("busy caller");
    let busy = ClientTlsConfig::new()
        .ca_certificates(trusted)
        .domain_name("localhost")
        .identity(Identity::from_pem(&caller.cert, &caller.key));
    let endpoint = Endpoint::from_shared(secure.world.orchestrator.url()).unwrap();
    let busy = endpoint.tls_config(busy).unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let callers: Vec<_> = (0..4)
        .map(|n| {
            let (busy, is_over) = (busy.clone(), Arc::clone(&is_over));
            let connect = async move || busy.connect().await.expect("every connection is let in");
            tokio::spawn(execute_until(is_over, connect, n % 2 == 0))
        })
        .collect();
    // An attempt that is in flight from before the first swap until after the last one.
    let hello = ScriptedWorker::hello_for(ScriptedWorker::specs(&["long"]), 1);
    let (mut scripted, _) =
        ScriptedWorker::open_over(busy.connect().await.unwrap(), hello, "none is asked for").await;
    scripted.keep_alive(Duration::from_secs(1));
    let mut plans = PlanExecutionServiceClient::new(busy.connect().await.unwrap());
    let long = request(plan([step(0, "long")]));
    plans.submit_plan(long.as_submission()).await.unwrap();
    let attempt = scripted.started().await;

    let stranger = Authority::new("nobody's").unwrap().issue(&["stranger"]).unwrap();
    let mut before = (&secure.servers, stranger);
    for (authority, n) in next.iter().zip(1..) {
        let issued = authority.issue(&["localhost"]).unwrap();
        let more = Authority::new("one more").unwrap();
        let newcomer = more.issue(&["newcomer"]).unwrap();
        replace(&secure.client_ca, &(more.pem() + &secure.clients.pem())).unwrap();
        let revoked = secure.clients.revocation_list(&[1_000 + n]).unwrap();
        replace(&secure.crl, &revoked).unwrap();
        issued.write(secure.world.directory.path(), "server").unwrap();
        let is_served = async || lets_in(&secure, authority, &newcomer).await.then_some(());
        wait_for("both new authorities", SERVED_WITHIN, is_served)
            .await
            .unwrap();
        // And those before are served and let in no more.
        assert!(!lets_in(&secure, before.0, &newcomer).await);
        assert!(!lets_in(&secure, authority, &before.1).await);
        before = (authority, newcomer);
    }
    is_over.store(true, Ordering::Relaxed);
    for caller in callers {
        assert!(caller.await.unwrap() > 0);
    }
    assert_eq!(scripted.succeed(&attempt, json!({})).await, Verdict::Accepted);
    let wait = WaitExecutionRequest {
        execution_id: long.id(),
        timeout_ms: Some(20_000),
    };
    let waited = plans.wait_execution(wait).await.unwrap().into_inner();
    let result = waited.execution.unwrap().result.unwrap();
    assert_eq!(result.status(), Status::Success, "{result:?}");
    let log = secure.world.orchestrator.process.stderr();
    assert!(
        !log.contains(REFUSED) && log.matches(REPLACED).count() >= next.len(),
        "{log}"
    );
}

/// Returns true if a caller that trusts this authority and shows this certificate is answered. In TLS 1.3 only an answer tells that.
async fn lets_in(secure: &SecureWorld, servers: &Authority, shown: &Issued) -> bool {
    let endpoint = Endpoint::from_shared(secure.world.orchestrator.url()).unwrap();
    let endpoint = endpoint.tls_config(client_tls(servers, Some(shown))).unwrap();
    match endpoint.connect().await {
        Ok(channel) => AccessServiceClient::new(channel)
            .who_am_i(WhoAmIRequest {})
            .await
            .is_ok(),
        Err(_) => false,
    }
}

/// What is promised of the time from a new certificate to connections that get it: a look every 5 s.
const SERVED_WITHIN: Duration = Duration::from_secs(6);

#[tokio::test]
async fn new_connections_see_a_certificate_that_a_symbolic_link_leads_to() {
    // As Kubernetes does it: the files are links through a link, which is replaced.
    let directory = escapement_tests::PrivateDirectory::new("tls").unwrap();
    let authorities = [Authority::new("old").unwrap(), Authority::new("new").unwrap()];
    for (name, authority) in ["old", "new"].iter().zip(&authorities) {
        let folder = directory.join(name);
        std::fs::create_dir(&folder).unwrap();
        authority
            .issue(&["localhost"])
            .unwrap()
            .write(&folder, "tls")
            .unwrap();
    }
    let link_to = |name: &str| {
        let next = directory.join("..next");
        std::os::unix::fs::symlink(name, &next).unwrap();
        std::fs::rename(next, directory.join("..data")).unwrap();
    };
    link_to("old");
    let (cert, key) = (directory.join("..data/tls.pem"), directory.join("..data/tls.key"));
    let [old, new] = &authorities;
    let world = crate::world::World::start_with(|settings| {
        settings
            .flag("--tls-cert", cert.display())
            .flag("--tls-key", key.display())
            .flag("--tls-reload-interval-ms", 1_000)
            .called_by_tls(client_tls(old, None))
    })
    .await;
    let trusts = async |authority: &Authority| {
        let endpoint = Endpoint::from_shared(world.orchestrator.url()).unwrap();
        let endpoint = endpoint.tls_config(client_tls(authority, None)).unwrap();
        endpoint.connect().await.is_ok()
    };
    assert!(trusts(old).await && !trusts(new).await);
    link_to("new");
    let seen = async || trusts(new).await.then_some(());
    wait_for("the new certificate", LIMIT, seen).await.unwrap();
    assert!(!trusts(old).await);
}

#[tokio::test]
async fn a_worker_that_is_revoked_is_off_within_ten_seconds_and_its_work_goes_on_elsewhere() {
    // With the interval that it has by itself.
    let secure =
        SecureWorld::start_that_looks_as_told(|settings| settings.flag("--lease-ms", LEASE_MS)).await;
    let (revoked, files) = secure.issue("revoked");
    let worker = secure.worker("revoked", &files).await;
    let long = PlanStep {
        payload: Some(object(json!({"ms": 120_000}))),
        ..step(0, "delay")
    };
    let under_way = secure.world.submit(&request(plan([long]))).await;
    let session = async |is_it: fn(&Worker) -> bool| {
        let asked = ListWorkersRequest::default();
        let answer = secure.world.orchestrator.fleet().list_workers(asked).await;
        let workers = answer.unwrap().into_inner().workers;
        workers.iter().all(is_it).then_some(())
    };
    wait_for("the step", LIMIT, || session(|worker| worker.in_flight == 1))
        .await
        .unwrap();
    let list = secure.clients.revocation_list(&[revoked.number]).unwrap();
    replace(&secure.crl, &list).unwrap();
    let since = Instant::now();
    // Once its lease is over it is not listed any more.
    wait_for("the end of its session", OFF_WITHIN, || {
        session(|worker| worker.state() != State::Active)
    })
    .await
    .unwrap();
    let process = &secure.world.orchestrator.process;
    let is_cut = async || process.stderr().contains("worker session ended").then_some(());
    wait_for(
        "the end of its stream",
        OFF_WITHIN.saturating_sub(since.elapsed()),
        is_cut,
    )
    .await
    .unwrap();
    let knows = async || worker.process.stderr().contains("no session").then_some(());
    wait_for("the worker to say that it gets none", LIMIT, knows)
        .await
        .unwrap();
    // What it had started ends with its lease, and nothing new comes to it.
    let lost = secure.world.result_of(&under_way.execution_id).await;
    assert_eq!(lost.error.unwrap().error_code, "WORKER_LOST");
    let (_, files) = secure.issue("trusted");
    let _trusted = secure.worker("trusted", &files).await;
    let result = secure.world.execute(request(plan([echo(0, json!({}))]))).await;
    assert_eq!(result.status(), Status::Success);
}

/// What is promised of the time from the new list to the end of the worker's session: a look every 5 s, a second over which connections
/// are judged again, and what a busy machine takes.
const OFF_WITHIN: Duration = Duration::from_secs(10);
const LEASE_MS: u64 = 2_000;

#[tokio::test]
async fn a_worker_whose_authority_leaves_comes_back_with_a_certificate_of_the_new_one() {
    let secure = SecureWorld::start().await;
    let (_, files) = secure.issue("worker");
    let mut worker = secure.worker("worker", &files).await;
    let next = Authority::new("next").unwrap();
    let issued = next.issue(&["worker"]).unwrap();
    // First the worker's files, which it reads at its next connect, then the root that it has now goes.
    issued.write(secure.world.directory.path(), "worker").unwrap();
    replace(&secure.client_ca, &next.pem()).unwrap();
    worker.process.announcement("connected", LIMIT).await.unwrap();
    let tls = client_tls(&secure.servers, Some(&next.issue(&["caller"]).unwrap()));
    let endpoint = Endpoint::from_shared(secure.world.orchestrator.url()).unwrap();
    let channel = endpoint.tls_config(tls).unwrap().connect().await.unwrap();
    let answer = PlanExecutionServiceClient::new(channel)
        .execute_plan(request(plan([echo(0, json!({}))])))
        .await;
    assert_eq!(
        answer.unwrap().into_inner().result.unwrap().status(),
        Status::Success
    );
}
