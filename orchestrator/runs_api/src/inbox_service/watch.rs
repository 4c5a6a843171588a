//! Tells of requests as they are opened and as they end. Remembers which ones it told of, and nothing of them.

use std::collections::BTreeMap;
use std::time::Duration;

use escapement_model::InputRequestId;
use escapement_run::journal::RequestKind;
use escapement_runs_shell::RunsHandle;
use escapement_store::runs::{RunReader, StoredInputRequest};
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::watch_inbox_response::Told;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::LISTED_BYTES_MAX;
use super::asked::{kind_of, stored, view};
use crate::errors::Rejection;

type Answer = Result<v1::WatchInboxResponse, Status>;

/// Begins to watch. The watch ends with its receiver.
pub(super) fn start(
    runs: RunsHandle,
    owner: Option<String>,
    kind: Option<RequestKind>,
) -> ReceiverStream<Answer> {
    let (sender, receiver) = mpsc::channel(TOLD_MAX);
    let watch = Watch {
        runs,
        owner,
        kind,
        open: BTreeMap::new(),
        sender,
    };
    tokio::spawn(watch.watch());
    ReceiverStream::new(receiver)
}

struct Watch {
    runs: RunsHandle,
    owner: Option<String>,
    kind: Option<RequestKind>,
    /// Those that it told of and that were open then, by their numbers.
    open: BTreeMap<u64, InputRequestId>,
    sender: mpsc::Sender<Answer>,
}

/// Why a watch ends.
enum End {
    /// Nobody listens.
    Gone,
    Rejected(Rejection),
}

impl From<Rejection> for End {
    fn from(rejection: Rejection) -> Self {
        Self::Rejected(rejection)
    }
}

impl Watch {
    async fn watch(mut self) {
        if let Err(End::Rejected(rejection)) = self.tell_until_it_ends().await {
            // Nobody may listen any more.
            let _gone = self.sender.send(Err(rejection.into())).await;
        }
    }

    async fn tell_until_it_ends(&mut self) -> Result<(), End> {
        // Followed first, so that nothing is missed between a look and the next.
        let mut follow = self.runs.follow_requests();
        loop {
            let mut beat = Instant::now() + HEARTBEAT;
            if self.tell().await? {
                beat = Instant::now() + HEARTBEAT;
            }
            loop {
                tokio::select! {
                    // A watcher that went away is seen first, then what is new.
                    biased;
                    () = self.sender.closed() => return Err(End::Gone),
                    moved = follow.moved() => {
                        moved.map_err(Rejection::from)?;
                        break;
                    }
                    () = sleep_until(beat) => {
                        let open = i64::try_from(self.open.len()).unwrap_or(i64::MAX);
                        let heartbeat = v1::InboxHeartbeat { open: open.min(1000) };
                        self.send(Told::Heartbeat(heartbeat)).await?;
                        beat = Instant::now() + HEARTBEAT;
                    }
                }
            }
        }
    }

    /// Tells what has changed; true if something was told.
    async fn tell(&mut self) -> Result<bool, End> {
        let mut now: BTreeMap<u64, StoredInputRequest> = BTreeMap::new();
        loop {
            let (owner, kind) = (self.owner.clone(), self.kind);
            let after = now.last_key_value().map(|(number, _)| *number);
            let read =
                move |reader: &dyn RunReader| reader.open_input_requests(owner.as_deref(), after, PAGE);
            let page = self.runs.readers().read(read).await.map_err(Rejection::from)?;
            let is_last = page.len() < PAGE;
            now.extend(page.into_iter().map(|request| (request.number, request)));
            if is_last || now.len() >= OPEN_MAX {
                now.retain(|_, request| kind.is_none_or(|kind| kind_of(request) == Some(kind)));
                break;
            }
        }
        let ended: Vec<(u64, InputRequestId)> = self
            .open
            .iter()
            .filter(|(number, _)| !now.contains_key(number))
            .map(|(number, id)| (*number, *id))
            .collect();
        let mut is_told = false;
        for (number, id) in ended {
            self.open.remove(&number);
            match stored(&self.runs, id).await {
                Ok(stored) => is_told |= self.show(stored).await?,
                // Removed with its run.
                Err(Rejection::NotFound { .. }) => {}
                Err(rejection) => return Err(rejection.into()),
            }
        }
        for (number, request) in now {
            if self.open.insert(number, request.id).is_none() {
                is_told |= self.show(request).await?;
            }
        }
        Ok(is_told)
    }

    async fn show(&self, stored: StoredInputRequest) -> Result<bool, End> {
        let Some(shown) = view(&self.runs, stored, LISTED_BYTES_MAX).await? else {
            return Ok(false);
        };
        self.send(Told::InputRequest(shown)).await?;
        Ok(true)
    }

    async fn send(&self, told: Told) -> Result<(), End> {
        let answer = v1::WatchInboxResponse { told: Some(told) };
        self.sender.send(Ok(answer)).await.map_err(|_| End::Gone)
    }
}

/// How long nothing happens before a heartbeat comes.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// What waits for a slow watcher.
const TOLD_MAX: usize = 16;
/// Requests that are read at a time.
const PAGE: usize = 500;
/// Open requests that a watch looks at; it does not tell of later ones until some of them have ended.
const OPEN_MAX: usize = 10_000;
