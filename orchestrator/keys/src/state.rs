//! The policy, and the keys that were fetched for it: what is in force, and whom to ask when. Asks nobody, and has no clock.

use crate::schedule::Schedule;
use escapement_access::{Access, KeySet, KeySource};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is known of one source.
#[derive(Debug)]
struct Source {
    schedule: Schedule,
    /// `None` until they were fetched, and after they were not believed any more.
    keys: Option<Arc<KeySet>>,
}

/// What is in force.
#[derive(Debug)]
pub(crate) struct State {
    /// Without what was fetched.
    policy: Arc<Access>,
    sources: BTreeMap<KeySource, Source>,
}

impl State {
    pub(crate) fn new(policy: Arc<Access>, now_ms: u64) -> Self {
        let mut state = Self {
            policy: Arc::clone(&policy),
            sources: BTreeMap::new(),
        };
        state.replace_policy(policy, now_ms);
        state
    }

    /// Puts another policy into force. Sources that both have keep their keys.
    pub(crate) fn replace_policy(&mut self, policy: Arc<Access>, now_ms: u64) {
        let mut before = std::mem::take(&mut self.sources);
        let is_asked = |source: &&KeySource| matches!(source, KeySource::Url { .. });
        for source in policy.key_sources().filter(is_asked) {
            let known = before.remove(source).unwrap_or_else(|| Source {
                schedule: Schedule::new(now_ms),
                keys: None,
            });
            self.sources.entry(source.clone()).or_insert(known);
        }
        self.policy = policy;
    }

    /// Returns the policy with all keys.
    pub(crate) fn in_force(&self) -> Arc<Access> {
        let fetched = self.sources.iter();
        let mut fetched = fetched
            .filter_map(|(source, known)| Some((source.clone(), Arc::clone(known.keys.as_ref()?))))
            .peekable();
        match fetched.peek() {
            None => Arc::clone(&self.policy),
            Some(_) => Arc::new(self.policy.with_keys(fetched)),
        }
    }

    /// How long ago the keys came that are fetched and believed, by issuer; `None` if there are none.
    pub(crate) fn ages_ms(&self, now_ms: u64) -> Vec<(String, Option<u64>)> {
        let issuers = self.policy.issuers();
        let fetched = issuers.filter_map(|(name, source)| Some((name, self.sources.get(source)?)));
        let age = |known: &Source| known.schedule.age_ms(now_ms);
        fetched
            .map(|(name, known)| (name.to_owned(), age(known)))
            .collect()
    }

    /// When to look again; `None`: there is nothing to wait for but news.
    pub(crate) fn next_ms(&self) -> Option<u64> {
        let next = self.sources.values().filter_map(|known| known.schedule.next_ms());
        next.min()
    }

    /// Returns the sources to ask now; they count as asked. Their answers are to be told with [`State::told`].
    pub(crate) fn begin(&mut self, now_ms: u64) -> Vec<KeySource> {
        let due = self
            .sources
            .iter_mut()
            .filter_map(|(source, known)| known.schedule.begin(now_ms).then(|| source.clone()));
        due.collect()
    }

    /// Forgets keys that are too old. True if there were any.
    pub(crate) fn forget_stale(&mut self, now_ms: u64) -> bool {
        let mut has_forgotten = false;
        for known in self.sources.values_mut() {
            if known.schedule.is_stale(now_ms) {
                known.schedule.forget();
                has_forgotten |= known.keys.take().is_some();
            }
        }
        has_forgotten
    }

    /// A source has answered; `None`: with nothing that can be used, and what it said before stays. True if its keys are others
    /// now.
    pub(crate) fn told(
        &mut self,
        source: &KeySource,
        keys: Option<KeySet>,
        now_ms: u64,
        jitter: u16,
    ) -> bool {
        // The policy may have changed while it was asked.
        let Some(known) = self.sources.get_mut(source) else {
            return false;
        };
        let Some(keys) = keys else {
            known.schedule.failed(now_ms);
            return false;
        };
        known.schedule.succeeded(now_ms, jitter);
        let is_new = known.keys.as_deref() != Some(&keys);
        if is_new {
            known.keys = Some(Arc::new(keys));
        }
        is_new
    }

    /// Returns true if asking the issuer again may bring a key that is not there; then it is asked as soon as it may be.
    pub(crate) fn ask(&mut self, issuer: &str, now_ms: u64) -> bool {
        let source = self.policy.key_source_of(issuer);
        let known = source.and_then(|source| self.sources.get_mut(source));
        known.is_some_and(|known| known.schedule.ask(now_ms))
    }
}

#[cfg(test)]
mod tests;
