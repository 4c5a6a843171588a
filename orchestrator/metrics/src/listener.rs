//! The listener of scrapes and probes: HTTP/1.1, on a thread of its own, everything bounded.

use crate::figures::Metrics;
use crate::gauges::Source;
use crate::text;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tracing::{debug, info, warn};

/// What the listener answers from.
#[derive(Debug)]
struct Answers<S> {
    metrics: Metrics,
    source: S,
    /// One scrape at a time: each sets the gauges that it shows.
    scraping: Mutex<()>,
}

/// Figures, and the listener that shows them.
#[derive(Debug)]
pub struct Figures {
    /// The figures.
    pub metrics: Metrics,
    listener: TcpListener,
}

impl Figures {
    /// Figures that begin at 0, as [`Metrics::new`] says, and a listener on this address that answers nobody yet.
    ///
    /// # Errors
    /// If the address cannot be had.
    pub fn listen(address: SocketAddr, actions_max: u32, version: &'static str) -> std::io::Result<Self> {
        Ok(Self {
            listener: TcpListener::bind(address)?,
            metrics: Metrics::new(actions_max as usize, version),
        })
    }

    /// Serves `/metrics`, `/livez` and `/readyz` on a thread of its own until the process ends.
    ///
    /// # Errors
    /// If the operating system gives no thread or no runtime, or not this listener to it.
    pub fn serve(self, source: impl Source) -> std::io::Result<()> {
        let address = self.listener.local_addr()?;
        serve(self.listener, self.metrics, source)?;
        info!(%address, "metrics served");
        Ok(())
    }
}

fn serve(listener: TcpListener, metrics: Metrics, source: impl Source) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    listener.set_nonblocking(true)?;
    let listener = {
        let _entered = runtime.enter();
        tokio::net::TcpListener::from_std(listener)?
    };
    let answers = Arc::new(Answers {
        metrics,
        source,
        scraping: Mutex::default(),
    });
    std::thread::Builder::new()
        .name("metrics".to_owned())
        .spawn(move || runtime.block_on(accept(listener, answers)))?;
    Ok(())
}

async fn accept<S: Source>(listener: tokio::net::TcpListener, answers: Arc<Answers<S>>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let place = Arc::clone(&places).acquire_owned().await;
        let place = place.expect("the semaphore is never closed");
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(connection(stream, Arc::clone(&answers), place));
            }
            Err(error) => {
                warn!(%error, "connection to the listener of metrics not accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// One connection, which ends after its time whatever its client does.
async fn connection<S: Source>(stream: TcpStream, answers: Arc<Answers<S>>, _place: OwnedSemaphorePermit) {
    let service = service_fn(|request| answer(request, &answers));
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

async fn answer<S: Source>(
    request: Request<Incoming>,
    answers: &Answers<S>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return Ok(said(StatusCode::METHOD_NOT_ALLOWED, "only GET\n"));
    }
    Ok(match request.uri().path() {
        "/metrics" => scraped(&request, answers).await,
        "/livez" => turned(answers, LIVE_TIME, "live\n").await,
        "/readyz" => match answers.metrics.unready() {
            Some(why) => said(StatusCode::SERVICE_UNAVAILABLE, why),
            None => turned(answers, READY_TIME, "ready\n").await,
        },
        _ => said(StatusCode::NOT_FOUND, "there are /metrics, /livez and /readyz\n"),
    })
}

/// Whether the engine answers within the limit.
async fn turned<S: Source>(
    answers: &Answers<S>,
    limit: Duration,
    yes: &'static str,
) -> Response<Full<Bytes>> {
    match timeout(limit, answers.source.turns()).await {
        Ok(true) => said(StatusCode::OK, yes),
        Ok(false) | Err(_) => said(StatusCode::SERVICE_UNAVAILABLE, "the engine does not answer\n"),
    }
}

/// All figures. Those of what stands now are left as they were if the engine does not answer: the others still tell.
async fn scraped<S: Source>(request: &Request<Incoming>, answers: &Answers<S>) -> Response<Full<Bytes>> {
    let accepts = request
        .headers()
        .get(ACCEPT)
        .and_then(|accept| accept.to_str().ok());
    let wants_open = accepts.is_some_and(|accept| accept.contains("application/openmetrics-text"));
    let _one_at_a_time = answers.scraping.lock().await;
    let look = timeout(SCRAPE_TIME, answers.source.look()).await.ok().flatten();
    if let Some(look) = &look {
        answers.metrics.show(look);
    }
    let is_ready = look.is_some() && answers.metrics.unready().is_none();
    answers.metrics.0.families.ready.set(is_ready.into());
    let open = text::open_metrics(&answers.metrics.0.families);
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
/// An engine that does not answer for so long helps nobody any more.
const LIVE_TIME: Duration = Duration::from_secs(30);
/// How soon an engine answers if calls should be sent to it.
const READY_TIME: Duration = Duration::from_secs(5);
/// How long a scrape waits for what stands now; Prometheus gives up after 10 s.
const SCRAPE_TIME: Duration = Duration::from_secs(5);
