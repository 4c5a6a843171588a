//! A second reader of record files, written from `proto/RECORD.md` alone: frames, digests, chain and seal.
//! Has no contract core, so it replays nothing and cannot say whether what is recorded was decided rightly.
//!
//! Shares no code with the orchestrator but the generated messages.

mod canonical;
mod entries;
mod file;
mod objects;
mod request;

use self::canonical::Canonical;
use escapement_wire::v1;
use escapement_wire::v1::audit_entry::Event;
use prost::Message;
use sha2::{Digest, Sha256};
use std::fmt;

pub use self::file::{FIRST_LINE, Frame, Kind, frames, write};

/// 32 bytes of SHA-256.
pub type Hash = [u8; 32];

/// What is wrong, and where it stands in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The part.
    pub place: Place,
    /// What is wrong with it.
    pub what: String,
}

/// A part of a record file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The line before the first frame.
    FirstLine,
    /// Who it is about.
    Header,
    /// What was asked.
    Accepted,
    /// An entry, 1 for the first.
    Entry(u64),
    /// What the execution was told.
    Inputs,
    /// How it ended.
    Result,
    /// What ties them together.
    Seal,
    /// The last frame, or what follows it.
    End,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.place, self.what)
    }
}

/// What a check comes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// In the order of the file, the frame `end` last. Empty for a file that is whole.
    pub findings: Vec<Finding>,
    /// Of the request, computed.
    pub request_digest: Option<Hash>,
    /// The last hash that an entry states, or where the chain begins.
    pub head: Option<Hash>,
    /// Computed.
    pub seal: Option<Hash>,
    /// That could be read.
    pub n_entries: u64,
}

impl Checked {
    /// Returns true if nothing is wrong.
    pub fn is_whole(&self) -> bool {
        self.findings.is_empty()
    }

    /// Returns the first entry that is wrong.
    pub fn first_entry(&self) -> Option<u64> {
        self.findings.iter().find_map(|finding| match finding.place {
            Place::Entry(sequence) => Some(sequence),
            _ => None,
        })
    }

    fn finds(&mut self, place: Place, what: impl Into<String>) {
        self.findings.push(Finding {
            place,
            what: what.into(),
        });
    }
}

/// Checks a file as the page says under "How to check a file", without the replay.
pub fn check(file: &[u8]) -> Checked {
    let mut checked = Checked::default();
    let (frames, broken) = file::frames(file);
    let of = |kind: Kind| frames.iter().find(|frame| frame.kind == kind);
    let header = of(Kind::Header).map(|frame| v1::RecordHeader::decode(frame.content));
    let header = match header {
        Some(Ok(header)) => Some(header),
        Some(Err(_)) => {
            checked.finds(Place::Header, "it does not decode");
            None
        }
        None => None,
    };
    let id = header.as_ref().and_then(|header| id_of(&header.execution_id));
    if header.is_some() && id.is_none() {
        checked.finds(Place::Header, "the execution id is none");
    }
    if let Some(accepted) = of(Kind::Accepted) {
        check_request(&mut checked, header.as_ref(), accepted.content);
    }
    let begins = id.zip(checked.request_digest);
    let mut head = begins.map(|(id, digest)| beginning(&id, &digest));
    let mut n_seen = 0;
    for frame in frames.iter().filter(|frame| frame.kind == Kind::Entry) {
        n_seen += 1;
        head = check_entry(&mut checked, n_seen, head, frame.content);
    }
    checked.n_entries = n_seen;
    checked.head = head;
    check_first(&mut checked, &frames);
    if frames.iter().any(|frame| frame.kind > Kind::Entry) {
        check_last(&mut checked, &frames);
    }
    check_result(&mut checked, header.as_ref(), &frames);
    check_seal(&mut checked, &frames);
    if let Some(broken) = broken {
        checked.findings.push(broken);
    }
    checked
}

fn check_request(checked: &mut Checked, header: Option<&v1::RecordHeader>, accepted: &[u8]) {
    let digest = match request::digest(accepted) {
        Ok(digest) => digest,
        Err(why) => return checked.finds(Place::Accepted, why),
    };
    checked.request_digest = Some(digest);
    if header.is_some_and(|header| header.request_digest != digest) {
        checked.finds(Place::Accepted, "its digest is not the one of the header");
    }
}

/// Returns the hash that the next entry goes on with.
fn check_entry(checked: &mut Checked, place: u64, head: Option<Hash>, content: &[u8]) -> Option<Hash> {
    let entry = match v1::AuditEntry::decode(content) {
        Ok(entry) => entry,
        Err(_) => {
            checked.finds(Place::Entry(place), "it does not decode");
            return None;
        }
    };
    if u64::try_from(entry.sequence) != Ok(place) {
        checked.finds(Place::Entry(place), "it has another number");
    }
    let Ok(stated) = Hash::try_from(entry.hash.as_slice()) else {
        checked.finds(Place::Entry(place), "its hash has not 32 bytes");
        return None;
    };
    match (head, head.map(|head| entries::hash(&head, &entry))) {
        (_, Some(Ok(hash))) if hash == stated => {}
        (_, Some(Ok(_))) => checked.finds(
            Place::Entry(place),
            "its hash does not follow from the one before",
        ),
        (_, Some(Err(why))) => checked.finds(Place::Entry(place), why),
        // What stands before it has been found already, and this one cannot be compared.
        (_, None) => {}
    }
    Some(stated)
}

fn event_of(frame: &Frame<'_>) -> Option<Event> {
    v1::AuditEntry::decode(frame.content).ok()?.event
}

fn check_first(checked: &mut Checked, frames: &[Frame<'_>]) {
    let first = frames.iter().find(|frame| frame.kind == Kind::Entry);
    if first.is_some_and(|first| !matches!(event_of(first), Some(Event::Accepted(_)))) {
        checked.finds(Place::Entry(1), "the first entry is not the acceptance");
    }
    let accepted = frames.iter().find(|frame| frame.kind == Kind::Accepted);
    if let (Some(Event::Accepted(first)), Some(accepted)) = (first.and_then(event_of), accepted)
        && let Ok(stored) = v1::StoredAcceptance::decode(accepted.content)
        && first.provenance_digest != provenance_digest(stored)
    {
        checked.finds(Place::Entry(1), "its provenance is not the one of the request");
    }
}

/// Empty if nothing is said of where the request came from.
fn provenance_digest(stored: v1::StoredAcceptance) -> Vec<u8> {
    let fields = v1::StoredAcceptance {
        plan: None,
        certificate: None,
        ..stored
    };
    let fields = fields.encode_to_vec();
    if fields.is_empty() {
        return fields;
    }
    let mut digest = Canonical::new();
    digest.text("escapement provenance 1");
    digest.raw(&fields);
    digest.hash().to_vec()
}

/// Nothing is said of the last entry where what follows it cannot be read: there may be more.
fn check_last(checked: &mut Checked, frames: &[Frame<'_>]) {
    let last = frames.iter().rfind(|frame| frame.kind == Kind::Entry);
    let Some(last) = last else {
        return checked.finds(Place::Entry(1), "there is no entry");
    };
    if !matches!(event_of(last), Some(Event::Settled(_))) {
        let place = Place::Entry(checked.n_entries + 1);
        checked.finds(place, "the end of the execution should stand here");
    }
}

/// Whose result it is, and of which plan. No hash compares these.
fn check_result(checked: &mut Checked, header: Option<&v1::RecordHeader>, frames: &[Frame<'_>]) {
    let content = |kind: Kind| {
        frames
            .iter()
            .find(|frame| frame.kind == kind)
            .map(|frame| frame.content)
    };
    let accepted = content(Kind::Accepted).and_then(|accepted| v1::SubmitPlanRequest::decode(accepted).ok());
    let id = header.map(|header| &header.execution_id);
    if let (Some(id), Some(accepted)) = (id, &accepted)
        && accepted.execution_id.as_ref() != Some(id)
    {
        checked.finds(Place::Accepted, "it is of another execution than the header");
    }
    let Some(result) = content(Kind::Result) else {
        return;
    };
    let Ok(result) = v1::PlanResult::decode(result) else {
        return checked.finds(Place::Result, "it does not decode");
    };
    if id.is_some_and(|id| *id != result.execution_id) {
        checked.finds(Place::Result, "it is of another execution than the header");
    }
    let plan = accepted.as_ref().and_then(|accepted| accepted.plan.as_ref());
    if plan.is_some_and(|plan| plan.id != result.plan_id) {
        checked.finds(Place::Result, "it is of another plan");
    }
    let last = frames.iter().rfind(|frame| frame.kind == Kind::Entry);
    if let Some(Event::Settled(settled)) = last.and_then(event_of)
        && settled.status != result.status
    {
        checked.finds(Place::Result, "it has another status than the last entry");
    }
}

fn check_seal(checked: &mut Checked, frames: &[Frame<'_>]) {
    let content = |kind: Kind| {
        frames
            .iter()
            .find(|frame| frame.kind == kind)
            .map(|frame| frame.content)
    };
    let (Some(result), Some(inputs), Some(seal)) =
        (content(Kind::Result), content(Kind::Inputs), content(Kind::Seal))
    else {
        return;
    };
    let Ok(stated) = v1::RecordSeal::decode(seal) else {
        return checked.finds(Place::Seal, "it does not decode");
    };
    let (result, inputs): (Hash, Hash) = (Sha256::digest(result).into(), Sha256::digest(inputs).into());
    if stated.inputs_digest != inputs {
        checked.finds(Place::Inputs, "they have another digest in the seal");
    }
    if stated.result_digest != result {
        checked.finds(Place::Result, "it has another digest in the seal");
    }
    let Some(head) = checked.head else {
        return;
    };
    let hash = join(&head, &result, &inputs);
    checked.seal = Some(hash);
    if stated.seal != hash {
        checked.finds(
            Place::Seal,
            "it does not follow from the last entry, the result and the inputs",
        );
    }
}

/// Computes every digest and hash anew, as somebody would who can write the whole file. What does not decode stays as it is.
pub fn rehash(parts: &mut [(Kind, Vec<u8>)]) {
    let of = |parts: &[(Kind, Vec<u8>)], wanted: Kind| {
        let part = parts.iter().find(|(kind, _)| *kind == wanted);
        part.map_or_else(Vec::new, |(_, content)| content.clone())
    };
    let Ok(request_digest) = request::digest(&of(parts, Kind::Accepted)) else {
        return;
    };
    let Ok(mut header) = v1::RecordHeader::decode(&*of(parts, Kind::Header)) else {
        return;
    };
    header.request_digest = request_digest.to_vec();
    let Some(id) = id_of(&header.execution_id) else {
        return;
    };
    let mut head = beginning(&id, &request_digest);
    let (mut result, mut inputs) = (Hash::default(), Hash::default());
    for (kind, content) in parts.iter_mut() {
        match kind {
            Kind::Header => *content = header.encode_to_vec(),
            Kind::Entry => {
                let Ok(mut entry) = v1::AuditEntry::decode(content.as_slice()) else {
                    continue;
                };
                let Ok(hash) = entries::hash(&head, &entry) else {
                    continue;
                };
                head = hash;
                entry.hash = hash.to_vec();
                *content = entry.encode_to_vec();
            }
            Kind::Inputs => inputs = Sha256::digest(&content).into(),
            Kind::Result => result = Sha256::digest(&content).into(),
            Kind::Seal => {
                let seal = v1::RecordSeal {
                    result_digest: result.to_vec(),
                    inputs_digest: inputs.to_vec(),
                    seal: join(&head, &result, &inputs).to_vec(),
                };
                *content = seal.encode_to_vec();
            }
            Kind::Accepted | Kind::End => {}
        }
    }
}

/// Where the chain begins.
fn beginning(id: &[u8; 16], request_digest: &Hash) -> Hash {
    let mut chain = Canonical::new();
    chain.text("escapement record 1");
    chain.raw(id);
    chain.raw(request_digest);
    chain.hash()
}

fn join(head: &Hash, result: &Hash, inputs: &Hash) -> Hash {
    let mut join = Canonical::new();
    join.text("escapement seal 1");
    join.raw(head);
    join.raw(result);
    join.raw(inputs);
    join.hash()
}

/// Returns the 16 bytes of a UUID, which stands in lower case.
fn id_of(text: &str) -> Option<[u8; 16]> {
    let bytes = text.as_bytes();
    let dashes = [8, 13, 18, 23];
    if bytes.len() != 36 || dashes.iter().any(|at| bytes[*at] != b'-') {
        return None;
    }
    let digits = bytes.iter().enumerate().filter(|(at, _)| !dashes.contains(at));
    let mut id = [0; 16];
    for (n, (_, digit)) in digits.enumerate() {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        id[n / 2] = id[n / 2] << 4 | value;
    }
    Some(id)
}
