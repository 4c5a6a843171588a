//! Asks the engine for its actions at intervals, once for all streams together, and only while a stream is open.

use escapement_engine::ActionView;
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tonic::Status;

/// Where looks come from.
pub trait Source: Debug + Send + Sync + 'static {
    /// Asks for all actions that are registered.
    ///
    /// # Errors
    /// The orchestrator has too much to do, or ends.
    fn actions(&self) -> Pin<Box<dyn Future<Output = Result<Vec<ActionView>, Status>> + Send + '_>>;
}

/// The actions for whose workers there is anything to do.
pub(crate) type Busy = BTreeSet<Arc<str>>;

/// The looks that are shared.
#[derive(Debug)]
pub(crate) struct Looks {
    source: Arc<dyn Source>,
    /// `None` before the first look.
    last: watch::Sender<Option<Busy>>,
    /// True while a task looks.
    is_looking: Mutex<bool>,
}

impl Looks {
    pub(crate) fn new(source: Arc<dyn Source>) -> Self {
        Self {
            source,
            last: watch::Sender::default(),
            is_looking: Mutex::default(),
        }
    }

    /// Returns a look of one's own.
    pub(crate) async fn now(&self) -> Result<Vec<ActionView>, Status> {
        self.source.actions().await
    }

    /// What the last look saw, if somebody follows already, and every change.
    pub(crate) fn follow(self: &Arc<Self>) -> watch::Receiver<Option<Busy>> {
        // Before the lock: a task that ends has seen that nobody follows, and the next one starts behind it.
        let looks = self.last.subscribe();
        let mut is_looking = self.is_looking.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::replace(&mut *is_looking, true) {
            tokio::spawn(Arc::clone(self).look());
        }
        drop(is_looking);
        looks
    }

    async fn look(self: Arc<Self>) {
        while self.is_followed() {
            let began = Instant::now();
            // One that fails is made up for by the next one.
            if let Ok(actions) = self.source.actions().await {
                let busy = actions.into_iter().filter(|action| action.demand() > 0);
                let busy = Some(busy.map(|action| action.name).collect());
                self.last.send_if_modified(|last| {
                    let is_other = *last != busy;
                    *last = busy;
                    is_other
                });
            }
            sleep(LOOK_PAUSE.max(began.elapsed() * LOOK_SHARE)).await;
        }
    }

    /// False ends the task. What it saw last is old for those who follow later.
    fn is_followed(&self) -> bool {
        let mut is_looking = self.is_looking.lock().unwrap_or_else(PoisonError::into_inner);
        *is_looking = self.last.receiver_count() > 0;
        if !*is_looking {
            self.last.send_replace(None);
        }
        *is_looking
    }
}

/// Two looks are so far apart, so that a change is seen within 100 ms.
const LOOK_PAUSE: Duration = Duration::from_millis(50);
/// And as many times as long as a look takes: with very many actions looks take a fifth of the engine's time at the most.
const LOOK_SHARE: u32 = 4;
