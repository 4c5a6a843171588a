//! What the schemas of live workers say of the payloads of a plan. Forbids nothing.

use crate::grpc::Edge;
use crate::limits::READERS_PATIENCE;
use crate::status::Rejection;
use escapement_contract::Plan;
use escapement_engine::ActionView;
use escapement_insight::advice;
use escapement_transport::share::Tenant;
use escapement_transport::{CallClass, Refusal};
use escapement_wire::v1;
use std::sync::Arc;
use tokio::task::spawn_blocking;

impl Edge {
    /// Warnings about payloads, by the schemas that live workers published.
    ///
    /// Plans have a thread for that which is not shared with other calls, and wait for it: a schema is a worker's, and so is its cost.
    pub(crate) async fn payload_warnings(
        &self,
        plan: &Arc<Plan>,
        actions: &[ActionView],
        tenant: &Tenant,
    ) -> Result<Vec<v1::PlanFinding>, Rejection> {
        let published = actions
            .iter()
            .filter(|action| action.workers > 0 && !action.input_schema.is_empty())
            .map(|action| (action.name.as_ref(), action.input_schema.as_ref()));
        let schemas = advice::schemas_of(plan, &published.collect());
        if schemas.is_empty() {
            return Ok(Vec::new());
        }
        let place = self.payload_checks.wait(tenant, 1, READERS_PATIENCE).await;
        let place = place.map_err(|why| Rejection::Call(Refusal::for_want(why, CallClass::Reads)))?;
        let plan = Arc::clone(plan);
        let checking = spawn_blocking(move || {
            let _place = place;
            advice::of_payloads(&plan, &schemas)
        });
        match checking.await {
            Ok(warnings) => Ok(warnings),
            Err(ended) if ended.is_panic() => std::panic::resume_unwind(ended.into_panic()),
            // The orchestrator ends.
            Err(_) => Ok(Vec::new()),
        }
    }
}
