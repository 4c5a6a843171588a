//! The body of a request: limits on its time and its size, and the budget for the bytes of all bodies in transit.

mod cut;

use crate::call_class::CallClass;
use crate::call_slots::PendingUpload;
use crate::limits::{REQUEST_TIMEOUT, SMALL_REQUEST_BYTES};
use crate::refusal::Refusal;
use crate::share::{Share, SharePart, Tenant};
use bytes::Bytes;
use cut::MessageCut;
use http_body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::time::{Sleep, sleep};
use tonic::Status;

/// The bytes that incomplete requests together may hold: all of them, those of one connection, and those of one tenant.
/// Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct BodyBudget {
    connection: Share,
    whole: Share,
    tenant: Tenant,
}

impl BodyBudget {
    /// Creates a budget of `max` bytes.
    pub(crate) fn new(max: usize) -> Self {
        Self {
            connection: Share::new(max),
            whole: Share::new(max),
            tenant: None,
        }
    }

    /// Returns the budget of one connection, which may have `max / share` of the bytes.
    pub(crate) fn part(&self, share: usize) -> Self {
        Self {
            connection: Share::new(self.whole.n_max() / share),
            whole: self.whole.clone(),
            tenant: None,
        }
    }

    /// Returns the budget for requests of the tenant.
    pub(crate) fn of(&self, tenant: Tenant) -> Self {
        Self {
            tenant,
            ..self.clone()
        }
    }

    /// Returns an empty share.
    fn share(&self) -> BudgetShare {
        BudgetShare {
            of_connection: self.connection.none(&None),
            of_tenant: self.whole.none(&self.tenant),
            bytes_free: SMALL_REQUEST_BYTES,
        }
    }
}

/// Bytes that one request has taken; returned at its end.
#[derive(Debug)]
struct BudgetShare {
    of_connection: SharePart,
    of_tenant: SharePart,
    /// Bytes that do not count.
    bytes_free: usize,
}

impl BudgetShare {
    /// Returns false, and takes nothing, if fewer bytes are left.
    fn take(&mut self, bytes: usize) -> bool {
        let free = bytes.min(self.bytes_free);
        let counted = bytes - free;
        if self.of_connection.grow(counted).is_err() {
            return false;
        }
        if self.of_tenant.grow(counted).is_err() {
            self.of_connection.shrink(counted);
            return false;
        }
        self.bytes_free -= free;
        true
    }
}

/// The body of a request, within the limits of its kind.
///
/// The body is dropped as soon as its message is read, so what waits for an answer is not limited here.
#[derive(Debug)]
pub(crate) struct RequestBody<B> {
    body: B,
    rules: Rules,
}

#[derive(Debug)]
enum Rules {
    /// For one message.
    One(BodyLimits),
    /// For a stream of messages.
    Many(MessageCut),
}

#[derive(Debug)]
struct BodyLimits {
    time_up: Pin<Box<Sleep>>,
    share: BudgetShare,
    announced: Announced,
    /// Bytes of the message at the most.
    bytes_max: usize,
    /// Slot that its call loses if others have complete requests; `None` once it is complete.
    place: Option<(PendingUpload, CallClass)>,
}

/// Head of a message: a flag, and the length in four bytes.
#[derive(Debug, Default)]
struct Announced {
    head: [u8; 5],
    n_read: usize,
}

impl Announced {
    /// Returns the bytes that are still missing.
    fn n_missing(&self) -> usize {
        self.head.len() - self.n_read
    }

    /// Returns the length of the message, once, as soon as all of its bytes are there.
    fn read(&mut self, data: &[u8]) -> Option<usize> {
        let n_missing = self.n_missing();
        let taken = &data[..data.len().min(n_missing)];
        self.head[self.n_read..][..taken.len()].copy_from_slice(taken);
        self.n_read += taken.len();
        let is_known_now = n_missing > 0 && self.n_read == self.head.len();
        let [_, length @ ..] = self.head;
        is_known_now.then_some(u32::from_be_bytes(length) as usize)
    }
}

impl BodyLimits {
    /// Takes what has come into account.
    fn admit(&mut self, data: &[u8]) -> Result<(), Refusal> {
        let bytes_max = self.bytes_max;
        match self.announced.read(data) {
            Some(bytes) if bytes > bytes_max => Err(Refusal::RequestTooLarge { bytes, bytes_max }),
            _ if !self.share.take(data.len()) => Err(Refusal::RequestsTooLarge),
            _ => Ok(()),
        }
    }

    fn poll_gave_way(&self, cx: &Context<'_>) -> Poll<CallClass> {
        let Some((incomplete, kind)) = &self.place else {
            return Poll::Pending;
        };
        incomplete.poll_gave_way(cx).map(|()| *kind)
    }
}

impl<B> RequestBody<B> {
    /// Creates a body of one message of at most `bytes_max` that is complete within [`REQUEST_TIMEOUT`] from now and counts
    /// against the budget.
    pub(crate) fn limited(
        body: B,
        bytes_max: usize,
        budget: BodyBudget,
        place: Option<(PendingUpload, CallClass)>,
    ) -> Self {
        let limits = BodyLimits {
            time_up: Box::pin(sleep(REQUEST_TIMEOUT)),
            share: budget.share(),
            announced: Announced::default(),
            bytes_max,
            place,
        };
        Self {
            body,
            rules: Rules::One(limits),
        }
    }

    /// Creates a body of any number of messages without a time limit.
    pub(crate) fn unlimited(body: B) -> Self {
        let rules = Rules::Many(MessageCut::default());
        Self { body, rules }
    }
}

impl<B> Body for RequestBody<B>
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Self { body, rules } = &mut *self;
        let limits = match rules {
            Rules::One(limits) => limits,
            Rules::Many(cut) => return cut.poll_frame(body, cx),
        };
        let polled = Pin::new(&mut *body).poll_frame(cx);
        let refused = |rejection| Poll::Ready(Some(Err(Status::from(rejection).into())));
        match polled {
            // What is there counts, however late it is read; so the time is looked at only here.
            Poll::Pending if limits.time_up.as_mut().poll(cx).is_ready() => refused(Refusal::RequestTooSlow),
            Poll::Pending => match limits.poll_gave_way(cx) {
                Poll::Ready(kind) => refused(Refusal::Overloaded(kind)),
                Poll::Pending => Poll::Pending,
            },
            Poll::Ready(frame) => {
                let data = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref());
                if let Some(Err(rejection)) = data.map(|data| limits.admit(data)) {
                    return refused(rejection);
                }
                if frame.is_none() || body.is_end_stream() {
                    limits.place = None;
                }
                Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        let is_all_given = match &self.rules {
            Rules::One(_) => true,
            Rules::Many(cut) => cut.is_all_given(),
        };
        is_all_given && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        // Of a part that is not given yet nothing is known here, and nothing depends on it.
        SizeHint::default()
    }
}

/// Error type of the routes; a [`Status`] in it becomes the answer.
type BoxError = Box<dyn std::error::Error + Send + Sync>;

#[cfg(test)]
mod tests;
