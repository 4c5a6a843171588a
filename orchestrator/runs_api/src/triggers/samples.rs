//! Triggers that come with sample plans, disabled. Changes none that was created before.

use escapement_wire::json;
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::trigger::Config;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::Triggers;
use crate::caller::Caller;
use crate::errors::Rejection;
use crate::plan_service::{Plans, SampleTriggers};

impl Triggers {
    /// Sets this service as the one that creates the triggers of samples.
    #[must_use]
    pub fn in_samples_of(&self, plans: Plans) -> Plans {
        plans.with_sample_triggers(Box::new(self.clone()))
    }
}

#[tonic::async_trait]
impl SampleTriggers for Triggers {
    async fn of_plan(
        &self,
        key: &str,
        plan: &v1::Plan,
        caller: &Caller,
    ) -> Result<Option<v1::CreateTriggerResponse>, Rejection> {
        let Some(trigger) = sample(key, plan) else {
            return Ok(None);
        };
        let request = v1::CreateTriggerRequest {
            trigger: Some(trigger),
            request_id: format!("sample {key}"),
            namespace: plan.namespace.clone(),
        };
        // A later version of a sample is the same request: what a user has stays.
        let digest = Sha256::digest(key).into();
        self.create_once(request, [digest, digest], true, caller)
            .await
            .map(Some)
    }
}

/// Returns the trigger that comes with the plan of that key.
fn sample(key: &str, plan: &v1::Plan) -> Option<v1::Trigger> {
    let (description, config) = match key {
        "weekly-goal-review" => ("Every Sunday at 18:00 UTC", Config::Schedule(sunday_evening())),
        "email-processing-pipeline" => (
            "After each event `email_received` of PublishEvent",
            Config::Event(v1::EventFilter {
                r#type: "email_received".to_owned(),
                ..Default::default()
            }),
        ),
        "task-cleanup" => (
            "Once list_tasks, called every hour, returns more than 10 stale tasks; an approval is needed unless its profile is safe",
            Config::Condition(stale_tasks()),
        ),
        "code-review-assistant" => (
            "After each delivery that is signed with the secret of this trigger, such as one about a pull request on GitHub",
            Config::Webhook(v1::Webhook::default()),
        ),
        _ => return None,
    };
    Some(v1::Trigger {
        name: plan.name.clone(),
        description: description.to_owned(),
        enabled: Some(false),
        user_id: plan.user_id.clone(),
        config: Some(config),
        run: Some(v1::CreateRunRequest {
            what: Some(v1::create_run_request::What::PlanId(plan.plan_id.clone())),
            ..Default::default()
        }),
        ..Default::default()
    })
}

fn sunday_evening() -> v1::Schedule {
    v1::Schedule {
        cron: "0 18 * * 0".to_owned(),
        ..Default::default()
    }
}

fn stale_tasks() -> v1::Condition {
    let payload = json!({ "status": "stale", "limit": 30 });
    v1::Condition {
        expression: "size(input.probe.tasks) > 10".to_owned(),
        check_interval_ms: Some(HOUR_MS),
        probe: Some(v1::Probe {
            action: "list_tasks".to_owned(),
            payload: payload.as_object().map(json::to_opaque),
            ..Default::default()
        }),
        ..Default::default()
    }
}

const HOUR_MS: i64 = 3_600_000;
