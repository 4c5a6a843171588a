//! Connections that do not speak HTTP/2 yet: so many at a time, and if another one comes, the one that has waited longest goes.
//! A client that means to speak does so at once and is not the oldest, however many others come and say nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{oneshot, watch};

/// Places for so many. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Newcomers {
    waiting: Arc<Mutex<Waiting>>,
    n_max: usize,
    /// Connections that have lost their places and are not gone yet.
    n_leaving: watch::Sender<usize>,
}

/// By the order in which they came; dropping the sender tells one to go.
#[derive(Debug, Default)]
struct Waiting {
    n_came: u64,
    places: BTreeMap<u64, oneshot::Sender<()>>,
}

/// The place of one connection, until it is dropped.
#[derive(Debug)]
pub struct Place {
    waiting: Arc<Mutex<Waiting>>,
    number: u64,
    lost: oneshot::Receiver<()>,
    n_leaving: watch::Sender<usize>,
}

impl Newcomers {
    /// At least one.
    pub fn new(n_max: usize) -> Self {
        Self {
            waiting: Arc::default(),
            n_max: n_max.max(1),
            n_leaving: watch::Sender::new(0),
        }
    }

    /// Takes a place. If there is none left, the connection that has had its place for the longest loses it.
    pub fn enter(&self) -> Place {
        let (keep, lost) = oneshot::channel();
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.places.len() >= self.n_max {
            waiting.places.pop_first();
            self.n_leaving.send_modify(|n| *n += 1);
        }
        waiting.n_came += 1;
        let number = waiting.n_came;
        waiting.places.insert(number, keep);
        Place {
            waiting: Arc::clone(&self.waiting),
            number,
            lost,
            n_leaving: self.n_leaving.clone(),
        }
    }

    /// Resolves once every connection that has lost its place is gone.
    pub(crate) async fn are_gone(&self) {
        let mut n_leaving = self.n_leaving.subscribe();
        let gone = n_leaving.wait_for(|n| *n == 0).await;
        gone.expect("the sender is a field of this value");
    }
}

impl Place {
    /// Resolves once the place is lost to another connection.
    pub async fn lost(&mut self) {
        // Nothing is ever sent.
        let _dropped = (&mut self.lost).await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.places.remove(&self.number).is_none() {
            self.n_leaving.send_modify(|n| *n -= 1);
        }
    }
}

#[cfg(test)]
mod tests;
