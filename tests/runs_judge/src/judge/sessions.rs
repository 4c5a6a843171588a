//! The state of a session: what patches make of it, one after another (RFC 7396).

use super::Desk;
use super::book::Book;
use crate::journal::Event;
use crate::wire::Value;
use std::collections::BTreeMap;

/// The session as a run sees it.
#[derive(Debug)]
pub(super) struct View {
    state: Value,
    version: u64,
}

impl Default for View {
    fn default() -> Self {
        Self {
            state: Value::Object(BTreeMap::new()),
            version: 0,
        }
    }
}

impl Book {
    // RI11
    pub(super) fn take_of_session(&mut self, event: Event, desk: &mut Desk<'_>) {
        match event {
            Event::SessionRead { state, version } => {
                let Some(state) = state else { return };
                desk.count("states of sessions that were read");
                self.view = View {
                    state: desk.object(&state),
                    version,
                };
            }
            Event::StatePatched { patch, state } => {
                desk.count("patches of sessions");
                let patch = desk.object(&patch);
                merge(&mut self.view.state, &patch);
                let Some(state) = state else { return };
                self.view.version += 1;
                if desk.object(&state) != self.view.state {
                    let expected = &self.view.state;
                    desk.finds(
                        "RI11",
                        &format!("the patches of the session lead to {expected:?}"),
                    );
                }
            }
            _ => unreachable!("{event:?} is not about a session"),
        }
        self.check_shared(desk);
    }

    /// All runs of a session see the same state under one number.
    fn check_shared(&self, desk: &mut Desk<'_>) {
        if self.spec.session_id.is_empty() || self.view.version == 0 {
            return;
        }
        let key = (self.spec.session_id.clone(), self.view.version);
        let known = desk.states.entry(key).or_insert_with(|| self.view.state.clone());
        if *known != self.view.state {
            let version = self.view.version;
            desk.finds("RI11", &format!("state {version} of the session is two states"));
        }
    }
}

fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        target.clone_from(patch);
        return;
    };
    if !matches!(target, Value::Object(_)) {
        *target = Value::Object(BTreeMap::new());
    }
    let Value::Object(members) = target else { return };
    for (key, change) in changes {
        match change {
            Value::Null => drop(members.remove(key)),
            change => merge(members.entry(key.clone()).or_insert(Value::Null), change),
        }
    }
}
