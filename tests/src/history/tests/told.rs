//! A history told in a few words: execution 1, request 7. Judges nothing.

use escapement_model::{AttemptToken, ExecutionId, PlanId, StepId};

use crate::history::{
    Answer, Ask, CallId, Checker, End, Entry, EntryKind, Life, Report, Rule, State, Surface,
};

/// Histories in a line each: the rule that each breaks, and no other, with words of the accusation; or that it accuses nobody.
macro_rules! histories {
    (@ Nobody [] $told:ident) => { $told.accuses_nobody() };
    (@ $rule:ident [$($word:literal),+] $told:ident) => { $told.breaks(crate::history::Rule::$rule, &[$($word),+]) };
    ($($rule:ident, [$($word:literal),*]: $($call:ident($($argument:expr),*)),+;)*) => {
        $({
            let mut told = Told::new();
            $(told.$call($($argument),*);)+
            histories!(@ $rule [$($word),*] told);
        })*
    };
}
pub(super) use histories;

/// A checker with a first life.
pub(super) struct Told {
    pub(super) checker: Checker,
}

pub(super) fn execution(n: u8) -> ExecutionId {
    ExecutionId::from_random([n; 16])
}

pub(super) fn plan(n: u8) -> PlanId {
    PlanId::from_random([n; 16])
}

pub(super) fn step(n: u8) -> StepId {
    StepId::from_random([n; 16])
}

pub(super) fn token(n: u8) -> AttemptToken {
    AttemptToken::new([n; 16])
}

pub(super) const QUEUED: Answer = Answer::State(State::Queued);
pub(super) const RUNNING: Answer = Answer::State(State::Running { started_at: 1000 });

pub(super) fn settled(result: u64) -> Answer {
    Answer::State(State::Settled { result })
}

pub(super) fn refused(reason: &str) -> Answer {
    Answer::Refused(reason.into())
}

/// `accepted`, `started`, others, and `settled` at number `last`.
pub(super) fn entry(sequence: u64, last: u64) -> Entry {
    let kind = match sequence {
        _ if sequence == last => EntryKind::Settled,
        1 => EntryKind::Accepted,
        2 => EntryKind::Started { at: 1000 },
        _ => EntryKind::Other,
    };
    Entry {
        sequence,
        hash: 100 + sequence,
        kind,
    }
}

/// Entries of a record of which number `last` is `settled`.
pub(super) fn entries(range: std::ops::RangeInclusive<u64>, last: u64, end: End) -> Answer {
    Answer::Entries {
        first: *range.start(),
        entries: range.map(|sequence| entry(sequence, last)).collect(),
        end,
    }
}

impl Told {
    pub(super) fn new() -> Self {
        let mut checker = Checker::new();
        checker.life(Life::Began);
        Self { checker }
    }

    /// Asks for execution n with the plan and the request of the same number.
    pub(super) fn submit(&mut self, n: u8) -> CallId {
        self.submit_with(n, 0, n, n)
    }

    pub(super) fn submit_with(&mut self, n: u8, priority: i32, of_plan: u8, digest: u8) -> CallId {
        self.checker.ask(Ask::Submit {
            execution: execution(n),
            plan: plan(of_plan),
            digest: u64::from(digest),
            priority,
            queue: 0,
            waits: false,
        })
    }

    /// Asks for execution n and is answered.
    pub(super) fn submitted(&mut self, n: u8, answer: Answer) {
        self.submitted_with(n, 0, n, n, answer);
    }

    pub(super) fn submitted_with(&mut self, n: u8, priority: i32, of_plan: u8, digest: u8, answer: Answer) {
        let call = self.submit_with(n, priority, of_plan, digest);
        self.answer(call, answer);
    }

    /// Asks for execution n and never hears of it.
    pub(super) fn unanswered(&mut self, n: u8, priority: i32, of_plan: u8, digest: u8) {
        let call = self.submit_with(n, priority, of_plan, digest);
        self.checker.lost(call);
    }

    /// Asks for the result of execution n and is answered.
    pub(super) fn executed(&mut self, n: u8, answer: Answer) {
        let call = self.checker.ask(Ask::Submit {
            execution: execution(n),
            plan: plan(n),
            digest: u64::from(n),
            priority: 0,
            queue: 0,
            waits: true,
        });
        self.answer(call, answer);
    }

    /// Asks for the list and is answered.
    pub(super) fn listed(&mut self, answer: Answer) {
        let call = self.checker.ask(Ask::List);
        self.answer(call, answer);
    }

    pub(super) fn event(&mut self, n: u8, result: u64) {
        self.checker.event(execution(n), result);
    }

    pub(super) fn outcome_accepted(&mut self, of_token: u8) {
        self.checker.outcome_accepted(token(of_token));
    }

    pub(super) fn starts_must_be_in_order(&mut self) {
        self.checker.starts_must_be_in_order();
    }

    pub(super) fn all_must_be_settled(&mut self) {
        self.checker.all_must_be_settled();
    }

    pub(super) fn look(&mut self, n: u8, surface: Surface) -> CallId {
        self.checker.ask(Ask::Look {
            execution: execution(n),
            surface,
        })
    }

    /// Watches execution n behind an entry.
    pub(super) fn went_on(&mut self, n: u8, after: Entry, answer: Answer) {
        let execution = execution(n);
        let call = self.checker.ask(Ask::GoOn { execution, after });
        self.answer(call, answer);
    }

    pub(super) fn answer(&mut self, call: CallId, answer: Answer) {
        self.checker.answer(call, answer);
    }

    /// Asks and is answered, with nothing between.
    pub(super) fn accepted(&mut self, n: u8) {
        self.accepted_with(n, 0);
    }

    pub(super) fn accepted_with(&mut self, n: u8, priority: i32) {
        self.submitted_with(n, priority, n, n, QUEUED);
    }

    pub(super) fn seen(&mut self, n: u8, surface: Surface, answer: Answer) {
        let call = self.look(n, surface);
        self.answer(call, answer);
    }

    pub(super) fn got(&mut self, n: u8, answer: Answer) {
        self.seen(n, Surface::Get, answer);
    }

    pub(super) fn ends(&mut self, life: Life) {
        self.checker.life(life);
        self.checker.life(Life::Began);
    }

    pub(super) fn handed_out(&mut self, n: u8, attempt: u32, of_token: u8) {
        self.checker
            .handed_out(execution(n), step(1), attempt, token(of_token));
    }

    pub(super) fn report(self) -> Report {
        self.checker.finish(&[])
    }

    /// Nobody is accused.
    pub(super) fn accuses_nobody(self) {
        let report = self.report();
        assert!(report.is_clean(), "{report}");
    }

    /// Exactly this is accused, in words that contain all of those.
    pub(super) fn breaks(self, rule: Rule, words: &[&str]) {
        let report = self.report();
        let rules: Vec<Rule> = report.violations.iter().map(|violation| violation.rule).collect();
        assert_eq!(rules, [rule], "{report}");
        for word in words {
            assert!(report.violations[0].text.contains(word), "{word:?} in {report}");
        }
    }
}
