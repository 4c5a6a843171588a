//! Plans to look at and to begin with, as they are saved for a user. Changes none that was saved before.

use bytes::Bytes;
use escapement_model::Opaque;
use escapement_wire::json;
use escapement_wire::runs::v1;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::reading::New;
use super::{Plans, SavedRequest, Saver, plan_view};
use crate::errors::Rejection;

impl Plans {
    pub(super) async fn load_samples(
        &self,
        user_id: &str,
        saver: Saver<'_>,
    ) -> Result<Vec<v1::Plan>, Rejection> {
        let mut plans = Vec::new();
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
            let document = Some(sample.document);
            let shown = self.save_new(&new, document, Some(request), saver).await?;
            plans.push(plan_view(&shown));
        }
        Ok(plans)
    }
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

const SAMPLES: [&str; 8] = [
    include_str!("../../samples/morning-routine-analysis.json"),
    include_str!("../../samples/weekly-goal-review.json"),
    include_str!("../../samples/email-processing-pipeline.json"),
    include_str!("../../samples/code-review-assistant.json"),
    include_str!("../../samples/research-topic-deep-dive.json"),
    include_str!("../../samples/goal-check.json"),
    include_str!("../../samples/daily-memory-digest.json"),
    include_str!("../../samples/task-cleanup.json"),
];
