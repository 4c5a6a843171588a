//! `llm.chat`: an endpoint that says back what it was shown, and one that does not want to answer.

use super::models::{ask, at_port, payload};
use super::server::OneAnswer;
use super::{context, input, kind, with_root};
use escapement_worker::handlers::llm_chat::run;
use serde_json::{Value, json};
use std::fs;
use std::sync::Arc;

#[tokio::test]
async fn a_key_that_the_endpoint_says_back_is_hidden_everywhere() {
    let directory = tempfile::TempDir::new().unwrap();
    let (key_file, key) = (directory.path().join("key"), "sk-test-51/SECRET");
    fs::write(&key_file, format!("{key}\n")).unwrap();
    let said = format!("Incorrect API key provided: {key}.");
    let in_json = format!(
        r#"{{"error": {{"message": "Incorrect API key provided: {}."}}}}"#,
        key.replace('/', "\\/")
    );
    let escaped = format!(r#"{{"error": "{}"}}"#, key.replace('s', "\\u0073"));
    let content =
        json!({ "choices": [{ "message": { "content": said }, "finish_reason": key }] }).to_string();
    let function = json!({ "name": "f", "arguments": json!({ "k": key }).to_string() });
    let arguments = json!({ "choices": [{ "message": { "tool_calls": [{ "function": function }] } }] });
    let refusal = json!({ "choices": [{ "message": { "content": null, "refusal": said } }] }).to_string();
    for (status, body) in [
        ("401 Unauthorized", in_json.as_str()),
        ("429 Too Many Requests", &said),
        ("500 Internal Server Error", &in_json),
        ("200 OK", &said),
        ("200 OK", &in_json),
        ("200 OK", &escaped),
        ("403 Forbidden", &escaped),
        ("200 OK", &content),
        ("200 OK", &arguments.to_string()),
        ("200 OK", &refusal),
    ] {
        let server = OneAnswer::with(status, "application/json", body);
        let (config, root) = with_root();
        let mut config = at_port(config, server.port);
        config.llm.as_mut().unwrap().api_key_file = Some(key_file.clone());
        let mut payload = payload();
        payload["output_file"] = json!("said.txt");
        let told = match run(input(payload), context(), Arc::new(config)).await {
            Ok(output) => serde_json::to_string(&output).unwrap(),
            Err(error) => format!("{error} {:?}", error.diagnostics()),
        };
        let written = fs::read_to_string(root.path().join("said.txt")).unwrap_or_default();
        assert!(
            !told.contains("SECRET") && !written.contains("SECRET"),
            "{body}: {told} {written}"
        );
        assert!(
            told.contains("[secret]") || written.contains("[secret]"),
            "{body}: {told} {written}"
        );
        let shown = format!("authorization: Bearer {key}\r\n");
        assert!(server.asked().head.contains(&shown), "the endpoint was shown it");
    }
}

#[tokio::test]
async fn a_refusal_is_told_in_the_model_s_words() {
    let answer = |message: Value, finish_reason: &str| {
        let usage = json!({ "total_tokens": 1009 });
        let body =
            json!({ "choices": [{ "message": message, "finish_reason": finish_reason }], "usage": usage });
        OneAnswer::with("200 OK", "application/json", &body.to_string())
    };
    let refused = answer(
        json!({ "content": null, "refusal": "I cannot help with that." }),
        "stop",
    );
    let error = ask(&refused, payload()).await.unwrap_err();
    assert_eq!(kind(&error), "LLM_REFUSED");
    assert!(error.message().contains("I cannot help with that."), "{error}");
    assert_eq!(error.diagnostics()["usage"]["total_tokens"], 1009);
    for content in [json!(null), json!("")] {
        let filtered = answer(json!({ "content": content }), "content_filter");
        let error = ask(&filtered, payload()).await.unwrap_err();
        assert_eq!(kind(&error), "LLM_REFUSED");
        assert_eq!(error.diagnostics()["finish_reason"], "content_filter");
    }
    let said = answer(json!({ "content": "yes", "refusal": null }), "stop");
    assert_eq!(
        ask(&said, payload()).await.unwrap().content.as_deref(),
        Some("yes")
    );
}
