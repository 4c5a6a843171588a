//! A journal against the wire: what the orchestrator notes of a session is what was said on it, message for message.

use std::collections::BTreeMap;

use crate::session_journal::{Event, FromWorker, Hex, ToWorker, What};

use super::SessionOnWire;

/// How much was compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Sessions that both know.
    pub n_sessions: u64,
    /// Messages that both have.
    pub n_messages: u64,
}

/// What the journal has of one session.
#[derive(Debug, Default)]
struct Noted {
    from_worker: Vec<(u64, FromWorker)>,
    to_worker: Vec<(u64, ToWorker)>,
    /// The journal of this session is whole: it was not cut off by a crash.
    is_closed: bool,
}

/// Holds every session of the wire against the journal.
///
/// What the orchestrator noted as said begins with what it said, and is all of it if the stream ended in order.
/// What it noted as heard is what the beginning of what was forwarded to it says.
///
/// # Errors
/// A session that only the wire knows, or the first message that differs.
pub fn compare(wire: &[SessionOnWire], journal: &[Event]) -> Result<Compared, String> {
    let noted = noted(journal);
    let mut compared = Compared::default();
    for session in wire {
        let Some((_, ToWorker::Welcome { session: id, .. })) = session.to_worker.first() else {
            continue;
        };
        let Some(noted) = noted.get(id) else {
            return Err(format!("session {id} is on the wire and not in the journal"));
        };
        compared.n_sessions += 1;
        compared.n_messages += same(id, "told", &session.to_worker, &noted.to_worker)?;
        compared.n_messages += same(id, "heard", &session.from_worker, &noted.from_worker)?;
        let (n_told, n_noted) = (session.to_worker.len(), noted.to_worker.len());
        if noted.is_closed && (n_told > n_noted || session.is_ended && n_told < n_noted) {
            return Err(format!(
                "session {id}: {n_told} messages to the worker are on the wire, and {n_noted} in the journal"
            ));
        }
        if noted.is_closed && noted.from_worker.len() > session.from_worker.len() {
            return Err(format!(
                "session {id}: the journal has messages that the worker did not send"
            ));
        }
    }
    Ok(compared)
}

/// How many messages both have; all of them are the same.
fn same<M: PartialEq + std::fmt::Debug>(
    id: &Hex,
    way: &str,
    wire: &[(u64, M)],
    journal: &[(u64, M)],
) -> Result<u64, String> {
    let differs = wire.iter().zip(journal).find(|(wire, journal)| wire != journal);
    match differs {
        Some((wire, journal)) => Err(format!(
            "session {id}, {way}: on the wire {wire:?}, and in the journal {journal:?}"
        )),
        None => Ok(wire.len().min(journal.len()) as u64),
    }
}

fn noted(journal: &[Event]) -> BTreeMap<Hex, Noted> {
    let (mut open, mut known): (BTreeMap<u64, Noted>, BTreeMap<Hex, Noted>) = Default::default();
    let mut file = |noted: Noted| {
        if let Some((_, ToWorker::Welcome { session, .. })) = noted.to_worker.first() {
            known.insert(*session, noted);
        }
    };
    for event in journal {
        match &event.what {
            What::Boot { .. } => std::mem::take(&mut open).into_values().for_each(&mut file),
            What::In { seq, message } => {
                let noted = open.entry(event.session).or_default();
                noted.from_worker.push((*seq, message.clone()));
            }
            What::Out { seq, message } => {
                let noted = open.entry(event.session).or_default();
                noted.to_worker.push((*seq, message.clone()));
            }
            What::Closed | What::Ended => open.entry(event.session).or_default().is_closed = true,
            What::Opened | What::Dropped(_) | What::Call(_) | What::Reply(_) => {}
        }
    }
    open.into_values().for_each(file);
    known
}
