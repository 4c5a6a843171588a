//! Permits for the answers of all methods, by which they count among the unread answers of their tenants.

use crate::call_class::{CallClass, class_of};
use crate::refusal::Refusal;
use crate::response_budget::{ResponseBudget, ResponsePermit};
use crate::share::{CallTenant, Tenant};
use bytes::Bytes;
use http_body::Frame;
use hyper::{Request, Response};
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::service::{AxumBody, AxumRouter, Routes};

/// Returns the routes with a permit for each answer. An answer that has one already counts itself.
pub fn counted(routes: Routes, answers: &ResponseBudget) -> Routes {
    let answers = answers.clone();
    Routes::from(AxumRouter::new().fallback_service(Counting { routes, answers }))
}

#[derive(Clone, Debug)]
struct Counting {
    routes: Routes,
    answers: ResponseBudget,
}

impl Service<Request<AxumBody>> for Counting {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<AxumBody>) -> Self::Future {
        let class = class_of(request.uri().path());
        let tenant = CallTenant::of(request.extensions());
        let (answering, answers) = (self.routes.call(request), self.answers.clone());
        Box::pin(async move { Ok(with_permit(answering.await?, &tenant, class, &answers).await) })
    }
}

/// Encodes the message of an answer, and takes a permit for it. Without one, returns the refusal instead.
async fn with_permit(
    answer: Response<Body>,
    tenant: &Tenant,
    class: CallClass,
    answers: &ResponseBudget,
) -> Response<Body> {
    if !class.has_one_answer() || answer.extensions().get::<ResponsePermit>().is_some() {
        return answer;
    }
    let (mut head, mut body) = answer.into_parts();
    let Some(first) = poll_fn(|context| next(&mut body, context)).await else {
        return Response::from_parts(head, Body::empty());
    };
    let data = first.as_ref().ok().and_then(Frame::data_ref);
    match answers.take_of(tenant, class, data.map_or(0, Bytes::len)) {
        Ok(permit) => {
            head.extensions.insert(permit);
            let first = Some(first);
            Response::from_parts(head, Body::new(Begun { first, rest: body }))
        }
        Err(_) if class.may_change() => Status::from(Refusal::AnswerDropped).into_http(),
        Err(refusal) => Status::from(refusal).into_http(),
    }
}

/// A body of which the first frame was taken.
struct Begun {
    first: Option<Result<Frame<Bytes>, Status>>,
    rest: Body,
}

impl http_body::Body for Begun {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        match self.first.take() {
            Some(first) => Poll::Ready(Some(first)),
            None => next(&mut self.rest, context),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none() && self.rest.is_end_stream()
    }
}

fn next(body: &mut Body, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
    http_body::Body::poll_frame(Pin::new(body), context)
}

#[cfg(test)]
mod tests;
