//! Connections without credentials that take no answer to a health check: others get theirs, and these connections are cut.

use crate::den::{Den, LIMIT};
use crate::frames::{INITIAL_WINDOW_SIZE, SETTINGS, frame, setting, whole_call};
use crate::strangers::stay;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

const CHECK: &str = "/grpc.health.v1.Health/Check";
/// Connections and streams of each: together several times as many as there are slots.
const N_CONNECTIONS: usize = 40;
const N_STREAMS: u32 = 300;
/// Time after which such a connection is cut, with what a busy machine adds.
const CUT_WITHIN: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_health_answers_delay_no_health_check() {
    let den = Den::start().await;
    // Not one byte of an answer is taken, and every ping is answered.
    let mut said = frame(SETTINGS, 0, 0, &setting(INITIAL_WINDOW_SIZE, 0));
    said.extend((0..N_STREAMS).flat_map(|n| whole_call(CHECK, 2 * n + 1, &[])));
    let mut deaf = JoinSet::new();
    for _ in 0..N_CONNECTIONS {
        deaf.spawn(stay(den.address(), said.clone()));
    }
    let since = Instant::now();
    // Each comes as a load balancer does: without credentials, on a connection of its own.
    let mut n_asked = 0;
    while deaf.try_join_next().is_none() {
        assert!(since.elapsed() < CUT_WITHIN, "none was cut in {n_asked} checks");
        let mut health = HealthClient::new(den.channel().await);
        let asked = timeout(LIMIT, health.check(HealthCheckRequest::default())).await;
        let answer = asked.expect("an answer").expect("one that is no refusal");
        assert_eq!(answer.into_inner().status(), ServingStatus::Serving);
        n_asked += 1;
    }
    timeout(LIMIT, deaf.join_all())
        .await
        .expect("each of them is cut");
    eprintln!("{n_asked} were answered in {:.1?}", since.elapsed());
    assert!(
        n_asked > 20 && since.elapsed() < CUT_WITHIN,
        "{n_asked}, {:?}",
        since.elapsed()
    );
    den.finish("health checks that nobody reads", 96).await;
}
