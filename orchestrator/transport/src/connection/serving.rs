//! Threads that answer the calls of callers: shared ones, and threads of their own for large calls.

use super::CallerThreads;
use crate::body_prefetch::PrefetchedBody;
use crate::call_class::CallClass;
use crate::limits::LARGE_REQUEST_BYTES;
use crate::refusal::Refusal;
use crate::request_body::RequestBody;
use hyper::body::Incoming;
use std::convert::Infallible;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::service::Routes;

/// Answers a call on threads of callers: what workers and operators send waits for none of them.
pub(super) async fn answered_by(
    callers: CallerThreads,
    class: CallClass,
    mut routes: Routes,
    request: hyper::Request<RequestBody<Incoming>>,
) -> Result<hyper::Response<Body>, Infallible> {
    let (head, body) = request.into_parts();
    let mut body = PrefetchedBody::new(body);
    let is_quick = class.hands_in() && body.is_small().await;
    let is_large = class != CallClass::Reflections && body.announced().await > LARGE_REQUEST_BYTES;
    let answer = routes.call(hyper::Request::from_parts(head, body));
    let threads = if is_large { callers.large } else { callers.small };
    match is_quick {
        true => answer.await,
        false => Ok(served_by(threads, answer).await),
    }
}

/// Returns the answer to a call that is served elsewhere. Dropping the future ends the serving.
async fn served_by(
    threads: Handle,
    answer: impl Future<Output = Result<hyper::Response<Body>, Infallible>> + Send + 'static,
) -> hyper::Response<Body> {
    let mut serving = JoinSet::new();
    serving.spawn_on(answer, &threads);
    match serving.join_next().await {
        Some(Ok(Ok(answer))) => answer,
        Some(Err(ended)) if ended.is_panic() => std::panic::resume_unwind(ended.into_panic()),
        // The orchestrator ends.
        Some(Err(_)) | None => Status::from(Refusal::Stopping).into_http(),
    }
}
