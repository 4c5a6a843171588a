//! What an answer proves, by what was asked. The table of answers; what follows from it stands in `book` and `record`.

use escapement_model::{ExecutionId, PlanId};

use super::Checker;
use super::book::{Rank, What, Witness};
use super::report::Rule;
use super::vocabulary::{Answer, Ask, CallId, End, Entry, EntryKind, State, Surface};

/// A call that waits for its answer.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) ask: Ask,
    at: u64,
    life: u64,
    /// The entry that the next piece of a stream begins with.
    next_entry: Option<u64>,
}

impl Call {
    pub(super) fn new(ask: Ask, at: u64, life: u64) -> Self {
        Self {
            ask,
            at,
            life,
            next_entry: None,
        }
    }
}

/// Refusals which prove that the request was not accepted and never will be.
const FOR_GOOD: [&str; 4] = ["INVALID_PAYLOAD", "DEPENDENCY_UNRESOLVED", ID_IN_USE, PLAN_USED];
const ID_IN_USE: &str = "EXECUTION_ID_IN_USE";
const PLAN_USED: &str = "PLAN_ID_USED";
const NOT_FOUND: &str = "EXECUTION_NOT_FOUND";
const REWRITTEN: &str = "RECORD_REWRITTEN";

impl Checker {
    /// Judges a whole answer or a piece of one, and gives the call back.
    pub(super) fn judge(&mut self, id: CallId, mut call: Call, answer: Answer, is_whole: bool) -> Call {
        let witness = |surface| Witness::new(What::Call(id, surface), call.at, self.now);
        match (&call.ask, answer) {
            (Ask::Submit { execution, .. }, answer) if is_whole => {
                let execution = *execution;
                let now = self.now;
                self.book(execution).submission_is_over(now);
                let surface = if matches!(call.ask, Ask::Submit { waits: true, .. }) {
                    Surface::Execute
                } else {
                    Surface::Submit
                };
                let witness = Witness::new(What::Call(id, surface), call.at, now);
                self.judge_submission(&call, &witness, answer);
            }
            (Ask::Submit { .. }, _) => panic!("a submission has no pieces"),
            (Ask::Look { execution, surface }, answer) => {
                let (execution, witness) = (*execution, witness(*surface));
                match answer {
                    Answer::State(state) => self.judge_state(execution, &call, state, &witness),
                    Answer::Absent => self.judge_absence(execution, &witness),
                    Answer::Refused(reason) if reason == NOT_FOUND => self.judge_absence(execution, &witness),
                    Answer::Refused(_) => self.report.count("refusals", 1),
                    Answer::Entries { first, entries, end } => {
                        let mut first = call.next_entry.unwrap_or(first);
                        // The last entry brings the result, also to a watcher that has seen it.
                        if let [last] = &entries[..]
                            && last.kind == EntryKind::Settled
                            && *surface == Surface::Watch
                        {
                            first = first.min(last.sequence);
                        }
                        call.next_entry = Some(first + entries.len() as u64);
                        let is_end = is_whole && end != End::Open;
                        self.judge_entries(execution, &call, (first, &entries), end, is_end, &witness);
                    }
                    Answer::Listed { .. } => panic!("a list answers the question for a list"),
                }
            }
            (Ask::GoOn { execution, after }, answer) => {
                let (execution, after, surface) = (*execution, *after, Surface::Watch);
                let witness = witness(surface);
                self.judge_going_on(execution, after, &call, &answer, &witness);
                let ask = std::mem::replace(&mut call.ask, Ask::Look { execution, surface });
                call = self.judge(id, call, answer, is_whole);
                call.ask = ask;
            }
            (Ask::List, answer) => {
                let witness = witness(Surface::List);
                match answer {
                    Answer::Listed {
                        executions,
                        is_complete,
                    } => {
                        self.judge_list(&call, executions, is_complete, &witness);
                    }
                    Answer::Refused(_) => self.report.count("refusals", 1),
                    other => panic!("{other:?} is no answer to the question for a list"),
                }
            }
        }
        call
    }

    /// A watcher that names what it has seen is told if that is not there any more, and only then.
    fn judge_going_on(
        &mut self,
        execution: ExecutionId,
        after: Entry,
        call: &Call,
        answer: &Answer,
        witness: &Witness,
    ) {
        let Some(life) = self.life_of(call) else { return };
        let Some(book) = self.books.get_mut(&execution) else {
            return;
        };
        let settled_in = book.settled_in();
        book.record.is_read_in(life, settled_in);
        let judged = match answer {
            Answer::Refused(reason) if reason == REWRITTEN => book.record.is_without(after, witness),
            Answer::Entries { .. } => book.record.saw(after, after.sequence, witness),
            Answer::State(_) | Answer::Absent | Answer::Refused(_) | Answer::Listed { .. } => Ok(()),
        };
        if let Err((rule, text)) = judged {
            self.report.accuse(rule, format!("{execution}: {text}"));
        }
    }

    fn judge_submission(&mut self, call: &Call, witness: &Witness, answer: Answer) {
        let Ask::Submit {
            execution,
            plan,
            digest,
            waits,
            ..
        } = call.ask
        else {
            return;
        };
        match answer {
            Answer::State(state) => {
                if waits && !matches!(state, State::Settled { .. } | State::Removed) {
                    self.report.accuse(
                        Rule::EndsOnce,
                        format!("{execution}: who waits for a result was told {state:?}: {witness}"),
                    );
                }
                if state != State::Removed {
                    let seen = self.book(execution).saw_request(plan, digest, witness);
                    self.settle(Rule::OneRequest, execution, seen);
                    self.judge_plan_owner(execution, plan, witness);
                }
                self.judge_state(execution, call, state, witness);
            }
            Answer::Refused(reason) => {
                self.report.count("refusals", 1);
                if FOR_GOOD.contains(&reason.as_str()) {
                    self.book(execution).was_refused_for_good();
                }
                if reason == ID_IN_USE {
                    let seen = self.book(execution).saw_refusal_as_other(digest, witness);
                    self.settle(Rule::OneRequest, execution, seen);
                }
                if reason == PLAN_USED {
                    self.judge_plan_refusal(execution, plan, witness);
                }
            }
            Answer::Absent | Answer::Entries { .. } | Answer::Listed { .. } => {
                panic!("{answer:?} is no answer to a submission")
            }
        }
    }

    fn judge_plan_owner(&mut self, execution: ExecutionId, plan: PlanId, witness: &Witness) {
        let plan_use = self.plans.get_mut(&plan).expect("its request was asked before");
        match &plan_use.owner {
            Some((owner, first)) if *owner != execution => self.report.accuse(
                Rule::OnePlan,
                format!("{execution}: accepted with plan {plan}: {witness}; {owner} has that plan: {first}"),
            ),
            Some(_) => {}
            None => plan_use.owner = Some((execution, *witness)),
        }
    }

    fn judge_plan_refusal(&mut self, execution: ExecutionId, plan: PlanId, witness: &Witness) {
        let plan_use = &self.plans[&plan];
        let text = match &plan_use.owner {
            Some((owner, first)) if *owner == execution => format!("this execution has it: {first}"),
            _ if !plan_use.has_several_askers => "nobody else asked for it".into(),
            _ => return,
        };
        self.report.accuse(
            Rule::OnePlan,
            format!("{execution}: refused because plan {plan} was used: {witness}; {text}"),
        );
    }

    fn judge_state(&mut self, execution: ExecutionId, call: &Call, state: State, witness: &Witness) {
        let life = self.life_of(call);
        if !self.judge_presence(execution, witness) {
            return;
        }
        let rank = match state {
            State::Queued => Rank::Accepted,
            State::Running { .. } => Rank::Running,
            State::Ended | State::Settled { .. } => Rank::Settled,
            State::Removed => Rank::Removed,
        };
        self.judge_rank(execution, rank, witness);
        let book = self.book(execution);
        let seen = match state {
            State::Running { started_at } => (Rule::OneStart, book.saw_start(started_at, witness)),
            State::Settled { result } => (Rule::OneResult, book.saw_result(result, witness, life)),
            State::Queued | State::Ended | State::Removed => return,
        };
        self.settle(seen.0, execution, seen.1);
    }

    /// Compares with the floor, raises it, and looks at the order of starts.
    fn judge_rank(&mut self, execution: ExecutionId, rank: Rank, witness: &Witness) {
        let book = self
            .books
            .get_mut(&execution)
            .expect("presence was judged before");
        if let Some((floor, seen)) = book.floor(witness.asked).filter(|(floor, _)| *floor > rank) {
            self.report.accuse(
                Rule::Regress,
                format!("{execution}: {rank} by {witness}; it was {floor} before that question: {seen}"),
            );
            return;
        }
        let is_first_start = book.saw(rank, witness);
        if is_first_start {
            self.start_order.started(execution, book, *witness);
        }
        if rank == Rank::Accepted {
            book.last_queued_ask = book.last_queued_ask.max(witness.asked);
            if let Some(other) = self.start_order.overtaken(book, witness) {
                self.report.accuse(
                    Rule::Order,
                    format!("{execution}: still queued by {witness}; another one that comes after it had started: {other}"),
                );
            }
        }
    }

    /// Returns false if nothing more can be said of it.
    fn judge_presence(&mut self, execution: ExecutionId, witness: &Witness) -> bool {
        let Some(book) = self.books.get(&execution) else {
            self.report.accuse(
                Rule::FromNothing,
                format!("{execution}: it is there: {witness}; but nobody asked for it"),
            );
            return false;
        };
        let seen = book.saw_present(witness);
        let is_possible = seen.is_ok();
        self.settle(Rule::FromNothing, execution, seen);
        is_possible
    }

    fn judge_absence(&mut self, execution: ExecutionId, witness: &Witness) {
        let Some(book) = self.books.get_mut(&execution) else {
            return;
        };
        match book.floor(witness.asked) {
            Some((floor, seen)) => self.report.accuse(
                Rule::Lost,
                format!("{execution}: absent by {witness}; it was {floor} before that question: {seen}"),
            ),
            None => book.saw_absent(witness),
        }
    }

    fn judge_list(
        &mut self,
        call: &Call,
        executions: Vec<(ExecutionId, State)>,
        is_complete: bool,
        witness: &Witness,
    ) {
        let mut listed = std::collections::BTreeSet::new();
        for (execution, state) in executions {
            if !listed.insert(execution) {
                self.report
                    .accuse(Rule::Record, format!("{execution}: listed twice: {witness}"));
            }
            self.judge_state(execution, call, state, witness);
        }
        if !is_complete {
            return;
        }
        for (execution, book) in &self.books {
            let floor = book
                .floor(witness.asked)
                .filter(|(floor, _)| *floor != Rank::Removed);
            if let Some((floor, seen)) = floor.filter(|_| !listed.contains(execution)) {
                self.report.accuse(
                    Rule::Lost,
                    format!("{execution}: not in the list of {witness}; it was {floor} before that question: {seen}"),
                );
            }
        }
    }

    fn judge_entries(
        &mut self,
        execution: ExecutionId,
        call: &Call,
        (first, entries): (u64, &[Entry]),
        end: End,
        is_end: bool,
        witness: &Witness,
    ) {
        if !self.judge_presence(execution, witness) {
            return;
        }
        self.report.count("entries", entries.len() as u64);
        let life = self.life_of(call);
        // What came after the process that sent it had ended says nothing about the record that follows.
        if let Some(life) = life {
            let book = self.book(execution);
            let settled_in = book.settled_in();
            book.record.is_read_in(life, settled_in);
            for (entry, expected) in entries.iter().zip(first..) {
                if let Err((rule, text)) = self.book(execution).record.saw(*entry, expected, witness) {
                    self.report.accuse(rule, format!("{execution}: {text}"));
                    return;
                }
            }
            if is_end && !entries.is_empty() {
                let length = first + entries.len() as u64 - 1;
                if let Err((rule, text)) = self.book(execution).record.saw_length(length, witness) {
                    self.report.accuse(rule, format!("{execution}: {text}"));
                }
            }
        }
        let ends = entries
            .last()
            .is_some_and(|entry| entry.kind == EntryKind::Settled);
        let is_floor = is_end && !entries.is_empty();
        for entry in entries {
            if let EntryKind::Started { at } = entry.kind {
                let seen = self.book(execution).saw_start(at, witness);
                self.settle(Rule::OneStart, execution, seen);
                self.raise(execution, Rank::Running, witness);
            }
        }
        if ends {
            self.raise(execution, Rank::Settled, witness);
        } else if is_floor && let Some(settled) = self.book(execution).settled_before(witness.asked) {
            self.report.accuse(
                Rule::Record,
                format!(
                    "{execution}: the record ends without `settled`: {witness}; it was settled: {settled}"
                ),
            );
        } else if is_end && life.is_some() && is_a_watch(call) && !self.book(execution).record.is_whole() {
            self.report.accuse(
                Rule::Record,
                format!("{execution}: the watch ended in order before `settled`: {witness}"),
            );
        } else if !entries.is_empty() {
            self.raise(execution, Rank::Accepted, witness);
        }
        if let End::Result(result) = end {
            let seen = self.book(execution).saw_result(result, witness, life);
            self.settle(Rule::OneResult, execution, seen);
        }
    }

    /// An entry shows that it was at least so far; how far it is now it does not show.
    fn raise(&mut self, execution: ExecutionId, rank: Rank, witness: &Witness) {
        let book = self
            .books
            .get_mut(&execution)
            .expect("presence was judged before");
        if book.saw(rank, witness) {
            self.start_order.started(execution, book, *witness);
        }
    }

    /// Returns the life in which the question was answered, where that is certain.
    fn life_of(&self, call: &Call) -> Option<u64> {
        (call.life == self.life).then_some(self.life)
    }

    fn book(&mut self, execution: ExecutionId) -> &mut super::Book {
        self.books
            .get_mut(&execution)
            .expect("it was asked for, or its presence was judged before")
    }

    fn settle(&mut self, rule: Rule, execution: ExecutionId, seen: Result<(), String>) {
        if let Err(text) = seen {
            self.report.accuse(rule, format!("{execution}: {text}"));
        }
    }
}

fn is_a_watch(call: &Call) -> bool {
    matches!(
        call.ask,
        Ask::Look {
            surface: Surface::Watch,
            ..
        }
    )
}
