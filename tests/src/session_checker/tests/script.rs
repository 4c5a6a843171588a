//! Journals in few words: writes the lines, numbers what the orchestrator sends, and has the result judged.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::session_checker::{CheckerSettings, Invariant, Records, Report, check};
use crate::session_journal::Journal;

/// Scripts in a line each: the invariant that each violates, or that it is clean, how it begins, and what follows.
macro_rules! scripts {
    (@ clean $script:ident) => { $script.is_clean() };
    (@ $invariant:ident $script:ident) => { $script.violates($invariant) };
    ($($verdict:ident: $begin:expr => $($call:ident($($argument:expr),*)),*;)*) => {
        $({
            #[allow(unused_mut, reason = "nothing may follow")]
            let mut script = $begin;
            $(script.$call($($argument),*);)*
            scripts!(@ $verdict script);
        })*
    };
}
pub(super) use scripts;

/// A journal in the making.
pub(super) struct Script {
    lines: Vec<String>,
    t: u64,
    seqs: BTreeMap<(u64, &'static str), u64>,
    pub(super) settings: CheckerSettings,
    pub(super) records: Records,
}

/// Returns a token that counts.
pub(super) fn token(n: u64) -> String {
    format!("{n:032x}")
}

/// Returns the instance with this number.
pub(super) fn instance(n: u64) -> String {
    format!("a{n:031x}")
}

/// Returns a step or an execution that counts.
pub(super) fn id(n: u64) -> String {
    format!("{n:08x}-0000-4000-8000-000000000000")
}

impl Script {
    /// After the boot, whose wall clock began at 0.
    pub(super) fn new() -> Self {
        let mut script = Self {
            lines: Vec::new(),
            t: 0,
            seqs: BTreeMap::new(),
            settings: CheckerSettings::default(),
            records: Records::new(),
        };
        script.boot();
        script
    }

    pub(super) fn boot(&mut self) -> &mut Self {
        self.t = 0;
        self.seqs.clear();
        self.line(json!({"s": 0, "dir": "shell", "m": "boot", "boot": token(1), "unix_ms": 0}))
    }

    /// The next lines are of this time.
    pub(super) fn at(&mut self, t: u64) -> &mut Self {
        self.t = t;
        self
    }

    pub(super) fn line(&mut self, mut line: Value) -> &mut Self {
        line["t"] = self.t.into();
        self.raw(line)
    }

    pub(super) fn raw(&mut self, line: Value) -> &mut Self {
        self.lines.push(line.to_string());
        self
    }

    fn message(&mut self, session: u64, dir: &'static str, mut line: Value) -> &mut Self {
        let seq = self.seqs.entry((session, dir)).or_default();
        *seq += 1;
        line["seq"] = (*seq).into();
        (line["s"], line["dir"]) = (session.into(), dir.into());
        self.line(line)
    }

    /// From the worker.
    pub(super) fn hear(&mut self, session: u64, line: Value) -> &mut Self {
        self.message(session, "in", line)
    }

    /// To the worker.
    pub(super) fn say(&mut self, session: u64, line: Value) -> &mut Self {
        self.message(session, "out", line)
    }

    pub(super) fn shell(&mut self, session: u64, m: &str) -> &mut Self {
        self.line(json!({"s": session, "dir": "shell", "m": m}))
    }

    pub(super) fn close(&mut self, session: u64) -> &mut Self {
        self.line(json!({"s": session, "dir": "out", "m": "close"}))
    }

    pub(super) fn call(&mut self, mut line: Value) -> &mut Self {
        (line["s"], line["dir"]) = (0.into(), "call".into());
        self.line(line)
    }

    /// A `Hello` for `work` (level 2), `other` and `wait` (level 1, waits).
    pub(super) fn hello(&mut self, session: u64, worker: u64, level: u32, in_flight: Value) -> &mut Self {
        self.numbered_hello(session, worker, 0, level, in_flight)
    }

    pub(super) fn numbered_hello(
        &mut self,
        session: u64,
        worker: u64,
        number: u64,
        level: u32,
        in_flight: Value,
    ) -> &mut Self {
        self.said_hello(session, worker, number, level, None, in_flight)
    }

    /// Returns a `Hello` that says which session's welcome was read last: the one with this number, or none.
    pub(super) fn hello_after(
        &mut self,
        session: u64,
        worker: u64,
        previous: Option<u64>,
        in_flight: Value,
    ) -> &mut Self {
        let previous = previous.map_or(Value::Null, |session| token(session).into());
        self.said_hello(session, worker, 0, 4, Some(previous), in_flight)
    }

    fn said_hello(
        &mut self,
        session: u64,
        worker: u64,
        number: u64,
        level: u32,
        previous: Option<Value>,
        in_flight: Value,
    ) -> &mut Self {
        let actions = json!({
            "work": {"max": 2, "waits": false},
            "other": {"max": 0, "waits": false},
            "wait": {"max": 1, "waits": true},
        });
        let mut hello = json!({"m": "hello", "worker": format!("w{worker}"), "instance": instance(worker),
            "hello_number": number, "max_in_flight": level, "actions": actions, "in_flight": in_flight});
        if let Some(previous) = previous {
            hello["previous"] = previous;
        }
        self.shell(session, "opened").hear(session, hello)
    }

    pub(super) fn welcome(&mut self, session: u64, verdicts: Value) -> &mut Self {
        self.say(
            session,
            json!({"m": "welcome", "session": token(session), "refused": [], "verdicts": verdicts}),
        )
    }

    /// Returns a session of a worker with nothing in hand.
    pub(super) fn greet(&mut self, session: u64, worker: u64, level: u32) -> &mut Self {
        self.hello(session, worker, level, json!({}))
            .welcome(session, json!({}))
    }

    /// Assigns attempt `number` of a step of execution 1 under a token; 1 s of time.
    pub(super) fn assign(&mut self, session: u64, token_n: u64, step: u64, number: u32) -> &mut Self {
        self.assign_of(session, "work", token_n, step, number)
    }

    pub(super) fn assign_of(
        &mut self,
        session: u64,
        action: &str,
        token_n: u64,
        step: u64,
        number: u32,
    ) -> &mut Self {
        let item = json!({"token": token(token_n), "execution": id(1), "step": id(step), "attempt": number,
            "action": action, "timeout_ms": 30_000});
        self.say(session, json!({"m": "assignments", "items": [item]}))
    }

    fn acks(&mut self, session: u64, started: &[u64], rejected: &[u64], stopped: &[u64]) -> &mut Self {
        let tokens = |list: &[u64]| list.iter().map(|n| token(*n)).collect::<Vec<_>>();
        let rejected: Vec<_> = tokens(rejected)
            .into_iter()
            .map(|token| json!([token, "no_capacity"]))
            .collect();
        self.hear(
            session,
            json!({"m": "attempt_acks", "started": tokens(started), "rejected": rejected, "stopped": tokens(stopped)}),
        )
    }

    pub(super) fn started(&mut self, session: u64, token: u64) -> &mut Self {
        self.acks(session, &[token], &[], &[])
    }

    pub(super) fn rejected(&mut self, session: u64, token: u64) -> &mut Self {
        self.acks(session, &[], &[token], &[])
    }

    pub(super) fn stopped(&mut self, session: u64, token: u64) -> &mut Self {
        self.acks(session, &[], &[], &[token])
    }

    pub(super) fn outcome(&mut self, session: u64, n: u64, kind: &str) -> &mut Self {
        self.hear(
            session,
            json!({"m": "outcomes", "items": [[token(n), kind]], "unreadable": 0}),
        )
    }

    pub(super) fn verdict(&mut self, session: u64, n: u64, verdict: &str) -> &mut Self {
        self.say(
            session,
            json!({"m": "outcome_acks", "items": [[token(n), verdict]]}),
        )
    }

    /// Started, reported and accepted.
    pub(super) fn done(&mut self, session: u64, n: u64, kind: &str) -> &mut Self {
        self.started(session, n)
            .outcome(session, n, kind)
            .verdict(session, n, "accepted")
    }

    pub(super) fn cancel(&mut self, session: u64, n: u64, reason: &str) -> &mut Self {
        self.say(session, json!({"m": "cancels", "items": [[token(n), reason]]}))
    }

    pub(super) fn heartbeat(&mut self, session: u64, n: u64) -> &mut Self {
        self.hear(session, json!({"m": "heartbeat", "n": n, "hash": null}))
            .say(session, json!({"m": "heartbeat_ack", "n": n}))
    }

    pub(super) fn snapshot_request(&mut self, session: u64, n: u64) -> &mut Self {
        self.say(session, json!({"m": "snapshot_request", "n": n}))
    }

    pub(super) fn snapshot(&mut self, session: u64, n: u64, last: u64, in_flight: Value) -> &mut Self {
        self.hear(
            session,
            json!({"m": "snapshot", "n": n, "last_assignment_seq": last, "in_flight": in_flight}),
        )
    }

    pub(super) fn drain_started(&mut self, session: u64, last: u64) -> &mut Self {
        self.say(
            session,
            json!({"m": "drain_started", "last_assignment_seq": last}),
        )
    }

    pub(super) fn error(&mut self, session: u64, code: &str) -> &mut Self {
        self.say(session, json!({"m": "session_error", "code": code}))
            .close(session)
    }

    pub(super) fn report(&self) -> Report {
        let text = self.lines.join("\n") + "\n";
        check(Journal::of_text(&text), &self.records, self.settings.clone()).unwrap()
    }

    /// Passes when this invariant is violated, and no other.
    #[track_caller]
    pub(super) fn violates(&self, invariant: Invariant) {
        let report = self.report();
        let found: Vec<Invariant> = report.violations().iter().map(|found| found.invariant).collect();
        assert!(!found.is_empty(), "nothing was found");
        assert!(found.iter().all(|found| *found == invariant), "{report}");
    }

    #[track_caller]
    pub(super) fn is_clean(&self) {
        self.report().expect_clean();
    }
}
