//! The listener of webhooks: HTTP/1.1, one POST for each delivery, everything bounded. Believes none: triggers do that.

use crate::triggers::{Delivered, Delivery, Triggers, source_of};
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use escapement_model::Opaque;
use escapement_transport::{Newcomers, Place};
use escapement_wire::json::{outside, to_opaque};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::timeout;
use tracing::{debug, warn};

/// State that all connections share.
struct Listener {
    triggers: Triggers,
    /// Networks of the proxies that are trusted to say who sends something.
    proxies: Vec<String>,
    /// Connections with an unidentified delivery; for one more the oldest is closed.
    newcomers: Newcomers,
    /// For deliveries to a webhook that is there.
    places: Arc<Semaphore>,
}

/// Accepts deliveries until the process drains. `proxies`: networks whose addresses are those of proxies, trusted to say in
/// `x-forwarded-for` who sends something.
pub async fn serve(
    listener: TcpListener,
    triggers: Triggers,
    proxies: Vec<String>,
    mut closing: watch::Receiver<bool>,
) {
    let shared = Arc::new(Listener {
        triggers,
        proxies,
        newcomers: Newcomers::new(WEBHOOK_CONNECTIONS_MAX),
        places: Arc::new(Semaphore::new(WEBHOOK_CONNECTIONS_MAX)),
    });
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = closing.wait_for(|closing| *closing) => return,
        };
        match accepted {
            Ok((stream, peer)) => {
                let place = shared.newcomers.enter();
                tokio::spawn(connection(stream, peer, Arc::clone(&shared), place));
            }
            Err(error) => {
                warn!(%error, "webhook connection not accepted");
                tokio::time::sleep(WEBHOOK_ACCEPT_PAUSE).await;
            }
        }
    }
}

/// One connection, which ends after its time whatever its client does.
async fn connection(stream: TcpStream, peer: SocketAddr, shared: Arc<Listener>, mut place: Place) {
    let is_known = Notify::new();
    let service = service_fn(|request| answer(request, peer.ip(), &shared, &is_known));
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(WEBHOOK_HEADER_TIME)
        .max_buf_size(WEBHOOK_HEADER_BYTES_MAX)
        .max_headers(WEBHOOK_HEADERS_MAX)
        .keep_alive(false);
    let serving = timeout(
        WEBHOOK_CONNECTION_TIME,
        http.serve_connection(TokioIo::new(stream), service),
    );
    let displaced = async {
        tokio::select! {
            biased;
            () = is_known.notified() => {}
            () = place.lost() => return,
        }
        drop(place);
        std::future::pending().await
    };
    // Biased: an answer that is there is given.
    let is_served = tokio::select! {
        biased;
        served = serving => matches!(served, Ok(Ok(()))),
        () = displaced => false,
    };
    if !is_served {
        debug!(%peer, "webhook connection cut short");
    }
}

async fn answer(
    request: Request<Incoming>,
    peer: IpAddr,
    shared: &Listener,
    is_known: &Notify,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let Some(trigger_id) = request.uri().path().strip_prefix("/webhooks/").map(str::to_owned) else {
        return Ok(plain(StatusCode::NOT_FOUND));
    };
    if request.method() != Method::POST {
        return Ok(plain(StatusCode::METHOD_NOT_ALLOWED));
    }
    let (head, body) = request.into_parts();
    let mut delivery = Delivery {
        trigger_id,
        id: header(&head.headers, "webhook-id"),
        timestamp: header(&head.headers, "webhook-timestamp"),
        signature: header(&head.headers, "webhook-signature"),
        source: source_of(
            peer,
            texts(&head.headers, "x-forwarded-for").into_iter(),
            &shared.proxies,
        ),
        body: Bytes::new(),
    };
    // Before a byte of the body: only what is for a webhook that is there keeps its connection.
    if let Err(refused) = shared.triggers.expects(&delivery).await {
        return Ok(said(refused));
    }
    let place = timeout(WEBHOOK_PATIENCE, Arc::clone(&shared.places).acquire_owned()).await;
    let Ok(_place) = place else {
        return Ok(plain(StatusCode::SERVICE_UNAVAILABLE));
    };
    is_known.notify_one();
    delivery.body = match Limited::new(body, WEBHOOK_BODY_BYTES_MAX).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => {
            return Ok(plain(StatusCode::PAYLOAD_TOO_LARGE));
        }
        Err(_) => return Ok(plain(StatusCode::BAD_REQUEST)),
    };
    Ok(said(shared.triggers.deliver(delivery, object).await))
}

/// Returns the answer with the outcome of a delivery.
fn said(delivered: Delivered) -> Response<Full<Bytes>> {
    match delivered {
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
    }
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

/// Returns the values of a header, in their order; a value that cannot be read as text is left out.
fn texts<'a>(headers: &'a HeaderMap, name: &str) -> Vec<&'a str> {
    let values = headers.get_all(name).iter();
    values.filter_map(|value| value.to_str().ok()).collect()
}

/// Parses a JSON body as an object. An integer that a double cannot hold is kept as text. The parser limits
/// the depth to 128.
fn object(body: &[u8]) -> Option<Opaque> {
    let Value::Object(fields) = outside::value(body).ok()? else {
        return None;
    };
    Some(to_opaque(&fields))
}

/// Concurrent connections with deliveries for an existing webhook, and the same number with unidentified
/// deliveries.
const WEBHOOK_CONNECTIONS_MAX: usize = 256;
/// How long one of them has for its head.
const WEBHOOK_HEADER_TIME: Duration = Duration::from_secs(5);
/// How long one of them lasts, its answer included.
const WEBHOOK_CONNECTION_TIME: Duration = Duration::from_secs(40);
/// Timeout of a delivery that waits for one of these permits.
const WEBHOOK_PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of what is read ahead of one of them, the head included.
const WEBHOOK_HEADER_BYTES_MAX: usize = 16 << 10;
/// Fields of a head.
const WEBHOOK_HEADERS_MAX: usize = 64;
/// Bytes of the body of a delivery.
const WEBHOOK_BODY_BYTES_MAX: usize = 1 << 20;
/// Pause after a connection that could not be accepted.
const WEBHOOK_ACCEPT_PAUSE: Duration = Duration::from_millis(100);
