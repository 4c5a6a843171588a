//! The calls of `GoalService`. Decides nothing.

use escapement_model::PlanId;
use escapement_store::runs::DefinitionKind;
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::goal_service_server::GoalService;
use tonic::{Request, Response, Status};

use super::Goals;
use crate::caller::Caller;
use crate::errors::Rejection;
use crate::fields;

impl Goals {
    /// Refuses a goal that the caller may not find.
    async fn require(&self, caller: &Caller, goal_id: &str) -> Result<(), Rejection> {
        let kind = DefinitionKind::Goal;
        caller
            .require_definition(&self.runs, kind, goal_id, super::not_found)
            .await
    }
}

#[tonic::async_trait]
impl GoalService for Goals {
    async fn create_goal(
        &self,
        request: Request<v1::CreateGoalRequest>,
    ) -> Result<Response<v1::CreateGoalResponse>, Status> {
        let caller = Caller::of(&request);
        let goal = Some(self.create(request.into_inner(), &caller).await?);
        Ok(Response::new(v1::CreateGoalResponse { goal }))
    }

    async fn get_goal(
        &self,
        request: Request<v1::GetGoalRequest>,
    ) -> Result<Response<v1::GetGoalResponse>, Status> {
        let caller = Caller::of(&request);
        let request = request.into_inner();
        self.require(&caller, &request.goal_id).await?;
        let goal_id = fields::id::<PlanId>("goal_id", &request.goal_id)?.to_string();
        let goal = Some(self.get(goal_id, request.user_id).await?);
        Ok(Response::new(v1::GetGoalResponse { goal }))
    }

    async fn list_goals(
        &self,
        request: Request<v1::ListGoalsRequest>,
    ) -> Result<Response<v1::ListGoalsResponse>, Status> {
        let caller = Caller::of(&request);
        Ok(Response::new(self.list(request.into_inner(), &caller).await?))
    }

    async fn update_goal(
        &self,
        request: Request<v1::UpdateGoalRequest>,
    ) -> Result<Response<v1::UpdateGoalResponse>, Status> {
        let caller = Caller::of(&request);
        let request = request.into_inner();
        self.require(&caller, &request.goal_id).await?;
        let goal = Some(self.update(request, &caller).await?);
        Ok(Response::new(v1::UpdateGoalResponse { goal }))
    }

    async fn delete_goal(
        &self,
        request: Request<v1::DeleteGoalRequest>,
    ) -> Result<Response<v1::DeleteGoalResponse>, Status> {
        let caller = Caller::of(&request);
        let request = request.into_inner();
        self.require(&caller, &request.goal_id).await?;
        self.delete(request).await?;
        Ok(Response::new(v1::DeleteGoalResponse {}))
    }
}
