//! Posts each event to one URL as a CloudEvent. Repeats nothing: an event that is not taken is counted and
//! gone.

use super::count_drop;
use crate::convert::json;
use crate::limits::{WEBHOOK_QUEUE_MAX, WEBHOOK_TIMEOUT};
use bytes::Bytes;
use escapement_contract::Persisted;
use escapement_model::BootId;
use http_body_util::Full;
use hyper::{Request, Uri, header};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Starts the task; it ends when the sender is dropped.
pub(super) fn spawn(url: Uri, boot_id: BootId) -> mpsc::Sender<Persisted> {
    let (events, mut events_rx) = mpsc::channel::<Persisted>(WEBHOOK_QUEUE_MAX);
    tokio::spawn(async move {
        let client: Client<HttpConnector, Full<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
        let mut not_taken = 0;
        while let Some(settlement) = events_rx.recv().await {
            let body = json::event(&settlement, boot_id).to_string();
            if !post(&client, &url, body).await {
                count_drop("webhook", &mut not_taken);
            }
        }
    });
    events
}

/// True where the answer was a success.
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
