//! The listener of scrapes and probes: HTTP/1.1, on a thread of its own, everything bounded.

use crate::text;
use bytes::Bytes;
use escapement_otlp::Push;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tracing::{debug, info, warn};

/// What a listener answers from. A word ends with a line feed.
pub trait Answers: Send + Sync + 'static {
    /// All figures, in OpenMetrics. It is asked once at a time.
    fn figures(&self) -> impl Future<Output = String> + Send;

    /// Why a restart would help; `None` if it would not.
    fn unlive(&self) -> impl Future<Output = Option<&'static str>> + Send;

    /// Why nothing should be sent here; `None` if it should.
    fn unready(&self) -> impl Future<Output = Option<&'static str>> + Send;
}

/// Serves `/metrics`, `/livez` and `/readyz`, if there is a listener, and pushes the same figures, if that is wanted: on a thread
/// of its own until the process ends.
///
/// # Errors
/// If the operating system gives no thread or no runtime, or not this listener to it.
pub fn serve(
    listener: Option<TcpListener>,
    push: Option<Push>,
    answers: impl Answers,
) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let served = Arc::new(Served {
        answers,
        scraping: Mutex::default(),
    });
    let entered = runtime.enter();
    if let Some(listener) = listener {
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        runtime.spawn(accept(listener, Arc::clone(&served)));
        info!(%address, "metrics served");
    }
    if let Some(push) = push {
        runtime.spawn(push.run(move || {
            let served = Arc::clone(&served);
            async move { served.figures().await }
        }));
    }
    drop(entered);
    std::thread::Builder::new()
        .name("metrics".to_owned())
        .spawn(move || runtime.block_on(std::future::pending::<()>()))?;
    Ok(())
}

struct Served<A> {
    answers: A,
    /// One scrape at a time.
    scraping: Mutex<()>,
}

impl<A: Answers> Served<A> {
    async fn figures(&self) -> String {
        let _one_at_a_time = self.scraping.lock().await;
        self.answers.figures().await
    }
}

async fn accept<A: Answers>(listener: tokio::net::TcpListener, served: Arc<Served<A>>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let place = Arc::clone(&places).acquire_owned().await;
        let place = place.expect("the semaphore is never closed");
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(connection(stream, Arc::clone(&served), place));
            }
            Err(error) => {
                warn!(%error, "connection to the listener of metrics not accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// One connection, which ends after its time whatever its client does.
async fn connection<A: Answers>(stream: TcpStream, served: Arc<Served<A>>, _place: OwnedSemaphorePermit) {
    let service = service_fn(|request| answer(request, &served));
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIME)
        .max_buf_size(HEADER_BYTES_MAX)
        .keep_alive(false);
    let served = timeout(
        CONNECTION_TIME,
        http.serve_connection(TokioIo::new(stream), service),
    )
    .await;
    if !matches!(served, Ok(Ok(()))) {
        debug!("connection to the listener of metrics cut short");
    }
}

async fn answer<A: Answers>(
    request: Request<Incoming>,
    served: &Served<A>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return Ok(said(StatusCode::METHOD_NOT_ALLOWED, "only GET\n"));
    }
    let probed = |why_not: Option<&'static str>, yes| match why_not {
        Some(why) => said(StatusCode::SERVICE_UNAVAILABLE, why),
        None => said(StatusCode::OK, yes),
    };
    Ok(match request.uri().path() {
        "/metrics" => scraped(&request, served).await,
        "/livez" => probed(served.answers.unlive().await, "live\n"),
        "/readyz" => probed(served.answers.unready().await, "ready\n"),
        _ => said(StatusCode::NOT_FOUND, "there are /metrics, /livez and /readyz\n"),
    })
}

/// All figures, as the client wants to read them.
async fn scraped<A: Answers>(request: &Request<Incoming>, served: &Served<A>) -> Response<Full<Bytes>> {
    let accepts = request
        .headers()
        .get(ACCEPT)
        .and_then(|accept| accept.to_str().ok());
    let wants_open = accepts.is_some_and(|accept| accept.contains("application/openmetrics-text"));
    let open = served.figures().await;
    let (text, media_type) = match wants_open {
        true => (open, text::OPEN_METRICS),
        false => (text::plain(&open), text::PLAIN),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    let media_type = HeaderValue::from_static(media_type);
    response.headers_mut().insert(CONTENT_TYPE, media_type);
    response
}

fn said(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = status;
    response
}

/// Connections at a time; further ones wait.
const CONNECTIONS_MAX: usize = 32;
/// After an error of the operating system.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
const HEADER_TIME: Duration = Duration::from_secs(5);
const HEADER_BYTES_MAX: usize = 16 << 10;
/// For one request with its answer.
const CONNECTION_TIME: Duration = Duration::from_secs(60);
