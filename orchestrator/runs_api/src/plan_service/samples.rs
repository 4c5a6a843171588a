//! Plans to look at and to begin with, as they are saved for a user, and their triggers. Changes none that was saved before.

use bytes::Bytes;
use escapement_model::Opaque;
use escapement_run::plan::{self, StepKind};
use escapement_runs_shell::catalogue::catalogue;
use escapement_wire::json;
use escapement_wire::runs::v1;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;

use super::reading::New;
use super::{Plans, SavedRequest, Saver, plan_view};
use crate::caller::Caller;
use crate::errors::Rejection;
use crate::resolution::LLM_ACTION;

impl Plans {
    pub(super) async fn load_samples(
        &self,
        user_id: &str,
        saver: Saver<'_>,
    ) -> Result<v1::LoadSamplesResponse, Rejection> {
        let mut answer = v1::LoadSamplesResponse::default();
        let offered = self.offered_to(saver.caller).await?;
        for text in SAMPLES {
            let sample = Sample::read(text);
            let plan = v1::Plan {
                user_id: user_id.to_owned(),
                source: "sample".to_owned(),
                source_id: sample.key.clone(),
                preset: "autonomous".to_owned(),
                ..v1::Plan::default()
            };
            let new = New {
                plan: &plan,
                priority: sample.priority,
                autonomy_level: sample.autonomy_level,
                max_retries: None,
                name: &sample.name,
                goal: &sample.goal,
            };
            // A later version of a sample is the same request: what a user has stays.
            let request = SavedRequest {
                id: format!("sample {}", sample.key),
                digest: Bytes::copy_from_slice(&Sha256::digest(&sample.key)),
                step_key: String::new(),
                spelled: Bytes::new(),
            };
            let needed = needed(&sample.document);
            let document = Some(sample.document);
            let shown = self.save_new(&new, document, Some(request), saver).await?;
            let plan = plan_view(&shown);
            if let Some(triggers) = &self.sample_triggers
                && let Some(made) = triggers.of_plan(&sample.key, &plan, saver.caller).await?
            {
                answer.triggers.extend(made.trigger);
                answer.webhook_secret.push_str(&made.webhook_secret);
            }
            answer.needs.push(v1::SampleNeeds {
                plan_id: plan.plan_id.clone(),
                not_offered: needed.difference(&offered).cloned().collect(),
                actions: needed.into_iter().collect(),
            });
            answer.plans.push(plan);
        }
        Ok(answer)
    }

    /// Returns the actions that workers offer now, as far as the caller may list them.
    async fn offered_to(&self, caller: &Caller) -> Result<BTreeSet<String>, Rejection> {
        let catalogue = catalogue(&self.runs, |_| true).await?;
        let offered = catalogue.actions.into_iter().map(|action| action.profile.action);
        Ok(offered.filter(|action| caller.lists_action(action)).collect())
    }
}

/// Returns the actions that a run of the sample calls.
fn needed(document: &Opaque) -> BTreeSet<String> {
    let plan = plan::read(document).expect("samples are plans");
    let asks_a_model = plan
        .steps
        .iter()
        .any(|step| matches!(step.kind, StepKind::LlmDecision(_)));
    let model = asks_a_model.then(|| LLM_ACTION.to_owned());
    plan.actions()
        .into_iter()
        .map(str::to_owned)
        .chain(model)
        .collect()
}

/// A plan that comes with the orchestrator.
struct Sample {
    key: String,
    name: String,
    goal: String,
    priority: Option<i32>,
    autonomy_level: Option<i32>,
    document: Opaque,
}

impl Sample {
    fn read(text: &str) -> Self {
        let fields: Map<String, Value> = serde_json::from_str(text).expect("samples are objects");
        let document = fields["document"].as_object().expect("a sample has a document");
        let said =
            |fields: &Map<String, Value>, name: &str| fields[name].as_str().unwrap_or_default().to_owned();
        let number = |name: &str| fields[name].as_i64().and_then(|n| i32::try_from(n).ok());
        Self {
            key: said(&fields, "key"),
            name: said(document, "name"),
            goal: said(document, "goal"),
            priority: number("priority"),
            autonomy_level: number("autonomy_level"),
            document: json::to_opaque(document),
        }
    }
}

const SAMPLES: [&str; 10] = [
    include_str!("../../samples/hello.json"),
    include_str!("../../samples/ask-first.json"),
    include_str!("../../samples/morning-routine-analysis.json"),
    include_str!("../../samples/weekly-goal-review.json"),
    include_str!("../../samples/email-processing-pipeline.json"),
    include_str!("../../samples/code-review-assistant.json"),
    include_str!("../../samples/research-topic-deep-dive.json"),
    include_str!("../../samples/goal-check.json"),
    include_str!("../../samples/daily-memory-digest.json"),
    include_str!("../../samples/task-cleanup.json"),
];
