//! Streams of pages to callers.
//! A caller has one page at a time, which counts among the unread answers of its tenant; only once it has taken that, the next is read.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use escapement_runs_shell::{FollowAll, as_tenant, current_tenant};
use escapement_transport::response_budget::{ResponsePermit, TakeDeadline};
use escapement_transport::{Recipient, Refusal};
use prost::Message;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_stream::Stream;
use tonic::Status;

use crate::errors::Rejection;

/// A position in a stream. A clone of it reads the same page again.
pub(crate) trait Paged: Clone + Send {
    /// Answer that a caller is sent.
    type Answer: Message;

    /// Reads the page after this position, and moves past it.
    fn page(&mut self) -> impl Future<Output = Result<Page<Self::Answer>, End>> + Send;

    /// Forgets what can be read again: the caller takes its time.
    fn rest(&mut self) {}
}

/// Items that are read at a time.
pub(crate) struct Page<Answer> {
    pub(crate) answers: Vec<Answer>,
    /// True if more pages may follow.
    pub(crate) has_more: bool,
}

/// Reason for the end of a stream.
pub(crate) enum End {
    /// All pages were sent, or the caller has left.
    Quiet,
    /// The caller gets the reason.
    Because(Status),
}

impl From<Rejection> for End {
    fn from(rejection: Rejection) -> Self {
        Self::Because(rejection.into())
    }
}

impl From<Refusal> for End {
    fn from(refusal: Refusal) -> Self {
        Self::Because(refusal.into())
    }
}

/// The way to one caller. Cheap to clone.
pub(crate) struct Teller<Answer> {
    recipient: Recipient,
    pages: mpsc::Sender<Result<Told<Answer>, Status>>,
    /// Of one page, which the caller has.
    turn: Arc<Semaphore>,
}

/// A page that the caller takes.
struct Told<Answer> {
    answers: VecDeque<Answer>,
    _room: TakeDeadline,
    _turn: Turn,
}

/// Of the caller's next page.
pub(crate) struct Turn {
    _permit: OwnedSemaphorePermit,
}

impl<Answer: Message> Teller<Answer> {
    /// Sends all pages after the position. Returns true if there was one.
    pub(crate) async fn tell<P: Paged<Answer = Answer>>(&self, place: &mut P) -> Result<bool, End> {
        let mut has_told = false;
        loop {
            let turn = match timeout(REST_AFTER, self.turn()).await {
                Ok(turn) => turn,
                Err(_elapsed) => {
                    place.rest();
                    self.turn().await
                }
            };
            let (page, room) = self.read(place).await?;
            if !page.answers.is_empty() {
                has_told = true;
                self.give(turn, page.answers, room).await?;
            }
            if !page.has_more {
                return Ok(has_told);
            }
        }
    }

    /// Sends a small answer that has no position.
    pub(crate) async fn send(&self, answer: Answer) -> Result<(), End> {
        let turn = self.turn().await;
        self.give(turn, vec![answer], ResponsePermit::default()).await
    }

    /// Waits until the caller has taken the last page.
    pub(crate) async fn turn(&self) -> Turn {
        let permit = Arc::clone(&self.turn).acquire_owned().await;
        Turn {
            _permit: permit.expect("the semaphore is never closed"),
        }
    }

    /// Reads a page, and takes a permit for it. Without a permit it holds no page, and reads it again later.
    async fn read<P: Paged<Answer = Answer>>(
        &self,
        place: &mut P,
    ) -> Result<(Page<Answer>, ResponsePermit), End> {
        let (mut room, mut bytes_max) = (ResponsePermit::default(), 0);
        loop {
            let mut behind = place.clone();
            let page = behind.page().await?;
            let bytes = page.answers.iter().map(Message::encoded_len).sum();
            if bytes > bytes_max {
                match self.recipient.take(bytes) {
                    Ok(taken) => room = taken,
                    Err(_no_room) => {
                        drop((behind, page, room));
                        (room, bytes_max) = (self.recipient.wait(bytes).await?, bytes);
                        continue;
                    }
                }
            }
            *place = behind;
            return Ok((page, room));
        }
    }

    /// Gives the caller its next page.
    pub(crate) async fn give(
        &self,
        turn: Turn,
        answers: Vec<Answer>,
        room: ResponsePermit,
    ) -> Result<(), End> {
        let told = Told {
            answers: answers.into(),
            _room: self.recipient.until_taken(room),
            _turn: turn,
        };
        self.pages.send(Ok(told)).await.map_err(|_left| End::Quiet)
    }
}

/// The answers to one caller.
pub struct AnswerStream<Answer> {
    pages: mpsc::Receiver<Result<Told<Answer>, Status>>,
    /// The page that is being taken.
    page: Option<Told<Answer>>,
}

impl<Answer> std::fmt::Debug for AnswerStream<Answer> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AnswerStream").finish_non_exhaustive()
    }
}

impl<Answer: Unpin> Stream for AnswerStream<Answer> {
    type Item = Result<Answer, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let answer = self.page.as_mut().and_then(|page| page.answers.pop_front());
            if let Some(answer) = answer {
                return Poll::Ready(Some(Ok(answer)));
            }
            self.page = None;
            match ready!(self.pages.poll_recv(cx)) {
                Some(Ok(page)) => self.page = Some(page),
                Some(Err(status)) => return Poll::Ready(Some(Err(status))),
                None => return Poll::Ready(None),
            }
        }
    }
}

/// Starts to send. Stops when the answers are dropped.
pub(crate) fn start<Answer, T>(
    recipient: Recipient,
    tell: impl FnOnce(Teller<Answer>) -> T,
) -> AnswerStream<Answer>
where
    Answer: Message + 'static,
    T: Future<Output = End> + Send + 'static,
{
    let (pages, received) = mpsc::channel(1);
    let telling = tell(Teller {
        recipient,
        pages: pages.clone(),
        turn: Arc::new(Semaphore::new(1)),
    });
    let serving = async move {
        let ended = tokio::select! {
            biased; // A caller that has left takes no turn of others.
            () = pages.closed() => End::Quiet,
            ended = telling => ended,
        };
        if let End::Because(status) = ended {
            // A caller that has left hears nothing.
            let _left = pages.send(Err(status)).await;
        }
    };
    tokio::spawn(as_tenant(current_tenant(), serving));
    AnswerStream {
        pages: received,
        page: None,
    }
}

/// Changes of many runs, with heartbeats.
pub(crate) trait Watched: Paged {
    /// Answer that is sent after [`HEARTBEAT`] without another one.
    fn heartbeat(&mut self) -> impl Future<Output = Result<Self::Answer, End>> + Send;
}

/// Begins to watch. `follow` is made before anything is looked at, so that nothing is missed.
pub(crate) fn watch<W: Watched + 'static>(
    mut watched: W,
    mut follow: FollowAll,
    recipient: Recipient,
) -> AnswerStream<W::Answer> {
    start(recipient, async move |teller| {
        match tell(&mut watched, &teller, &mut follow).await {
            Ok(never) => match never {},
            Err(end) => end,
        }
    })
}

async fn tell<W: Watched>(
    watched: &mut W,
    teller: &Teller<W::Answer>,
    follow: &mut FollowAll,
) -> Result<std::convert::Infallible, End> {
    let mut beat = Instant::now() + HEARTBEAT;
    loop {
        if teller.tell(watched).await? {
            beat = Instant::now() + HEARTBEAT;
        }
        tokio::select! {
            // A heartbeat that is due comes before what is new.
            biased;
            () = sleep_until(beat) => {
                teller.send(watched.heartbeat().await?).await?;
                beat = Instant::now() + HEARTBEAT;
            }
            moved = follow.moved() => moved.map_err(Rejection::from)?,
        }
    }
}

/// Longest silence before a heartbeat.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(15);
/// A caller that has not taken its page after so long takes its time.
const REST_AFTER: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
