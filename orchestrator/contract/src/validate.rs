//! Turns drafts into plans and requests, or says everything that is wrong with them at once.
//! Knows nothing of time: whether a deadline can still be kept is decided at the start.

mod graph;
mod plan;
mod request;
mod size;
mod text;
mod warnings;

use crate::draft::{PlanDraft, RequestDraft};
use crate::plan::Plan;
use crate::request::Request;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use escapement_model::codes;
use escapement_model::limits::VIOLATIONS_MAX;

/// A thing found in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Path from the request, such as `plan.steps[3].depends_on[0]`.
    pub field: String,
    /// For a violation a code of the contract, for a warning a word such as `RETRY_NEVER_HAPPENS`.
    pub code: &'static str,
    /// A sentence.
    pub message: String,
}

/// Reason why a request is refused: at least one finding, in document order, at most [`VIOLATIONS_MAX`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violations(Vec<Finding>);

impl Violations {
    /// Returns the findings in document order.
    pub fn iter(&self) -> core::slice::Iter<'_, Finding> {
        self.0.iter()
    }

    /// Returns the first finding.
    pub fn first(&self) -> &Finding {
        &self.0[0]
    }

    /// How many there are, at least 1.
    #[allow(clippy::len_without_is_empty, reason = "never empty")]
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

impl<'a> IntoIterator for &'a Violations {
    type Item = &'a Finding;
    type IntoIter = core::slice::Iter<'a, Finding>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = self.first();
        write!(f, "{}: {}", first.field, first.message)?;
        match self.0.len() - 1 {
            0 => Ok(()),
            more => write!(f, " ({more} more)"),
        }
    }
}

impl core::error::Error for Violations {}

/// Checks a plan by itself. Field paths start with `plan.`.
///
/// # Errors
/// [`Violations`] with everything that forbids the plan.
pub fn validate_plan(draft: PlanDraft) -> Result<Plan, Violations> {
    let mut findings = Findings::default();
    let plan = plan::plan(draft, &mut findings);
    findings.conclude(plan)
}

/// Checks a whole request: ids, limits, sizes and the plan. `max_concurrent_steps` is the server's limit.
///
/// # Errors
/// [`Violations`] with everything that forbids the request.
pub fn validate_request(draft: RequestDraft, max_concurrent_steps: u32) -> Result<Request, Violations> {
    let mut findings = Findings::default();
    let request = request::request(draft, max_concurrent_steps, &mut findings);
    findings.conclude(request)
}

/// Checks how many steps may run at a time, by itself. `max_concurrent_steps` is the server's limit.
///
/// # Errors
/// [`Violations`] if it is out of range.
pub fn validate_concurrency(asked: Option<i32>, max_concurrent_steps: u32) -> Result<u32, Violations> {
    let mut findings = Findings::default();
    let n_steps = request::options(asked, max_concurrent_steps, &mut findings);
    findings.conclude(n_steps)
}

/// Returns true for a time that is one of this century in Unix seconds, and in Unix milliseconds lies in the first years of 1970.
pub fn looks_like_seconds(unix_ms: i64) -> bool {
    (1_000_000_000..100_000_000_000).contains(&unix_ms)
}

/// The place of a finding in the document, for sorting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    /// 0 for the plan, then the fields of the request by their numbers.
    of_request: usize,
    /// The field of the plan by its number; 0 for the plan as a whole.
    of_plan: usize,
    /// The step, 1 for the first; 0 for the list as a whole.
    step: usize,
    /// The field of the step or of the retry policy by its number.
    field: usize,
    /// The item of a list.
    item: usize,
}

/// What was found so far: the first findings in document order, whatever the order in which they are found.
#[derive(Debug, Default)]
struct Findings {
    /// By place, then as found.
    items: BTreeMap<(Place, usize), Finding>,
    n_found: usize,
}

impl Findings {
    /// Notes what breaks a rule.
    fn invalid(&mut self, place: Place, field: impl FnOnce() -> String, message: String) {
        self.push(place, field, codes::INVALID_PAYLOAD, || message);
    }

    /// Notes a finding; its words are made only if it is among the first.
    fn push(
        &mut self,
        place: Place,
        field: impl FnOnce() -> String,
        code: &'static str,
        message: impl FnOnce() -> String,
    ) {
        self.n_found += 1;
        //
        if !self.takes(place) {
            return;
        }
        let finding = Finding {
            field: field(),
            code,
            message: message(),
        };
        self.items.insert((place, self.n_found), finding);
        if self.items.len() > VIOLATIONS_MAX {
            self.items.pop_last();
        }
    }

    /// Returns true if a finding at this place would be among the first.
    fn takes(&self, place: Place) -> bool {
        let last = self.items.last_key_value();
        self.items.len() < VIOLATIONS_MAX || last.is_some_and(|((last, _), _)| place < *last)
    }

    /// Returns true if something breaks a rule.
    fn any(&self) -> bool {
        self.n_found > 0
    }

    /// Returns the value if nothing was found, else all findings in document order.
    fn conclude<T>(self, value: Option<T>) -> Result<T, Violations> {
        //
        if self.items.is_empty() {
            return Ok(value.expect("what breaks no rule is complete"));
        }
        Err(Violations(self.items.into_values().collect()))
    }
}
