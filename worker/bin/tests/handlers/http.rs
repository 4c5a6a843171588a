//! `http.request`.

use super::server::OneAnswer;
use super::{closed, context, input, kind, with_root};
use escapement_sdk::StepError;
use escapement_sdk::testing::ContextBuilder;
use escapement_wire::json::to_opaque;
use escapement_worker::config::Config;
use escapement_worker::handlers::http_request::{Output, run};
use escapement_worker::secrets::Secrets;
use serde_json::{Value, json};
use std::fs;
use std::net::TcpListener;
use std::sync::Arc;

fn allowing(hosts: &[&str]) -> Config {
    let mut config = closed();
    hosts.iter().for_each(|host| config.hosts.allow(host).unwrap());
    config
}

async fn request(config: Config, payload: Value) -> Result<Output, StepError> {
    run(input(payload), context(), Arc::new(config)).await
}

/// Asks the server with its address allowed.
async fn ask(server: &OneAnswer, mut payload: Value) -> Result<Output, StepError> {
    let host = format!("127.0.0.1:{}", server.port);
    payload["url"] = format!("http://{host}{}", payload["url"].as_str().unwrap_or("/")).into();
    request(allowing(&[&host]), payload).await
}

#[tokio::test]
async fn a_host_that_is_not_listed_is_refused_with_the_list_and_may_be_tried_elsewhere() {
    let refused = [
        (vec!["example.com"], "http://example.com:8080/"),
        (vec!["example.com:8080"], "http://example.com/"),
        (vec!["example.com"], "http://www.example.com/"),
        (vec!["example.com"], "http://example.com.evil.test/"),
        (vec!["127.0.0.1"], "http://localhost/"),
    ];
    for (hosts, url) in refused {
        let error = request(allowing(&hosts), json!({ "url": url }))
            .await
            .unwrap_err();
        assert_eq!(error.code(), "HTTP_HOST_NOT_ALLOWED", "{hosts:?} {url}");
        assert_eq!(error.stated_severity(), None);
        assert!(
            error.message().ends_with(&format!("--allow-host {}", hosts[0])),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_url_that_hides_its_host_is_refused() {
    for url in [
        "http://example.com@127.0.0.1/",
        "ftp://example.com/",
        "/path",
        "http://",
        "nonsense",
        "http://example.com:99999/",
    ] {
        let error = request(allowing(&["example.com"]), json!({ "url": url }))
            .await
            .unwrap_err();
        assert_eq!(error.code(), "INVALID_PAYLOAD", "{url}");
    }
}

#[tokio::test]
async fn method_query_headers_and_json_body_arrive() {
    let server = OneAnswer::with("201 Created", "application/json; charset=utf-8", r#"{"id": 7}"#);
    let payload = json!({
        "method": "POST", "url": "/items?a=b", "query": { "q": "x y&z", "n": [1, true] },
        "headers": { "X-Token": "t" }, "body": { "name": "Ada" }
    });
    let output = ask(&server, payload).await.unwrap();
    assert_eq!(
        (output.status, output.body.unwrap(), output.body_kind),
        (201, json!({ "id": 7 }), Some("json"))
    );
    assert_eq!(output.headers["x-own"], "1");
    let asked = server.asked();
    assert!(
        asked
            .head
            .starts_with("POST /items?a=b&n=1&n=true&q=x%20y%26z HTTP/1.1\r\n"),
        "{}",
        asked.head
    );
    assert!(asked.head.contains("x-token: t") && asked.head.contains("content-type: application/json"));
    assert_eq!(asked.body, r#"{"name":"Ada"}"#);
}

#[tokio::test]
async fn text_stays_text_and_binary_becomes_base64() {
    let server = OneAnswer::with("200 OK", "text/plain", "[1]");
    let output = ask(&server, json!({})).await.unwrap();
    assert_eq!(
        (output.body.unwrap(), output.body_kind),
        (json!("[1]"), Some("text"))
    );
    let server = OneAnswer::new(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n\x00\xff\x80".to_vec());
    let output = ask(&server, json!({})).await.unwrap();
    assert_eq!(
        (output.body.unwrap(), output.body_kind),
        (json!("AP+A"), Some("base64"))
    );
}

#[tokio::test]
async fn an_unexpected_status_is_an_error_with_the_answer_in_it() {
    let server = OneAnswer::with("503 Busy", "text/plain", "later");
    let error = ask(&server, json!({})).await.unwrap_err();
    assert_eq!(kind(&error), "HTTP_STATUS");
    assert_eq!(
        (&error.diagnostics()["status"], &error.diagnostics()["body"]),
        (&json!(503), &json!("later"))
    );
    let server = OneAnswer::with("404 Not Found", "text/plain", "");
    assert_eq!(
        ask(&server, json!({ "expected_statuses": [[200, 299], 404] }))
            .await
            .unwrap()
            .status,
        404
    );
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let server =
        OneAnswer::new("HTTP/1.1 302 Found\r\nlocation: http://example.com/\r\ncontent-length: 0\r\n\r\n");
    let output = ask(&server, json!({ "expected_statuses": [302] })).await.unwrap();
    assert_eq!(
        (output.status, output.headers["location"].as_str()),
        (302, "http://example.com/")
    );
}

#[tokio::test]
async fn the_answer_s_size_has_a_limit() {
    let server = OneAnswer::with("200 OK", "text/plain", "0123456789");
    assert_eq!(
        ask(&server, json!({ "body_bytes_max": 9 }))
            .await
            .unwrap_err()
            .code(),
        "HTTP_TOO_LARGE"
    );
    let server = OneAnswer::with("200 OK", "text/plain", "0123456789");
    assert!(ask(&server, json!({ "body_bytes_max": 10 })).await.is_ok());
}

#[tokio::test]
async fn no_server_a_broken_answer_and_a_silent_one_are_told_apart() {
    let unused = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = unused.local_addr().unwrap().to_string();
    drop(unused);
    let error = request(allowing(&[&host]), json!({ "url": format!("http://{host}/") }))
        .await
        .unwrap_err();
    assert_eq!(kind(&error), "HTTP_CONNECT");
    let server = OneAnswer::new("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf");
    assert_eq!(ask(&server, json!({})).await.unwrap_err().code(), "HTTP_BROKEN");

    // Accepted by the kernel and never answered.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = silent.local_addr().unwrap().to_string();
    let config = Arc::new(allowing(&[&host]));
    let payload = json!({ "url": format!("http://{host}/"), "timeout_ms": 50 });
    let error = run(input(payload), context(), config).await.unwrap_err();
    assert_eq!(error.code(), "HTTP_TIMEOUT");
}

#[tokio::test]
async fn headers_that_frame_the_message_cannot_be_set() {
    for name in [
        "Host",
        "content-length",
        "Transfer-Encoding",
        "bad name",
        "x\r\ny",
    ] {
        let payload = json!({ "url": "http://a.test/", "headers": { name: "x" } });
        assert_eq!(
            request(allowing(&["a.test"]), payload).await.unwrap_err().code(),
            "INVALID_PAYLOAD",
            "{name}"
        );
    }
}

#[tokio::test]
async fn files_carry_bodies_in_and_out() {
    let (mut config, directory) = with_root();
    fs::write(directory.path().join("body"), "from a file").unwrap();
    let server = OneAnswer::with("200 OK", "application/json", r#"{"a":1}"#);
    let host = format!("127.0.0.1:{}", server.port);
    config.hosts.allow(&host).unwrap();
    let payload = json!({
        "method": "PUT", "url": format!("http://{host}/x"), "body_file": "body",
        "output_file": "answers/a.json"
    });
    let output = request(config, payload).await.unwrap();
    assert_eq!((output.body, output.output_file.unwrap().bytes), (None, 7));
    assert_eq!(
        fs::read_to_string(directory.path().join("answers/a.json")).unwrap(),
        r#"{"a":1}"#
    );
    assert_eq!(server.asked().body, "from a file");
}

#[tokio::test]
async fn the_url_can_stand_in_the_environment() {
    let server = OneAnswer::with("200 OK", "text/plain", "ok");
    let host = format!("127.0.0.1:{}", server.port);
    let environment = json!({ "webhook_url": format!("http://{host}/hook"), "port": 80 });
    let asked = |key: &str| {
        let payload = json!({ "url_from_environment": key });
        let context = ContextBuilder::new("tested").environment(&environment).build();
        run(input(payload), context, Arc::new(allowing(&[&host])))
    };
    assert_eq!(asked("webhook_url").await.unwrap().status, 200);
    for key in ["port", "absent"] {
        let error = asked(key).await.unwrap_err();
        assert_eq!(error.code(), "INVALID_PAYLOAD", "{key}");
        assert!(error.to_string().contains(key), "{error}");
    }
    let neither = request(allowing(&[&host]), json!({})).await.unwrap_err();
    assert_eq!(neither.code(), "INVALID_PAYLOAD");
}

#[tokio::test]
async fn an_answer_that_grows_beyond_an_output_when_encoded_is_too_large() {
    let numbers = json!(vec![1; 100_000]).to_string();
    let deep = format!("{}{}", "[".repeat(70), "]".repeat(70));
    let json = |body: &str| OneAnswer::with("200 OK", "application/json", body);
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 900000\r\n\r\n";
    let binary = OneAnswer::new([head.as_bytes(), &[0xff; 900_000]].concat());
    for server in [json(&numbers), json(&deep), binary] {
        let error = ask(&server, json!({ "body_bytes_max": 1_000_000 }))
            .await
            .unwrap_err();
        assert_eq!(kind(&error), "HTTP_TOO_LARGE");
    }
}

#[tokio::test]
async fn the_status_survives_headers_that_are_too_large_for_an_error() {
    let head = format!(
        "HTTP/1.1 503 Busy\r\na-long: {}\r\nretry-after: 7\r\ncontent-length: 5\r\n\r\nlater",
        "x".repeat(20_000)
    );
    let error = ask(&OneAnswer::new(head), json!({})).await.unwrap_err();
    let shown = error.diagnostics();
    assert_eq!(
        (&shown["status"], &shown["body"], &shown["headers"]["retry-after"]),
        (&json!(503), &json!("later"), &json!("7"))
    );
    let kept = shown["headers"]["a-long"].as_str().map_or(0, str::len);
    assert!(kept < 4096, "{kept}");
    assert!(to_opaque(shown).len() < 16 << 10);
}

#[tokio::test]
async fn headers_within_the_limit_of_an_error_are_all_there() {
    let server = OneAnswer::with("503 Busy", "text/plain", "later");
    let error = ask(&server, json!({})).await.unwrap_err();
    assert_eq!(error.diagnostics()["headers"]["x-own"], "1");
    assert_eq!(error.diagnostics()["headers_truncated"], false);
}

#[tokio::test]
async fn a_json_body_keeps_its_digits_and_a_key_twice_keeps_it_a_text() {
    let cases = [
        (
            r#"{"id": 2512292042121000001}"#,
            "json",
            json!({ "id": "2512292042121000001" }),
        ),
        ("\u{feff}{\"id\": 7}", "json", json!({ "id": 7 })),
        (r#"{"id": 1, "id": 2}"#, "text", json!(r#"{"id": 1, "id": 2}"#)),
    ];
    for (body, kind, expected) in cases {
        let server = OneAnswer::with("200 OK", "application/json", body);
        let output = ask(&server, json!({})).await.unwrap();
        assert_eq!(
            (output.body_kind, output.body),
            (Some(kind), Some(expected)),
            "{body}"
        );
    }
}

#[tokio::test]
async fn a_secret_of_the_worker_that_a_server_knows_is_hidden() {
    for status in ["200 OK", "403 Forbidden"] {
        let body = r#"{"your token": "of-the-worker", "n": 1}"#;
        let server = OneAnswer::new(format!(
            "HTTP/1.1 {status}\r\nx-token: of-the-worker\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        ));
        let host = format!("127.0.0.1:{}", server.port);
        let mut config = allowing(&[&host]);
        config.secrets = Secrets::new(["of-the-worker".to_owned()], []);
        let told = match request(config, json!({ "url": format!("http://{host}/") })).await {
            Ok(output) => serde_json::to_string(&output).unwrap(),
            Err(error) => format!("{:?}", error.diagnostics()),
        };
        assert!(
            !told.contains("of-the-worker") && told.matches("[secret]").count() == 2,
            "{told}"
        );
    }
}
