//! What is known of one execution, each fact with the observation that showed it first.

use std::fmt;

use escapement_model::{AttemptToken, PlanId};

use super::record::Record;
use super::vocabulary::{CallId, Surface};

/// How far an execution was seen to be. What is not accepted has no rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    Accepted,
    Running,
    Settled,
    Removed,
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Rank::Accepted => "accepted",
            Rank::Running => "running",
            Rank::Settled => "settled",
            Rank::Removed => "removed",
        })
    }
}

/// Where something was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Call(CallId, Surface),
    HandOut(AttemptToken),
    Event,
}

/// An observation: what it shows was so at some moment between the two times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Witness {
    what: What,
    pub(super) asked: u64,
    pub(super) at: u64,
}

impl Witness {
    pub(super) fn new(what: What, asked: u64, at: u64) -> Self {
        Self { what, asked, at }
    }
}

impl fmt::Display for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Witness { what, asked, at } = self;
        match what {
            What::Call(call, surface) => write!(
                f,
                "call {} ({surface:?}), asked at {asked}, answered at {at}",
                call.0
            ),
            What::HandOut(token) => write!(f, "handed out at {at} with token {token:?}"),
            What::Event => write!(f, "its event was heard at {at}"),
        }
    }
}

/// An execution.
#[derive(Debug)]
pub(super) struct Book {
    /// Queue, and its priority in it.
    pub(super) place: (u64, i32),
    pub(super) first_asked: u64,
    pub(super) is_nested: bool,
    /// By rank: the first observation of it or of a higher one.
    reached: [Option<Witness>; 4],
    /// The first observation of it as running, not of a higher rank.
    started: Option<Witness>,
    /// The question of the latest answer that showed it queued.
    pub(super) last_queued_ask: u64,
    started_at: Option<(i64, Witness)>,
    result: Option<(u64, Witness)>,
    /// In which process life it was first seen settled, where that is certain.
    settled_in: Option<u64>,
    request: Option<(PlanId, u64, Witness)>,
    /// Submissions that may be accepted yet.
    n_open: u32,
    /// Submissions that were or may have been accepted.
    n_possible: u32,
    last_over_at: u64,
    absent: Option<Witness>,
    first_digest: u64,
    has_several_requests: bool,
    /// Digests that were refused because another request has the id.
    refused_as_other: Vec<(u64, Witness)>,
    pub(super) record: Record,
}

/// Number of refusals of one execution that are remembered.
const REFUSALS_KEPT: usize = 4;

impl Book {
    pub(super) fn new(at: u64, queue: u64, priority: i32) -> Self {
        Self {
            place: (queue, priority),
            first_asked: at,
            is_nested: false,
            reached: [None; 4],
            started: None,
            last_queued_ask: 0,
            started_at: None,
            result: None,
            settled_in: None,
            request: None,
            n_open: 0,
            n_possible: 0,
            last_over_at: 0,
            absent: None,
            first_digest: 0,
            has_several_requests: false,
            refused_as_other: Vec::new(),
            record: Record::default(),
        }
    }

    pub(super) fn asked_for(&mut self, _plan: PlanId, digest: u64) {
        if self.n_open == 0 && self.last_over_at == 0 {
            self.first_digest = digest;
        }
        self.has_several_requests |= digest != self.first_digest;
        self.n_open += 1;
        self.n_possible += 1;
        self.absent = None;
    }

    /// An answer has come, or none can come any more and the request is nowhere under way.
    pub(super) fn submission_is_over(&mut self, at: u64) {
        self.n_open -= 1;
        self.last_over_at = at;
    }

    /// The request was refused for a reason that proves that it was not accepted.
    pub(super) fn was_refused_for_good(&mut self) {
        self.n_possible -= 1;
    }

    pub(super) fn may_be_accepted(&self) -> bool {
        self.n_possible > 0
    }

    /// What had been seen before that moment.
    pub(super) fn floor(&self, before: u64) -> Option<(Rank, Witness)> {
        [Rank::Removed, Rank::Settled, Rank::Running, Rank::Accepted]
            .into_iter()
            .find_map(|rank| {
                let witness = self.reached[rank as usize].filter(|witness| witness.at <= before)?;
                Some((rank, witness))
            })
    }

    pub(super) fn settled_before(&self, before: u64) -> Option<Witness> {
        self.reached[Rank::Settled as usize].filter(|witness| witness.at <= before)
    }

    pub(super) fn accepted_and_open(&self) -> Option<Witness> {
        match self.reached[Rank::Settled as usize] {
            None => self.reached[Rank::Accepted as usize],
            Some(_) => None,
        }
    }

    pub(super) fn known_accepted_at(&self) -> Option<u64> {
        self.reached[Rank::Accepted as usize].map(|witness| witness.at)
    }

    pub(super) fn started_at(&self) -> Option<(i64, Witness)> {
        self.started_at
    }

    /// Raises the floor. True if this is the first proof that it was admitted.
    pub(super) fn saw(&mut self, rank: Rank, witness: &Witness) -> bool {
        for lower in &mut self.reached[..=rank as usize] {
            lower.get_or_insert(*witness);
        }
        let is_first_start = rank == Rank::Running && self.started.is_none();
        if is_first_start {
            self.started = Some(*witness);
        }
        is_first_start
    }

    /// Somebody looked and it was not there.
    pub(super) fn saw_absent(&mut self, witness: &Witness) {
        if self.n_open == 0 && self.last_over_at <= witness.asked {
            self.absent.get_or_insert(*witness);
        }
    }

    /// It is there: is that possible?
    pub(super) fn saw_present(&self, witness: &Witness) -> Result<(), String> {
        match &self.absent {
            Some(absent) => Err(format!(
                "it is there: {witness}; and it was absent when nobody was asking for it any more: {absent}"
            )),
            None if !self.may_be_accepted() => Err(format!(
                "it is there: {witness}; but every request for it was refused for good"
            )),
            None => Ok(()),
        }
    }

    pub(super) fn saw_start(&mut self, started_at: i64, witness: &Witness) -> Result<(), String> {
        match &self.started_at {
            Some((known, first)) if *known != started_at => Err(format!(
                "started at {started_at} by {witness}; at {known} by {first}"
            )),
            Some(_) => Ok(()),
            None => {
                self.started_at = Some((started_at, *witness));
                Ok(())
            }
        }
    }

    pub(super) fn saw_result(
        &mut self,
        result: u64,
        witness: &Witness,
        life: Option<u64>,
    ) -> Result<(), String> {
        match &self.result {
            Some((known, first)) if *known != result => Err(format!(
                "the result is {result:016x} by {witness}; it was {known:016x} by {first}"
            )),
            Some(_) => Ok(()),
            None => {
                self.result = Some((result, *witness));
                self.settled_in = self.settled_in.or(life);
                Ok(())
            }
        }
    }

    /// In which life it was first seen settled.
    pub(super) fn settled_in(&self) -> Option<u64> {
        self.settled_in
    }

    /// A submission of this request was answered with a state.
    pub(super) fn saw_request(&mut self, plan: PlanId, digest: u64, witness: &Witness) -> Result<(), String> {
        if let Some((_, refused)) = self.refused_as_other.iter().find(|(other, _)| *other == digest) {
            return Err(format!(
                "the same request was accepted: {witness}; and refused as another one: {refused}"
            ));
        }
        match &self.request {
            Some((known_plan, known, first)) if (*known_plan, *known) != (plan, digest) => Err(format!(
                "two different requests were accepted under this id: {witness}; {first}"
            )),
            Some(_) => Ok(()),
            None => {
                self.request = Some((plan, digest, *witness));
                Ok(())
            }
        }
    }

    /// A submission was refused because another request has this id.
    pub(super) fn saw_refusal_as_other(&mut self, digest: u64, witness: &Witness) -> Result<(), String> {
        if !self.has_several_requests {
            return Err(format!(
                "refused because another request has the id, and nobody sent another one: {witness}"
            ));
        }
        if let Some((_, known, first)) = &self.request
            && *known == digest
        {
            return Err(format!(
                "the same request was refused as another one: {witness}; it was accepted: {first}"
            ));
        }
        if self.refused_as_other.len() < REFUSALS_KEPT {
            self.refused_as_other.push((digest, *witness));
        }
        Ok(())
    }
}
