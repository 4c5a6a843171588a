//! A thing changed in a kept record that is true, or in its result, and the difference that must be found.
//! That all kept records are true is a test of the corpus.

use super::{Difference, parts, retell};
use crate::checkout;
use crate::reference::Facts;
use escapement_model::Opaque;
use escapement_wire::json::{from_opaque, to_opaque};
use escapement_wire::v1::audit_entry::Event;
use escapement_wire::v1::execution_error::Severity;
use escapement_wire::v1::plan_result::Status;
use escapement_wire::v1::{AuditEntry, ExecutionError, Plan, PlanResult};
use serde_json::{Value, json};

/// The first step fails twice, the second one completes.
const RETRIED: &str = "partial-after-retries";
/// The first step fails, two are skipped because of it, the fourth one completes.
const CASCADE: &str = "partial-with-skipped-cascade";
/// The first attempt meets its limit, the second one completes.
const TIMED_OUT: &str = "success-after-a-step-timeout";

struct Recorded {
    plan: Plan,
    facts: Facts,
    entries: Vec<AuditEntry>,
    result: PlanResult,
}

impl Recorded {
    fn kept(name: &str) -> Self {
        let file = checkout::root().join(format!("tests/records/corpus/{name}.record"));
        let (plan, facts, entries, result) = parts(&std::fs::read(file).unwrap(), 1);
        let recorded = Self {
            plan,
            facts,
            entries,
            result,
        };
        recorded.retell().unwrap();
        recorded
    }

    fn retell(&self) -> Result<(), Difference> {
        retell(&self.plan, &self.facts, &self.entries, &self.result)
    }

    fn id(&self, step: usize) -> String {
        self.plan.steps[step].id.clone()
    }

    fn error(&mut self) -> &mut ExecutionError {
        self.result.error.as_mut().unwrap()
    }

    /// Changes the list of errors in the context of the error.
    fn errors(&mut self, change: impl FnOnce(&mut Value)) {
        let mut context = from_opaque(self.error().context.as_ref().unwrap()).unwrap();
        change(&mut context["errors"]);
        self.error().context = Some(to_opaque(&context));
    }

    fn renumber(&mut self) {
        let numbered = self.entries.iter_mut().zip(1..);
        numbered.for_each(|(entry, sequence)| entry.sequence = sequence);
    }
}

fn object(value: &Value) -> Option<Opaque> {
    value.as_object().map(to_opaque)
}

#[track_caller]
fn is_found(name: &str, change: impl FnOnce(&mut Recorded), entry: Option<i64>, part: &str) {
    let mut recorded = Recorded::kept(name);
    change(&mut recorded);
    let difference = recorded.retell().expect_err("something was changed");
    assert_eq!((difference.entry, difference.part), (entry, part), "{difference}");
}

/// Changes of a kept record, each with the entry, if it is one, and the part at which it is found.
macro_rules! found {
    ($($name:ident, $entry:expr, $part:literal: $it:ident => $change:expr;)*) => {
        $(is_found($name, |$it| { $change; }, $entry, $part);)*
    };
}

/// Changes of the entries of a kind, the first one of them unless a number says otherwise, each with the part at which it is found.
macro_rules! found_there {
    ($($name:ident, $part:literal: $kind:ident[$nth:literal] $event:ident => $change:expr;)*) => {
        $({
            let is_one = |entry: &&AuditEntry| matches!(entry.event, Some(Event::$kind(_)));
            let sequence = Recorded::kept($name).entries.iter().filter(is_one).nth($nth).unwrap().sequence;
            let change = |it: &mut Recorded| {
                let at = usize::try_from(sequence).unwrap() - 1;
                let Some(Event::$kind($event)) = &mut it.entries[at].event else { unreachable!() };
                $change;
            };
            is_found($name, change, Some(sequence), $part);
        })*
    };
}

#[test]
fn every_field_of_a_result_is_compared() {
    let nobody = "00000009-0000-4000-8000-000000000000";
    found! {
        RETRIED, None, "plan_id": it => it.result.plan_id = nobody.into();
        RETRIED, None, "status": it => it.result.set_status(Status::Failure);
        RETRIED, None, "status": it => it.result.set_status(Status::Unspecified);
        RETRIED, None, "steps_executed": it => it.result.steps_executed = 2;
        RETRIED, None, "steps_total": it => it.result.steps_total = 1;
        RETRIED, None, "completed_at": it => it.result.completed_at += 1;
        RETRIED, None, "duration_ms": it => it.result.duration_ms += 1;
        RETRIED, None, "result_payload": it => it.result.result_payload = None;
        RETRIED, None, "result_payload": it => it.result.result_payload = object(&json!({ (it.id(0)): {} }));
        RETRIED, None, "result_payload": it => it.result.result_payload = object(&json!({ (it.id(1)): 1 }));
        RETRIED, None, "error": it => it.result.error = None;
        RETRIED, None, "error": it => it.error().error_code = "OTHER".into();
        RETRIED, None, "error": it => it.error().step_id = Some(it.id(1));
        RETRIED, None, "error.step_id": it => it.error().step_id = Some(nobody.into());
        RETRIED, None, "recoverable": it => it.error().recoverable = false;
        RETRIED, None, "severity": it => it.error().severity = 0;
        RETRIED, None, "error": it => {
            it.error().set_severity(Severity::Fatal);
            it.error().recoverable = false;
        };
        RETRIED, None, "error": it => it.error().cause = Some(Box::new(it.error().clone()));
        RETRIED, None, "errors_omitted": it => it.error().context = None;
        CASCADE, None, "error.context.errors": it => it.errors(|all| all[0]["error_code"] = json!("OTHER"));
        CASCADE, None, "error.context.errors": it => it.errors(|all| all[1]["step_id"] = all[0]["step_id"].clone());
        CASCADE, None, "error.context.errors": it => it.errors(|all| all[1]["severity"] = json!("fatal"));
        CASCADE, None, "error.context.errors": it => it.errors(|all| all[0]["recoverable"] = json!(false));
        CASCADE, None, "error.context.errors": it => it.errors(|all| all[0]["attempt"] = json!(2));
        CASCADE, None, "error.context.errors": it => it.errors(|all| all[2]["timestamp"] = json!(10_090));
        CASCADE, None, "error.context.errors": it => it.errors(|all| all[2]["cause"]["error_code"] = json!("BUSY"));
        CASCADE, None, "error.context.errors": it => it.errors(|all| all.as_array_mut().unwrap().swap(0, 1));
    }
}

#[test]
fn every_entry_must_be_there_in_its_place() {
    let whole = Recorded::kept(CASCADE).entries;
    let with = |change: &dyn Fn(&mut Vec<AuditEntry>)| {
        let mut recorded = Recorded::kept(CASCADE);
        change(&mut recorded.entries);
        recorded.renumber();
        recorded.retell()
    };
    for at in 0..whole.len() {
        // That a worker told nothing of the beginning of an attempt is possible.
        let may_lack = matches!(whole[at].event, Some(Event::AttemptStarted(_)));
        let without = with(&|entries| drop(entries.remove(at)));
        assert_eq!(without.is_ok(), may_lack, "without entry {}", at + 1);
        let twice = with(&|entries| entries.insert(at, entries[at].clone()));
        assert!(twice.is_err(), "entry {} stands there twice", at + 1);
    }
    for at in 1..whole.len() {
        // The list of incomplete steps has no place of its own.
        let is_a_list = |at: usize| matches!(whole[at].event, Some(Event::StepsIncomplete(_)));
        let swapped = with(&|entries| entries.swap(at - 1, at));
        let may_be_swapped = is_a_list(at - 1) || is_a_list(at);
        assert_eq!(swapped.is_ok(), may_be_swapped, "entries {at} and {}", at + 1);
    }
    found! {
        CASCADE, Some(7), "sequence": it => it.entries[4].sequence = 7;
        CASCADE, None, "record": it => it.entries.clear();
        CASCADE, None, "record": it => it.entries.pop();
    }
}

#[test]
fn every_decision_is_compared() {
    let second = Recorded::kept(CASCADE).id(1);
    found_there! {
        TIMED_OUT, "event": RetryScheduled[0] retry => retry.delay_ms += 1;
        TIMED_OUT, "event": RetryScheduled[0] retry => retry.next_attempt = 3;
        RETRIED, "event": StepNotCompleted[0] ended => ended.reason = "failed".into();
        RETRIED, "reason": StepNotCompleted[0] ended => ended.reason = "tired".into();
        CASCADE, "event": StepNotCompleted[1] ended => ended.attempts = 1;
        CASCADE, "event": StepNotCompleted[1] ended => ended.error.as_mut().unwrap().cause = None;
        CASCADE, "event": StepWaiting[1] waiting => waiting.step_id = second.clone();
        CASCADE, "step_id": StepWaiting[0] waiting => waiting.step_id = "nobody".into();
        CASCADE, "event": StepCompleted[0] completed => completed.attempts = 2;
        CASCADE, "mandatory_action": MandatoryAction[0] action => action.number = 2;
        CASCADE, "event": StepsIncomplete[0] incomplete => incomplete.step_ids.reverse();
        CASCADE, "event": Settled[0] settled => settled.set_status(Status::Success);
        // What a reserved code weighs is not for the record to say.
        TIMED_OUT, "event": AttemptFailed[0] failed => {
            let error = failed.error.as_mut().unwrap();
            error.set_severity(Severity::Fatal);
            error.recoverable = false;
        };
    }
}

#[test]
fn a_time_that_cannot_be_is_found() {
    found! {
        // A decision apart from its cause; an entry before the start; a sleep that was cut short.
        TIMED_OUT, Some(7), "at": it => it.entries[6].at += 1;
        TIMED_OUT, Some(3), "at": it => it.entries[2].at = it.entries[1].at - 1;
        TIMED_OUT, Some(8), "at, of the end of a sleep": it => it.entries[7].at -= 3;
        // An outcome after the limit.
        RETRIED, Some(6), "at, of an outcome within the step's limit": it => {
            it.facts.slack_ms = Some(0);
            it.plan.steps[0].timeout_ms = Some(1);
        };
        RETRIED, Some(6), "at, of an outcome within the plan's limit": it => {
            it.facts.slack_ms = Some(0);
            it.plan.timeout_ms = Some(1);
        };
    }
    let mut early = Recorded::kept("failure-in-the-queue");
    let Some(Event::Accepted(accepted)) = &mut early.entries[0].event else {
        unreachable!()
    };
    accepted.deadline_ms += 1_000;
    assert_eq!(early.retell().unwrap_err().part, "at, of the deadline");
    let mut early = Recorded::kept("failure-at-the-limit");
    early.plan.timeout_ms = Some(350);
    assert_eq!(early.retell().unwrap_err().part, "at, of the plan's limit");
    // Where the clock may have jumped, times are not compared.
    early.facts.slack_ms = None;
    early.retell().unwrap();
}

#[test]
fn another_plan_has_another_story() {
    found! {
        RETRIED, Some(7), "event": it => it.plan.retry_policy = None;
        CASCADE, Some(8), "event": it => it.plan.steps[1].on_failure = 0;
        CASCADE, Some(10), "event": it => it.plan.steps[3].depends_on = vec![it.id(0)];
        CASCADE, Some(4), "event": it => it.facts.max_concurrent_steps = Some(2);
        // Nothing went wrong, so nothing ends it.
        RETRIED, Some(5), "at, of the plan's limit": it => {
            it.entries.drain(4..16);
            it.renumber();
        };
    }
}
