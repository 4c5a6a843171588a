#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use escapement_transport::response_budget::ResponseBudget;
use escapement_transport::share::CallTenant;
use escapement_transport::{CallClass, ConnectionAbort};
use escapement_wire::runs::v1;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio_stream::StreamExt;
use tonic::Code;
use tonic::Extensions;

/// Pages of one answer without an end.
#[derive(Clone, Default)]
struct Endless {
    n: usize,
    n_read: Arc<AtomicUsize>,
    n_rests: Arc<AtomicUsize>,
}

impl Paged for Endless {
    type Answer = v1::ExportRunResponse;

    async fn page(&mut self) -> Result<Page<Self::Answer>, End> {
        self.n_read.fetch_add(1, Ordering::Relaxed);
        self.n += 1;
        let data = vec![u8::try_from(self.n % 256).unwrap(); PAGE_BYTES].into();
        Ok(Page {
            answers: vec![v1::ExportRunResponse { data }],
            has_more: true,
        })
    }

    fn rest(&mut self) {
        self.n_rests.fetch_add(1, Ordering::Relaxed);
    }
}

fn of(budget: &ResponseBudget, tenant: &str, abort: &ConnectionAbort) -> Recipient {
    let mut extensions = Extensions::new();
    extensions.insert(CallTenant(Some(tenant.into())));
    extensions.insert(abort.clone());
    Recipient::new(budget, CallClass::Watches, &extensions)
}

fn endless(endless: &Endless, recipient: Recipient) -> AnswerStream<v1::ExportRunResponse> {
    let mut endless = endless.clone();
    start(recipient, async move |teller| {
        teller.tell(&mut endless).await.err().unwrap()
    })
}

/// Returns the number of the page of an answer.
async fn next(answers: &mut AnswerStream<v1::ExportRunResponse>) -> Result<u8, Status> {
    answers.next().await.unwrap().map(|answer| answer.data[0])
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_reads_nothing_holds_one_page_until_its_connection_is_cut() {
    let (place, abort) = (Endless::default(), ConnectionAbort::default());
    let answers = endless(&place, of(&ResponseBudget::default(), "one", &abort));
    // The clock is paused: it moves to the next limit once everything waits.
    abort.aborted().await;
    assert_eq!(place.n_read.load(Ordering::Relaxed), 1);
    assert_eq!(place.n_rests.load(Ordering::Relaxed), 1, "it was told to rest");
    drop(answers);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_reads_gets_every_page_once_and_in_order() {
    let (place, abort) = (Endless::default(), ConnectionAbort::default());
    let mut answers = endless(&place, of(&ResponseBudget::default(), "one", &abort));
    for n in 1..=200 {
        assert_eq!(next(&mut answers).await.unwrap(), n);
    }
}

#[tokio::test(start_paused = true)]
async fn the_share_of_a_tenant_is_bounded_and_leaves_another_its_own() {
    let (budget, abort) = (ResponseBudget::default(), ConnectionAbort::default());
    let (of_deaf, of_late, of_other) = (Endless::default(), Endless::default(), Endless::default());
    let deaf: Vec<_> = (0..SHARE_PAGES)
        .map(|_| endless(&of_deaf, of(&budget, "deaf", &abort)))
        .collect();
    // Each has its page: on the one thread of this test, nothing runs between its reading and its count.
    while of_deaf.n_read.load(Ordering::Relaxed) < SHARE_PAGES {
        tokio::task::yield_now().await;
    }
    let mut late = endless(&of_late, of(&budget, "deaf", &ConnectionAbort::default()));
    let mut other = endless(&of_other, of(&budget, "other", &ConnectionAbort::default()));
    for n in 1..=20 {
        assert_eq!(next(&mut other).await.unwrap(), n, "the other tenant is served");
    }
    // The late page was read, got no permit, and is not held.
    let refused = next(&mut late).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert_eq!(of_late.n_read.load(Ordering::Relaxed), 1);
    drop(deaf);
    let mut late = endless(&of_late, of(&budget, "deaf", &abort));
    assert_eq!(next(&mut late).await.unwrap(), 1, "the room was given back");
}

/// A page that is large.
const PAGE_BYTES: usize = 1 << 20;
/// Number of pages that one tenant alone may have. With the last, it has as many bytes as were free before.
const SHARE_PAGES: usize = 64;
