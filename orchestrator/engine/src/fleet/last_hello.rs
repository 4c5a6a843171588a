//! What is remembered of a process's last hello, so that the next one can be judged by it.

use super::session::Session;
use escapement_model::SessionId;

/// The last hello of a process, and what is known of the session that it began.
#[derive(Clone, Copy, Debug)]
pub(super) struct LastHello {
    /// 0 if its hellos are not numbered.
    pub(super) number: u64,
    pub(super) session_id: SessionId,
    /// If no later hello names that session: since when nothing that is sent to the process has arrived.
    pub(super) deaf_since_ms: u64,
}

impl LastHello {
    /// That of a session; `None` before its hello.
    pub(super) fn of(session: &Session) -> Option<Self> {
        let identity = session.identity.as_ref()?;
        Some(Self {
            number: identity.hello_number,
            session_id: session.session_id,
            deaf_since_ms: session.deaf_since_ms.unwrap_or(session.heard_at_ms),
        })
    }
}
