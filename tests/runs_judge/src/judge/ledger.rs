//! What crossed the port to the contract, and what workers did: outside of everything that is judged.

use super::{Finding, Judge};
use crate::canonical::uuid;
use crate::journal::{Called, Unit, Usage};
use crate::wire::{Message, Value};

/// An execution that a journal intends.
#[derive(Debug)]
pub(super) struct Execution {
    pub(super) run: [u8; 16],
    pub(super) unit: Unit,
    pub(super) attempt: u32,
    pub(super) action: String,
    /// What the journal says that it may use, and the model that it asks.
    pub(super) may_use: Usage,
    pub(super) model: String,
    request: Vec<u8>,
    /// Since the process started that sends.
    pub(super) n_submitted_in_boot: u32,
    n_began: u32,
    /// What the worker gave as its result.
    pub(super) reported: Option<Value>,
    /// The contract says that it has ended.
    pub(super) has_settled: bool,
    /// Its journal has its end.
    pub(super) is_over: bool,
    /// End by the journal: true if it completed.
    pub(super) outcome: Option<bool>,
}

impl Execution {
    pub(super) fn new(run: [u8; 16], unit: Unit, called: &Called, request: Vec<u8>) -> Self {
        Self {
            run,
            unit,
            attempt: called.attempt,
            action: called.action.clone(),
            // A look at an artifact is in no budget.
            may_use: called.reserved.unwrap_or([0, u64::from(!unit.is_look()), 0, 0]),
            model: called.model.clone(),
            request,
            n_submitted_in_boot: 0,
            n_began: 0,
            reported: None,
            has_settled: false,
            is_over: false,
            outcome: None,
        }
    }
}

impl Judge {
    /// A process that sends has started.
    pub fn booted(&mut self) {
        for execution in self.executions.values_mut() {
            execution.n_submitted_in_boot = 0;
        }
        self.firings.has_booted();
    }

    /// Returns true if a durable journal intends this execution.
    pub fn intends(&self, execution: &[u8; 16]) -> bool {
        self.executions.contains_key(execution)
    }

    // RI3, RI9
    /// A request has left for the contract.
    pub fn submitted(&mut self, execution: [u8; 16], request: &[u8]) {
        *self.counts.entry("submissions").or_default() += 1;
        let Some(known) = self.executions.get_mut(&execution) else {
            let text = format!(
                "execution {} is sent before it is durably intended",
                uuid(&execution)
            );
            return self.finds("RI3", text);
        };
        known.n_submitted_in_boot += 1;
        if known.request != request {
            let text = format!(
                "execution {} is sent with other bytes than intended",
                uuid(&execution)
            );
            self.finds("RI9", text);
        }
    }

    // RI4, RI5, RI10
    /// A handler begins, with what it was handed.
    pub fn began(&mut self, execution: [u8; 16], payload: &[u8], environment: &[u8]) {
        *self.counts.entry("handlers that began").or_default() += 1;
        let Some(known) = self.executions.get_mut(&execution) else {
            let text = format!(
                "a handler begins execution {}, which nobody intended",
                uuid(&execution)
            );
            return self.finds("RI3", text);
        };
        known.n_began += 1;
        self.does(execution, payload, environment);
        let known = &self.executions[&execution];
        let (run, unit, again) = (known.run, known.unit, known.n_began > 1);
        let [asks_model, calls_tool, ..] = known.may_use;
        let same = is_what_was_sent(&known.request, payload, environment);
        self.spends_really(run, [asks_model, calls_tool, 0, 0]);
        let is_model = self
            .runs
            .get(&run)
            .is_some_and(|book| book.spec.llm_action == self.executions[&execution].action);
        let repeats = if is_model { "RI5" } else { "RI4" };
        if again {
            let text = format!("run {}: {unit:?} begins twice in one attempt", uuid(&run));
            self.findings.push(Finding {
                invariant: repeats,
                text,
            });
        }
        if !same {
            let text = format!("run {}: {unit:?} gets something else than was sent", uuid(&run));
            self.finds("RI10", text);
        }
        let completed_by_another = self.executions.iter().any(|(id, other)| {
            let same_unit = other.run == run && other.unit == unit && *id != execution;
            same_unit && other.is_over && other.reported.is_some() && self.counted(other)
        });
        if completed_by_another {
            let text = format!(
                "run {}: {unit:?} completed, and a handler begins again",
                uuid(&run)
            );
            self.finds(repeats, text);
        }
    }

    /// True if the journal has this execution's result as the unit's.
    fn counted(&self, execution: &Execution) -> bool {
        let unit = self.runs[&execution.run].unit(execution.unit);
        unit.is_some_and(|unit| unit.completed)
    }

    /// The contract has told how an execution ended.
    pub fn settled(&mut self, execution: [u8; 16]) {
        if let Some(known) = self.executions.get_mut(&execution) {
            known.has_settled = true;
        }
    }

    /// A handler has a result: an encoded object.
    pub fn reported(&mut self, execution: [u8; 16], output: &[u8]) {
        let output = Value::of_object(output).ok();
        let Some(known) = self.executions.get_mut(&execution) else {
            return;
        };
        let is_first = known.reported.is_none();
        known.reported.clone_from(&output);
        if let Some(output) = output.filter(|_| is_first) {
            self.tells_usage(execution, &output);
        }
    }
}

fn is_what_was_sent(request: &[u8], payload: &[u8], environment: &[u8]) -> bool {
    let sent = || -> Result<(Value, Value), String> {
        let request = Message::parse(request)?;
        let step = request.message(1)?.message(4)?;
        Ok((
            Value::of_object(step.bytes(3))?,
            Value::of_object(request.bytes(2))?,
        ))
    };
    let got = || -> Result<(Value, Value), String> {
        Ok((Value::of_object(payload)?, Value::of_object(environment)?))
    };
    sent().is_ok_and(|sent| got().is_ok_and(|got| sent == got))
}
