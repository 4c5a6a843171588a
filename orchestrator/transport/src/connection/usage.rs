//! Usage of one connection: open requests, and whether an authorized call was made.

use crate::call_access::ConnectionAccess;
use crate::call_slots::CallPermit;
use crate::connection_abort::ConnectionAbort;
use crate::guarded::Beginning;
use crate::newcomers::Newcomers;
use escapement_access::Principal;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;

#[derive(Debug)]
pub(super) struct Usage {
    pub(super) access: Arc<ConnectionAccess>,
    pub(super) abort: ConnectionAbort,
    pub(super) beginning: Arc<Beginning>,
    n_open: AtomicUsize,
    /// Incremented by every request, so that a periodic check sees new ones.
    n_requests: AtomicUsize,
    is_known: AtomicBool,
}

impl Usage {
    pub(super) fn new(access: ConnectionAccess) -> Self {
        Self {
            access: Arc::new(access),
            abort: ConnectionAbort::default(),
            beginning: Arc::default(),
            n_open: AtomicUsize::new(0),
            n_requests: AtomicUsize::new(0),
            is_known: AtomicBool::new(false),
        }
    }

    /// Requests that were let in since the connection began.
    pub(super) fn n_requests(&self) -> usize {
        self.n_requests.load(Ordering::Relaxed)
    }

    /// Returns true while a request is open.
    pub(super) fn is_busy(&self) -> bool {
        self.n_open.load(Ordering::Relaxed) > 0
    }

    /// Returns true once an authorized call was made.
    pub(super) fn is_known(&self) -> bool {
        self.is_known.load(Ordering::Relaxed)
    }

    /// Holds a slot for unauthenticated connections until the first authorized call; resolves if another connection
    /// evicts this one. Such a call comes with progress of the connection, after which this is to be polled.
    pub(super) async fn displaced(&self, strangers: &Newcomers) {
        let mut place = None;
        poll_fn(|cx| {
            if self.is_known() {
                place = None;
                return Poll::Pending;
            }
            if !self.beginning.has_begun() {
                return Poll::Pending;
            }
            pin!(place.get_or_insert_with(|| strangers.enter()).lost()).poll(cx)
        })
        .await;
    }
}

/// Counts one request for as long as it lives, and holds its slot.
pub(super) struct OpenRequest(
    Arc<Usage>,
    #[expect(dead_code, reason = "given back on drop")] Option<CallPermit>,
);

impl OpenRequest {
    pub(super) fn new(usage: &Arc<Usage>, place: Option<CallPermit>, caller: &Principal) -> Self {
        usage.n_open.fetch_add(1, Ordering::Relaxed);
        usage.n_requests.fetch_add(1, Ordering::Relaxed);
        if !caller.roles().is_empty() {
            usage.is_known.store(true, Ordering::Relaxed);
        }
        Self(Arc::clone(usage), place)
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.n_open.fetch_sub(1, Ordering::Relaxed);
    }
}
