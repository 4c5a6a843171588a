//! The listener of scrapes and probes: HTTP/1.1, on a thread of its own, everything bounded.

use crate::Endpoint;
use crate::text;
use bytes::Bytes;
use escapement_otlp::Push;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::timeout;
use tracing::{debug, warn};

/// What a listener answers from. A word ends with a line feed.
pub trait Answers: Send + Sync + 'static {
    /// Returns all figures, in OpenMetrics. It is asked once at a time.
    fn figures(&self) -> impl Future<Output = String> + Send;

    /// Returns the reason why a restart would help; `None` if it would not.
    fn unlive(&self) -> impl Future<Output = Option<&'static str>> + Send;

    /// Returns the reason why nothing should be sent here; `None` if it should.
    fn unready(&self) -> impl Future<Output = Option<&'static str>> + Send;
}

/// Serves `/metrics`, `/livez` and `/readyz`, if there is an endpoint, and pushes the same figures, if that is wanted: on a thread
/// of its own until the process ends.
///
/// # Errors
/// If the operating system gives no thread or no runtime.
pub fn serve(endpoint: Option<Endpoint>, push: Option<Push>, answers: impl Answers) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let served = Arc::new(Served {
        answers,
        scraping: Mutex::default(),
        undecided: Undecided::default(),
        scrapes: Arc::new(Semaphore::new(SCRAPES_MAX)),
        probes: Arc::new(Semaphore::new(PROBES_MAX)),
    });
    let entered = runtime.enter();
    if let Some(endpoint) = endpoint {
        runtime.spawn(listen(endpoint, Arc::clone(&served)));
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
    /// A scrape at a time.
    scraping: Mutex<()>,
    undecided: Undecided,
    /// For those that scrape.
    scrapes: Arc<Semaphore>,
    /// For those that probe.
    probes: Arc<Semaphore>,
}

impl<A: Answers> Served<A> {
    async fn figures(&self) -> String {
        let _one_at_a_time = self.scraping.lock().await;
        self.answers.figures().await
    }
}

async fn listen<A: Answers>(endpoint: Endpoint, served: Arc<Served<A>>) {
    match endpoint.listen().await {
        Ok(listener) => accept(listener, served).await,
        Err(error) => warn!(%error, "metrics not served"),
    }
}

async fn accept<A: Answers>(listener: tokio::net::TcpListener, served: Arc<Served<A>>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let asking = served.undecided.enter();
                tokio::spawn(connection(stream, Arc::clone(&served), asking));
            }
            Err(error) => {
                warn!(%error, "connection to the listener of metrics not accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// One connection, which ends after its time whatever its client does.
async fn connection<A: Answers>(stream: TcpStream, served: Arc<Served<A>>, (number, displaced): Asking) {
    // Until the connection ends: an answer that nobody reads is memory.
    let place = std::sync::Mutex::default();
    let service = service_fn(|request| {
        served.undecided.leave(number);
        answer(request, &served, &place)
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIME)
        .max_buf_size(HEADER_BYTES_MAX)
        .keep_alive(false);
    let serving = timeout(
        CONNECTION_TIME,
        http.serve_connection(TokioIo::new(stream), service),
    );
    // Biased: an answer that is there is given. Who has asked is displaced by nobody.
    let is_served = tokio::select! {
        biased;
        answered = serving => matches!(answered, Ok(Ok(()))),
        Ok(()) = displaced => false,
    };
    served.undecided.leave(number);
    if !is_served {
        debug!("connection to the listener of metrics cut short");
    }
}

/// The number of a connection that has not asked yet, and what says that it is to go.
type Asking = (u64, oneshot::Receiver<()>);

/// Connections that have not asked for anything yet; for one more than there may be the oldest is closed, so that probes get in
/// whatever others do.
#[derive(Default)]
struct Undecided(std::sync::Mutex<(u64, BTreeMap<u64, oneshot::Sender<()>>)>);

impl Undecided {
    fn enter(&self) -> Asking {
        let (displace, displaced) = oneshot::channel();
        let mut undecided = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (n_came, waiting) = &mut *undecided;
        if waiting.len() >= UNDECIDED_MAX
            && let Some((_, oldest)) = waiting.pop_first()
        {
            // A connection that is gone needs not be told.
            let _gone = oldest.send(());
        }
        *n_came += 1;
        waiting.insert(*n_came, displace);
        (*n_came, displaced)
    }

    fn leave(&self, number: u64) {
        let mut undecided = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        undecided.1.remove(&number);
    }
}

async fn answer<A: Answers>(
    request: Request<Incoming>,
    served: &Served<A>,
    place: &std::sync::Mutex<Option<OwnedSemaphorePermit>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return Ok(said(StatusCode::METHOD_NOT_ALLOWED, "only GET\n"));
    }
    let probed = |why_not: Option<&'static str>, yes| match why_not {
        Some(why) => said(StatusCode::SERVICE_UNAVAILABLE, why),
        None => said(StatusCode::OK, yes),
    };
    let places = match request.uri().path() {
        "/metrics" => &served.scrapes,
        _ => &served.probes,
    };
    let Ok(taken) = Arc::clone(places).try_acquire_owned() else {
        return Ok(said(StatusCode::SERVICE_UNAVAILABLE, "too many ask for that\n"));
    };
    *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(taken);
    Ok(match request.uri().path() {
        "/metrics" => scraped(&request, served).await,
        "/livez" => probed(served.answers.unlive().await, "live\n"),
        "/readyz" => probed(served.answers.unready().await, "ready\n"),
        _ => said(StatusCode::NOT_FOUND, "there are /metrics, /livez and /readyz\n"),
    })
}

/// Returns all figures, as the client wants to read them.
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

/// Connections at a time that have not asked for anything yet.
const UNDECIDED_MAX: usize = 32;
/// Scrapes at a time.
const SCRAPES_MAX: usize = 16;
/// Probes at a time.
const PROBES_MAX: usize = 64;
/// After an error of the operating system.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
const HEADER_TIME: Duration = Duration::from_secs(5);
const HEADER_BYTES_MAX: usize = 16 << 10;
/// For one request with its answer.
const CONNECTION_TIME: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_connection_that_has_not_asked_goes_for_one_that_comes() {
        let undecided = Undecided::default();
        let mut waiting: Vec<Asking> = (0..UNDECIDED_MAX).map(|_| undecided.enter()).collect();
        let is_displaced = |asking: &mut Asking| asking.1.try_recv().is_ok();
        assert!(waiting.iter_mut().all(|asking| !is_displaced(asking)));
        // What has asked is no longer among them.
        undecided.leave(waiting[0].0);
        let _first = undecided.enter();
        assert!(waiting.iter_mut().all(|asking| !is_displaced(asking)));
        let _second = undecided.enter();
        let displaced = waiting.iter_mut().map(is_displaced);
        assert!(displaced.eq((0..UNDECIDED_MAX).map(|place| place == 1)));
    }
}
