//! Plan documents for tests, built step by step with fresh ids. Writes what it is told, valid or not.

use escapement_wire::v1::{ExecutePlanRequest, SubmitPlanRequest};
use serde_json::{Map, Value, json};

use crate::{documents, fresh_id};

/// A plan document in the contract's JSON.
#[derive(Clone, Debug)]
pub struct PlanDocument {
    plan: Value,
    environment: Value,
    request: Map<String, Value>,
}

impl PlanDocument {
    /// Creates a plan without steps that requires the key `project`, which its environment has.
    pub fn new(name: &str) -> Self {
        let plan = json!({
            "id": fresh_id(),
            "version": 1,
            "created_at": 1_700_000_000_000_i64,
            "name": name,
            "context_requirements": ["project"],
            "steps": [],
        });
        Self {
            plan,
            environment: json!({ "project": "tests" }),
            request: Map::new(),
        }
    }

    /// Adds a step that depends on earlier steps, named by their index in the document.
    #[must_use]
    pub fn step(self, action: &str, payload: Value, depends_on: &[usize]) -> Self {
        self.step_with(action, payload, depends_on, json!({}))
    }

    /// Adds a step with further fields, for example `{"on_failure": "skip", "timeout_ms": 50}`.
    ///
    /// # Panics
    /// `fields` is no object.
    #[must_use]
    pub fn step_with(mut self, action: &str, payload: Value, depends_on: &[usize], fields: Value) -> Self {
        let depends_on: Vec<String> = depends_on.iter().map(|index| self.step_id(*index)).collect();
        let mut step =
            json!({ "id": fresh_id(), "action": action, "payload": payload, "depends_on": depends_on });
        let Value::Object(fields) = fields else {
            panic!("further fields of a step are an object")
        };
        step.as_object_mut().expect("a step is an object").extend(fields);
        self.plan["steps"]
            .as_array_mut()
            .expect("steps are a list")
            .push(step);
        self
    }

    /// Sets a field of the plan, for example `timeout_ms`.
    #[must_use]
    pub fn plan_field(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.plan[name] = value.into();
        self
    }

    /// Sets a field of the request, for example `execution_id` or `options`.
    #[must_use]
    pub fn request_field(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.request.insert(name.to_owned(), value.into());
        self
    }

    /// Replaces the environment.
    #[must_use]
    pub fn environment(mut self, environment: Value) -> Self {
        self.environment = environment;
        self
    }

    /// Returns the id of the plan.
    pub fn id(&self) -> String {
        self.plan["id"].as_str().unwrap_or_default().to_owned()
    }

    /// Returns the id of a step, by its index in the document.
    ///
    /// # Panics
    /// There is no such step.
    pub fn step_id(&self, index: usize) -> String {
        self.plan["steps"][index]["id"]
            .as_str()
            .expect("the step is in the document")
            .to_owned()
    }

    /// Returns the document as it would stand in a file.
    pub fn json(&self) -> &Value {
        &self.plan
    }

    /// Returns the whole request in JSON, as grpcurl takes it.
    pub fn request_json(&self) -> Value {
        let mut request = self.request.clone();
        request.insert("plan".to_owned(), self.plan.clone());
        request.insert("environment".to_owned(), self.environment.clone());
        Value::Object(request)
    }

    /// Returns the request of `SubmitPlan`.
    ///
    /// # Panics
    /// A field that was set does not fit the API.
    pub fn submit(&self) -> SubmitPlanRequest {
        documents::from_json("escapement.v1.SubmitPlanRequest", &self.request_json())
            .expect("the request fits the API")
    }

    /// Returns the request of `ExecutePlan`.
    ///
    /// # Panics
    /// A field that was set does not fit the API.
    pub fn execute(&self) -> ExecutePlanRequest {
        documents::from_json("escapement.v1.ExecutePlanRequest", &self.request_json())
            .expect("the request fits the API")
    }
}

#[cfg(test)]
mod tests {
    use super::PlanDocument;
    use serde_json::json;

    #[test]
    fn a_built_document_is_a_request_of_the_api() {
        let document = PlanDocument::new("two steps")
            .step("echo", json!({ "a": 1 }), &[])
            .step_with(
                "fail",
                json!({}),
                &[0],
                json!({ "on_failure": "skip", "timeout_ms": 50 }),
            )
            .plan_field("timeout_ms", 1000)
            .request_field("options", json!({ "max_concurrent_steps": 2 }));
        let request = document.submit();
        let plan = request.plan.unwrap();
        assert_eq!(plan.timeout_ms, Some(1000));
        assert_eq!(plan.steps[1].depends_on, [document.step_id(0)]);
        assert_eq!(plan.steps[1].timeout_ms, Some(50));
        assert_eq!(request.options.unwrap().max_concurrent_steps, Some(2));
        assert!(document.execute().environment.unwrap().has_key("project"));
    }

    #[test]
    fn two_documents_share_no_id() {
        let one = PlanDocument::new("one").step("echo", json!({}), &[]);
        let two = PlanDocument::new("two").step("echo", json!({}), &[]);
        assert_ne!(one.id(), two.id());
        assert_ne!(one.step_id(0), two.step_id(0));
    }
}
