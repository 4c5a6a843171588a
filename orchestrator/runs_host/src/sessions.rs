//! Sessions: loaded from the store on demand, changed in the turn of the runs, written with the entries of runs.

use escapement_run::session::Session;
use escapement_run::spec::namespace_of_session;
use escapement_store::StoreFault;
use escapement_store::runs::{
    DefinitionChange, DefinitionKind, DefinitionPut, DefinitionWrite, ExpectedVersion,
};

use crate::host::RunsHost;
use crate::recovery::stored_session;

/// Result of a change of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionDeleted {
    /// The session is removed with the next batch.
    Done,
    /// The session does not exist.
    NotFound,
    /// Runs of it live.
    InUse,
}

impl RunsHost {
    // RUN-14.4
    /// Returns the session with this `id` as of now, durable or not; `None` if it does not exist.
    ///
    /// # Errors
    /// As [`stored_session`].
    pub fn session(&self, id: &str) -> Result<Option<Session>, StoreFault> {
        match self.runs().sessions().get(id) {
            Some(session) => Ok(Some(session.clone())),
            None if self.deleted_sessions.iter().any(|deleted| deleted == id) => Ok(None),
            None => stored_session(self.reader(), id),
        }
    }

    /// Stores a session, and replaces an existing one. It is durable with the next batch.
    pub fn put_session(&mut self, id: &str, session: Session) {
        self.deleted_sessions.retain(|deleted| deleted != id);
        self.runs.sessions_mut().put(id, session);
    }

    /// Deletes a session that no run uses. It is durable with the next batch.
    ///
    /// # Errors
    /// As the store fails; a damaged one is deleted.
    pub fn delete_session(&mut self, id: &str) -> Result<SessionDeleted, StoreFault> {
        if self.runs().sessions().n_runs(id) > 0 {
            return Ok(SessionDeleted::InUse);
        }
        match self.session(id) {
            Ok(None) => return Ok(SessionDeleted::NotFound),
            Ok(Some(_)) | Err(StoreFault::CorruptDefinition { .. }) => {}
            Err(fault) => return Err(fault),
        }
        self.runs.sessions_mut().forget(id);
        self.deleted_sessions.push(id.to_owned());
        Ok(SessionDeleted::Done)
    }

    /// Loads the session of a run that begins or resumes. One that is missing or damaged begins anew.
    pub(crate) fn hold_session(&mut self, id: &str, user_id: &str) {
        if id.is_empty() || self.runs().sessions().get(id).is_some() {
            return;
        }
        let stored = self.session(id).ok().flatten();
        let session = stored.unwrap_or_else(|| Session::new(user_id, escapement_model::Opaque::default()));
        self.runs.sessions_mut().hold(id, || session);
    }

    /// Returns the changes of sessions for the batch that is polled now.
    pub(crate) fn session_writes(&mut self) -> Vec<DefinitionWrite> {
        let deleted = std::mem::take(&mut self.deleted_sessions);
        let gone = deleted.into_iter().map(|id| (id, DefinitionChange::Delete));
        let now = self.now;
        let changed = self
            .runs
            .sessions_mut()
            .changed()
            .into_iter()
            .map(|(id, session)| {
                let put = DefinitionPut {
                    namespace: namespace_of_session(&id),
                    owner: Some(session.user_id.clone()),
                    priority: 0,
                    at: now,
                    record: session.encoded(),
                    contents: Vec::new(),
                    pinned: Vec::new(),
                };
                (id, DefinitionChange::Put(put))
            });
        let write = |(name, change)| DefinitionWrite {
            kind: DefinitionKind::Session,
            name,
            expected: ExpectedVersion::Any,
            change,
        };
        gone.chain(changed).map(write).collect()
    }
}
