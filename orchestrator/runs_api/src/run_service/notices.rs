//! Streams what users are told: what is kept, then what comes. Remembers one number.

use std::time::Duration;

use escapement_runs::{Notice, NoticeKind, stream_of_session, stream_of_user};
use escapement_runs_host::RunsHost;
use escapement_runs_shell::RunsHandle;
use escapement_store::runs::{RunReader, StoredNotice};
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::watch_notices_response::Told;
use prost::Message;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::Runs;
use crate::errors::Rejection;
use crate::fields::Fields;
use crate::resolution::{SESSION_ID_CHARS_MAX, owner};
use crate::session_service;
use crate::views::{signed, uuid_text};

type Answer = Result<v1::WatchNoticesResponse, Status>;

impl Runs {
    /// Refuses a run that names a session that is not there, or another user's.
    pub(crate) async fn require_session(&self, session_id: &str, user_id: &str) -> Result<(), Rejection> {
        if session_id.is_empty() {
            return Ok(());
        }
        self.find_session(session_id.to_owned(), user_id.to_owned()).await
    }

    async fn find_session(&self, session_id: String, user_id: String) -> Result<(), Rejection> {
        let look = move |host: &mut RunsHost, _now| session_service::find(host, &session_id, &user_id);
        self.runs.change(0, look).await?.map(|_| ())
    }

    pub(super) async fn notices(
        &self,
        request: v1::WatchNoticesRequest,
    ) -> Result<ReceiverStream<Answer>, Rejection> {
        let mut fields = Fields::default();
        fields.note("user_id", &request.user_id);
        fields.text("session_id", &request.session_id, 0..=SESSION_ID_CHARS_MAX);
        fields.number("after_cursor", request.after_cursor, 0..=i64::MAX);
        if request.only_new && request.after_cursor > 0 {
            fields.wrong("only_new", "must not come with after_cursor");
        }
        fields.conclude()?;
        let stream = match request.session_id.is_empty() {
            true => stream_of_user(owner(&request.user_id)),
            false => {
                self.find_session(request.session_id.clone(), request.user_id)
                    .await?;
                stream_of_session(&request.session_id)
            }
        };
        let after = match request.only_new {
            true => self.runs.readers().read(|reader| reader.last_notice()).await?,
            false => u64::try_from(request.after_cursor).unwrap_or(0),
        };
        let (sender, receiver) = mpsc::channel(TOLD_MAX);
        let watch = Watch {
            runs: self.runs.clone(),
            stream,
            after,
            sender,
        };
        tokio::spawn(watch.watch());
        Ok(ReceiverStream::new(receiver))
    }
}

struct Watch {
    runs: RunsHandle,
    stream: String,
    /// The number of the last one that was told.
    after: u64,
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
        let mut follow = self.runs.follow_notices();
        let mut beat = Instant::now() + HEARTBEAT;
        loop {
            if self.tell().await? {
                beat = Instant::now() + HEARTBEAT;
            }
            tokio::select! {
                // A watcher that went away is seen first, then what is new.
                biased;
                () = self.sender.closed() => return Err(End::Gone),
                moved = follow.moved() => moved.map_err(Rejection::from)?,
                () = sleep_until(beat) => {
                    let cursor = signed(self.after);
                    self.send(Told::Heartbeat(v1::NoticesHeartbeat { cursor })).await?;
                    beat = Instant::now() + HEARTBEAT;
                }
            }
        }
    }

    /// Tells what is new; true if there was something.
    async fn tell(&mut self) -> Result<bool, End> {
        let before = self.after;
        loop {
            let (stream, after) = (self.stream.clone(), self.after);
            let read = move |reader: &dyn RunReader| reader.notices(&stream, after, PAGE);
            let page = self.runs.readers().read(read).await.map_err(Rejection::from)?;
            let is_last = page.len() < PAGE;
            for stored in page {
                self.after = stored.number;
                if let Some(notice) = view(stored) {
                    self.send(Told::Notice(notice)).await?;
                }
            }
            if is_last {
                return Ok(self.after > before);
            }
        }
    }

    async fn send(&self, told: Told) -> Result<(), End> {
        let answer = v1::WatchNoticesResponse { told: Some(told) };
        self.sender.send(Ok(answer)).await.map_err(|_| End::Gone)
    }
}

/// The notice; `None` if its record is none.
fn view(stored: StoredNotice) -> Option<v1::Notice> {
    let notice = Notice::decode(stored.record).ok()?;
    let kind = match notice.kind() {
        NoticeKind::Status => v1::notice::Kind::Status,
        NoticeKind::Agent => v1::notice::Kind::Agent,
        NoticeKind::System => v1::notice::Kind::System,
    };
    Some(v1::Notice {
        cursor: signed(stored.number),
        kind: kind.into(),
        run_id: uuid_text(&notice.run_id),
        sequence: signed(notice.sequence),
        text: notice.text,
        step_key: notice.step_key,
        at: stored.at,
    })
}

/// How long nothing happens before a heartbeat comes.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// What waits for a slow watcher.
const TOLD_MAX: usize = 16;
/// Notices that are read at a time.
const PAGE: usize = 32;
