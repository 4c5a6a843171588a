//! What is read of a run whose plan another one took the place of.

use crate::world::{World, call, run_of};
use escapement_runs_api::Inbox;
use escapement_transport::response_budget::ResponseBudget;
use escapement_wire::runs::v1;
use escapement_wire::runs::v1::inbox_service_server::InboxService;
use escapement_wire::runs::v1::respond_to_input_request::Answer;
use escapement_wire::runs::v1::run::State;
use serde_json::json;

// RUN-12.10
#[tokio::test]
async fn every_entry_is_told_by_the_plan_of_its_own_revision() {
    let mut world = World::new();
    let inbox = Inbox::new(world.handle.clone(), ResponseBudget::default());
    let ask =
        json!({"key": "ask", "type": "user_input", "config": {"question": "Now?", "input_type": "text"}});
    let request = v1::CreateRunRequest {
        planner: Some(v1::Planner {
            action: "plan".to_owned(),
            ..v1::Planner::default()
        }),
        ..run_of(json!([
            ask,
            call("a", "echo", &["ask"]),
            call("b", "fail", &["a"])
        ]))
    };
    let run_id = world.create(request).await.run_id;
    let waiting = world.reaches(&run_id, State::Waiting).await;
    let asked = waiting.open_requests[0].clone();
    let answer = v1::RespondToInputRequest {
        input_request_id: asked.input_request_id.clone(),
        answer: Some(Answer::Text("now".to_owned())),
        responder: Some(v1::Responder {
            id: "ada".to_owned(),
            ..v1::Responder::default()
        }),
        ..v1::RespondToInputRequest::default()
    };
    inbox.respond_to_input(tonic::Request::new(answer)).await.unwrap();
    let run = world.ended(&run_id).await;
    assert_eq!((run.state(), run.replans_count), (State::Completed, 1), "{run:?}");
    let sent: Vec<String> = world
        .sent
        .lock()
        .unwrap()
        .iter()
        .map(ToString::to_string)
        .collect();

    let request = v1::ListRunEventsRequest {
        run_id: run_id.clone(),
        ascending: true,
        ..v1::ListRunEventsRequest::default()
    };
    let events = world
        .client
        .list_run_events(request)
        .await
        .unwrap()
        .into_inner()
        .events;
    let watched = v1::WatchRunRequest {
        run_id: run_id.clone(),
        ..v1::WatchRunRequest::default()
    };
    let mut watch = world.client.watch_run(watched).await.unwrap().into_inner();
    for event in &events {
        let told = watch.message().await.unwrap().unwrap().told;
        assert_eq!(told, Some(v1::watch_run_response::Told::Event(event.clone())));
    }
    let called = events.iter().filter(|event| event.event_type == "tool_called");
    let keys: Vec<&str> = called.map(|event| event.step_key.as_str()).collect();
    assert_eq!(keys, ["a", "b", "", "b", "late"]);
    let outputs = events.iter().filter(|event| event.event_type == "tool_output");
    let tools: Vec<&str> = outputs.map(|event| event.tool_name.as_str()).collect();
    assert_eq!(tools, ["echo", "fail", "", "echo", "echo"]);

    let request = v1::ListEvidenceRequest {
        run_id: run_id.clone(),
        ..v1::ListEvidenceRequest::default()
    };
    let evidence = world
        .client
        .list_evidence(request)
        .await
        .unwrap()
        .into_inner()
        .evidence;
    let steps: Vec<&str> = evidence.iter().map(|one| one.step_id.as_str()).collect();
    assert_eq!(steps, ["a", "b", "$planner", "b", "late"]);
    let executions: Vec<&String> = evidence.iter().map(|one| &one.execution_id).collect();
    assert_eq!(executions, sent.iter().collect::<Vec<_>>());
    let replan = events
        .iter()
        .find(|event| event.event_type == "replan_triggered")
        .unwrap();
    for (one, n_replans) in evidence.iter().zip([0, 1, 0, 1, 0]) {
        assert_eq!(
            one.replan_events,
            vec![replan.event_id.clone(); n_replans],
            "{}",
            one.unit
        );
    }
    let last = v1::GetRunRequest {
        run_id: run_id.clone(),
    };
    let last = world.client.get_run(last).await.unwrap().into_inner().last_events;
    assert_eq!(last.len(), 20);
    for event in last {
        assert_eq!(event, events[usize::try_from(event.sequence).unwrap() - 1]);
    }

    let step = v1::GetRunStepRequest {
        run_id,
        step_key: "b".to_owned(),
    };
    let step = world
        .client
        .get_run_step(step)
        .await
        .unwrap()
        .into_inner()
        .step
        .unwrap();
    let attempts: Vec<(&str, &str)> = {
        let attempts = step.attempts.iter();
        attempts
            .map(|one| (one.state.as_str(), one.execution_id.as_str()))
            .collect()
    };
    assert_eq!(
        attempts,
        [("failed", sent[1].as_str()), ("completed", sent[3].as_str())]
    );
    let request = v1::GetInputRequestRequest {
        input_request_id: asked.input_request_id,
    };
    let request = inbox
        .get_input_request(tonic::Request::new(request))
        .await
        .unwrap();
    assert_eq!(request.into_inner().input_request.unwrap().step_key, "ask");
}
