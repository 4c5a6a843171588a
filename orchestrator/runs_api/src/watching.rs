//! Streams of what many runs have to tell, as it becomes durable, with heartbeats. Knows nothing of what is told.

use std::time::Duration;

use escapement_runs_shell::FollowAll;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use crate::errors::Rejection;

/// Something that is watched.
pub(crate) trait Watched: Send + 'static {
    /// What a watcher is sent.
    type Answer: Send + 'static;

    /// Tells what is new; true if there was something.
    fn tell(&mut self, watcher: &Watcher<Self::Answer>) -> impl Future<Output = Result<bool, End>> + Send;

    /// What is told if nothing else was for [`HEARTBEAT`].
    fn heartbeat(&mut self) -> impl Future<Output = Result<Self::Answer, End>> + Send;
}

/// Who is told.
pub(crate) struct Watcher<Answer>(mpsc::Sender<Result<Answer, Status>>);

impl<Answer> Watcher<Answer> {
    /// Waits until there is room for the answer.
    pub(crate) async fn send(&self, answer: Answer) -> Result<(), End> {
        self.0.send(Ok(answer)).await.map_err(|_| End::Gone)
    }
}

/// Why a watch ends.
pub(crate) enum End {
    /// The watcher has left.
    Gone,
    /// The watcher is told why.
    Rejected(Rejection),
}

impl From<Rejection> for End {
    fn from(rejection: Rejection) -> Self {
        Self::Rejected(rejection)
    }
}

/// Begins to watch; ends with its receiver. `follow` is made before anything is looked at, so that nothing is missed.
pub(crate) fn start<W: Watched>(
    mut watched: W,
    mut follow: FollowAll,
) -> ReceiverStream<Result<W::Answer, Status>> {
    let (sender, receiver) = mpsc::channel(TOLD_MAX);
    tokio::spawn(async move {
        let watcher = Watcher(sender);
        if let Err(End::Rejected(rejection)) = watch(&mut watched, &watcher, &mut follow).await {
            // A watcher that has left hears nothing.
            let _left = watcher.0.send(Err(rejection.into())).await;
        }
    });
    ReceiverStream::new(receiver)
}

async fn watch<W: Watched>(
    watched: &mut W,
    watcher: &Watcher<W::Answer>,
    follow: &mut FollowAll,
) -> Result<(), End> {
    let mut beat = Instant::now() + HEARTBEAT;
    loop {
        if watched.tell(watcher).await? {
            beat = Instant::now() + HEARTBEAT;
        }
        tokio::select! {
            // A watcher that has left is seen first, then a heartbeat that is due, then what is new.
            biased;
            () = watcher.0.closed() => return Err(End::Gone),
            () = sleep_until(beat) => {
                let heartbeat = watched.heartbeat().await?;
                watcher.send(heartbeat).await?;
                beat = Instant::now() + HEARTBEAT;
            }
            moved = follow.moved() => moved.map_err(Rejection::from)?,
        }
    }
}

/// How long nothing is told before a heartbeat comes.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// What waits for a slow watcher.
const TOLD_MAX: usize = 16;
