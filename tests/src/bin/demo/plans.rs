//! The four plans, how each should end, and the way of one plan through the API.

use escapement_tests::{Fault, checkout, documents};
use escapement_wire::v1::{SubmitPlanRequest, WatchExecutionRequest};
use serde_json::{Value, json};

use crate::progress::Progress;
use crate::stage::Stage;
use crate::view::View;

/// A plan document and how its execution should end.
pub(crate) struct Plan {
    file: &'static str,
    status: &'static str,
    steps_executed: i64,
    /// The code of the primary error; none for success.
    error_code: Option<&'static str>,
}

/// How an execution ended, and whether it should have.
pub(crate) struct Verdict {
    pub(crate) status: String,
    pub(crate) as_expected: bool,
}

/// In the order in which they are shown.
pub(crate) const PLANS: [Plan; 4] = [
    Plan {
        file: "release-report.json",
        status: "success",
        steps_executed: 10,
        error_code: None,
    },
    Plan {
        file: "inventory-without-coverage.json",
        status: "partial",
        steps_executed: 3,
        error_code: Some("FILE_NOT_FOUND"),
    },
    Plan {
        file: "audit-that-hangs.json",
        status: "failure",
        steps_executed: 1,
        error_code: Some("STEP_TIMEOUT"),
    },
    Plan {
        file: "release-with-nested-plan.json",
        status: "success",
        steps_executed: 3,
        error_code: None,
    },
];

impl Plan {
    /// Submits the document as it stands in the file, watches the execution to its end, tells its result.
    pub(crate) async fn perform(&self, stage: &Stage) -> Result<Verdict, Fault> {
        let path = checkout::root().join("tests/plans").join(self.file);
        let document: Value = serde_json::from_slice(&std::fs::read(&path)?)?;
        println!(
            "\n{} — tests/plans/{}",
            document["name"].as_str().unwrap_or_default(),
            self.file
        );
        let request: SubmitPlanRequest = documents::from_json(
            "escapement.v1.SubmitPlanRequest",
            &json!({
                "plan": document,
                "environment": { "project": "Escapement", "webhook_url": stage.webhook_url() },
                "user_id": "demo",
                "options": { "max_concurrent_steps": STEPS_AT_A_TIME },
            }),
        )?;
        let mut plans = stage.orchestrator().plans();
        let accepted = plans.submit_plan(request).await?.into_inner();
        let execution_id = accepted
            .execution
            .ok_or("an accepted plan has an execution")?
            .execution_id;

        let watch = WatchExecutionRequest {
            execution_id,
            from_sequence: 1,
            ..WatchExecutionRequest::default()
        };
        let mut entries = plans.watch_execution(watch).await?.into_inner();
        let mut progress = Progress::of(&document)?;
        let mut view = View::new();
        let result = loop {
            // Biased: what happened comes before the clock; a tick only lets running times grow.
            tokio::select! {
                biased;
                message = entries.message() => {
                    let message = message?.ok_or("the watch ended without a result")?;
                    if let Some(entry) = message.entry {
                        let changed = progress.apply(&entry);
                        view.show(&progress, changed)?;
                    }
                    if let Some(result) = message.result {
                        break documents::result(&result);
                    }
                }
                () = view.tick() => view.show(&progress, None)?,
            }
        };
        progress.end();
        view.finish(&progress)?;
        Ok(self.judge(&result, &progress))
    }

    fn judge(&self, result: &Value, progress: &Progress) -> Verdict {
        let status = result["status"].as_str().unwrap_or_default().to_owned();
        let error_code = result["error"]["error_code"].as_str();
        let (executed, total) = (&result["steps_executed"], &result["steps_total"]);
        println!(
            "  => {status}: {executed} of {total} steps in {} ms",
            result["duration_ms"]
        );
        let mut error = &result["error"];
        while error.is_object() {
            let step = error["step_id"].as_str().and_then(|id| progress.title(id));
            let at = step.map(|title| format!(" at “{title}”")).unwrap_or_default();
            println!(
                "     {} ({}){at}: {}",
                text(&error["error_code"]),
                text(&error["severity"]),
                text(&error["message"])
            );
            error = &error["cause"];
        }
        let as_expected =
            status == self.status && *executed == json!(self.steps_executed) && error_code == self.error_code;
        if !as_expected {
            let code = self.error_code.unwrap_or("no error");
            println!(
                "  !! should have ended {} with {} steps and {code}",
                self.status, self.steps_executed
            );
        }
        Verdict { status, as_expected }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

const STEPS_AT_A_TIME: i32 = 2;

#[cfg(test)]
mod tests {
    use super::PLANS;
    use crate::progress::Progress;
    use escapement_model::PlanId;
    use escapement_tests::{checkout, documents};
    use std::collections::BTreeSet;

    #[test]
    fn every_document_is_a_plan_with_ids_of_its_own() {
        let mut ids = BTreeSet::new();
        for plan in &PLANS {
            let path = checkout::root().join("tests/plans").join(plan.file);
            let read = documents::plan_file(&path).unwrap();
            for id in read.steps.iter().map(|step| &step.id).chain([&read.id]) {
                assert!(id.parse::<PlanId>().is_ok(), "{id} in {}", plan.file);
                assert!(ids.insert(id.clone()), "{id} is used twice");
            }
            let known: BTreeSet<_> = read.steps.iter().map(|step| step.id.clone()).collect();
            assert!(
                read.steps
                    .iter()
                    .flat_map(|step| &step.depends_on)
                    .all(|id| known.contains(id)),
                "{}",
                plan.file
            );
        }
    }

    #[test]
    fn every_step_has_a_title_for_the_reader() {
        for plan in &PLANS {
            let path = checkout::root().join("tests/plans").join(plan.file);
            let document = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
            assert!(Progress::of(&document).is_ok(), "{}", plan.file);
        }
    }
}
