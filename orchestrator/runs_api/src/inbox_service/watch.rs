//! Tells of requests as they are opened and as they end. Remembers which ones it told of, and nothing of them.

use std::collections::BTreeMap;

use escapement_model::{InputRequestId, Namespace};
use escapement_run::journal::RequestKind;
use escapement_runs_shell::RunsHandle;
use escapement_store::runs::{RunReader, StoredInputRequest};
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::watch_inbox_response::Told;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::LISTED_BYTES_MAX;
use super::asked::{kind_of, stored, view};
use crate::errors::Rejection;
use crate::watching::{self, End, Watched};

type Answer = v1::WatchInboxResponse;
type Watcher = watching::Watcher<Answer>;

/// Begins to watch. The watch ends with its receiver.
pub(super) fn start(
    runs: RunsHandle,
    owner: Option<String>,
    namespaces: Option<Vec<Namespace>>,
    kind: Option<RequestKind>,
) -> ReceiverStream<Result<Answer, Status>> {
    let follow = runs.follow_requests();
    let inbox = WatchedInbox {
        runs,
        owner,
        namespaces,
        kind,
        open: BTreeMap::new(),
    };
    watching::start(inbox, follow)
}

struct WatchedInbox {
    runs: RunsHandle,
    owner: Option<String>,
    namespaces: Option<Vec<Namespace>>,
    kind: Option<RequestKind>,
    /// Those that it told of and that were open then, by their numbers.
    open: BTreeMap<u64, InputRequestId>,
}

impl Watched for WatchedInbox {
    type Answer = Answer;

    fn heartbeat(&self) -> Answer {
        let open = i64::try_from(self.open.len()).unwrap_or(i64::MAX);
        let heartbeat = v1::InboxHeartbeat { open: open.min(1000) };
        answer(Told::Heartbeat(heartbeat))
    }

    async fn tell(&mut self, watcher: &Watcher) -> Result<bool, End> {
        let mut now: BTreeMap<u64, StoredInputRequest> = BTreeMap::new();
        loop {
            let (owner, kind) = (self.owner.clone(), self.kind);
            let after = now.last_key_value().map(|(number, _)| *number);
            let namespaces = self.namespaces.clone();
            let read = move |reader: &dyn RunReader| {
                reader.open_input_requests(owner.as_deref(), namespaces.as_deref(), after, PAGE)
            };
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
                Ok(stored) => is_told |= self.show(watcher, stored).await?,
                // Removed with its run.
                Err(Rejection::NotFound { .. }) => {}
                Err(rejection) => return Err(rejection.into()),
            }
        }
        for (number, request) in now {
            if self.open.insert(number, request.id).is_none() {
                is_told |= self.show(watcher, request).await?;
            }
        }
        Ok(is_told)
    }
}

impl WatchedInbox {
    async fn show(&self, watcher: &Watcher, stored: StoredInputRequest) -> Result<bool, End> {
        let Some(shown) = view(&self.runs, stored, LISTED_BYTES_MAX).await? else {
            return Ok(false);
        };
        watcher.send(answer(Told::InputRequest(shown))).await?;
        Ok(true)
    }
}

fn answer(told: Told) -> Answer {
    v1::WatchInboxResponse { told: Some(told) }
}

/// Requests that are read at a time.
const PAGE: usize = 500;
/// Open requests that a watch looks at; it does not tell of later ones until some of them have ended.
const OPEN_MAX: usize = 10_000;
