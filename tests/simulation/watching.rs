//! What the edge of the orchestrator does for those who look at a record: it asks for one piece after another, from the
//! engine while the execution is live and from the store afterwards. Keeps nothing for whoever does not read.

use crate::callers::{CallNumber, Question, Reads, Seen, Told};
use crate::edge::{Read, stored_state};
use crate::orchestrator::Call;
use crate::world::{Happening, World};
use escapement_codec::audit;
use escapement_codec::stored::audit_trail::{AuditTrail, Placed};
use escapement_contract::AuditEntry;
use escapement_engine::{Input, IsAll, Piece, Watch, Watched};
use escapement_model::ExecutionId;
use escapement_tests::history::{End, Entry, State};
use escapement_wire::v1;

impl World {
    /// Asks the engine for the next piece of a record.
    pub(crate) fn ask_for_entries(&mut self, call: CallNumber, question: Question) {
        let (execution_id, from_sequence, after_hash, waits) = match question {
            Question::Audit(id) => (id, 1, None, false),
            Question::Watch { id, from, after, .. } => (id, from, after.map(|seen| seen.hash), true),
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
                after_hash,
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
    pub(crate) fn entries_answered(&mut self, call: CallNumber, question: Question, reply: Watched) {
        match (question, reply) {
            (Question::Audit(_), Watched::Entries(entries, IsAll(is_all))) => {
                assert!(
                    is_all && !entries.is_empty(),
                    "a record has entries from the start"
                );
                self.tell(call, told(&converted(&entries), End::Now));
            }
            (Question::Watch { id, from, reads, .. }, Watched::Entries(entries, _)) => {
                let from = from + entries.len() as u64;
                self.tell(call, told(&converted(&entries), End::Open));
                // What was shown stays as long as the process.
                let after = None;
                let question = Question::Watch {
                    id,
                    from,
                    after,
                    reads,
                };
                self.read_on(call, question);
            }
            (Question::Watch { .. }, Watched::Rewritten) => {
                self.tell(call, Told::Refused("RECORD_REWRITTEN"))
            }
            (Question::Audit(id), Watched::NotLive) => {
                let read = Read::Record {
                    id,
                    from: 1,
                    after: None,
                    ends: false,
                };
                self.read_soon(call, read);
            }
            (
                Question::Watch {
                    id,
                    from,
                    after,
                    reads,
                },
                Watched::NotLive | Watched::Settled(_),
            ) => {
                // Whoever never reads does not get the rest either.
                if reads != Reads::Never {
                    let after = after.map(|seen| seen.hash);
                    let ends = true;
                    let read = Read::Record {
                        id,
                        from,
                        after,
                        ends,
                    };
                    self.read_soon(call, read);
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

    /// Returns the record of a settled execution, as the store has it.
    pub(crate) fn record(&self, id: ExecutionId, from: u64, after: Option<[u8; 32]>, ends: bool) -> Told {
        let Some(stored) = self.stored(id) else {
            return Told::Absent;
        };
        let State::Settled { result } = stored_state(&stored) else {
            return Told::Refused("STORE_FAILED");
        };
        let record = self.storage.reader().audit(id).expect("the store can be read");
        let trail = AuditTrail::new(record.expect("what is settled has a record"));
        let readable = "a record can be read";
        if !ends {
            let piece = trail.piece(from, WHOLE).expect(readable);
            return told(&piece.entries, End::Now);
        }
        let after = after.as_ref().map(|hash| hash.as_slice());
        let mut place = trail.find(from, after).expect(readable);
        if place.is_none() {
            return Told::Refused("RECORD_REWRITTEN");
        }
        let mut entries = Vec::new();
        while let Some(at) = place {
            let Placed { entry, next } = trail.at(at).expect(readable);
            entries.push(entry);
            place = next;
        }
        told(&entries, End::Result(result))
    }

    /// Looks over the orchestrator's shoulder: what it shows is compared with what is so.
    pub(crate) fn followed(&mut self, id: ExecutionId, from: u64, reply: Watched) {
        match reply {
            Watched::Entries(entries, _) => {
                let from = from + entries.len() as u64;
                self.truth.told(id, entries.to_vec());
                self.process().follow_on(id, from);
            }
            Watched::Settled(settled) => {
                self.check_settled(&settled);
                let seen = usize::try_from(from - 1).expect("it is small");
                let rest = settled.audit.get(seen..).unwrap_or_default();
                self.truth.told(id, rest.to_vec());
            }
            Watched::NotLive => {}
            other => panic!("who follows {id} is answered by {other:?}"),
        }
    }
}

fn converted(entries: &[AuditEntry]) -> Vec<v1::AuditEntry> {
    entries.iter().map(audit::entry).collect()
}

fn told(entries: &[v1::AuditEntry], end: End) -> Told {
    Told::Entries {
        entries: entries.iter().map(Entry::of).collect(),
        last: entries.last().map(Seen::of),
        end,
    }
}

/// A page that takes every record.
pub(crate) const WHOLE: Piece = Piece {
    entries_max: 1 << 20,
    bytes_max: 1 << 30,
};
