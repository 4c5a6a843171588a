//! The calls of `GoalService`. Decides nothing.

use escapement_model::PlanId;
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::goal_service_server::GoalService;
use tonic::{Request, Response, Status};

use super::Goals;
use crate::fields;

#[tonic::async_trait]
impl GoalService for Goals {
    async fn create_goal(
        &self,
        request: Request<v1::CreateGoalRequest>,
    ) -> Result<Response<v1::CreateGoalResponse>, Status> {
        let goal = Some(self.create(request.into_inner()).await?);
        Ok(Response::new(v1::CreateGoalResponse { goal }))
    }

    async fn get_goal(
        &self,
        request: Request<v1::GetGoalRequest>,
    ) -> Result<Response<v1::GetGoalResponse>, Status> {
        let request = request.into_inner();
        let goal_id = fields::id::<PlanId>("goal_id", &request.goal_id)?.to_string();
        let goal = Some(self.get(goal_id, request.user_id).await?);
        Ok(Response::new(v1::GetGoalResponse { goal }))
    }

    async fn list_goals(
        &self,
        request: Request<v1::ListGoalsRequest>,
    ) -> Result<Response<v1::ListGoalsResponse>, Status> {
        Ok(Response::new(self.list(request.into_inner()).await?))
    }

    async fn update_goal(
        &self,
        request: Request<v1::UpdateGoalRequest>,
    ) -> Result<Response<v1::UpdateGoalResponse>, Status> {
        let goal = Some(self.update(request.into_inner()).await?);
        Ok(Response::new(v1::UpdateGoalResponse { goal }))
    }

    async fn delete_goal(
        &self,
        request: Request<v1::DeleteGoalRequest>,
    ) -> Result<Response<v1::DeleteGoalResponse>, Status> {
        self.delete(request.into_inner()).await?;
        Ok(Response::new(v1::DeleteGoalResponse {}))
    }
}
