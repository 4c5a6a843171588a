//! `llm.chat`, against a server that speaks the protocol.

use super::server::OneAnswer;
use super::{closed, context, input, kind, with_root};
use escapement_sdk::StepError;
use escapement_worker::config::{Config, LlmEndpoint};
use escapement_worker::handlers::llm_chat::{Output, run};
use serde_json::{Value, json};
use std::fs;
use std::net::TcpListener;
use std::sync::Arc;

pub(super) fn at_port(config: Config, port: u16) -> Config {
    let url = format!("http://127.0.0.1:{port}/v1/chat/completions")
        .parse()
        .unwrap();
    Config {
        llm: Some(LlmEndpoint {
            url,
            model: None,
            api_key_file: None,
        }),
        ..config
    }
}

pub(super) fn payload() -> Value {
    json!({ "model": "m", "messages": [{ "role": "user", "content": "hi" }] })
}

pub(super) async fn ask(server: &OneAnswer, payload: Value) -> Result<Output, StepError> {
    run(
        input(payload),
        context(),
        Arc::new(at_port(closed(), server.port)),
    )
    .await
}

fn answer(content: &str) -> OneAnswer {
    let body = json!({
        "model": "m-1", "usage": { "total_tokens": 5 },
        "choices": [{ "message": { "role": "assistant", "content": content }, "finish_reason": "stop" }]
    });
    OneAnswer::with("200 OK", "application/json", &body.to_string())
}

#[tokio::test]
async fn without_an_endpoint_there_are_no_models() {
    let error = run(input(payload()), context(), Arc::new(closed()))
        .await
        .unwrap_err();
    assert_eq!(kind(&error), "LLM_NOT_CONFIGURED fatal");
}

#[tokio::test]
async fn the_model_s_answer_comes_back_with_its_usage() {
    let server = answer("hello");
    let mut payload = payload();
    payload["temperature"] = json!(0.5);
    payload["max_tokens"] = json!(9);
    payload["response_format"] = json!({ "type": "text" });
    let output = ask(&server, payload).await.unwrap();
    assert_eq!(
        (output.content.as_deref(), output.finish_reason.as_deref()),
        (Some("hello"), Some("stop"))
    );
    assert_eq!(
        (output.model.as_deref(), &output.usage.unwrap()["total_tokens"]),
        (Some("m-1"), &json!(5))
    );
    let asked = server.asked();
    assert!(
        asked.head.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"),
        "{}",
        asked.head
    );
    assert!(!asked.head.to_ascii_lowercase().contains("authorization"));
    let sent: Value = serde_json::from_str(&asked.body).unwrap();
    assert_eq!(sent["messages"], json!([{ "role": "user", "content": "hi" }]));
    assert_eq!(
        (&sent["temperature"], &sent["max_tokens"]),
        (&json!(0.5), &json!(9))
    );
    assert_eq!(sent["response_format"]["type"], "text");
}

#[tokio::test]
async fn the_key_is_read_anew_for_every_call_and_never_shown() {
    let directory = tempfile::TempDir::new().unwrap();
    let path = directory.path().join("key");
    for key in ["first-key", "second-key"] {
        fs::write(&path, format!("{key}\n")).unwrap();
        let server = OneAnswer::with("401 Unauthorized", "text/plain", "no");
        let mut config = at_port(closed(), server.port);
        config.llm.as_mut().unwrap().api_key_file = Some(path.clone());
        let error = run(input(payload()), context(), Arc::new(config))
            .await
            .unwrap_err();
        assert!(!format!("{error} {:?}", error.diagnostics()).contains(key));
        assert!(
            server
                .asked()
                .head
                .contains(&format!("authorization: Bearer {key}\r\n"))
        );
    }
}

#[tokio::test]
async fn overload_is_told_apart_from_refusal() {
    for (status, code) in [
        ("429 Too Many Requests", "LLM_UNAVAILABLE"),
        ("500 Internal Server Error", "LLM_UNAVAILABLE"),
        ("503 Busy", "LLM_UNAVAILABLE"),
        ("400 Bad Request", "LLM_REJECTED"),
        ("401 Unauthorized", "LLM_REJECTED"),
        ("302 Found", "LLM_REJECTED"),
    ] {
        let server = OneAnswer::with(status, "application/json", r#"{"error": "x"}"#);
        let error = ask(&server, payload()).await.unwrap_err();
        assert_eq!(kind(&error), code, "{status}");
        assert_eq!(error.diagnostics()["body"], r#"{"error": "x"}"#);
    }
}

#[tokio::test]
async fn nonsense_is_an_error_and_no_panic() {
    for body in [
        "",
        "no json",
        "[]",
        "{}",
        r#"{"choices": []}"#,
        r#"{"choices": [{"message": {"content": null}}]}"#,
    ] {
        let server = OneAnswer::with("200 OK", "application/json", body);
        assert_eq!(
            ask(&server, payload()).await.unwrap_err().code(),
            "LLM_INVALID_RESPONSE",
            "{body}"
        );
    }
    let server = OneAnswer::new("not even HTTP\r\n\r\n");
    assert_eq!(
        ask(&server, payload()).await.unwrap_err().code(),
        "LLM_UNAVAILABLE"
    );
}

#[tokio::test]
async fn an_endpoint_that_is_away_or_silent_is_unavailable() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let config = Arc::new(at_port(closed(), port));
    let mut impatient = payload();
    impatient["timeout_ms"] = json!(50);
    assert_eq!(
        run(input(impatient), context(), config.clone())
            .await
            .unwrap_err()
            .code(),
        "LLM_UNAVAILABLE"
    );
    drop(silent);
    assert_eq!(
        run(input(payload()), context(), config).await.unwrap_err().code(),
        "LLM_UNAVAILABLE"
    );
}

#[tokio::test]
async fn json_in_the_answer_is_parsed_where_asked() {
    let mut payload = payload();
    payload["parse_json"] = json!(true);
    let output = ask(&answer(r#"{"steps": [1]}"#), payload.clone()).await.unwrap();
    assert_eq!(output.json.unwrap()["steps"][0], 1);
    assert_eq!(
        ask(&answer("sorry"), payload).await.unwrap_err().code(),
        "LLM_INVALID_RESPONSE"
    );
}

#[tokio::test]
async fn files_carry_messages_in_and_the_answer_out() {
    let (config, directory) = with_root();
    fs::write(directory.path().join("notes"), "long notes").unwrap();
    let server = answer("summary");
    let payload = json!({
        "model": "m", "output_file": "out/summary",
        "messages": [
            { "role": "system", "content_file": "notes" },
            { "role": "user", "content": "Sum up:", "content_file": "notes" }
        ]
    });
    let output = run(input(payload), context(), Arc::new(at_port(config, server.port)))
        .await
        .unwrap();
    assert_eq!((output.content, output.output_file.unwrap().bytes), (None, 7));
    let sent: Value = serde_json::from_str(&server.asked().body).unwrap();
    assert_eq!(sent["messages"][0]["content"], "long notes");
    assert_eq!(sent["messages"][1]["content"], "Sum up:\n\nlong notes");
}

#[tokio::test]
async fn an_answer_that_does_not_fit_into_an_output_is_an_error_that_a_plan_may_skip() {
    let (large, numbers) = ("x".repeat(2 << 20), json!(vec![1; 100_000]).to_string());
    for (text, parse_json) in [(large, false), (numbers, true)] {
        let mut payload = payload();
        payload["parse_json"] = json!(parse_json);
        let error = ask(&answer(&text), payload).await.unwrap_err();
        assert_eq!(kind(&error), "LLM_INVALID_RESPONSE");
    }
}

#[tokio::test]
async fn a_step_that_names_no_model_gets_the_worker_s() {
    for given in [json!(null), json!("")] {
        let server = answer("hello");
        let mut payload = payload();
        payload["model"] = given;
        payload
            .as_object_mut()
            .unwrap()
            .retain(|_, value| !value.is_null());
        let without = Arc::new(at_port(closed(), server.port));
        let error = run(input(payload.clone()), context(), without).await;
        assert_eq!(kind(&error.unwrap_err()), "INVALID_PAYLOAD fatal");
        let mut config = at_port(closed(), server.port);
        config.llm.as_mut().unwrap().model = Some("own".to_owned());
        run(input(payload), context(), Arc::new(config)).await.unwrap();
        let sent: Value = serde_json::from_str(&server.asked().body).unwrap();
        assert_eq!(sent["model"], "own");
    }
}

fn with_calls(content: Value, calls: &Value) -> OneAnswer {
    let body = json!({
        "choices": [{
            "message": { "role": "assistant", "content": content, "tool_calls": calls },
            "finish_reason": "tool_calls"
        }],
        "usage": { "prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5 }
    });
    OneAnswer::with("200 OK", "application/json", &body.to_string())
}

fn with_tools() -> Value {
    let mut payload = payload();
    payload["tools"] = json!([
        { "name": "file.read", "description": "Reads.", "parameters": { "type": "object" } },
        { "name": "echo" }
    ]);
    payload
}

#[tokio::test]
async fn the_model_calls_a_tool_by_its_own_name_and_gets_the_result() {
    let wanted = json!([{
        "id": "c1", "type": "function",
        "function": { "name": "file_read", "arguments": "{\"path\": \"a\"}" }
    }]);
    let server = with_calls(Value::Null, &wanted);
    let mut payload = with_tools();
    payload["tool_choice"] = json!({ "name": "file.read" });
    let output = ask(&server, payload.clone()).await.unwrap();
    assert_eq!(
        serde_json::to_value(&output).unwrap(),
        json!({
            "tool_calls": [{ "id": "c1", "name": "file.read", "arguments": { "path": "a" } }],
            "finish_reason": "tool_calls",
            "usage": { "prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5 }
        })
    );
    let sent: Value = serde_json::from_str(&server.asked().body).unwrap();
    assert_eq!(
        sent["tools"],
        json!([
            {
                "type": "function",
                "function": {
                    "name": "file_read", "description": "Reads.", "parameters": { "type": "object" }
                }
            },
            { "type": "function", "function": { "name": "echo" } }
        ])
    );
    assert_eq!(
        sent["tool_choice"],
        json!({ "type": "function", "function": { "name": "file_read" } })
    );

    // The next turn carries the call and its result, as the output gave it.
    let server = answer("done");
    let mut next = with_tools();
    next["tool_choice"] = json!("none");
    next["messages"] = json!([
        { "role": "user", "content": "hi" },
        { "role": "assistant", "tool_calls": serde_json::to_value(&output.tool_calls).unwrap() },
        { "role": "tool", "tool_call_id": "c1", "content": "the file" }
    ]);
    let output = ask(&server, next).await.unwrap();
    assert_eq!(
        (output.content.as_deref(), output.tool_calls.len()),
        (Some("done"), 0)
    );
    let sent: Value = serde_json::from_str(&server.asked().body).unwrap();
    assert_eq!(sent["tool_choice"], "none");
    assert_eq!(
        sent["messages"][1],
        json!({ "role": "assistant", "content": null, "tool_calls": [{
            "id": "c1", "type": "function",
            "function": { "name": "file_read", "arguments": "{\"path\":\"a\"}" }
        }] })
    );
    assert_eq!(
        sent["messages"][2],
        json!({ "role": "tool", "content": "the file", "tool_call_id": "c1" })
    );
}

#[tokio::test]
async fn odd_calls_come_back_as_they_are_and_hostile_ones_are_no_answer() {
    let odd = json!([
        { "function": { "name": "rm -rf", "arguments": "not json" } },
        { "id": "", "function": { "name": "echo", "arguments": { "given": true } } },
        { "id": "../x", "function": { "name": "echo" } }
    ]);
    let output = ask(&with_calls(json!("beside"), &odd), with_tools())
        .await
        .unwrap();
    assert_eq!(output.content.as_deref(), Some("beside"));
    assert_eq!(
        serde_json::to_value(&output.tool_calls).unwrap(),
        json!([
            { "id": "call_0", "name": "rm -rf", "arguments": "not json" },
            { "id": "call_1", "name": "echo", "arguments": { "given": true } },
            { "id": "../x", "name": "echo", "arguments": {} }
        ])
    );
    let one = json!({ "id": "c", "function": { "name": "echo", "arguments": "{}" } });
    let huge = json!({ "function": { "name": "echo", "arguments": "x".repeat(2 << 20) } });
    for hostile in [
        json!({}),
        json!("all of them"),
        json!([{}]),
        json!([{ "function": { "name": 7 } }]),
        json!([huge]),
        Value::Array(vec![one; 129]),
    ] {
        let error = ask(&with_calls(json!("beside"), &hostile), with_tools())
            .await
            .unwrap_err();
        assert_eq!(kind(&error), "LLM_INVALID_RESPONSE");
    }
}

#[tokio::test]
async fn a_wrong_payload_names_the_field_and_asks_nobody() {
    let cases = [
        ("tools", json!([{ "name": "" }]), "tools[0].name"),
        (
            "tools",
            json!([{ "name": "a" }, { "name": "a" }]),
            "tools[1].name",
        ),
        ("tool_choice", json!("sometimes"), "tool_choice"),
        ("tool_choice", json!({ "name": "other" }), "tool_choice.name"),
        ("response_format", json!({}), "response_format"),
        ("messages", json!([]), "messages"),
        (
            "messages",
            json!([{ "role": "user", "content": 7 }]),
            "messages[0].content",
        ),
        ("messages", json!([{ "role": "user" }]), "messages[0].content"),
        (
            "messages",
            json!([{ "role": "user", "content": "x" }, { "role": "tool", "content": "x" }]),
            "messages[1].tool_call_id",
        ),
        (
            "messages",
            json!([{ "role": "user", "tool_calls": [{ "id": "a", "name": "b", "arguments": {} }] }]),
            "messages[0].tool_calls",
        ),
    ];
    for (field, value, named) in cases {
        let mut payload = with_tools();
        payload[field] = value;
        // Nobody listens there.
        let error = run(input(payload), context(), Arc::new(at_port(closed(), 9)))
            .await
            .unwrap_err();
        assert_eq!(kind(&error), "INVALID_PAYLOAD fatal", "{named}");
        assert!(error.message().contains(named), "{named}: {}", error.message());
    }
    let mut without = payload();
    without["tool_choice"] = json!("auto");
    let error = run(input(without), context(), Arc::new(at_port(closed(), 9)))
        .await
        .unwrap_err();
    assert!(error.message().contains("tool_choice"), "{}", error.message());
}
