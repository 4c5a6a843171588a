//! Posts each event to one URL as a CloudEvent. Repeats nothing: an event that is not taken is counted and
//! gone.

use super::{Queue, TerminalEvent, Waiting, note, room_for, take_room};
use crate::limits::{WEBHOOK_QUEUE_BYTES_MAX, WEBHOOK_QUEUE_MAX, WEBHOOK_TIMEOUT};
use crate::losses::Losses;
use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, Uri, header};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use std::sync::Arc;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;

/// The way to the task, which ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Webhook {
    events: mpsc::Sender<Waiting<Arc<TerminalEvent>>>,
    room: Arc<Semaphore>,
}

impl Webhook {
    /// Starts the task.
    pub(crate) fn start(url: Uri) -> Self {
        let (events, mut events_rx) = mpsc::channel::<Waiting<Arc<TerminalEvent>>>(WEBHOOK_QUEUE_MAX);
        tokio::spawn(async move {
            let client: Client<HttpConnector, Full<Bytes>> =
                Client::builder(TokioExecutor::new()).build_http();
            let mut not_taken = Losses::new("webhook");
            while let Some(Waiting { value, _room }) = events_rx.recv().await {
                let body = value.to_json().to_string();
                note(&mut not_taken, post(&client, &url, body).await);
            }
        });
        Self {
            events,
            room: room_for(WEBHOOK_QUEUE_BYTES_MAX),
        }
    }

    pub(crate) fn queue(&self) -> Queue {
        Queue {
            name: "webhook",
            bytes_max: WEBHOOK_QUEUE_BYTES_MAX,
            room: Arc::clone(&self.room),
        }
    }

    /// Returns false if the task is so far behind that it takes no event at all.
    pub(crate) fn has_place(&self) -> bool {
        self.events.capacity() > 0
    }

    /// Returns true if the task will post it; false if it is too far behind.
    pub(crate) fn take(&self, event: &Arc<TerminalEvent>) -> bool {
        let waiting = take_room(&self.room, event.bytes(), Arc::clone(event));
        waiting.is_some_and(|waiting| self.events.try_send(waiting).is_ok())
    }
}

/// Returns true if the answer was a success.
async fn post(client: &Client<HttpConnector, Full<Bytes>>, url: &Uri, body: String) -> bool {
    let request = Request::post(url)
        .header(
            header::CONTENT_TYPE,
            "application/cloudevents+json; charset=UTF-8",
        )
        .body(Full::new(Bytes::from(body)))
        .expect("a URL that was parsed and a constant header make a request");
    match timeout(WEBHOOK_TIMEOUT, client.request(request)).await {
        Ok(Ok(response)) => response.status().is_success(),
        Ok(Err(_)) | Err(_) => false,
    }
}
