//! What all runs wrote, sent and were told, and what is wrong with it.

mod allowances;
mod artifacts;
mod book;
mod bounds;
mod constraints;
mod deeds;
mod firings;
mod joint;
mod ledger;
mod models;
mod money;
mod overlap;
mod payload;
mod people;
mod planning;
mod revisions;
mod sessions;
mod subjects;
mod time;
mod told;
mod units;
mod uploads;

use crate::canonical;
use crate::journal::{self, Stored, Usage};
use crate::wire::Value;
use allowances::Allowance;
use book::Book;
pub use bounds::Bounds;
use deeds::Deeds;
use ledger::Execution;
use std::collections::{BTreeMap, BTreeSet};

pub use firings::{Overlap, Rule};
pub use joint::{Accepted, Shown};
pub use told::{Done, Told};

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Which invariant is broken.
    pub invariant: &'static str,
    /// How.
    pub text: String,
}

/// What lists show of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// 1 queued to 5 paused, 6 completed, 7 failed, 8 timed out, 9 cancelled; more is no end.
    pub state: u8,
    /// When its time comes, in Unix milliseconds.
    pub due_at: Option<i64>,
}

/// The books of the judge.
#[derive(Debug, Default)]
pub struct Judge {
    runs: BTreeMap<[u8; 16], Book>,
    executions: BTreeMap<[u8; 16], Execution>,
    /// What callers' requests have made, by their keys.
    created: BTreeMap<String, [u8; 16]>,
    /// States of shared sessions, by session and number.
    states: BTreeMap<(String, u64), Value>,
    /// What runs do at most from an entry on, as one can be told before it.
    promised: BTreeMap<([u8; 16], u64), Bounds>,
    deeds: Deeds,
    /// What children of runs with budgets may spend, and what they have spent.
    allowances: BTreeMap<[u8; 16], Allowance>,
    /// What handlers did for runs and their children.
    spent: BTreeMap<[u8; 16], Usage>,
    /// Clock of the process.
    clock: time::Clock,
    /// Times of runs in the simulation.
    lives: BTreeMap<[u8; 16], time::Life>,
    /// Forward jumps of the clock between two processes, each with its time in the simulation.
    jumps: Vec<(u64, u64)>,
    /// Times of the last two commits, in milliseconds of the simulation.
    looked_at_ms: [u64; 2],
    firings: firings::Firings,
    /// Rows that were shown outside, each with its highest version and the run with which it may be removed.
    shown: joint::ShownRows,
    /// What the store has removed.
    removed: BTreeSet<[u8; 16]>,
    findings: Vec<Finding>,
    counts: BTreeMap<&'static str, u64>,
}

/// What a book writes to while it takes an entry.
struct Desk<'j> {
    executions: &'j mut BTreeMap<[u8; 16], Execution>,
    contents: &'j dyn Fn(&[u8; 32]) -> Option<Vec<u8>>,
    findings: &'j mut Vec<Finding>,
    counts: &'j mut BTreeMap<&'static str, u64>,
    states: &'j mut BTreeMap<(String, u64), Value>,
    allowances: &'j mut BTreeMap<[u8; 16], Allowance>,
    deeds: &'j mut Deeds,
    clock: &'j time::Clock,
    /// What is promised with this entry.
    promised: Option<Bounds>,
    run: [u8; 16],
    sequence: u64,
}

impl Desk<'_> {
    fn finds(&mut self, invariant: &'static str, text: &str) {
        let (run, sequence) = (canonical::uuid(&self.run), self.sequence);
        let text: String = text.chars().take(SHOWN_CHARS).collect();
        self.findings.push(Finding {
            invariant,
            text: format!("run {run}, entry {sequence}: {text}"),
        });
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    fn load(&mut self, stored: &Stored) -> Vec<u8> {
        let Some(digest) = stored.digest else {
            return stored.inline.clone();
        };
        match (self.contents)(&digest) {
            Some(bytes) if canonical::sha256(&bytes) == digest => bytes,
            Some(_) => {
                self.finds("RI1", "a content is not that of its hash");
                Vec::new()
            }
            None => {
                self.finds("RI1", "a content that an entry refers to is not there");
                Vec::new()
            }
        }
    }

    fn value(&mut self, stored: &Stored) -> Value {
        let bytes = self.load(stored);
        Value::of_value(&bytes).unwrap_or_else(|why| {
            self.finds("RI13", &why);
            Value::Null
        })
    }

    fn object(&mut self, stored: &Stored) -> Value {
        let bytes = self.load(stored);
        Value::of_object(&bytes).unwrap_or_else(|why| {
            self.finds("RI13", &why);
            Value::Null
        })
    }
}

impl Judge {
    /// The first thing that is wrong, if anything is.
    pub fn finding(&self) -> Option<&Finding> {
        self.findings.first()
    }

    /// How often what was judged.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.counts.iter().map(|(what, n)| (*what, *n))
    }

    /// Entries of a run that have become durable together, each with its link, and what lists show from then on.
    pub fn durable(
        &mut self,
        run: [u8; 16],
        entries: &[(Vec<u8>, [u8; 32])],
        row: Row,
        contents: &dyn Fn(&[u8; 32]) -> Option<Vec<u8>>,
    ) {
        let book = self.runs.entry(run).or_insert_with(|| Book::new(&run));
        for (bytes, link) in entries {
            let mut desk = Desk {
                executions: &mut self.executions,
                contents,
                findings: &mut self.findings,
                counts: &mut self.counts,
                states: &mut self.states,
                allowances: &mut self.allowances,
                deeds: &mut self.deeds,
                clock: &self.clock,
                promised: self.promised.get(&(run, book.n_entries() + 1)).cloned(),
                run,
                sequence: book.n_entries() + 1,
            };
            desk.count("entries");
            if let Some(entry) = book.link(bytes, link, &mut desk) {
                book.take(entry, &mut desk);
            }
        }
        let sequence = book.n_entries();
        let mut desk = Desk {
            executions: &mut self.executions,
            contents,
            findings: &mut self.findings,
            counts: &mut self.counts,
            states: &mut self.states,
            allowances: &mut self.allowances,
            deeds: &mut self.deeds,
            clock: &self.clock,
            promised: None,
            run,
            sequence,
        };
        book.check_row(row, &mut desk);
    }

    /// How many entries of a run were seen to be durable.
    pub fn n_entries(&self, run: &[u8; 16]) -> u64 {
        self.runs.get(run).map_or(0, Book::n_entries)
    }

    /// Runs that were seen to be durable.
    pub fn runs(&self) -> Vec<[u8; 16]> {
        self.runs.keys().copied().collect()
    }

    /// True if the run was seen to end.
    pub fn has_ended(&self, run: &[u8; 16]) -> bool {
        self.runs.get(run).is_some_and(Book::has_ended)
    }

    // RI1
    /// What a start finds of a run whose entries were seen: all of them, as they were, and perhaps more.
    pub fn found(&mut self, run: [u8; 16], entries: &[Vec<u8>]) {
        if self.removed.contains(&run) {
            return;
        }
        let seen = self.runs.get(&run).map_or(&[][..], Book::entries);
        if seen.len() > entries.len() || seen != &entries[..seen.len()] {
            self.findings.push(Finding {
                invariant: "RI1",
                text: format!(
                    "run {}: {} entries were durable, and a start finds {} or others",
                    canonical::uuid(&run),
                    seen.len(),
                    entries.len()
                ),
            });
        }
    }

    // RI8
    /// What a preview says of a run before this entry, with which it is made or has another plan of its planner: from then on
    /// it does so much at most, unless a person adds some or the planner makes the next plan.
    pub fn promised(&mut self, run: [u8; 16], sequence: u64, bounds: Bounds) {
        self.promised.insert((run, sequence), bounds);
    }

    // RI1
    /// The store has a run no more.
    pub fn removed(&mut self, run: [u8; 16]) {
        if !self.has_ended(&run) {
            self.finds(
                "RI1",
                format!("run {} is removed and has not ended", canonical::uuid(&run)),
            );
        }
        self.removed.insert(run);
    }

    /// The last entries of the run that the first finding is about, for people.
    pub fn story(&self) -> Vec<String> {
        let about = |run: &[u8; 16]| {
            self.finding()
                .is_some_and(|it| it.text.contains(&canonical::uuid(run)))
        };
        let books = self.runs.iter().filter(|(run, _)| about(run));
        let entries = books.flat_map(|(_, book)| book.entries());
        entries
            .map(|bytes| {
                format!("{:?}", journal::read(bytes))
                    .chars()
                    .take(SHOWN_CHARS)
                    .collect()
            })
            .collect()
    }

    /// A violation that the driver of the simulation has found.
    pub fn finds(&mut self, invariant: &'static str, text: String) {
        self.findings.push(Finding { invariant, text });
    }

    // RI3, RUN-9.4
    /// A process has started, and everything that was outstanding had time to leave it.
    pub fn settled_in(&mut self) {
        let lives = |execution: &&Execution| {
            let book = self.runs.get(&execution.run);
            book.is_some_and(|book| book.awaits(execution)) && execution.n_submitted_in_boot == 0
        };
        let missing = self.executions.values().find(lives);
        if let Some(missing) = missing {
            let (run, unit) = (canonical::uuid(&missing.run), missing.unit);
            self.findings.push(Finding {
                invariant: "RI3",
                text: format!("run {run}: an attempt of {unit:?} lives and was not sent again after a start"),
            });
        }
    }
}

/// Of an entry or a finding.
const SHOWN_CHARS: usize = 400;

/// Decodes an entry, or says why that is not possible.
fn entry(bytes: &[u8]) -> Result<journal::Entry, String> {
    journal::read(bytes)
}
