//! `ValidatePlan`: what is wrong with a plan, what would become of it, and what looks like a mistake. Accepts nothing.

use super::Plans;
use crate::clock;
use crate::grpc::caller::Caller;
use crate::host::handle::Lane;
use crate::status::Rejection;
use escapement_codec::certificate::certificate as convert_certificate;
use escapement_codec::request as convert;
use escapement_contract::{RequestDraft, validate_concurrency, validate_plan, validate_request};
use escapement_insight::advice;
use escapement_transport::CallClass;
use escapement_wire::v1;
use std::collections::BTreeSet;
use std::sync::Arc;
use tonic::{Response, Status};

impl Plans {
    pub(super) async fn validate(
        &self,
        request: v1::ValidatePlanRequest,
        caller: &Caller,
    ) -> Result<Response<v1::ValidatePlanResponse>, Status> {
        let Some(plan) = request.plan else {
            let nothing = validate_request(RequestDraft::default(), self.edge.max_concurrent_steps);
            let violations = nothing.expect_err("a request without a plan breaks a rule");
            return Err(Rejection::Violations(violations).into());
        };
        let asked = request.options.and_then(|options| options.max_concurrent_steps);
        let max_concurrent_steps = validate_concurrency(asked, self.edge.max_concurrent_steps);
        let max_concurrent_steps = max_concurrent_steps.map_err(Rejection::Violations)?;
        let plan = match validate_plan(convert::plan_draft(plan)) {
            Ok(plan) => Arc::new(plan),
            Err(violations) => {
                let violations = violations.iter().map(advice::finding).collect();
                let answer = v1::ValidatePlanResponse {
                    violations,
                    ..Default::default()
                };
                return self.edge.answers.answer(CallClass::Reads, answer);
            }
        };
        let mut warnings: Vec<_> = plan.warnings().iter().map(advice::finding).collect();
        if let Some(deadline_ms) = request.deadline_ms {
            warnings.extend(advice::of_deadline(&plan, deadline_ms, clock::unix_ms()));
        }
        if let Some(environment) = &request.environment {
            let missing = plan.missing_context_keys(environment);
            warnings.extend(missing.into_iter().map(advice::of_missing_key));
        }
        let actions = self.edge.actions(Lane::LongReads).await?;
        let of_payloads = self
            .edge
            .payload_warnings(&plan, &actions, &caller.tenant)
            .await?;
        warnings.extend(of_payloads);
        let offered: BTreeSet<&str> = actions
            .iter()
            .filter(|action| action.workers > 0)
            .map(|action| action.name.as_ref())
            .collect();
        let unknown_actions = advice::unknown_actions(&plan, &offered);
        let is_known = |action: &&str| caller.principal().may_list(action);
        let known: BTreeSet<&str> = offered.into_iter().filter(is_known).collect();
        let certificate = convert_certificate(&plan, &plan.certificate(max_concurrent_steps));
        let answer = v1::ValidatePlanResponse {
            valid: true,
            violations: Vec::new(),
            warnings,
            action_suggestions: advice::suggestions(&unknown_actions, &known),
            unknown_actions,
            canonical_order: certificate.canonical_order.clone(),
            certificate: Some(certificate),
        };
        self.edge.answers.answer(CallClass::Reads, answer)
    }
}
