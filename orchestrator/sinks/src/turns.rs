//! Streams to subscribers: the next answer is made when the last one is sent. Knows no event.

use escapement_contract::Status as PlanStatus;
use escapement_model::Namespace;
use escapement_runs_api::endings::EVENT_TYPES;
use escapement_transport::Recipient;
use futures_core::Stream;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::watch;
use tonic::Status;

/// Which events are wanted.
#[derive(Clone, Debug)]
pub struct Wanted {
    types: Vec<String>,
    namespaces: Option<Vec<Namespace>>,
    /// `None`: of every user.
    found: Option<Vec<Found>>,
}

/// What lies in this namespace and was handed in by this user; `None`: in every one, by everybody.
type Found = (Option<Namespace>, Option<String>);

impl Wanted {
    /// Events of these types, or of all if there is none, about executions in these namespaces; `None`: in all.
    ///
    /// # Errors
    /// The first type that no event has, cut after 100 characters, and those that events have.
    pub fn new(types: Vec<String>, namespaces: Option<Vec<Namespace>>) -> Result<Self, String> {
        let known =
            [PlanStatus::Success, PlanStatus::Partial, PlanStatus::Failure].map(PlanStatus::event_type);
        Self::of(known, types, namespaces)
    }

    /// The same about runs.
    pub(crate) fn of_runs(types: Vec<String>, namespaces: Option<Vec<Namespace>>) -> Result<Self, String> {
        Self::of(EVENT_TYPES, types, namespaces)
    }

    fn of(
        known: [&'static str; 3],
        types: Vec<String>,
        namespaces: Option<Vec<Namespace>>,
    ) -> Result<Self, String> {
        if let Some(unknown) = types.iter().find(|name| !known.contains(&name.as_str())) {
            let unknown: String = unknown.chars().take(100).collect();
            return Err(format!("{unknown:?} is none of {}", known.join(", ")));
        }
        Ok(Self {
            types,
            namespaces,
            found: None,
        })
    }

    /// Of these, only those about executions that lie in one of these namespaces and were handed in by its user; `None`: in every one,
    /// by everybody.
    #[must_use]
    pub fn of_what_is_found(self, found: &[(Option<&Namespace>, Option<&str>)]) -> Self {
        let found = found.iter();
        let found = found.map(|(namespace, user)| (namespace.cloned(), user.map(str::to_owned)));
        Self {
            found: Some(found.collect()),
            ..self
        }
    }

    /// True for an event of that type about an execution in that namespace, which the owner has handed in.
    pub(crate) fn has(
        &self,
        event_type: &str,
        namespace: &Namespace,
        owner: impl FnOnce() -> Option<String>,
    ) -> bool {
        let namespaces = self.namespaces.as_ref();
        namespaces.is_none_or(|visible| visible.contains(namespace))
            && (self.types.is_empty() || self.types.iter().any(|wanted| wanted == event_type))
            && self.finds(namespace, owner)
    }

    fn finds(&self, namespace: &Namespace, owner: impl FnOnce() -> Option<String>) -> bool {
        let Some(found) = &self.found else {
            return true;
        };
        let owner = owner();
        found.iter().any(|(within, user)| {
            within.as_ref().is_none_or(|within| within == namespace) && (user.is_none() || *user == owner)
        })
    }
}

/// How answers get to a subscriber.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The subscriber.
    pub recipient: Recipient,
    /// True once streams that nothing else ends must end.
    pub closing: watch::Receiver<bool>,
}

/// What answers a subscriber, one answer after the other.
pub(crate) trait Turn: Sized + Send + 'static {
    /// An answer.
    type Answer: Send + 'static;

    /// Waits for the next answer; `None` at the end.
    fn next(self) -> impl Future<Output = Option<(Self, Result<Self::Answer, Status>)>> + Send;
}

/// The stream of these answers.
pub(crate) fn stream<T: Turn>(turn: T) -> impl Stream<Item = Result<T::Answer, Status>> + Send + 'static {
    Turns(Some(Box::pin(turn.next())))
}

type Next<T> = Pin<Box<dyn Future<Output = Option<(T, Result<<T as Turn>::Answer, Status>)>> + Send>>;

struct Turns<T: Turn>(Option<Next<T>>);

impl<T: Turn> Stream for Turns<T> {
    type Item = Result<T::Answer, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(mut next) = self.0.take() else {
            return Poll::Ready(None);
        };
        match next.as_mut().poll(cx) {
            Poll::Pending => {
                self.0 = Some(next);
                Poll::Pending
            }
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Ready(Some((turn, answer))) => {
                self.0 = Some(Box::pin(turn.next()));
                Poll::Ready(Some(answer))
            }
        }
    }
}
