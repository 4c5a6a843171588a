//! Judges what callers, workers and event sinks saw of an orchestrator, across crashes, restarts and lost answers.
//! Knows nothing of how the orchestrator works and shares no code with it: the law is `CONTRACT.md`, the witnesses are the calls.
//!
//! Calls overlap, so an answer is compared only with what had been answered before its question left.
//! Each event costs at most a logarithm, and what is kept of an execution is bounded by its record and its hand-outs.
//!
//! ```
//! use escapement_tests::history::{Answer, Ask, Checker, Life, State, Surface};
//! # let execution = escapement_model::ExecutionId::from_random([1; 16]);
//! # let plan = escapement_model::PlanId::from_random([2; 16]);
//! let mut checker = Checker::new();
//! checker.life(Life::Began);
//! let call = checker.ask(Ask::Submit { execution, plan, digest: 7, priority: 0, queue: 0, waits: false });
//! checker.answer(call, Answer::State(State::Queued));
//! checker.life(Life::PowerCut);
//! checker.life(Life::Began);
//! let call = checker.ask(Ask::Look { execution, surface: Surface::Get });
//! checker.answer(call, Answer::Absent);
//! let report = checker.finish(&[]);
//! assert_eq!(report.violations.len(), 1); // What was acknowledged is lost.
//! ```

mod book;
mod calls;
mod hand_outs;
mod record;
mod report;
mod start_order;
#[cfg(test)]
mod tests;
mod vocabulary;

use std::collections::BTreeMap;

use escapement_model::{AttemptToken, ExecutionId, PlanId, StepId};

use self::book::{Book, Rank, What, Witness};
use self::calls::Call;
use self::hand_outs::HandOuts;
pub use self::report::{Report, Rule, VIOLATIONS_MAX, Violation};
use self::start_order::{Start, StartOrder};
pub use self::vocabulary::{
    Answer, Ask, CallId, End, Entry, EntryKind, Life, Mark, State, Surface, hash_of_bytes, hash_of_result,
};

/// Takes in what was seen, in the order in which it was seen, and accuses.
#[derive(Debug, Default)]
pub struct Checker {
    /// The number of events so far. Each event has its own, so that two of them are never at the same time.
    now: u64,
    /// Which process life of the orchestrator it is; 0 before the first.
    life: u64,
    is_up: bool,
    calls: BTreeMap<CallId, Call>,
    books: BTreeMap<ExecutionId, Book>,
    plans: BTreeMap<PlanId, PlanUse>,
    /// Submissions that were given up in this life and may still arrive as long as it lasts.
    lingering: Vec<ExecutionId>,
    start_order: StartOrder,
    hand_outs: HandOuts,
    report: Report,
}

/// Who asked for a plan, and who got it.
#[derive(Debug)]
struct PlanUse {
    first_asker: ExecutionId,
    has_several_askers: bool,
    owner: Option<(ExecutionId, Witness)>,
}

impl Checker {
    /// Nothing was seen yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Before a request leaves. The returned id is for one [`answer`](Self::answer) or one [`lost`](Self::lost).
    pub fn ask(&mut self, ask: Ask) -> CallId {
        let at = self.tick();
        let call = CallId(at);
        match &ask {
            Ask::Submit {
                execution,
                plan,
                digest,
                priority,
                queue,
                ..
            } => {
                self.report.count("submissions", 1);
                self.books
                    .entry(*execution)
                    .or_insert_with(|| Book::new(at, *queue, *priority))
                    .asked_for(*plan, *digest);
                let plan_use = self.plans.entry(*plan).or_insert_with(|| PlanUse {
                    first_asker: *execution,
                    has_several_askers: false,
                    owner: None,
                });
                plan_use.has_several_askers |= plan_use.first_asker != *execution;
            }
            Ask::Look { .. } | Ask::GoOn { .. } | Ask::List => self.report.count("looks", 1),
        }
        self.calls.insert(call, Call::new(ask, at, self.life));
        call
    }

    /// After its answer has come, whole.
    ///
    /// # Panics
    /// The call was answered before, or never asked.
    pub fn answer(&mut self, call: CallId, answer: Answer) {
        self.tick();
        self.report.count("answers", 1);
        let asked = self
            .calls
            .remove(&call)
            .expect("a call is answered once, after it was asked");
        self.judge(call, asked, answer, true);
    }

    /// A part of the answer has come: one or several entries of a stream. The call stays open.
    ///
    /// # Panics
    /// As [`answer`](Self::answer).
    pub fn piece(&mut self, call: CallId, answer: Answer) {
        self.tick();
        self.report.count("pieces", 1);
        let asked = self
            .calls
            .remove(&call)
            .expect("a piece belongs to a call that is open");
        let asked = self.judge(call, asked, answer, false);
        self.calls.insert(call, asked);
    }

    /// No answer will come: the caller gave up, or the connection broke. What it asked for may have happened, and may yet happen.
    ///
    /// # Panics
    /// As [`answer`](Self::answer).
    pub fn lost(&mut self, call: CallId) {
        let at = self.tick();
        self.report.count("lost answers", 1);
        let asked = self
            .calls
            .remove(&call)
            .expect("a call is lost once, after it was asked");
        if let Ask::Submit { execution, .. } = asked.ask {
            if self.is_up {
                self.lingering.push(execution);
            } else if let Some(book) = self.books.get_mut(&execution) {
                book.submission_is_over(at);
            }
        }
    }

    /// A process life of the orchestrator begins, or has ended.
    pub fn life(&mut self, life: Life) {
        let at = self.tick();
        self.report.count(life.counted_as(), 1);
        match life {
            Life::Began => {
                self.life += 1;
                self.is_up = true;
            }
            Life::Killed | Life::PowerCut | Life::Drained => {
                self.is_up = false;
                for execution in std::mem::take(&mut self.lingering) {
                    if let Some(book) = self.books.get_mut(&execution) {
                        book.submission_is_over(at);
                    }
                }
            }
        }
    }

    /// The execution was asked for by a step of another one. It may start ahead of the queue (R-2.19).
    pub fn nested(&mut self, execution: ExecutionId) {
        if let Some(book) = self.books.get_mut(&execution) {
            book.is_nested = true;
        }
    }

    /// Returns the time now, for [`arrived`](Self::arrived).
    pub fn mark(&self) -> Mark {
        Mark {
            at: self.now,
            life: self.life,
        }
    }

    /// An attempt leaves for a worker at this very moment, with this token.
    /// Where only the arrival can be seen, use [`arrived`](Self::arrived).
    pub fn handed_out(&mut self, execution: ExecutionId, step: StepId, attempt: u32, token: AttemptToken) {
        let mark = self.mark();
        self.take_hand_out(execution, step, attempt, token, mark, true);
    }

    /// An attempt has reached a worker. It may have left at any time after `since`, for example after the worker's session began.
    pub fn arrived(
        &mut self,
        execution: ExecutionId,
        step: StepId,
        attempt: u32,
        token: AttemptToken,
        since: Mark,
    ) {
        self.take_hand_out(execution, step, attempt, token, since, false);
    }

    fn take_hand_out(
        &mut self,
        execution: ExecutionId,
        step: StepId,
        attempt: u32,
        token: AttemptToken,
        since: Mark,
        is_exact: bool,
    ) {
        let at = self.tick();
        self.report.count("hand-outs", 1);
        let witness = Witness::new(What::HandOut(token), since.at, at);
        let Some(book) = asked_for(&mut self.books, &mut self.report, execution, &witness) else {
            return;
        };
        if let Some(settled) = book.settled_before(since.at) {
            self.report.accuse(
                Rule::HandOut,
                format!(
                    "{execution}: {witness}, for step {step} attempt {attempt}, but it was settled: {settled}"
                ),
            );
        }
        let started_now = book.saw(Rank::Running, &witness);
        if started_now {
            self.start_order.started(execution, book, witness);
        }
        let hand_out = hand_outs::HandOut {
            execution,
            step,
            attempt,
            token,
            since,
            at,
            is_exact,
        };
        self.hand_outs.take(&hand_out, &mut self.report);
    }

    /// The orchestrator told a worker that its outcome is accepted; not meant are `duplicate` and the other
    /// verdicts, and a failure that is `not_here`.
    pub fn outcome_accepted(&mut self, token: AttemptToken) {
        let at = self.tick();
        self.report.count("accepted outcomes", 1);
        self.hand_outs.accepted(token, at, &mut self.report);
    }

    /// An event sink heard of the end.
    pub fn event(&mut self, execution: ExecutionId, result: u64) {
        let at = self.tick();
        self.report.count("events", 1);
        let witness = Witness::new(What::Event, 0, at);
        let Some(book) = asked_for(&mut self.books, &mut self.report, execution, &witness) else {
            return;
        };
        book.saw(Rank::Settled, &witness);
        if let Err(text) = book.saw_result(result, &witness, None) {
            self.report
                .accuse(Rule::OneResult, format!("{execution}: {text}"));
        }
    }

    /// Something that the checker does not see itself happened, for example a fault of the disk.
    pub fn count(&mut self, what: &'static str, n: u64) {
        self.report.count(what, n);
    }

    /// Everything had time to end: accuses what was accepted and was not seen settled (R-9.8).
    pub fn all_must_be_settled(&mut self) {
        for (execution, book) in &self.books {
            if let Some(accepted) = book.accepted_and_open() {
                self.report.accuse(
                    Rule::EndsOnce,
                    format!("{execution}: accepted, and never seen settled: {accepted}"),
                );
            }
        }
    }

    /// The wall clock of the orchestrator never jumped: accuses whoever started before one that comes before it (R-2.17),
    /// by the times of their starts.
    pub fn starts_must_be_in_order(&mut self) {
        let starts = self.books.iter().filter_map(|(execution, book)| {
            let (started_at, witness) = book.started_at()?;
            Some(Start {
                execution: *execution,
                book,
                started_at,
                witness,
            })
        });
        for (first, overtaker) in start_order::by_clock(starts.collect()) {
            self.report.accuse(
                Rule::Order,
                format!(
                    "{}: started at {} by {}; {}, which comes after it, started at {} by {}",
                    first.execution,
                    first.started_at,
                    first.witness,
                    overtaker.execution,
                    overtaker.started_at,
                    overtaker.witness
                ),
            );
        }
    }

    /// Returns the violations so far.
    pub fn violations(&self) -> &[Violation] {
        &self.report.violations
    }

    /// Ends the judgement. A count below its floor is a violation as well: a run in which nothing happened proves nothing.
    pub fn finish(mut self, floors: &[(&str, u64)]) -> Report {
        self.report.count("executions", self.books.len() as u64);
        for (what, floor) in floors {
            let n = self.report.counted(what);
            if n < *floor {
                self.report.accuse(
                    Rule::Floor,
                    format!("{n} {what}, and at least {floor} should have been seen"),
                );
            }
        }
        self.report
    }

    fn tick(&mut self) -> u64 {
        self.now += 1;
        self.now
    }
}

/// Returns the book of an execution; without one that may be accepted, what was seen came from nothing.
fn asked_for<'a>(
    books: &'a mut BTreeMap<ExecutionId, Book>,
    report: &mut Report,
    execution: ExecutionId,
    witness: &Witness,
) -> Option<&'a mut Book> {
    let book = books.get_mut(&execution).filter(|book| book.may_be_accepted());
    if book.is_none() {
        report.accuse(
            Rule::FromNothing,
            format!(
                "{execution}: {witness}, but nobody asked for that execution, or all who asked were refused"
            ),
        );
    }
    book
}
