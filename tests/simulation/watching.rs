//! What the edge of the orchestrator does for those who look at a record: it asks for one piece after another, from the
//! engine while the execution is live and from the store afterwards. Keeps nothing for whoever does not read.

use crate::callers::{CallNumber, Question, Reads, Told};
use crate::edge::{Read, stored_state};
use crate::orchestrator::Call;
use crate::world::{Happening, World};
use escapement_contract::AuditEntry;
use escapement_engine::{Input, IsAll, Piece, Reply, Watch};
use escapement_model::ExecutionId;
use escapement_orchestrator::convert::audit;
use escapement_orchestrator::records;
use escapement_tests::history::{End, Entry, State};

impl World {
    /// Asks the engine for the next piece of a record.
    pub(crate) fn ask_for_entries(&mut self, call: CallNumber, question: Question) {
        let (execution_id, from_sequence, waits) = match question {
            Question::Audit(id) => (id, 1, false),
            Question::Watch { id, from, .. } => (id, from, true),
            other => panic!("{other:?} asks for no entries"),
        };
        let piece = if waits {
            Piece {
                entries_max: *self.dice.pick(&[1, 3, 64]),
                bytes_max: 16 << 10,
            }
        } else {
            WHOLE
        };
        self.process().call(Call::Asked(call, question), |caller| {
            Input::Watch(Watch {
                caller,
                execution_id,
                from_sequence,
                piece,
                waits,
            })
        });
    }

    /// A watcher has read what it got, and wants more.
    pub(crate) fn watch_on(&mut self, boot: u64, call: CallNumber, question: Question) {
        let is_there = self
            .orchestrator
            .as_ref()
            .is_some_and(|process| process.boot == boot);
        if is_there && self.calls.contains_key(&call) {
            self.ask_for_entries(call, question);
        }
    }

    /// The engine answers a question for entries.
    pub(crate) fn entries_answered(&mut self, call: CallNumber, question: Question, reply: Reply) {
        match (question, reply) {
            (Question::Audit(_), Reply::Entries(entries, IsAll(is_all))) => {
                assert!(
                    is_all && !entries.is_empty(),
                    "a record has entries from the start"
                );
                let entries = converted(&entries);
                let end = End::Now;
                self.tell(call, Told::Entries { entries, end });
            }
            (Question::Watch { id, from, reads }, Reply::Entries(entries, _)) => {
                let from = from + entries.len() as u64;
                let entries = converted(&entries);
                let end = End::Open;
                self.tell(call, Told::Entries { entries, end });
                self.read_on(call, Question::Watch { id, from, reads });
            }
            (Question::Audit(id), Reply::NotLive) => {
                let (from, ends) = (1, false);
                self.read_soon(call, Read::Record { id, from, ends });
            }
            (Question::Watch { id, from, reads }, Reply::NotLive | Reply::Settled(_)) => {
                // Whoever never reads does not get the rest either.
                if reads != Reads::Never {
                    let ends = true;
                    self.read_soon(call, Read::Record { id, from, ends });
                }
            }
            (question, reply) => panic!("{question:?} is answered by {reply:?}"),
        }
    }

    fn read_on(&mut self, call: CallNumber, question: Question) {
        let Question::Watch { reads, .. } = question else {
            return;
        };
        let after_ms = match reads {
            Reads::AtOnce => self.dice.roll(3),
            Reads::Slowly => self.dice.between(200, 6_000),
            Reads::Never => return,
        };
        let boot = self.process().boot;
        self.plan(after_ms, Happening::WatchesOn { boot, call, question });
    }

    /// The record of a settled execution, as the store has it.
    pub(crate) fn record(&self, id: ExecutionId, from: u64, ends: bool) -> Told {
        let Some(stored) = self.stored(id) else {
            return Told::Absent;
        };
        let State::Settled { result } = stored_state(&stored) else {
            return Told::Refused("STORE_FAILED");
        };
        let record = self.storage.reader().audit(id).expect("the store can be read");
        let entries = records::decode_audit(&record.expect("what is settled has a record"));
        let entries = entries.expect("a record can be read");
        let skipped = usize::try_from(from - 1).expect("it is small");
        if ends && skipped >= entries.len() {
            return Told::Refused("SEQUENCE_BEYOND_END");
        }
        Told::Entries {
            entries: entries.iter().skip(skipped).map(Entry::of).collect(),
            end: if ends { End::Result(result) } else { End::Now },
        }
    }

    /// Looks over the orchestrator's shoulder: what it shows is compared with what is so.
    pub(crate) fn followed(&mut self, id: ExecutionId, from: u64, reply: Reply) {
        match reply {
            Reply::Entries(entries, _) => {
                let from = from + entries.len() as u64;
                self.truth.told(id, entries.to_vec());
                self.process().follow_on(id, from);
            }
            Reply::Settled(settled) => {
                self.check_settled(&settled);
                let seen = usize::try_from(from - 1).expect("it is small");
                let rest = settled.audit.get(seen..).unwrap_or_default();
                self.truth.told(id, rest.to_vec());
            }
            Reply::NotLive => {}
            other => panic!("who follows {id} is answered by {other:?}"),
        }
    }
}

fn converted(entries: &[AuditEntry]) -> Vec<Entry> {
    entries
        .iter()
        .map(|entry| Entry::of(&audit::entry(entry)))
        .collect()
}

/// A page that takes every record.
pub(crate) const WHOLE: Piece = Piece {
    entries_max: 1 << 20,
    bytes_max: 1 << 30,
};
