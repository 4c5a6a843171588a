//! Sessions of runs that live, and those that are to be written: what runs of one session see of each other.

use crate::stalls::Stalls;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use escapement_model::Opaque;
use escapement_run::journal::{Event, Stored};
use escapement_run::session::{Session, health_of, set_health};
use escapement_run::{Blobs, Commit, Input, Refused, Run, SessionNews};

/// Sessions that are in use. What a batch costs depends on those that it is about, not on how many there are.
#[derive(Debug, Default)]
pub struct Sessions {
    held: BTreeMap<String, Held>,
    /// Ids of those that are to be written.
    changed: BTreeSet<String>,
    /// Ids of those that may be in use no more.
    loose: BTreeSet<String>,
}

#[derive(Debug)]
struct Held {
    session: Session,
    /// Runs of it that live.
    n_runs: usize,
}

impl Sessions {
    /// Takes a session up as the store has it, unless it is in use.
    pub fn hold(&mut self, id: &str, session: impl FnOnce() -> Session) -> &Session {
        let held = self.held.entry(String::from(id)).or_insert_with(|| {
            self.loose.insert(String::from(id));
            Held {
                session: session(),
                n_runs: 0,
            }
        });
        &held.session
    }

    /// Returns the session, if it is in use.
    pub fn get(&self, id: &str) -> Option<&Session> {
        self.held.get(id).map(|held| &held.session)
    }

    /// Runs of the session that live.
    pub fn n_runs(&self, id: &str) -> usize {
        self.held.get(id).map_or(0, |held| held.n_runs)
    }

    /// Puts a session in the place of the one that is in use, to be written.
    pub fn put(&mut self, id: &str, session: Session) {
        let n_runs = self.n_runs(id);
        self.held.insert(String::from(id), Held { session, n_runs });
        self.changed.insert(String::from(id));
        self.loose.insert(String::from(id));
    }

    /// Forgets a session that no run uses.
    ///
    /// # Panics
    /// If one does.
    pub fn forget(&mut self, id: &str) {
        assert_eq!(self.n_runs(id), 0, "a session that a run uses stays");
        self.held.remove(id);
        self.changed.remove(id);
    }

    /// Those that are to be written, each once, with their ids.
    pub fn changed(&mut self) -> Vec<(String, Session)> {
        let changed = core::mem::take(&mut self.changed).into_iter();
        let with_session = changed.filter_map(|id| {
            let session = self.get(&id)?.clone();
            Some((id, session))
        });
        with_session.collect()
    }

    /// Lets go of those that no run uses and that are written.
    pub fn let_go(&mut self) {
        for id in core::mem::take(&mut self.loose) {
            if self.n_runs(&id) > 0 {
                continue;
            }
            if self.changed.contains(&id) {
                self.loose.insert(id);
            } else {
                self.held.remove(&id);
            }
        }
    }

    pub(crate) fn run_begins(&mut self, run: &Run) {
        let id = &*run.state().spec.session_key();
        if !id.is_empty() {
            let user_id = &run.state().spec.user_id;
            self.hold(id, || Session::new(user_id, Opaque::default()));
            self.held.get_mut(id).expect("it is held").n_runs += 1;
        }
    }

    pub(crate) fn run_ends(&mut self, session_id: &str) {
        if let Some(held) = self.held.get_mut(session_id) {
            held.n_runs -= 1;
            self.loose.insert(String::from(session_id));
        }
    }

    // RUN-14.4
    /// What the run has not seen of its session.
    pub(crate) fn news(&self, run: &Run) -> Option<SessionNews> {
        let session = self.get(&run.state().spec.session_key())?;
        let seen = run.state().session.as_ref();
        let (state_version, health_version) =
            seen.map_or((0, 0), |seen| (seen.state_version, seen.health_version));
        let state =
            (session.state_version != state_version).then(|| (session.state_version, session.state.clone()));
        let health = (session.health_version != health_version)
            .then(|| (session.health_version, session.skills.clone()));
        (state.is_some() || health.is_some()).then_some(SessionNews { state, health })
    }

    // RUN-14.3, RUN-14.5
    /// Takes over what a run changed. It saw the session as it was before.
    pub(crate) fn learn(&mut self, run: &Run, commit: &Commit) {
        let id = run.state().spec.session_key();
        let Some(held) = self.held.get_mut(&*id) else {
            return;
        };
        let session = &mut held.session;
        let mut is_changed = false;
        for entry in &commit.events {
            match &entry.event {
                Some(Event::StatePatched(patched)) => {
                    if let Some(state) = &patched.state {
                        session.state = Opaque::from_encoded(load(state, commit));
                        session.state_version += 1;
                        session.record_change(run.state().spec.fires().as_ref(), entry.at);
                        is_changed = true;
                    }
                }
                Some(Event::SkillHealthChanged(changed)) => {
                    let now = (changed.health(), changed.failures);
                    if health_of(&session.skills, &changed.skill) != now {
                        set_health(&mut session.skills, &changed.skill, now.0, now.1);
                        session.health_version += 1;
                        is_changed = true;
                    }
                }
                _ => {}
            }
        }
        if is_changed {
            self.changed.insert(id.into_owned());
        }
    }
}

// RUN-7.2, RUN-14.4
/// Hands an input to a run that knows for how long the orchestrator stood still, and has seen its session as it is.
pub(crate) fn hand(
    sessions: &Sessions,
    stalls: &Stalls,
    run: &mut Run,
    input: Input,
    now: i64,
    blobs: &dyn Blobs,
) -> Result<Commit, Refused> {
    let stalled = stalls.of(run, &input, now);
    let news = sessions.news(run).map(Input::Session);
    let first: Vec<Input> = stalled.into_iter().chain(news).collect();
    match first.is_empty() {
        true => run.handle(input, now, blobs),
        false => run.handle_after(first, input, now, blobs),
    }
}

/// What an entry of the commit refers to.
fn load(stored: &Stored, commit: &Commit) -> Bytes {
    let Some(digest) = stored.content() else {
        return stored.inline.clone();
    };
    let blob = commit.blobs.iter().find(|(known, _)| *known == digest);
    blob.map(|(_, bytes)| bytes.clone())
        .expect("what an entry brings is in its commit")
}
