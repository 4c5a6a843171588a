//! A language model on loopback that answers from a script: OpenAI's chat completions over HTTP. Thinks nothing.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

use crate::Fault;
use crate::http::serve;

/// What the model says in one turn.
#[derive(Clone, Debug)]
pub enum Turn {
    /// This text.
    Says(String),
    /// It calls these functions: the name as the endpoint was told it, and the arguments as text, which may be anything.
    Calls(Vec<(String, String)>),
    /// The endpoint answers with this HTTP status instead.
    Fails(u16),
}

/// A running model. Stops on drop.
#[derive(Debug)]
pub struct ModelServer {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Value>>>,
    accepting: AbortHandle,
}

impl ModelServer {
    /// Listens on a free port of loopback. Each question gets the next turn of the script, and status 500 behind its end.
    ///
    /// # Errors
    /// The operating system's.
    pub async fn start(script: impl IntoIterator<Item = Turn>) -> Result<Self, Fault> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let asked = Arc::new(Mutex::new(Vec::new()));
        let script: Arc<[Turn]> = script.into_iter().collect();
        let kept = Arc::clone(&asked);
        let answer = move |request| answer(request, Arc::clone(&script), Arc::clone(&kept));
        let accepting = tokio::spawn(serve(listener, None, answer)).abort_handle();
        Ok(Self {
            address,
            asked,
            accepting,
        })
    }

    /// What `--llm-endpoint` of a worker takes.
    pub fn endpoint(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// The bodies of all questions so far, in the order of their answers.
    pub fn asked(&self) -> Vec<Value> {
        let asked = self.asked.lock().expect("nobody panics while holding it");
        asked.clone()
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn answer(
    request: Request<Incoming>,
    script: Arc<[Turn]>,
    asked: Arc<Mutex<Vec<Value>>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    if request.method() != Method::POST || request.uri().path() != "/v1/chat/completions" {
        return Ok(refused(
            StatusCode::NOT_FOUND,
            "there is /v1/chat/completions alone",
        ));
    }
    let body = request.into_body().collect().await.map(|body| body.to_bytes());
    let question = body.ok().and_then(|body| serde_json::from_slice(&body).ok());
    let question: Value = match question {
        Some(question @ Value::Object(_)) => question,
        _ => return Ok(refused(StatusCode::BAD_REQUEST, "the body is no JSON object")),
    };
    let is_conversation = question["messages"]
        .as_array()
        .is_some_and(|messages| !messages.is_empty() && messages.iter().all(|one| one["role"].is_string()));
    if !question["model"].is_string() || !is_conversation {
        return Ok(refused(StatusCode::BAD_REQUEST, "model or messages is missing"));
    }
    let turn = {
        let mut asked = asked.lock().expect("nobody panics while holding it");
        asked.push(question.clone());
        script.get(asked.len() - 1).cloned()
    };
    Ok(match turn {
        Some(Turn::Fails(status)) => {
            let status = StatusCode::from_u16(status).expect("the script gives an HTTP status");
            refused(status, "the script says so")
        }
        None => refused(StatusCode::INTERNAL_SERVER_ERROR, "the script is over"),
        Some(turn) => whole(StatusCode::OK, &completion(&question, &turn)),
    })
}

fn completion(question: &Value, turn: &Turn) -> Value {
    let (message, finish_reason, said) = match turn {
        Turn::Says(text) => (
            json!({ "role": "assistant", "content": text }),
            "stop",
            text.len(),
        ),
        Turn::Calls(calls) => {
            let call = |(index, (name, arguments)): (usize, &(String, String))| {
                json!({
                    "id": format!("call_{index}"), "type": "function",
                    "function": { "name": name, "arguments": arguments }
                })
            };
            let calls: Vec<Value> = calls.iter().enumerate().map(call).collect();
            let said = Value::from(calls.clone()).to_string().len();
            let message = json!({ "role": "assistant", "content": null, "tool_calls": calls });
            (message, "tool_calls", said)
        }
        Turn::Fails(_) => unreachable!("it is no completion"),
    };
    // As the rule of thumb has it: four letters are a token.
    let (prompt, completion) = (question["messages"].to_string().len() / 4, said / 4);
    json!({
        "object": "chat.completion",
        "model": question["model"],
        "choices": [{ "index": 0, "message": message, "finish_reason": finish_reason }],
        "usage": {
            "prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion
        }
    })
}

fn refused(status: StatusCode, why: &str) -> Response<Full<Bytes>> {
    whole(status, &json!({ "error": { "message": why } }))
}

fn whole(status: StatusCode, body: &Value) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())));
    *response.status_mut() = status;
    let json = hyper::header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(hyper::header::CONTENT_TYPE, json);
    response
}
