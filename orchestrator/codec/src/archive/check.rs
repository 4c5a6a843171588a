//! True if a record is whole and whether the contract core decides again what it says. Changes nothing.
//!
//! First what the record says of itself: digests, hashes, seal. Then the replay. Each part is compared byte for byte.

use super::Archive;
pub use super::verdict::{Difference, Part, Verdict};
use crate::audit;
use crate::audit_from_wire;
use crate::certificate;
use crate::execution;
use crate::stored;
use crate::stored::input_log;
use crate::stored::seal::Seal;
use bytes::Bytes;
use escapement_contract::{
    AuditEntry, AuditKind, CERTIFICATE_REVISION, ChainHash, InputLog, Replayed, Request, chain_seed, replay,
};
use escapement_model::hex;
use escapement_wire::v1;
use prost::Message;
use std::sync::Arc;

/// Checks a record and replays it. Whatever it holds, this ends with a verdict.
pub fn verify(archive: &Archive) -> Verdict {
    let mut check = Check {
        archive,
        verdict: Verdict {
            n_entries: archive.entries.len() as u64,
            ..Verdict::default()
        },
    };
    if check.is_of_earlier_version() {
        check.differs(
            Part::Inputs,
            "none, and no entry has a hash",
            "an earlier version recorded this, or it was taken out: there is nothing to check it by",
        );
        return check.verdict;
    }
    let request = check.request();
    let chain = check.chain();
    check.seal(chain.head);
    // What is said of the plan is no part of the chain.
    check.verdict.chain_intact = check
        .verdict
        .differences
        .iter()
        .all(|it| it.part == Part::Certificate);
    if let (Some(request), Some(accepted)) = (request, chain.accepted) {
        check.replay(request, accepted);
    }
    check.verdict
}

struct Check<'a> {
    archive: &'a Archive,
    verdict: Verdict,
}

/// What the entries lead to.
#[derive(Default)]
struct Chain {
    /// The hash that the last entry states; `None` if it states none.
    head: Option<ChainHash>,
    accepted: Option<Accepted>,
}

/// What the first entry says.
#[derive(Clone, Copy)]
struct Accepted {
    at_unix_ms: i64,
    deadline_ms: i64,
}

impl Check<'_> {
    fn differs(&mut self, part: Part, recorded: &str, replayed: &str) {
        self.push(part, 0, recorded.to_owned(), replayed.to_owned());
    }

    fn entry_differs(&mut self, sequence: u64, recorded: String, replayed: String) {
        self.push(Part::Entry, sequence, recorded, replayed);
    }

    fn push(&mut self, part: Part, sequence: u64, recorded: String, replayed: String) {
        if self.verdict.differences.len() < DIFFERENCES_MAX {
            self.verdict.differences.push(Difference {
                part,
                sequence,
                recorded,
                replayed,
            });
        }
    }

    fn is_of_earlier_version(&self) -> bool {
        let has_no_hash =
            |entry: &Bytes| v1::AuditEntry::decode(entry.clone()).is_ok_and(|entry| entry.hash.is_empty());
        self.archive.inputs.is_none()
            && self.archive.seal.is_none()
            && self.archive.entries.iter().all(has_no_hash)
    }

    fn request(&mut self) -> Option<Request> {
        let request = match self.archive.decode_request() {
            Ok(request) => request,
            Err(unreadable) => {
                self.differs(Part::Accepted, &with_sources(&unreadable), "a valid request");
                return None;
            }
        };
        let digest = &self.archive.request_digest;
        if request.digest() != digest {
            let (recorded, actual) = (hex::text(digest), hex::text(request.digest()));
            self.differs(
                Part::Accepted,
                &format!("accepted with the digest {recorded}"),
                &format!("the request has the digest {actual}"),
            );
            // Another request has another record: replaying it would say nothing more.
            return None;
        }
        let execution_id = self.archive.execution_id;
        if request.execution_id() != Some(execution_id) {
            let in_request = request.execution_id().map(|id| id.to_string());
            self.differs(
                Part::Accepted,
                &format!("accepted as execution {}", in_request.unwrap_or_default()),
                &format!("the record is of execution {execution_id}"),
            );
        }
        self.certificate(&request);
        Some(request)
    }

    /// what was said of the plan follows from it. What another revision said is not compared.
    fn certificate(&mut self, request: &Request) {
        let recorded = self.archive.certificate().unwrap_or_default();
        let Some(recorded) = recorded.filter(|recorded| recorded.revision == CERTIFICATE_REVISION) else {
            return;
        };
        if recorded != certificate::to_store(request.certificate()) {
            self.differs(
                Part::Certificate,
                "another certificate",
                "the certificate that follows from the plan",
            );
        }
    }

    /// as the record states it: behind an entry that is wrong the next one is compared with its hash.
    fn chain(&mut self) -> Chain {
        let mut head = Some(chain_seed(
            self.archive.execution_id,
            &self.archive.request_digest,
        ));
        let mut accepted = None;
        for (index, bytes) in self.archive.entries.iter().enumerate() {
            let sequence = index as u64 + 1;
            let entry = match decode_entry(bytes) {
                Ok(entry) => entry,
                Err(why) => {
                    self.entry_differs(sequence, why, "an entry of a record".to_owned());
                    head = None;
                    continue;
                }
            };
            let expected = head.map(|head| entry.link(&head));
            if entry.sequence != sequence {
                let recorded = format!("number {}", entry.sequence);
                self.entry_differs(sequence, recorded, format!("number {sequence}"));
            } else if expected.is_some_and(|expected| expected != entry.hash) {
                let recorded = format!("{} with the hash {}", entry.kind.name(), hex::text(&entry.hash));
                let follows = hex::text(&expected.unwrap_or_default());
                self.entry_differs(sequence, recorded, format!("the hash that follows is {follows}"));
            } else if audit::entry(&entry).encode_to_vec() != *bytes {
                let recorded = format!("{} in other bytes", entry.kind.name());
                self.entry_differs(sequence, recorded, "the bytes that the entry has".to_owned());
            }
            head = Some(entry.hash);
            if let (1, AuditKind::Accepted { deadline_ms, .. }) = (sequence, &entry.kind) {
                accepted = Some(Accepted {
                    at_unix_ms: entry.at_unix_ms,
                    deadline_ms: *deadline_ms,
                });
            }
        }
        if accepted.is_none() {
            self.entry_differs(1, "not `accepted`".to_owned(), "`accepted`".to_owned());
        }
        Chain { head, accepted }
    }

    fn seal(&mut self, head: Option<ChainHash>) {
        let Some(bytes) = &self.archive.seal else {
            return self.differs(Part::Seal, "none", "a seal");
        };
        let seal = match Seal::decode(bytes) {
            Ok(seal) => seal,
            Err(unreadable) => return self.differs(Part::Seal, &with_sources(&unreadable), "a seal"),
        };
        if seal.encode() != *bytes || head.is_some_and(|head| !seal.joins(&head)) {
            let recorded = hex::text(&seal.seal);
            self.differs(
                Part::Seal,
                &recorded,
                "the seal over the last hash and both digests",
            );
        }
        let inputs = self.archive.inputs.as_deref().unwrap_or_default();
        let actual = Seal::over(&head.unwrap_or_default(), &self.archive.result, inputs);
        let parts = [
            (Part::Inputs, seal.inputs_digest, actual.inputs_digest),
            (Part::Result, seal.result_digest, actual.result_digest),
        ];
        for (part, sealed, actual) in parts {
            if sealed != actual {
                let recorded = format!("sealed with the digest {}", hex::text(&sealed));
                self.differs(part, &recorded, &format!("the digest is {}", hex::text(&actual)));
            }
        }
    }

    //
    fn replay(&mut self, request: Request, accepted: Accepted) {
        let Some(log) = self.log(&request) else { return };
        self.verdict.is_complete = log.is_complete;
        if log.is_cut_short() {
            self.differs(Part::Inputs, "cut off for want of room", "inputs that have room");
        }
        let Accepted {
            at_unix_ms,
            deadline_ms,
        } = accepted;
        let replayed = replay(
            Arc::new(request),
            self.archive.execution_id,
            at_unix_ms,
            deadline_ms,
            &log,
        );
        let replayed = match replayed {
            Ok(replayed) => replayed,
            Err(refused) => {
                self.verdict.n_inputs = refused.index as u64;
                return self.differs(Part::Inputs, "an input that fits", &refused.to_string());
            }
        };
        self.verdict.n_inputs = replayed.n_inputs as u64;
        self.verdict.audit_identical = self.same_entries(&replayed, log.is_complete);
        self.verdict.decisions_identical = *replayed.decisions() == log.decisions;
        if !self.verdict.decisions_identical {
            let (recorded, again) = (hex::text(&log.decisions), hex::text(replayed.decisions()));
            self.differs(Part::Decisions, &recorded, &again);
        }
        if log.is_complete {
            self.verdict.result_identical = self.same_result(&replayed);
        } else {
            self.result_of_this_execution(&replayed);
        }
    }

    /// If the inputs do not lead to the result: it must be one of this execution, and of how the record ends.
    fn result_of_this_execution(&mut self, replayed: &Replayed) {
        let Ok(result) = v1::PlanResult::decode(self.archive.result.clone()) else {
            return self.differs(Part::Result, "it does not decode", "a result");
        };
        let last = self.archive.entries.last().map(decode_entry);
        let status = match last {
            Some(Ok(AuditEntry {
                kind: AuditKind::Settled { status },
                ..
            })) => execution::status(status) as i32,
            Some(_) | None => {
                let sequence = self.archive.entries.len() as u64;
                return self.entry_differs(sequence, "not `settled`".to_owned(), "`settled`".to_owned());
            }
        };
        let plan_id = replayed.execution().request().plan().id().to_string();
        let execution_id = self.archive.execution_id.to_string();
        if (&result.execution_id, &result.plan_id, result.status) != (&execution_id, &plan_id, status) {
            self.differs(
                Part::Result,
                "of another execution, or of another end",
                "the result of this execution",
            );
        }
    }

    fn log(&mut self, request: &Request) -> Option<InputLog> {
        let Some(bytes) = &self.archive.inputs else {
            self.differs(Part::Inputs, "none", "the inputs");
            return None;
        };
        let payload = match self.archive.decode_result() {
            Ok(result) => result.result_payload.unwrap_or_default(),
            Err(unreadable) => {
                self.differs(Part::Result, &with_sources(&unreadable), "a result");
                return None;
            }
        };
        match input_log::decode(bytes, request.plan(), &payload) {
            Ok(log) => Some(log),
            Err(unreadable) => {
                self.differs(
                    Part::Inputs,
                    &with_sources(&unreadable),
                    "inputs of this execution",
                );
                None
            }
        }
    }

    /// Compares entry by entry; of an incomplete record only those that the replay has.
    fn same_entries(&mut self, replayed: &Replayed, is_complete: bool) -> bool {
        let again = replayed.audit();
        let recorded = &self.archive.entries;
        let n_compared = if is_complete {
            recorded.len().max(again.len())
        } else {
            again.len()
        };
        for index in 0..n_compared {
            let bytes = recorded.get(index);
            let entry = again.get(index);
            let encoded = entry.map(|entry| audit::entry(entry).encode_to_vec());
            if bytes.map(Bytes::as_ref) == encoded.as_deref() {
                continue;
            }
            let recorded = match bytes.map(decode_entry) {
                None => "no such entry".to_owned(),
                Some(Ok(entry)) => words(&entry),
                Some(Err(why)) => why,
            };
            let replayed = entry.map_or("no such entry".to_owned(), words);
            self.entry_differs(index as u64 + 1, recorded, replayed);
            return false;
        }
        true
    }

    fn same_result(&mut self, replayed: &Replayed) -> bool {
        let Some(settlement) = replayed.settlement() else {
            self.differs(Part::Result, "an end", "the inputs lead to no end");
            return false;
        };
        let told_again = input_log::encode(settlement);
        if self.archive.inputs.as_deref() != Some(&told_again) {
            self.differs(
                Part::Inputs,
                "other bytes",
                "the bytes that these inputs are recorded in",
            );
        }
        if stored::encode_result(&settlement.result) == self.archive.result {
            return true;
        }
        let recorded = self.archive.decode_result();
        let recorded =
            recorded.map_or_else(|unreadable| with_sources(&unreadable), |result| outline(&result));
        let again = outline(&crate::execution::result(&settlement.result));
        self.differs(Part::Result, &recorded, &again);
        false
    }
}

fn decode_entry(bytes: &Bytes) -> Result<AuditEntry, String> {
    let wire = v1::AuditEntry::decode(bytes.clone()).map_err(|error| error.to_string())?;
    audit_from_wire::entry(wire).map_err(str::to_owned)
}

/// Returns an entry in one line, cut if it is long.
fn words(entry: &AuditEntry) -> String {
    cut(format!(
        "{} at {}: {:?}",
        entry.sequence, entry.at_unix_ms, entry.kind
    ))
}

/// Returns a result in one line, without its payload.
fn outline(result: &v1::PlanResult) -> String {
    let payload = result.result_payload.as_ref();
    let code = result.error.as_ref().map_or("none", |error| &error.error_code);
    cut(format!(
        "{}, {} of {} steps, completed_at {}, duration_ms {}, {} bytes of payload, error {code}",
        result.status().as_str_name(),
        result.steps_executed,
        result.steps_total,
        result.completed_at,
        result.duration_ms,
        payload.map_or(0, |payload| payload.len()),
    ))
}

fn with_sources(error: &dyn std::error::Error) -> String {
    let sources = std::iter::successors(error.source(), |error| error.source());
    cut(sources.fold(error.to_string(), |text, source| format!("{text}: {source}")))
}

fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(WORDS_BYTES_MAX));
    text
}

/// Differences that are told.
const DIFFERENCES_MAX: usize = 64;
/// Bytes of what is said of one side of a difference.
const WORDS_BYTES_MAX: usize = 400;
