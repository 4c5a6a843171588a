//! Tells of requests as they are opened and as they end, each change once and in their order. Remembers three numbers.

use escapement_model::{InputRequestId, Namespace, RunId};
use escapement_run::journal::{RequestKind, RequestState};
use escapement_runs::{INBOX_STREAM, InboxChange};
use escapement_runs_shell::RunsHandle;
use escapement_store::StoreFault;
use escapement_store::runs::{InputRequestPage, RunReader, Scope, StoredInputRequest, StoredNotice};
use escapement_transport::Recipient;
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::watch_inbox_response::{Change, Told};
use prost::Message;

use super::LISTED_BYTES_MAX;
use super::asked::{kind_of, show_workers, stored, view};
use crate::errors::Rejection;
use crate::views::{request_state, signed, uuid_text};
use crate::watching::{self, AnswerStream, End, Page, Paged, Watched};

type Answer = v1::WatchInboxResponse;

/// Requests that are watched.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    /// `None`: all of them.
    pub(super) scopes: Option<Vec<Scope>>,
    pub(super) kind: Option<RequestKind>,
}

/// Begins to watch behind that cursor, or with what is open if it is 0. The watch ends with its answers.
pub(super) async fn start(
    runs: RunsHandle,
    wanted: Wanted,
    cursor: u64,
    recipient: Recipient,
) -> Result<AnswerStream<Answer>, Rejection> {
    // Followed first, so that nothing is missed between a look and the next.
    let follow = runs.follow_requests();
    let (after, beginning) = match cursor.checked_sub(1) {
        None => {
            let last = runs.readers().read(|reader| reader.last_numbers()).await?;
            let until = last.input_request;
            (last.notice, Beginning::Open { after: 0, until })
        }
        Some(after) => {
            let changes = runs.readers().read(move |reader| changes(reader, after)).await?;
            changes.ok_or_else(cursor_gone)?;
            (after, Beginning::Told)
        }
    };
    let inbox = WatchedInbox {
        runs,
        wanted,
        beginning,
        after,
    };
    Ok(watching::watch(inbox, follow, recipient))
}

#[derive(Clone)]
struct WatchedInbox {
    runs: RunsHandle,
    wanted: Wanted,
    beginning: Beginning,
    /// The number of the last change that was told or passed over. A cursor is one more, since 0 is none.
    after: u64,
}

/// State before the first change.
#[derive(Clone, Copy)]
enum Beginning {
    /// Open requests with higher numbers than this one, up to the last one at the start of the watch.
    Open { after: u64, until: u64 },
    /// A first answer from which a watcher can go on.
    Cursor,
    /// Changes alone.
    Told,
}

impl Paged for WatchedInbox {
    type Answer = Answer;

    async fn page(&mut self) -> Result<Page<Answer>, End> {
        match self.beginning {
            Beginning::Open { after, until } if after < until => self.open_requests(after, until).await,
            Beginning::Open { .. } => {
                self.beginning = Beginning::Cursor;
                self.changes().await
            }
            Beginning::Cursor | Beginning::Told => self.changes().await,
        }
    }
}

impl Watched for WatchedInbox {
    async fn heartbeat(&mut self) -> Result<Answer, End> {
        let (mut open, mut after) = (0, Some(0));
        for _ in 0..PAGES_COUNTED_MAX {
            let page = self.open_behind(after, COUNTED_PAGE).await?;
            open += page
                .requests
                .iter()
                .filter(|request| self.wanted.has(request))
                .count();
            after = page.next;
            if open >= OPEN_COUNTED_MAX || after.is_none() {
                break;
            }
        }
        let open = i64::try_from(open.min(OPEN_COUNTED_MAX)).unwrap_or(i64::MAX);
        Ok(self.answer(Told::Heartbeat(v1::InboxHeartbeat { open }), Change::Unspecified))
    }
}

impl WatchedInbox {
    /// Returns some of the requests that were open at the start of the watch. Their ends, and later requests, follow after the
    /// cursor.
    async fn open_requests(&mut self, after: u64, until: u64) -> Result<Page<Answer>, End> {
        let page = self.open_behind(Some(after), PAGE).await?;
        let (mut answers, mut bytes) = (Vec::new(), 0);
        let mut told_until = page.next.unwrap_or(until);
        for request in page.requests {
            if request.number > until || !self.wanted.has(&request) {
                continue;
            }
            if bytes >= PAGE_BYTES {
                told_until = request.number - 1;
                break;
            }
            if let Some(mut shown) = view(&self.runs, request, LISTED_BYTES_MAX).await? {
                show_workers(&self.runs, std::iter::once(&mut shown)).await;
                let answer = Answer {
                    told: Some(Told::InputRequest(shown)),
                    cursor: 0,
                    change: Change::IsOpen.into(),
                };
                bytes += answer.encoded_len();
                answers.push(answer);
            }
        }
        let after = told_until;
        self.beginning = Beginning::Open { after, until };
        Ok(Page {
            answers,
            has_more: true,
        })
    }

    async fn changes(&mut self) -> Result<Page<Answer>, End> {
        let after = self.after;
        let read = move |reader: &dyn RunReader| changes(reader, after);
        let read = self.runs.readers().read(read).await.map_err(Rejection::from)?;
        let Changes { page, until } = read.ok_or_else(cursor_gone)?;
        let mut has_more = page.len() == PAGE;
        let (mut answers, mut bytes) = (Vec::new(), 0);
        for notice in page {
            if bytes >= PAGE_BYTES {
                has_more = true;
                break;
            }
            self.after = notice.number;
            if let Some(answer) = self.change(notice).await? {
                bytes += answer.encoded_len();
                answers.push(answer);
            }
        }
        if !has_more {
            // What came meanwhile is of other streams.
            self.after = self.after.max(until);
        }
        if let Beginning::Cursor = self.beginning
            && (!has_more || !answers.is_empty())
        {
            self.beginning = Beginning::Told;
            if answers.is_empty() {
                answers.push(self.heartbeat().await?);
            }
        }
        Ok(Page { answers, has_more })
    }

    async fn open_behind(&self, after: Option<u64>, n_max: usize) -> Result<InputRequestPage, End> {
        let scopes = self.wanted.scopes.clone();
        let read = move |reader: &dyn RunReader| reader.open_input_requests(scopes.as_deref(), after, n_max);
        Ok(self.runs.readers().read(read).await.map_err(Rejection::from)?)
    }

    /// A change as it is told; `None` for one that is not wanted.
    async fn change(&self, notice: StoredNotice) -> Result<Option<Answer>, End> {
        let of_change = InboxChange::decode(notice.record).ok();
        let ids = of_change.as_ref().and_then(|change| {
            let request = InputRequestId::from_bytes(change.request_id[..].try_into().ok()?)?;
            let run = RunId::from_bytes(change.run_id[..].try_into().ok()?)?;
            Some((request, run))
        });
        let (Some(change), Some((id, _run))) = (of_change, ids) else {
            return Err(cursor_gone().into());
        };
        if !self.wanted.is_of(&change) {
            return Ok(None);
        }
        let found = match stored(&self.runs, id).await {
            Ok(stored) if !self.wanted.has(&stored) => return Ok(None),
            Ok(stored) => view(&self.runs, stored, LISTED_BYTES_MAX).await?,
            Err(Rejection::NotFound { .. }) => None,
            Err(rejection) => return Err(rejection.into()),
        };
        let word = match change.state() {
            RequestState::Open => Change::Opened,
            RequestState::Answered | RequestState::Expired | RequestState::Closed => Change::Ended,
        };
        let mut shown = found.unwrap_or_else(|| removed(change));
        show_workers(&self.runs, std::iter::once(&mut shown)).await;
        Ok(Some(self.answer(Told::InputRequest(shown), word)))
    }

    fn answer(&self, told: Told, change: Change) -> Answer {
        Answer {
            told: Some(told),
            cursor: signed(self.after + 1),
            change: change.into(),
        }
    }
}

impl Wanted {
    /// The store looks at owner and namespace.
    fn has(&self, request: &StoredInputRequest) -> bool {
        self.kind.is_none_or(|kind| kind_of(request) == Some(kind))
    }

    fn is_of(&self, change: &InboxChange) -> bool {
        let owner = (!change.user_id.is_empty()).then_some(&*change.user_id);
        let is_there = |scopes: &Vec<Scope>| {
            let namespace = Namespace::parse(&change.namespace);
            namespace.is_some_and(|name| Scope::any_has(Some(scopes), &name, owner))
        };
        let is_kind = |wanted| change.kind.is_none_or(|kind| kind == i32::from(wanted));
        self.scopes.as_ref().is_none_or(is_there) && self.kind.is_none_or(is_kind)
    }
}

/// Changes that are behind a number.
struct Changes {
    page: Vec<StoredNotice>,
    /// If the page is the last one, there are no others up to this number.
    until: u64,
}

/// The next changes; `None` if some of them may be gone.
fn changes(reader: &dyn RunReader, after: u64) -> Result<Option<Changes>, StoreFault> {
    let until = reader.last_numbers()?.notice;
    let Some(last) = reader.notices_until(INBOX_STREAM, after)? else {
        return Ok(None);
    };
    let page = reader.notices(INBOX_STREAM, after, PAGE)?;
    // What is damaged is left out, and what is too old may have gone meanwhile.
    let is_gapless = (last + 1..).zip(&page).all(|(n, notice)| notice.n == n);
    Ok(is_gapless.then_some(Changes { page, until }))
}

/// What is known of a request whose run was removed, or cannot be read.
fn removed(change: InboxChange) -> v1::InputRequest {
    let kind = change.kind.and_then(|kind| RequestKind::try_from(kind).ok());
    v1::InputRequest {
        input_request_id: uuid_text(&change.request_id),
        run_id: uuid_text(&change.run_id),
        kind: kind.map_or_else(String::new, |kind| kind.as_str().to_owned()),
        state: request_state(change.state()).into(),
        user_id: change.user_id,
        namespace: change.namespace,
        ..v1::InputRequest::default()
    }
}

fn cursor_gone() -> Rejection {
    Rejection::failed(
        "CURSOR_GONE",
        "after_cursor: not everything behind it is kept, or this server never gave it; watch again without it, which tells \
         first what is open.",
    )
}

/// Requests or changes that are read at a time.
const PAGE: usize = 100;
/// Bytes of answers that end a page.
const PAGE_BYTES: usize = 64 << 10;
/// Requests that a heartbeat reads at a time.
const COUNTED_PAGE: usize = 500;
/// Open requests that a heartbeat counts.
const OPEN_COUNTED_MAX: usize = 1000;
/// Pages in which it looks for them: 10,000 requests.
const PAGES_COUNTED_MAX: usize = 20;
