//! Bounds connections that do not speak HTTP/2 yet; a new one evicts the oldest.
//! A real client speaks at once and is never the oldest, even in a flood of silent connections.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{oneshot, watch};

/// Places for so many. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Newcomers {
    waiting: Arc<Mutex<Waiting>>,
    n_max: usize,
    /// Connections that were evicted and have not closed yet.
    n_leaving: watch::Sender<usize>,
}

/// Waiting connections in the order of their arrival; dropping the sender evicts one.
#[derive(Debug, Default)]
struct Waiting {
    n_came: u64,
    places: BTreeMap<u64, oneshot::Sender<()>>,
}

/// The slot of one connection, until it is dropped.
#[derive(Debug)]
pub struct Place {
    waiting: Arc<Mutex<Waiting>>,
    number: u64,
    lost: oneshot::Receiver<()>,
    n_leaving: watch::Sender<usize>,
}

impl Newcomers {
    /// Creates slots, one at least.
    pub fn new(n_max: usize) -> Self {
        Self {
            waiting: Arc::default(),
            n_max: n_max.max(1),
            n_leaving: watch::Sender::new(0),
        }
    }

    /// Takes a slot. If none is free, the connection with the oldest slot loses it.
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

    /// Resolves once every evicted connection has closed.
    pub(crate) async fn are_gone(&self) {
        let mut n_leaving = self.n_leaving.subscribe();
        let gone = n_leaving.wait_for(|n| *n == 0).await;
        gone.expect("the sender is a field of this value");
    }
}

impl Place {
    /// Resolves once the slot is lost to another connection.
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
