//! What runs ask is answered in the name of the credentials, and in no other.

use super::credentials::{Token, world_with_profiles};
use crate::runs::creation;
use crate::status_details::reason;
use crate::world::LIMIT;
use escapement_tests::wait_for;
use escapement_wire::runs::v1::approval::{Approve, Decision};
use escapement_wire::runs::v1::inbox_service_client::InboxServiceClient;
use escapement_wire::runs::v1::input_request::State;
use escapement_wire::runs::v1::respond_to_input_request::Answer;
use escapement_wire::runs::v1::responder::Kind;
use escapement_wire::runs::v1::run_service_client::RunServiceClient;
use escapement_wire::runs::v1::{
    Approval, CreateRunRequest, GetInputRequestRequest, ListInputRequestsRequest, RespondToInputRequest,
    Responder,
};
use serde_json::json;
use tonic::Code;

#[tokio::test]
async fn an_agent_cannot_approve_and_who_can_is_named_as_verified() {
    let (agent, anna) = (Token::new("robot"), Token::new("anna"));
    let entries = [
        agent.entry("robot", "roles = [\"submitter\"]\nagent = true"),
        anna.entry("anna", "roles = [\"submitter\"]"),
    ];
    let (world, _file) = world_with_profiles(&entries, &["record"]).await;
    let mut runs = RunServiceClient::new(world.orchestrator.channel());
    let mut inbox = InboxServiceClient::new(world.orchestrator.channel());
    let document = json!({"schema": "escapement.plan/1", "name": "Asks", "steps": [
        {"key": "a", "type": "tool_call", "config": {"tool_name": "record"}}
    ]});
    // At this level the plan as a whole waits for an approval.
    let request = CreateRunRequest {
        autonomy_level: Some(1),
        ..creation("asks", &document)
    };
    runs.create_run(agent.shows(request)).await.unwrap();
    let asked = wait_for("the run asks", LIMIT, || {
        let mut inbox = inbox.clone();
        let list = anna.shows(ListInputRequestsRequest::default());
        async move {
            let listed = inbox.list_input_requests(list).await.unwrap().into_inner();
            listed.input_requests.into_iter().next()
        }
    });
    let asked = asked.await.unwrap();
    let approval = |responder| RespondToInputRequest {
        input_request_id: asked.input_request_id.clone(),
        subject_digest: asked.subject_digest.clone(),
        answer: Some(Answer::Approval(Approval {
            decision: Some(Decision::Approve(Approve {})),
        })),
        responder,
        ..RespondToInputRequest::default()
    };
    let person = |id: &str, verified| {
        Some(Responder {
            id: id.to_owned(),
            kind: Kind::Person.into(),
            verified,
        })
    };

    for (said, code, why) in [
        (None, Code::PermissionDenied, "NOT_AN_APPROVER"),
        (person("robot", false), Code::PermissionDenied, "NOT_AN_APPROVER"),
        (
            person("anna", false),
            Code::PermissionDenied,
            "RESPONDER_NOT_PERMITTED",
        ),
    ] {
        let refused = inbox.respond_to_input(agent.shows(approval(said))).await;
        assert_eq!(reason(&refused.unwrap_err(), code), why);
    }
    let answered = inbox.respond_to_input(anna.shows(approval(None))).await;
    assert!(answered.is_ok(), "{answered:?}");
    let input_request_id = asked.input_request_id.clone();
    let shown = anna.shows(GetInputRequestRequest { input_request_id });
    let shown = inbox.get_input_request(shown).await.unwrap().into_inner();
    let shown = shown.input_request.unwrap();
    assert_eq!(shown.state(), State::Answered);
    assert_eq!(shown.decisions[0].responder, person("anna", true));
}
