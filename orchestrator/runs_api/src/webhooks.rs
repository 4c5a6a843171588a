//! The listener of webhooks: HTTP/1.1, one POST for each delivery, everything bounded. Believes none: triggers do that.

use crate::triggers::{Delivered, Delivery, Triggers};
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use escapement_model::Opaque;
use escapement_wire::json::{outside, to_opaque};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::timeout;
use tracing::{debug, warn};

/// Accepts deliveries until the process drains.
pub async fn serve(listener: TcpListener, triggers: Triggers, mut closing: watch::Receiver<bool>) {
    let places = Arc::new(Semaphore::new(WEBHOOK_CONNECTIONS_MAX));
    loop {
        let place = Arc::clone(&places).acquire_owned().await;
        let place = place.expect("the semaphore is never closed");
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = closing.wait_for(|closing| *closing) => return,
        };
        match accepted {
            Ok((stream, peer)) => {
                tokio::spawn(connection(stream, peer, triggers.clone(), place));
            }
            Err(error) => {
                warn!(%error, "webhook connection not accepted");
                tokio::time::sleep(WEBHOOK_ACCEPT_PAUSE).await;
            }
        }
    }
}

/// One connection, which ends after its time whatever its client does.
async fn connection(stream: TcpStream, peer: SocketAddr, triggers: Triggers, _place: OwnedSemaphorePermit) {
    let service = service_fn(|request| answer(request, peer.ip(), &triggers));
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(WEBHOOK_HEADER_TIME)
        .max_buf_size(WEBHOOK_HEADER_BYTES_MAX)
        .max_headers(WEBHOOK_HEADERS_MAX)
        .keep_alive(false);
    let served = timeout(
        WEBHOOK_CONNECTION_TIME,
        http.serve_connection(TokioIo::new(stream), service),
    )
    .await;
    if !matches!(served, Ok(Ok(()))) {
        debug!(%peer, "webhook connection cut short");
    }
}

async fn answer(
    request: Request<Incoming>,
    source: IpAddr,
    triggers: &Triggers,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let Some(trigger_id) = request.uri().path().strip_prefix("/webhooks/").map(str::to_owned) else {
        return Ok(plain(StatusCode::NOT_FOUND));
    };
    if request.method() != Method::POST {
        return Ok(plain(StatusCode::METHOD_NOT_ALLOWED));
    }
    let (head, body) = request.into_parts();
    let body = match Limited::new(body, WEBHOOK_BODY_BYTES_MAX).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => {
            return Ok(plain(StatusCode::PAYLOAD_TOO_LARGE));
        }
        Err(_) => return Ok(plain(StatusCode::BAD_REQUEST)),
    };
    let delivery = Delivery {
        trigger_id,
        id: header(&head.headers, "webhook-id"),
        timestamp: header(&head.headers, "webhook-timestamp"),
        signature: header(&head.headers, "webhook-signature"),
        source,
        body,
    };
    let delivered = triggers.deliver(delivery, object).await;
    Ok(match delivered {
        Delivered::Fired {
            firing_id,
            status,
            run_id,
        } => {
            let said = json!({"firing_id": firing_id, "status": status, "run_id": run_id});
            let mut response = Response::new(Full::new(Bytes::from(said.to_string())));
            *response.status_mut() = StatusCode::ACCEPTED;
            let json = hyper::header::HeaderValue::from_static("application/json");
            response.headers_mut().insert(hyper::header::CONTENT_TYPE, json);
            response
        }
        Delivered::NotBelieved => plain(StatusCode::UNAUTHORIZED),
        Delivered::Repeated => plain(StatusCode::CONFLICT),
        Delivered::Disabled => plain(StatusCode::FORBIDDEN),
        Delivered::NoObject => plain(StatusCode::UNPROCESSABLE_ENTITY),
        Delivered::Later => plain(StatusCode::SERVICE_UNAVAILABLE),
    })
}

fn plain(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}

fn header(headers: &HeaderMap, name: &str) -> String {
    let value = headers.get(name).and_then(|value| value.to_str().ok());
    value.unwrap_or_default().to_owned()
}

/// The object that a body is in JSON; an integer that a double does not hold is a text in it. Depth is bounded by the parser, at 128.
fn object(body: &[u8]) -> Option<Opaque> {
    let Value::Object(fields) = outside::value(body).ok()? else {
        return None;
    };
    Some(to_opaque(&fields))
}

/// Connections of the listener of webhooks at a time; further ones wait to be accepted.
const WEBHOOK_CONNECTIONS_MAX: usize = 256;
/// How long one of them has for its head.
const WEBHOOK_HEADER_TIME: Duration = Duration::from_secs(5);
/// How long one of them lasts, its answer included.
const WEBHOOK_CONNECTION_TIME: Duration = Duration::from_secs(40);
/// Bytes of what is read ahead of one of them, the head included.
const WEBHOOK_HEADER_BYTES_MAX: usize = 16 << 10;
/// Fields of a head.
const WEBHOOK_HEADERS_MAX: usize = 64;
/// Bytes of the body of a delivery.
const WEBHOOK_BODY_BYTES_MAX: usize = 1 << 20;
/// Pause after a connection that could not be accepted.
const WEBHOOK_ACCEPT_PAUSE: Duration = Duration::from_millis(100);
