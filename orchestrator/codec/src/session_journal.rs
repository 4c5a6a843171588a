//! What the journal says of an input or an effect. Pure: the same for a live process and for a simulation.
//!
//! Never a payload, an environment, an output, a message of an error or a header.

use crate::session_out::{ack_verdict, cancel_reason, session_error_code};
use escapement_contract::Outcome;
use escapement_engine::{
    ActionSpec, AttemptReport, Effect, FromWorker, Hello, InFlight, InFlightPhase, Input, KeepOrStop,
    RejectReason, Reply, ToWorker, Welcome, WorkerSelector,
};
use escapement_model::{AttemptToken, BootId};
use std::fmt::Display;

/// What a line may be about.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A process lifetime begins, at 0 of its monotonic clock and this time of the wall clock.
    Boot(BootId, i64),
    /// The engine is about to handle this.
    Input(&'a Input),
    /// The engine gave this.
    Effect(&'a Effect),
}

/// One line without its end; `None` for what is not about a session.
///
/// Every line has `t` (monotonic milliseconds of the process), `s` (the session's number; 0 for none), `dir` and `m`.
/// `dir` is `in` for what a worker says and `out` for what goes to it, both with its `seq`; `shell` if a process or
/// a stream begins or ends; `call` and `reply` for calls without a stream. `m` says what it is.
pub fn line(at_ms: u64, event: Event<'_>) -> Option<String> {
    let line = match event {
        Event::Boot(boot_id, unix_ms) => Line::begin(at_ms, 0, "shell", "boot")
            .id("boot", boot_id)
            .value("unix_ms", unix_ms),
        Event::Input(input) => self::input(at_ms, input)?,
        Event::Effect(effect) => self::effect(at_ms, effect)?,
    };
    Some(line.end())
}

/// Says how many lines are missing here.
pub fn dropped(n_lines: u64) -> String {
    format!(r#"{{"dropped":{n_lines}}}"#)
}

fn input(at_ms: u64, input: &Input) -> Option<Line> {
    let call = |m| Line::begin(at_ms, 0, "call", m);
    let line = match input {
        Input::SessionOpened { session, .. } => Line::begin(at_ms, session.0, "shell", "opened"),
        Input::SessionClosed(session) => Line::begin(at_ms, session.0, "shell", "closed"),
        Input::SessionMessage {
            session,
            seq,
            message,
        } => from_worker(at_ms, session.0, *seq, message),
        Input::ReportOutcomes { caller, items } => {
            let line = call("report_outcomes").value("call", caller.id.0);
            line.list("items", items, outcome)
        }
        Input::DrainWorker { caller, worker } => {
            let (instance, label) = match worker {
                WorkerSelector::Instance(instance_id) => (quoted(instance_id), NULL.to_owned()),
                WorkerSelector::WorkerId(worker_id) => (NULL.to_owned(), text(worker_id)),
            };
            let line = call("drain_worker").value("call", caller.id.0);
            line.value("instance", instance).value("worker", label)
        }
        Input::DeclareWorkerDead { caller, instance_id } => {
            let line = call("declare_worker_dead").value("call", caller.id.0);
            line.id("instance", instance_id)
        }
        Input::ShareOut(_)
        | Input::Submit(_)
        | Input::Wait { .. }
        | Input::Describe { .. }
        | Input::Explain { .. }
        | Input::Watch(_)
        | Input::CallerGone(_)
        | Input::ListWorkers(_)
        | Input::ListActions(_)
        | Input::FindAttempts { .. }
        | Input::ForgetAction { .. }
        | Input::RecoverAction(_)
        | Input::Recover(_)
        | Input::RecoverParked(_)
        | Input::Loaded { .. }
        | Input::Stored { .. }
        | Input::Tick
        | Input::Drain { .. } => return None,
    };
    Some(line)
}

fn effect(at_ms: u64, effect: &Effect) -> Option<Line> {
    let line = match effect {
        Effect::Send {
            session,
            seq,
            message,
        } => to_worker(at_ms, session.0, *seq, message),
        Effect::CloseSession(session) => Line::begin(at_ms, session.0, "out", "close"),
        Effect::Reply {
            caller,
            reply: Reply::OutcomeAcks(items),
        } => Line::begin(at_ms, 0, "reply", "report_outcomes")
            .value("call", caller.0)
            .list("verdicts", items, |(_, verdict)| {
                quoted(ack_verdict(*verdict).as_str_name())
            }),
        Effect::Reply { .. }
        | Effect::Write { .. }
        | Effect::Load { .. }
        | Effect::EmitEvent(_)
        | Effect::NotifyErrorHandler(_)
        | Effect::WorkerLost { .. }
        | Effect::Note(_)
        | Effect::Drained { .. }
        | Effect::GiveUp { .. } => return None,
    };
    Some(line)
}

fn from_worker(at_ms: u64, session: u64, seq: u64, message: &FromWorker) -> Line {
    let said = |m| Line::begin(at_ms, session, "in", m).value("seq", seq);
    match message {
        FromWorker::Hello(hello) => self::hello(said("hello"), hello),
        FromWorker::RegisterActions { revision, actions } => said("register_actions")
            .value("revision", revision)
            .object("actions", actions, action),
        FromWorker::Capacity {
            revision,
            max_in_flight,
            per_action,
        } => said("capacity")
            .value("revision", revision)
            .value("max_in_flight", max_in_flight)
            .object("per_action", per_action, |(name, level)| {
                (text(name), level.to_string())
            }),
        FromWorker::Heartbeat { n, in_flight_hash } => said("heartbeat").value("n", n).value(
            "hash",
            in_flight_hash.map_or(NULL.to_owned(), |hash| quoted(AttemptToken::new(hash).to_hex())),
        ),
        FromWorker::AttemptAcks {
            started,
            rejected,
            stopped,
        } => said("attempt_acks")
            .list("started", started, token)
            .list("rejected", rejected, |(token, reason)| {
                pair(token.to_hex(), reject_reason(*reason))
            })
            .list("stopped", stopped, token),
        FromWorker::Outcomes { items, unreadable } => said("outcomes")
            .list("items", items, outcome)
            .value("unreadable", unreadable.len()),
        FromWorker::Snapshot {
            n,
            last_assignment_seq,
            in_flight,
        } => said("snapshot")
            .value("n", n)
            .value("last_assignment_seq", last_assignment_seq)
            .object("in_flight", in_flight, self::in_flight),
        FromWorker::Drain => said("drain"),
        FromWorker::Goodbye => said("goodbye"),
        FromWorker::Unknown => said("unknown"),
    }
}

fn to_worker(at_ms: u64, session: u64, seq: u64, message: &ToWorker) -> Line {
    let told = |m| Line::begin(at_ms, session, "out", m).value("seq", seq);
    match message {
        ToWorker::Welcome(welcome) => self::welcome(told("welcome"), welcome),
        ToWorker::HeartbeatAck { n } => told("heartbeat_ack").value("n", n),
        ToWorker::Assignments(items) => told("assignments").list("items", items, assignment),
        ToWorker::OutcomeAcks(items) => told("outcome_acks").list("items", items, |(token, verdict)| {
            pair(token.to_hex(), ack_verdict(*verdict).as_str_name())
        }),
        ToWorker::UnknownOutcomes(tokens) => told("unknown_outcomes").value("count", tokens.len()),
        ToWorker::Cancels(items) => told("cancels").list("items", items, |cancel| {
            pair(cancel.token.to_hex(), cancel_reason(cancel.reason).as_str_name())
        }),
        ToWorker::SnapshotRequest { n } => told("snapshot_request").value("n", n),
        ToWorker::DrainStarted { last_assignment_seq } => {
            told("drain_started").value("last_assignment_seq", last_assignment_seq)
        }
        ToWorker::Reconnect {
            jitter_ms,
            deadline_ms,
        } => told("reconnect")
            .value("jitter_ms", jitter_ms)
            .value("deadline_ms", deadline_ms),
        ToWorker::SessionError { code, .. } => {
            told("session_error").value("code", quoted(session_error_code(*code).as_str_name()))
        }
    }
}

fn hello(line: Line, hello: &Hello) -> Line {
    line.value("worker", text(&hello.worker_id))
        .id("instance", hello.instance_id)
        .value("hello_number", hello.hello_number)
        .value(
            "previous",
            hello.previous_session_id.map_or_else(|| NULL.to_owned(), quoted),
        )
        .value("max_in_flight", hello.max_in_flight)
        .object("actions", &hello.actions, action)
        .object("in_flight", &hello.in_flight, in_flight)
}

fn welcome(line: Line, welcome: &Welcome) -> Line {
    line.id("session", welcome.session_id)
        .list("refused", &welcome.refused_actions, |refusal| text(&refusal.name))
        .object("verdicts", &welcome.verdicts, |(token, verdict)| {
            let verdict = match verdict {
                KeepOrStop::Keep => "keep",
                KeepOrStop::Stop => "stop",
            };
            (quoted(token.to_hex()), quoted(verdict))
        })
}

fn action(action: &ActionSpec) -> (String, String) {
    let ActionSpec {
        max_in_flight, waits, ..
    } = action;
    (
        text(&action.name),
        format!(r#"{{"max":{max_in_flight},"waits":{waits}}}"#),
    )
}

fn in_flight(item: &InFlight) -> (String, String) {
    let phase = match item.phase {
        InFlightPhase::Received => "received",
        InFlightPhase::Running => "running",
        InFlightPhase::Finished => "finished",
    };
    (quoted(item.token.to_hex()), quoted(phase))
}

fn reject_reason(reason: RejectReason) -> &'static str {
    match reason {
        RejectReason::Unspecified => "unspecified",
        RejectReason::Draining => "draining",
        RejectReason::NoCapacity => "no_capacity",
        RejectReason::UnknownAction => "unknown_action",
        RejectReason::Cancelled => "cancelled",
        RejectReason::LeaseExpired => "lease_expired",
    }
}

fn outcome((token, report): &(AttemptToken, AttemptReport)) -> String {
    let kind = match report {
        AttemptReport::Outcome(Outcome::Completed { .. }) => "success",
        AttemptReport::Outcome(Outcome::Failed(_)) => "failure",
        AttemptReport::Outcome(Outcome::Undecodable { .. }) => "invalid",
        // No worker says so of its own attempt.
        AttemptReport::Outcome(Outcome::Lost) => "lost",
        AttemptReport::Refused(_) => "refused",
        AttemptReport::Released(_) => "released",
    };
    pair(token.to_hex(), kind)
}

fn assignment(assignment: &escapement_engine::Assignment) -> String {
    let step = assignment.request.plan().step(assignment.step);
    format!(
        r#"{{"token":"{}","execution":"{}","step":"{}","attempt":{},"action":{},"timeout_ms":{}}}"#,
        assignment.token.to_hex(),
        assignment.execution_id,
        step.id(),
        assignment.attempt,
        text(step.action()),
        assignment.timeout_ms
    )
}

fn token(token: &AttemptToken) -> String {
    quoted(token.to_hex())
}

/// What needs no escapes.
fn quoted(value: impl Display) -> String {
    format!(r#""{value}""#)
}

/// Returns a text of somebody else.
fn text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn pair(token: impl Display, word: &str) -> String {
    format!(r#"["{token}","{word}"]"#)
}

const NULL: &str = "null";

/// A line that is being written.
struct Line(String);

impl Line {
    fn begin(at_ms: u64, session: u64, dir: &str, m: &str) -> Self {
        Self(format!(r#"{{"t":{at_ms},"s":{session},"dir":"{dir}","m":"{m}""#))
    }

    /// Sets a field whose value is JSON as it stands.
    fn value(mut self, key: &str, json: impl Display) -> Self {
        use std::fmt::Write;
        write!(self.0, r#","{key}":{json}"#).expect("writing to a String cannot fail");
        self
    }

    fn id(self, key: &str, id: impl Display) -> Self {
        self.value(key, quoted(id))
    }

    fn list<T>(self, key: &str, items: &[T], json: impl Fn(&T) -> String) -> Self {
        let items: Vec<String> = items.iter().map(json).collect();
        self.value(key, format_args!("[{}]", items.join(",")))
    }

    fn object<T>(
        self,
        key: &str,
        items: impl IntoIterator<Item = T>,
        json: impl Fn(T) -> (String, String),
    ) -> Self {
        let entry = |item| {
            let (key, value) = json(item);
            format!("{key}:{value}")
        };
        let items: Vec<String> = items.into_iter().map(entry).collect();
        self.value(key, format_args!("{{{}}}", items.join(",")))
    }

    fn end(mut self) -> String {
        self.0.push('}');
        self.0
    }
}

#[cfg(test)]
mod tests;
