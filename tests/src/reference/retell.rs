//! Tells a recorded execution again: feeds the second interpreter with what the record says came from outside, and compares
//! what the interpreter decides with what the record says was decided, entry by entry, and at last the result.
//! Looks at no texts, and at contexts only for the list of errors.

mod clocks;
mod reading;
mod results;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::fmt;

use escapement_wire::v1::audit_entry::Event;
use escapement_wire::v1::{AuditEntry, Plan, PlanResult, SubmitPlanRequest};
use prost::Message;

use self::clocks::Clocks;
use self::reading::{Heard, Places};
use super::decided::Said;
use super::interpret::Interpreter;
use super::rules::{Facts, Rules};
use super::words::{Input, Moment, Outcome, Phase, Reported, StepState};
use crate::chain::{self, Kind};

/// The first thing that is not as the contract says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The number of the entry at which it shows; `None` if it shows in the result.
    pub entry: Option<i64>,
    /// Which part of the entry or the result.
    pub part: &'static str,
    /// By the second interpreter.
    pub expected: String,
    /// In the record or the result.
    pub found: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.entry {
            Some(entry) => write!(f, "entry {entry}, ")?,
            None => f.write_str("result, ")?,
        }
        write!(
            f,
            "{}: expected {}, found {}",
            self.part, self.expected, self.found
        )
    }
}

impl std::error::Error for Difference {}

/// Entries beyond which the record leaves out what single attempts go through.
const WHOLE_RECORD_MAX: usize = 16_384;

/// Does the second interpreter come to the result in this archive, given what the audit trail in it says happened?
/// `slack_ms` as in [`Facts`].
///
/// # Errors
/// The first difference.
///
/// # Panics
/// The file is not whole.
pub fn retell_archive(file: &[u8], slack_ms: i64) -> Result<(), Difference> {
    let (plan, facts, entries, result) = parts(file, slack_ms);
    retell(&plan, &facts, &entries, &result)
}

/// What an archive holds of an execution.
fn parts(file: &[u8], slack_ms: i64) -> (Plan, Facts, Vec<AuditEntry>, PlanResult) {
    let (frames, broken) = chain::frames(file);
    assert_eq!(broken, None, "the file is whole");
    let of = |kind: Kind| frames.iter().filter(move |frame| frame.kind == kind);
    let only = |kind| of(kind).next().expect("it has each part").content;
    let request = SubmitPlanRequest::decode(only(Kind::Accepted)).expect("a request");
    let result = PlanResult::decode(only(Kind::Result)).expect("a result");
    let entries = of(Kind::Entry)
        .map(|frame| AuditEntry::decode(frame.content).expect("an entry"))
        .collect();
    let facts = Facts {
        environment: request.environment,
        max_concurrent_steps: request.options.and_then(|options| options.max_concurrent_steps),
        slack_ms: Some(slack_ms),
    };
    (request.plan.expect("a plan"), facts, entries, result)
}

/// Does the second interpreter come to this result, given what the record says happened?
///
/// `entries` is the whole record of a settled execution of a valid plan.
/// In a record beyond 16384 entries attempts are missing; there the result is compared with what became of the steps only.
///
/// # Errors
/// The first difference.
pub fn retell(
    plan: &Plan,
    facts: &Facts,
    entries: &[AuditEntry],
    result: &PlanResult,
) -> Result<(), Difference> {
    check_numbers(entries)?;
    if entries.len() > WHOLE_RECORD_MAX {
        return results::compare_with_steps(plan, entries, result);
    }
    let Some((first, rest)) = entries.split_first() else {
        return Err(at(None, "record", "entries", "none"));
    };
    let Some(Event::Accepted(accepted)) = &first.event else {
        return Err(at(
            Some(first),
            "event",
            "accepted",
            &format!("{:?}", first.event),
        ));
    };
    let places = Places::of(plan);
    let rules = Rules::of(plan, facts, accepted.deadline_ms);
    // Where the wall clock may jump, a deadline that was over at the accept may lie ahead for the process that starts it:
    // the one that accepted it may have gone before it wrote an end.
    let starts_at = rest
        .first()
        .filter(|next| matches!(next.event, Some(Event::Started(_))));
    let accepted_at = match starts_at {
        Some(next) if facts.slack_ms.is_none() => first.at.min(next.at),
        Some(_) | None => first.at,
    };
    let mut teller = Teller {
        interpreter: Interpreter::accept(rules, moment(accepted_at)),
        is_interrupted: results::is_interrupted(result),
        expected: VecDeque::new(),
        at: first.at,
        started_at: None,
        is_first_after_start: false,
        trace_at: Vec::new(),
        clocks: Clocks::new(plan, facts.slack_ms, first.at, accepted.deadline_ms),
    };
    for entry in rest {
        let heard = places.read(entry)?;
        teller.hear(entry, &heard)?;
    }
    if let Some(missing) = teller.expected.front() {
        return Err(at(
            None,
            "record",
            &format!("{missing:?}"),
            "the end of the record",
        ));
    }
    let Some(ended) = &teller.interpreter.ended else {
        return Err(at(None, "record", "an end", "an execution that goes on"));
    };
    results::compare(plan, &teller.interpreter, ended, &teller.trace_at, result)
}

struct Teller {
    interpreter: Interpreter,
    is_interrupted: bool,
    /// What was decided and not yet found in the record.
    expected: VecDeque<Said>,
    /// The time of the last input.
    at: i64,
    started_at: Option<i64>,
    /// The write of the start takes its time.
    is_first_after_start: bool,
    /// When each error was settled.
    trace_at: Vec<i64>,
    clocks: Clocks,
}

impl Teller {
    fn hear(&mut self, entry: &AuditEntry, heard: &Heard) -> Result<(), Difference> {
        //
        if let Some(started_at) = self.started_at
            && entry.at < started_at
        {
            let expected = format!("{started_at} or later");
            return Err(at(Some(entry), "at", &expected, &entry.at.to_string()));
        }
        self.confirm_the_start(entry, heard);
        if self.expected.is_empty() {
            self.feed(entry, heard)?;
        } else if entry.at != self.at && !self.is_first_after_start {
            return Err(at(Some(entry), "at", &self.at.to_string(), &entry.at.to_string()));
        } else {
            // Decisions belong to the instant of their input; those after the start to the instant at which it was durable.
            self.at = entry.at;
        }
        self.is_first_after_start =
            matches!(heard.said, Said::Started(_)) && self.interpreter.phase == Phase::Starting;
        self.take(entry, heard)
    }

    /// `started` stands in the record before the start is durable. What follows shows whether it ever was.
    fn confirm_the_start(&mut self, entry: &AuditEntry, heard: &Heard) {
        if self.interpreter.phase == Phase::Starting && !matches!(heard.said, Said::Action(..)) {
            self.handle(entry, &Input::StartPersisted);
        }
    }

    /// The record is at a point at which nothing more follows from what came before: the entry is news, or a timer.
    fn feed(&mut self, entry: &AuditEntry, heard: &Heard) -> Result<(), Difference> {
        self.at = entry.at;
        let now = moment(entry.at);
        let is_accepted = match &heard.said {
            Said::Started(started_at) => {
                self.started_at = Some(*started_at);
                self.clocks.started(*started_at);
                self.handle(entry, &Input::Start)
            }
            Said::Waiting(step, _) => {
                self.clocks.wakes(entry, *step)?;
                let is_awake = self.interpreter.wake(*step, now);
                self.note(entry);
                is_awake
            }
            Said::Assigned(step, attempt) => {
                self.clocks.assigned(entry, *step);
                let (step, attempt) = (*step, *attempt);
                self.handle(entry, &Input::Assigned { step, attempt })
            }
            Said::AttemptStarted(step, attempt) => {
                let (step, attempt) = (*step, *attempt);
                self.handle(entry, &Input::AttemptStarted { step, attempt })
            }
            Said::Returned(step, attempt, is_refused) => {
                let (step, attempt, is_refused) = (*step, *attempt, *is_refused);
                let returned = Input::AttemptReturned {
                    step,
                    attempt,
                    is_refused,
                };
                self.handle(entry, &returned)
            }
            Said::Failed(step, attempt, error) => {
                let (step, attempt) = (*step, *attempt);
                let never_ran = matches!(self.interpreter.states[step], StepState::Waiting { .. });
                self.clocks.ended(entry, step, &error.code, !never_ran)?;
                if never_ran && error.code == "ACTION_NOT_FOUND" {
                    self.handle(entry, &Input::ActionNotFound { step, attempt })
                } else {
                    let outcome = Outcome::Failed(Reported {
                        code: error.code.clone(),
                        severity: Some(error.severity),
                    });
                    self.handle(
                        entry,
                        &Input::AttemptEnded {
                            step,
                            attempt,
                            outcome,
                        },
                    )
                }
            }
            Said::Completed(step, attempt) => {
                self.clocks.ended(entry, *step, "", true)?;
                let (step, attempt) = (*step, *attempt);
                let outcome = Outcome::Completed {
                    output: Default::default(),
                };
                self.handle(
                    entry,
                    &Input::AttemptEnded {
                        step,
                        attempt,
                        outcome,
                    },
                )
            }
            Said::Action(..) => self.stop(entry)?,
            Said::Retry(..) | Said::NotCompleted(..) | Said::Incomplete(_) | Said::Settled(_) => false,
        };
        if is_accepted {
            return Ok(());
        }
        let expected = format!("what may follow while {}", self.standing());
        Err(at(Some(entry), "event", &expected, &format!("{:?}", heard.said)))
    }

    /// The end comes although no step brought it: a limit, or a restart.
    fn stop(&mut self, entry: &AuditEntry) -> Result<bool, Difference> {
        let now = moment(entry.at);
        match self.interpreter.phase {
            Phase::Settling | Phase::Settled => return Ok(false),
            // nothing but the start, if there was one, is known any more.
            Phase::Queued | Phase::Starting if self.is_interrupted => self.interpreter.interrupted(now),
            phase => {
                self.clocks.limit_ends(entry, phase)?;
                self.interpreter.fire_limit(now);
            }
        }
        self.note(entry);
        Ok(true)
    }

    fn handle(&mut self, entry: &AuditEntry, input: &Input) -> bool {
        let is_accepted = self.interpreter.handle(moment(entry.at), input);
        self.note(entry);
        is_accepted
    }

    fn note(&mut self, entry: &AuditEntry) {
        self.expected.extend(self.interpreter.said.drain(..));
        self.trace_at.resize(self.interpreter.trace.len(), entry.at);
    }

    /// Strikes out the decision that the entry states.
    fn take(&mut self, entry: &AuditEntry, heard: &Heard) -> Result<(), Difference> {
        // The list of incomplete steps may stand anywhere in the end.
        let place = match &heard.said {
            Said::Incomplete(_) => self
                .expected
                .iter()
                .position(|said| matches!(said, Said::Incomplete(_))),
            _ => self
                .expected
                .iter()
                .position(|said| !matches!(said, Said::Incomplete(_))),
        };
        let expected = place.and_then(|place| self.expected.remove(place));
        match expected {
            Some(said) if said == heard.said => {
                if let Said::Retry(step, _, delay_ms) = said {
                    self.clocks.sleeps(entry, step, delay_ms);
                }
                Ok(())
            }
            Some(said) => Err(at(
                Some(entry),
                "event",
                &format!("{said:?}"),
                &format!("{:?}", heard.said),
            )),
            None => Err(at(
                Some(entry),
                "event",
                "nothing more",
                &format!("{:?}", heard.said),
            )),
        }
    }

    fn standing(&self) -> String {
        format!(
            "{:?}, steps {:?}",
            self.interpreter.phase, self.interpreter.states
        )
    }
}

///
fn check_numbers(entries: &[AuditEntry]) -> Result<(), Difference> {
    for (entry, expected) in entries.iter().zip(1..) {
        if entry.sequence != expected {
            return Err(at(
                Some(entry),
                "sequence",
                &expected.to_string(),
                &entry.sequence.to_string(),
            ));
        }
    }
    Ok(())
}

/// Only the wall clock is recorded. The interpreter's own clock stands still, and the record says when timers fire.
fn moment(unix_ms: i64) -> Moment {
    Moment {
        monotonic_ms: 0,
        unix_ms,
    }
}

fn at(entry: Option<&AuditEntry>, part: &'static str, expected: &str, found: &str) -> Difference {
    Difference {
        entry: entry.map(|entry| entry.sequence),
        part,
        expected: expected.to_owned(),
        found: found.to_owned(),
    }
}
