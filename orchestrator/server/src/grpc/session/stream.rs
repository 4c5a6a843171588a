//! What goes to one worker, as the engine numbered it. Decides nothing; ends when the engine's end of the queue is
//! gone and the queue is empty, or with an error of the shell.

use crate::host::handle::Outbound;
use escapement_codec::session_out::{self, WelcomeDefaults};
use escapement_engine::{SessionErrorCode, ToWorker};
use escapement_model::limits::SESSION_MESSAGE_BYTES_MAX;
use escapement_wire::worker::v1;
use escapement_wire::worker::v1::session_response::Message;
use prost::Message as _;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use tokio::sync::{mpsc, oneshot};
use tonic::Status;
use tracing::error;

/// What of a hello its principal may not offer, known before its welcome.
pub(crate) type RefusedActions = Arc<OnceLock<Vec<v1::ActionRefusal>>>;

/// The response stream of one session.
#[derive(Debug)]
pub(crate) struct SessionStream {
    queue: mpsc::Receiver<Outbound>,
    greeting: WelcomeDefaults,
    refused_actions: RefusedActions,
    /// Number of the last message; 0 for none.
    last_seq: u64,
    /// True after the shell's own last message.
    is_over: bool,
    /// Reason why the stream ends, if it does not end well.
    end: oneshot::Receiver<Status>,
    /// Never used: its drop tells the reader that this stream is gone.
    _alive: oneshot::Sender<Infallible>,
}

impl SessionStream {
    pub(crate) fn new(
        queue: mpsc::Receiver<Outbound>,
        greeting: WelcomeDefaults,
        refused_actions: RefusedActions,
        end: oneshot::Receiver<Status>,
        alive: oneshot::Sender<Infallible>,
    ) -> Self {
        Self {
            queue,
            greeting,
            refused_actions,
            last_seq: 0,
            is_over: false,
            end,
            _alive: alive,
        }
    }

    fn response(&mut self, outbound: Outbound) -> v1::SessionResponse {
        match outbound {
            Outbound::Engine { seq, message, .. } => {
                debug_assert_eq!(seq, self.last_seq + 1, "the engine numbers without gaps");
                self.last_seq = seq;
                self.numbered(message)
            }
            Outbound::Last(message) => {
                self.last_seq += 1;
                self.last(message)
            }
        }
    }

    /// No worker takes a larger message than the limit, and a transport error would only make it come again for the
    /// same one; so a worker is told in words why its session ends.
    fn numbered(&mut self, message: ToWorker) -> v1::SessionResponse {
        let response = v1::SessionResponse {
            seq: self.last_seq,
            message: Some(self.with_refused_actions(message)),
        };
        let bytes = response.encoded_len();
        if bytes <= SESSION_MESSAGE_BYTES_MAX {
            return response;
        }
        error!(
            bytes,
            seq = response.seq,
            "defect: message to a worker is too large; its session ends"
        );
        let detail = format!("the next message would have {bytes} bytes");
        self.last(session_out::error(SessionErrorCode::LimitExceeded, detail))
    }

    /// A welcome says also what the engine was not told of.
    fn with_refused_actions(&self, message: ToWorker) -> Message {
        let mut message = session_out::message(message, &self.greeting);
        if let (Message::Welcome(welcome), Some(refused)) = (&mut message, self.refused_actions.get()) {
            welcome.refused_actions.extend_from_slice(refused);
        }
        message
    }

    fn last(&mut self, message: Message) -> v1::SessionResponse {
        self.is_over = true;
        v1::SessionResponse {
            seq: self.last_seq,
            message: Some(message),
        }
    }
}

impl futures_core::Stream for SessionStream {
    type Item = Result<v1::SessionResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        if let Some(outbound) = ready!(self.queue.poll_recv(cx)) {
            let response = self.response(outbound);
            return Poll::Ready(Some(Ok(response)));
        }
        // Closed first, so that a reason is given once and a later poll ends the stream.
        let status = self.end.try_recv().ok();
        self.end.close();
        Poll::Ready(status.map(Err))
    }
}

#[cfg(test)]
mod tests;
