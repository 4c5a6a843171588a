//! Streams notices to users: first the kept ones, then new ones. Remembers one number.

use escapement_model::Namespace;
use escapement_run::session::Session;
use escapement_run::spec::{Spec, namespace_named, session_key};
use escapement_runs::{Notice, NoticeKind, stream_of_session, stream_of_user};
use escapement_runs_host::RunsHost;
use escapement_runs_shell::RunsHandle;
use escapement_store::StoreFault;
use escapement_store::runs::{RunReader, StoredNotice};
use escapement_transport::Recipient;
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::watch_notices_response::Told;
use prost::Message;

use super::Runs;
use crate::caller::Caller;
use crate::errors::Rejection;
use crate::fields::Fields;
use crate::resolution::{SESSION_ID_CHARS_MAX, owner};
use crate::session_service;
use crate::views::{signed, uuid_text};
use crate::watching::{self, AnswerStream, End, Page, Paged, Watched};

type Answer = v1::WatchNoticesResponse;

impl Runs {
    /// Refuses what names a session that is not there, in that namespace, or another user's; anybody's if none is named.
    pub(crate) async fn require_session(
        &self,
        namespace: &Namespace,
        session_id: &str,
        user_id: &str,
    ) -> Result<Option<Session>, Rejection> {
        if session_id.is_empty() {
            return Ok(None);
        }
        let (namespace, session_id, user_id) = (namespace.clone(), session_id.to_owned(), user_id.to_owned());
        let look =
            move |host: &mut RunsHost, _now| session_service::find(host, &namespace, &session_id, &user_id);
        self.runs.change(0, look).await?.map(Some)
    }

    /// Refuses to go on in a session that is another user's by now. One that is gone begins anew.
    pub(super) async fn require_own_session(&self, spec: &Spec) -> Result<(), Rejection> {
        let namespace = namespace_named(&spec.namespace);
        let (session_id, user_id) = (spec.session_id.clone(), spec.user_id.clone());
        let look = move |host: &mut RunsHost, _now| {
            Ok(
                match host.session(&session_key(namespace.as_str(), &session_id)) {
                    Ok(Some(session)) if session.user_id != user_id => {
                        Err(session_service::missing(&session_id))
                    }
                    _ => Ok(()),
                },
            )
        };
        match spec.session_id.is_empty() {
            true => Ok(()),
            false => self.runs.change(0, look).await?,
        }
    }

    pub(super) async fn notices(
        &self,
        request: v1::WatchNoticesRequest,
        caller: &Caller,
        recipient: Recipient,
    ) -> Result<AnswerStream<Answer>, Rejection> {
        let mut fields = Fields::default();
        fields.note("user_id", &request.user_id);
        fields.session_id("session_id", &request.session_id, 0..=SESSION_ID_CHARS_MAX);
        fields.number("after_cursor", request.after_cursor, 0..=i64::MAX);
        if request.only_new && request.after_cursor > 0 {
            fields.wrong("only_new", "must not come with after_cursor");
        }
        fields.conclude()?;
        let namespace = caller.namespace(&request.namespace)?;
        let user_id = caller.listed_user(&namespace, &request.user_id)?;
        let user_id = user_id.unwrap_or_default();
        let session = self
            .require_session(&namespace, &request.session_id, &user_id)
            .await?;
        let (stream, user_id) = match session {
            None => {
                let user_id = owner(&user_id).to_owned();
                (stream_of_user(&namespace, &user_id), user_id)
            }
            Some(session) => (
                stream_of_session(&namespace, &request.session_id),
                session.user_id,
            ),
        };
        let after = match request.only_new {
            true => {
                self.runs
                    .readers()
                    .read(|reader| reader.last_numbers())
                    .await?
                    .notice
            }
            false => u64::try_from(request.after_cursor).unwrap_or(0),
        };
        // Followed first, so that no notice between two reads is missed.
        let follow = self.runs.follow_notices();
        let notices = WatchedNotices {
            runs: self.runs.clone(),
            stream,
            user_id,
            after,
        };
        Ok(watching::watch(notices, follow, recipient))
    }
}

#[derive(Clone)]
struct WatchedNotices {
    runs: RunsHandle,
    stream: String,
    // RUN-14.8
    /// User who receives the notices: a session of this id may have been another user's before.
    user_id: String,
    /// The number of the last notice that was sent.
    after: u64,
}

impl Paged for WatchedNotices {
    type Answer = Answer;

    async fn page(&mut self) -> Result<Page<Answer>, End> {
        let (stream, after) = (self.stream.clone(), self.after);
        let read = move |reader: &dyn RunReader| next(reader, &stream, after);
        let read = self.runs.readers().read(read).await.map_err(Rejection::from)?;
        let (page, until) = read.ok_or_else(cursor_gone)?;
        let has_more = page.len() == PAGE;
        self.after = match has_more {
            true => page.last().map_or(after, |stored| stored.number),
            // The cursor of a user with few notices stays young.
            false => until.max(after),
        };
        let notices = page.into_iter().filter_map(|stored| view(stored, &self.user_id));
        Ok(Page {
            answers: notices.map(|notice| answer(Told::Notice(notice))).collect(),
            has_more,
        })
    }
}

impl Watched for WatchedNotices {
    async fn heartbeat(&mut self) -> Result<Answer, End> {
        let cursor = signed(self.after);
        Ok(answer(Told::Heartbeat(v1::NoticesHeartbeat { cursor })))
    }
}

// RUN-14.10
/// Returns the next notices of a stream. With the last page comes the number up to which the stream was read.
/// `None` if some after the cursor may be lost. Without a cursor the stream begins with the oldest kept
/// notice.
fn next(
    reader: &dyn RunReader,
    stream: &str,
    after: u64,
) -> Result<Option<(Vec<StoredNotice>, u64)>, StoreFault> {
    let until = reader.last_numbers()?.notice;
    if after > 0 && reader.notices_until(stream, after)?.is_none() {
        return Ok(None);
    }
    Ok(Some((reader.notices(stream, after, PAGE)?, until)))
}

fn cursor_gone() -> Rejection {
    Rejection::failed(
        "CURSOR_GONE",
        "after_cursor: not everything behind it is kept, or this server never gave it; watch again without it, which tells \
         all that is kept.",
    )
}

fn answer(told: Told) -> Answer {
    v1::WatchNoticesResponse { told: Some(told) }
}

/// Decodes a notice; `None` if its record is invalid, or if it is another user's.
fn view(stored: StoredNotice, user_id: &str) -> Option<v1::Notice> {
    let notice = Notice::decode(stored.record).ok()?;
    if !notice.user_id.is_empty() && notice.user_id != user_id {
        return None;
    }
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

/// Number of notices in one read.
const PAGE: usize = 32;
