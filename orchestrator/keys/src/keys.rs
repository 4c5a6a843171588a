//! What others hold: the rules in force with all keys, and the way to ask for more. Decides nothing: [`State`] does.

use crate::fetch::fetch;
use crate::limits::FETCH_TIMEOUT;
use crate::state::State;
use escapement_access::{Access, KeySource};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tracing::{info, warn};

/// The rules in force: the policy, and the keys of its issuers. Cheap to clone.
#[derive(Clone)]
pub struct Keys {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    /// Times of the state are from here on.
    start: Instant,
    current: watch::Sender<Arc<Access>>,
    /// Told when there may be something to do.
    news: Notify,
}

impl Keys {
    /// Of a policy. Nobody is asked before [`Keys::serve`] runs.
    pub fn new(policy: Arc<Access>) -> Self {
        let state = State::new(policy, 0);
        let current = watch::Sender::new(state.in_force());
        Self {
            shared: Arc::new(Shared {
                state: Mutex::new(state),
                start: Instant::now(),
                current,
                news: Notify::new(),
            }),
        }
    }

    /// The rules in force, now and whenever they are replaced.
    pub fn current(&self) -> watch::Receiver<Arc<Access>> {
        self.shared.current.subscribe()
    }

    /// Puts another policy into force, at once. Issuers that both have keep their keys.
    pub fn replace_policy(&self, policy: Arc<Access>) {
        self.shared.change(|state, now_ms| {
            state.replace_policy(policy, now_ms);
            true
        });
        self.shared.news.notify_one();
    }

    /// Asks for the keys of an issuer, of which a token has one that is not there. Returns at once: true if a moment later the key
    /// may be there, false if it was looked for a moment ago.
    pub fn ask(&self, issuer: &str) -> bool {
        let shared = &self.shared;
        let mut may_come = false;
        shared.change(|state, now_ms| {
            may_come = state.ask(issuer, now_ms);
            false
        });
        if may_come {
            shared.news.notify_one();
        }
        may_come
    }

    /// How long ago the keys came that are believed, in milliseconds, by issuer whose keys are fetched from an address; `None` if
    /// there are none.
    pub fn ages_ms(&self) -> Vec<(String, Option<u64>)> {
        let mut ages = Vec::new();
        self.shared.change(|state, now_ms| {
            ages = state.ages_ms(now_ms);
            false
        });
        ages
    }

    /// Asks issuers for as long as it is polled; never returns.
    pub async fn serve(self) {
        let shared = self.shared;
        let mut under_way = JoinSet::new();
        loop {
            let mut due = Vec::new();
            let mut next_ms = None;
            shared.change(|state, now_ms| {
                due = state.begin(now_ms);
                let has_forgotten = state.forget_stale(now_ms);
                next_ms = state.next_ms();
                has_forgotten
            });
            for source in due {
                under_way.spawn(async move {
                    let answer = fetch(&source, FETCH_TIMEOUT).await;
                    (source, answer)
                });
            }
            let next = next_ms.map(|next_ms| shared.start + Duration::from_millis(next_ms));
            // Biased: which of them comes first changes nothing.
            tokio::select! {
                biased;
                Some(told) = under_way.join_next() => {
                    let (source, answer) = told.expect("asking does not panic, and nobody ends it");
                    shared.told(&source, answer);
                }
                () = shared.news.notified() => {}
                () = at(next) => {}
            }
        }
    }
}

impl Shared {
    /// Changes the state; what is in force follows if the change says so, before anybody else changes anything.
    fn change(&self, change: impl FnOnce(&mut State, u64) -> bool) {
        let now_ms = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if change(&mut state, now_ms) {
            self.current.send_replace(state.in_force());
        }
    }

    fn told(&self, source: &KeySource, answer: Result<escapement_access::KeySet, String>) {
        let KeySource::Url { url, .. } = source else {
            return;
        };
        let (keys, problem) = match answer {
            Ok(keys) => (Some(keys), None),
            Err(problem) => (None, Some(problem)),
        };
        let n_keys = keys.as_ref().map_or(0, escapement_access::KeySet::len);
        let mut is_new = false;
        self.change(|state, now_ms| {
            is_new = state.told(source, keys, now_ms, jitter());
            is_new
        });
        if let Some(problem) = problem {
            // At most once in 30 s for each issuer, as it is asked no more often.
            warn!(
                url,
                problem,
                "the keys of an issuer of tokens cannot be had; those that were are believed for a day"
            );
        } else if is_new {
            info!(url, n_keys, "the keys of an issuer of tokens are in force");
        }
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").finish_non_exhaustive()
    }
}

/// Resolves then; never without a time.
async fn at(next: Option<Instant>) {
    match next {
        Some(next) => sleep_until(next).await,
        None => std::future::pending().await,
    }
}

fn jitter() -> u16 {
    let mut bytes = [0; 2];
    // Without randomness all ask at the same time, which is no harm to us.
    let _none_is_drawn = getrandom::fill(&mut bytes);
    u16::from_le_bytes(bytes)
}
