//! How long connections live on which nobody calls, or nobody who may do anything. On a paused clock; the clients answer every ping.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use crate::limits::PREFACE_TIMEOUT;
use escapement_access::{Access, Policy};
use hyper::client::conn::http2 as client;
use std::time::Duration;
use tokio::io::{DuplexStream, duplex};
use tokio::task::JoinHandle;

const WHO_AM_I: &str = "/escapement.v1.AccessService/WhoAmI";
const HEALTH: &str = "/grpc.health.v1.Health/Check";

/// A client on a connection of its own.
struct Client {
    calls: client::SendRequest<Body>,
    began: Instant,
    /// Ends with the connection.
    life: JoinHandle<Duration>,
}

impl Client {
    async fn come(rules: &AccessRules, strangers: &Newcomers) -> Self {
        let (near, far) = duplex(64 << 10);
        let began = Instant::now();
        tokio::spawn(served(far, rules.clone(), strangers.clone()));
        let (calls, connection) = client::handshake(TokioExecutor::new(), TokioIo::new(near))
            .await
            .unwrap();
        let life = tokio::spawn(async move {
            let _ended = connection.await;
            began.elapsed()
        });
        all_at_rest().await;
        Self { calls, began, life }
    }

    async fn call(&mut self, path: &str) {
        let request = hyper::Request::post(format!("http://a{path}"));
        let request = request.body(Body::empty()).unwrap();
        drop(self.calls.send_request(request).await.unwrap());
        all_at_rest().await;
    }

    /// In seconds.
    async fn lived(self) -> u64 {
        self.life.await.unwrap().as_secs()
    }
}

/// Until nothing has anything to do any more: only then the clock moves on.
async fn all_at_rest() {
    let moved_on = tokio::time::timeout(Duration::from_millis(1), std::future::pending::<()>());
    assert!(moved_on.await.is_err());
}

async fn served(stream: DuplexStream, rules: AccessRules, strangers: Newcomers) {
    let accepted = Accepted {
        stream,
        peer: Peer {
            address: ([127, 0, 0, 1], 1).into(),
            certificate: None,
        },
        carrier: Carrier::Plaintext,
        lease: None,
        deadline: Instant::now() + PREFACE_TIMEOUT,
        place: Newcomers::new(1).enter(),
        strangers,
    };
    let callers = CallerThreads {
        small: Handle::current(),
        large: Handle::current(),
    };
    let (_open, closing) = watch::channel(false);
    let (routes, gate) = (Routes::default(), Gate::new());
    serve(accepted, &rules, routes, gate, callers, Tally::default(), closing).await;
}

fn strict() -> AccessRules {
    let policy = Policy::parse("version = 1").unwrap();
    AccessRules::new(watch::channel(Arc::new(Access::new(policy))).1)
}

#[tokio::test(start_paused = true)]
async fn who_never_calls_is_told_to_go_soon_and_who_has_called_later() {
    let (rules, strangers) = (AccessRules::none(), Newcomers::new(4));
    let silent = Client::come(&rules, &strangers).await;
    assert_eq!(silent.lived().await, STRANGER_IDLE_MAX.as_secs());

    let mut caller = Client::come(&rules, &strangers).await;
    caller.call(WHO_AM_I).await;
    let lived = caller.lived().await;
    assert_eq!(lived, (STRANGER_IDLE_MAX + CONNECTION_IDLE_MAX).as_secs());
}

#[tokio::test(start_paused = true)]
async fn who_may_do_nothing_stays_a_stranger_whatever_it_calls() {
    let strangers = Newcomers::new(4);
    for path in [WHO_AM_I, HEALTH] {
        let mut caller = Client::come(&strict(), &strangers).await;
        caller.call(path).await;
        // The first look sees the call, the second none.
        assert_eq!(caller.lived().await, 2 * STRANGER_IDLE_MAX.as_secs(), "{path}");
    }
    let mut refused = Client::come(&strict(), &strangers).await;
    refused.call("/escapement.v1.FleetService/ListWorkers").await;
    assert_eq!(refused.lived().await, STRANGER_IDLE_MAX.as_secs());
}

#[tokio::test(start_paused = true)]
async fn the_oldest_stranger_goes_for_one_that_comes_and_who_has_called_stays() {
    let (rules, strangers) = (AccessRules::none(), Newcomers::new(2));
    let mut known = Client::come(&rules, &strangers).await;
    known.call(WHO_AM_I).await;
    let first = Client::come(&rules, &strangers).await;
    let second = Client::come(&rules, &strangers).await;
    let third = Client::come(&rules, &strangers).await;
    assert_eq!(first.lived().await, 0);
    assert!(!second.life.is_finished() && !third.life.is_finished());
    known.call(WHO_AM_I).await;
    assert!(!known.life.is_finished() && known.began.elapsed() < STRANGER_IDLE_MAX);
}
