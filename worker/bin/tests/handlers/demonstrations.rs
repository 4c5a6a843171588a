//! `echo`, `delay` and `fail`.

use super::{context, input};
use escapement_sdk::testing::{ContextBuilder, cancel};
use escapement_worker::handlers::{delay, echo, fail};
use serde_json::json;

#[tokio::test]
async fn echo_gives_its_input_back() {
    let payload = json!({ "a": [1, { "b": null }] });
    let output = echo::run(payload.as_object().unwrap().clone(), context())
        .await
        .unwrap();
    assert_eq!(serde_json::to_value(output).unwrap(), payload);
}

#[tokio::test]
async fn a_delay_ends_early_when_it_is_cancelled() {
    let attempt = context();
    let running = tokio::spawn(delay::run(input(json!({ "ms": 3_600_000 })), attempt.clone()));
    cancel(&attempt);
    assert!(running.await.unwrap().unwrap().elapsed_ms < 3_600_000);
}

#[tokio::test]
async fn a_delay_lasts_at_least_as_long_as_asked() {
    assert!(
        delay::run(input(json!({ "ms": 20 })), context())
            .await
            .unwrap()
            .elapsed_ms
            >= 20
    );
    let error = delay::run(input(json!({ "ms": 86_400_001_u64 })), context())
        .await
        .unwrap_err();
    assert_eq!(error.code(), "INVALID_PAYLOAD");
}

#[tokio::test]
async fn fail_fails_as_told_until_its_attempt_comes() {
    let payload = json!({
        "code": "MINE", "message": "m", "severity": "fatal", "context": { "k": 1 }, "succeed_on_attempt": 3
    });
    let on = |attempt| {
        fail::run(
            input(payload.clone()),
            ContextBuilder::new("fail").attempt(attempt).build(),
        )
    };
    let error = on(2).await.unwrap_err();
    assert_eq!(
        (
            error.code(),
            error.message(),
            error.stated_severity().unwrap().as_str()
        ),
        ("MINE", "m", "fatal")
    );
    assert_eq!(error.diagnostics()["k"], 1);
    assert_eq!(on(3).await.unwrap().attempt, 3);
    let of_run = |attempt| {
        ContextBuilder::new("fail")
            .run_attempt("run/pay", attempt)
            .build()
    };
    assert!(fail::run(input(payload.clone()), of_run(2)).await.is_err());
    let output = fail::run(input(payload.clone()), of_run(3)).await.unwrap();
    assert_eq!((output.attempt, output.idempotency_key.as_str()), (3, "run/pay"));
}
