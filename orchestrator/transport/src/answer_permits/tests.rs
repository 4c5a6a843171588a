#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use crate::limits::CONTROL_ANSWERS_BYTES_MAX;

/// Returns routes that answer each call with so many bytes.
fn routes(budget: &ResponseBudget) -> Routes {
    let answers = AxumRouter::new().fallback(async || vec![7; BYTES]);
    counted(Routes::from(answers), budget)
}

/// Returns the answer to a call with one answer.
async fn asked(routes: &mut Routes) -> Response<Body> {
    let request = Request::builder().uri("/escapement.v1.FleetService/ListWorkers");
    routes.call(request.body(Body::empty()).unwrap()).await.unwrap()
}

fn is_refused(answer: &Response<Body>) -> bool {
    answer
        .headers()
        .get("grpc-status")
        .is_some_and(|code| code != "0")
}

#[tokio::test]
async fn an_answer_counts_until_it_is_dropped_and_one_without_room_is_refused() {
    let mut routes = routes(&ResponseBudget::default());
    let kept = [asked(&mut routes).await, asked(&mut routes).await];
    assert!(!kept.iter().any(is_refused));
    assert!(is_refused(&asked(&mut routes).await));
    drop(kept);
    assert!(!is_refused(&asked(&mut routes).await));
}

#[tokio::test]
async fn an_answer_that_counts_is_whole() {
    let (_, mut body) = asked(&mut routes(&ResponseBudget::default())).await.into_parts();
    let mut n_bytes = 0;
    while let Some(frame) = poll_fn(|context| next(&mut body, context)).await {
        n_bytes += frame.unwrap().data_ref().map_or(0, Bytes::len);
    }
    assert_eq!(n_bytes, BYTES);
    assert!(http_body::Body::is_end_stream(&body));
}

#[tokio::test]
async fn routes_count_no_answer_twice() {
    let budget = ResponseBudget::default();
    for path in [
        "/escapement.runs.v1.RunService/WatchRun",
        "/grpc.health.v1.Health/Check",
    ] {
        let request = Request::builder().uri(path);
        let answer = routes(&budget).call(request.body(Body::empty()).unwrap()).await;
        assert!(
            answer.unwrap().extensions().get::<ResponsePermit>().is_none(),
            "{path}"
        );
    }
    let answers = AxumRouter::new().fallback(async || {
        let mut answer = Response::new(AxumBody::from(vec![7; BYTES]));
        answer.extensions_mut().insert(ResponsePermit::default());
        answer
    });
    let mut routes = counted(Routes::from(answers), &budget);
    let mut kept = Vec::new();
    for _ in 0..4 {
        kept.push(asked(&mut routes).await);
    }
    assert!(!kept.iter().any(is_refused));
}

/// Half of what all may have.
const BYTES: usize = CONTROL_ANSWERS_BYTES_MAX / 2;
