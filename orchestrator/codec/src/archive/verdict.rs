//! What came of checking an archive. Checks nothing itself.

use std::fmt;

/// What came of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Inputs that the core was told again.
    pub n_inputs: u64,
    /// Entries that the record has.
    pub n_entries: u64,
    /// The same start, dispatches and withdrawals in the same order.
    pub decisions_identical: bool,
    /// The same bytes; false if inputs are missing that led to it.
    pub result_identical: bool,
    /// The same entries as far as the inputs lead.
    pub audit_identical: bool,
    /// Each hash follows from the one before, the first from the request, and the seal from the last.
    pub chain_intact: bool,
    /// True if every input is recorded.
    pub is_complete: bool,
    /// Everything that is not as it should be, in the order of the parts; of many the first.
    pub differences: Vec<Difference>,
}

impl Verdict {
    /// Returns true if nothing is wrong. Of an incomplete record this is all that can be said.
    pub fn is_good(&self) -> bool {
        self.differences.is_empty()
    }

    /// Returns true if the core decides everything again as it is recorded.
    pub fn is_identical(&self) -> bool {
        self.is_good() && self.is_complete
    }
}

/// A thing that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Where.
    pub part: Part,
    /// The entry; 0 if it is elsewhere.
    pub sequence: u64,
    /// For people: what is recorded.
    pub recorded: String,
    /// For people: what it should be.
    pub replayed: String,
}

/// A part of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The accepted request.
    Accepted,
    /// An entry.
    Entry,
    /// The inputs.
    Inputs,
    /// The chain over what was decided.
    Decisions,
    /// The result.
    Result,
    /// The seal.
    Seal,
    /// The certificate of the plan.
    Certificate,
}

impl Part {
    /// Returns the same as `escapement.v1.ReplayDifference.part` spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Part::Accepted => "accepted",
            Part::Entry => "entry",
            Part::Inputs => "inputs",
            Part::Decisions => "decisions",
            Part::Result => "result",
            Part::Seal => "seal",
            Part::Certificate => "certificate",
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
