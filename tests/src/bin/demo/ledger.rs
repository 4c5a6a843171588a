//! What the workers did, by their own logs, beside what the run says it did. Asks the orchestrator for the second alone.

use std::collections::BTreeMap;

use escapement_tests::Fault;
use escapement_wire::runs::v1::run_service_client::RunServiceClient;
use escapement_wire::runs::v1::{Evidence, ListEvidenceRequest};
use serde_json::Value;

use crate::stage::Stage;

/// A unit of a step: what the run says of it, and what the workers say.
#[derive(Debug, Default)]
struct Unit {
    /// The action that was called.
    action: String,
    /// How each attempt ended, as the run says, in order.
    attempts: Vec<String>,
    /// How often a worker began an attempt of it.
    calls: usize,
}

/// All units of a run, in the order in which they were intended.
#[derive(Debug)]
pub(crate) struct Ledger {
    units: Vec<(String, Unit)>,
}

impl Ledger {
    /// Reads the evidence of the run and the logs of the workers.
    pub(crate) async fn of(stage: &Stage, run_id: &str) -> Result<Self, Fault> {
        let calls = calls(&stage.worker_logs());
        let mut units: Vec<(String, Unit)> = Vec::new();
        let evidence = evidence(stage, run_id).await?;
        // A step that never ran called nothing.
        for evidence in evidence
            .into_iter()
            .filter(|evidence| evidence.status != "skipped")
        {
            let place = units.iter().position(|(name, _)| *name == evidence.unit);
            let place = place.unwrap_or_else(|| {
                units.push((evidence.unit.clone(), Unit::default()));
                units.len() - 1
            });
            let unit = &mut units[place].1;
            unit.action = evidence.tool_name;
            unit.attempts.push(evidence.status);
            unit.calls += calls.get(&evidence.execution_id).copied().unwrap_or_default();
        }
        Ok(Self { units })
    }

    /// A line for each unit that is not an ordinary iteration.
    pub(crate) fn tell(&self) {
        println!("     what the run says it did, and how often a worker was called:");
        let mut alike = 0;
        for (name, unit) in &self.units {
            if name.contains('[') && unit.calls == 1 && unit.attempts.len() == 1 {
                alike += 1;
                continue;
            }
            println!(
                "     {name:<12} {:<16} {:<22} {} call{}",
                unit.action,
                unit.attempts.join(", "),
                unit.calls,
                if unit.calls == 1 { "" } else { "s" }
            );
        }
        println!("     {alike} iterations  completed, 1 call each");
    }

    /// Returns true if everything that completed was called once, but for what was in flight when the orchestrator was killed:
    /// the run does not know what became of that, and calls it again because it has no effect.
    pub(crate) fn is_right(&self) -> bool {
        let repeated = self.units.iter().filter(|(_, unit)| unit.attempts.len() > 1);
        let is_right = |unit: &Unit| {
            let was_in_flight = unit.attempts.first().is_some_and(|first| first == "unknown");
            let once = unit.attempts.len() == 1 && unit.calls == 1;
            let again = unit.attempts.len() == 2 && was_in_flight && (1..=2).contains(&unit.calls);
            unit.attempts.last().is_some_and(|last| last == "completed") && (once || again)
        };
        repeated.count() <= 1 && self.units.iter().all(|(_, unit)| is_right(unit))
    }
}

/// How often each execution was begun by a worker.
fn calls(logs: &[String]) -> BTreeMap<String, usize> {
    let mut calls = BTreeMap::new();
    let lines = logs.iter().flat_map(|log| log.lines());
    for line in lines.filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        let said = line.get("fields").unwrap_or(&line);
        if said["message"] == "attempt started"
            && let Some(execution_id) = said["execution_id"].as_str()
        {
            *calls.entry(execution_id.to_owned()).or_default() += 1;
        }
    }
    calls
}

async fn evidence(stage: &Stage, run_id: &str) -> Result<Vec<Evidence>, Fault> {
    let mut client = RunServiceClient::new(stage.orchestrator().channel());
    let mut request = ListEvidenceRequest {
        run_id: run_id.to_owned(),
        ..ListEvidenceRequest::default()
    };
    let mut all = Vec::new();
    loop {
        let page = client.list_evidence(request.clone()).await?.into_inner();
        all.extend(page.evidence);
        if page.next_page_token.is_empty() {
            return Ok(all);
        }
        request.page_token = page.next_page_token;
    }
}

#[cfg(test)]
mod tests {
    use super::{Ledger, Unit};

    fn ledger(units: &[(&[&str], usize)]) -> Ledger {
        let unit = |(attempts, calls): &(&[&str], usize)| Unit {
            action: "echo".to_owned(),
            attempts: attempts.iter().map(|status| (*status).to_owned()).collect(),
            calls: *calls,
        };
        Ledger {
            units: units
                .iter()
                .map(|given| ("step".to_owned(), unit(given)))
                .collect(),
        }
    }

    #[test]
    fn a_completed_unit_is_called_once_unless_it_was_in_flight() {
        assert!(ledger(&[(&["completed"], 1), (&["unknown", "completed"], 2)]).is_right());
        for wrong in [
            ledger(&[(&["completed"], 2)]),
            ledger(&[(&["completed"], 0)]),
            ledger(&[(&["completed", "completed"], 2)]),
            ledger(&[(&["failed"], 1)]),
            ledger(&[(&["unknown", "completed"], 2), (&["unknown", "completed"], 2)]),
        ] {
            assert!(!wrong.is_right(), "{wrong:?}");
        }
    }
}
