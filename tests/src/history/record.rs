//! The entries of one record, as far as they were seen.

use std::fmt;

use super::book::Witness;
use super::report::Rule;
use super::vocabulary::{Entry, EntryKind};

/// The entries of one record. Those of an execution that was not settled live as long as their process, except `accepted` and `started`.
#[derive(Debug, Default)]
pub(super) struct Record {
    /// In which process life the entries were seen.
    life: u64,
    /// By number, from 1.
    entries: Vec<Option<Seen>>,
    /// How many there were at least, and since when; rising in both.
    lengths: Vec<(u64, Witness)>,
    /// The number of the last entry, and who saw it.
    last: Option<(u64, Witness)>,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    entry: Entry,
    witness: Witness,
}

type Accusation = (Rule, String);

impl Record {
    /// A question that was asked in this life was answered in this life: what was seen in earlier ones may not be durable.
    pub(super) fn is_read_in(&mut self, life: u64, settled_in: Option<u64>) {
        if self.life == life {
            return;
        }
        let is_durable = self.last.is_some() || settled_in == Some(self.life);
        self.life = life;
        if is_durable {
            return;
        }
        let n_kept = self
            .entries
            .iter()
            .take_while(|seen| {
                let kind = seen.map(|seen| seen.entry.kind);
                matches!(kind, Some(EntryKind::Accepted | EntryKind::Started { .. }))
            })
            .count();
        self.entries.truncate(n_kept);
        for (length, _) in &mut self.lengths {
            *length = (*length).min(n_kept as u64);
        }
        self.lengths.dedup_by_key(|(length, _)| *length);
    }

    /// Its last entry was seen.
    pub(super) fn is_whole(&self) -> bool {
        self.last.is_some()
    }

    /// The answer said that this entry, which was seen before, was taken back.
    pub(super) fn is_without(&self, entry: Entry, witness: &Witness) -> Result<(), Accusation> {
        let at = usize::try_from(entry.sequence).expect("a record fits into memory") - 1;
        match self.entries.get(at) {
            Some(Some(seen)) if seen.entry == entry => {
                let text = format!(
                    "entry {} was taken back: {witness}; it is there: {}",
                    entry.sequence, seen.witness
                );
                Err((Rule::Entry, text))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// One more entry; `expected` is the number that follows the one before.
    pub(super) fn saw(&mut self, entry: Entry, expected: u64, witness: &Witness) -> Result<(), Accusation> {
        let sequence = entry.sequence;
        if sequence != expected {
            let text = format!("entry {sequence} where {expected} should follow: {witness}");
            return Err((Rule::Record, text));
        }
        let at = usize::try_from(sequence).expect("a record fits into memory") - 1;
        if let Some((last, settled)) = &self.last
            && sequence > *last
        {
            let text = format!("entry {sequence}: {witness}; but {last} was the last one: {settled}");
            return Err((Rule::Record, text));
        }
        if self.entries.len() <= at {
            self.entries.resize(at + 1, None);
            self.lengths.push((sequence, *witness));
        }
        match &self.entries[at] {
            Some(seen) if seen.entry != entry => {
                let text = format!(
                    "entry {sequence} is {}: {witness}; it was {}: {}",
                    Shown(&entry),
                    Shown(&seen.entry),
                    seen.witness
                );
                return Err((Rule::Entry, text));
            }
            Some(_) => {}
            None => {
                self.entries[at] = Some(Seen {
                    entry,
                    witness: *witness,
                });
            }
        }
        if entry.kind == EntryKind::Settled {
            if at + 1 < self.entries.len() {
                let n = self.entries.len();
                let text = format!("entry {sequence} is `settled`: {witness}; but entry {n} was seen before");
                return Err((Rule::Record, text));
            }
            self.last.get_or_insert((sequence, *witness));
        }
        Ok(())
    }

    /// The answer said that there are no more than so many entries now.
    pub(super) fn saw_length(&self, length: u64, witness: &Witness) -> Result<(), Accusation> {
        let n_before = self.lengths.partition_point(|(_, seen)| seen.at <= witness.asked);
        match self.lengths[..n_before].last() {
            Some((known, seen)) if *known > length => {
                let text = format!("the record has {length} entries: {witness}; it had {known}: {seen}");
                Err((Rule::Record, text))
            }
            _ => Ok(()),
        }
    }
}

struct Shown<'a>(&'a Entry);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {:016x}", self.0.kind, self.0.hash)
    }
}
