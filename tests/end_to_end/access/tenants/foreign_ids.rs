//! Ids of executions that somebody else computes beforehand from what is known of a run.

use super::super::credentials::{Token, world_with};
use super::wire::ask;
use super::{document, run_request};
use crate::plans::{RequestWords, plan, request, step};
use crate::world::LIMIT;
use escapement_tests::{ScriptedWorker, wait_for};
use escapement_wire::runs::v1;
use escapement_wire::v1::{SubmitPlanRequest, SubmitPlanResponse};
use serde_json::json;
use sha2::{Digest, Sha256};

/// Returns the id that an attempt's execution had in versions without seeds, written a second time.
fn derived(run_id: &str, step: &str) -> String {
    let digits: String = run_id.split('-').collect();
    let id: Vec<u8> = (0..16)
        .map(|at| u8::from_str_radix(&digits[2 * at..][..2], 16).unwrap())
        .collect();
    let text = |text: &str| [&(text.len() as u64).to_be_bytes()[..], text.as_bytes()].concat();
    let [index, epoch, attempt] = [0_u64, 0, 1].map(u64::to_be_bytes);
    let hash = Sha256::new()
        .chain_update(text("escapement run execution id 1"))
        .chain_update(id)
        .chain_update(text(step))
        .chain_update([index, epoch, attempt].concat())
        .finalize();
    let mut bytes: [u8; 16] = hash[..16].try_into().unwrap();
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let digits = digits.concat();
    [
        &digits[..8],
        &digits[8..12],
        &digits[12..16],
        &digits[16..20],
        &digits[20..],
    ]
    .join("-")
}

// RUN-4.3, RUN-4.14
#[tokio::test]
async fn who_knows_a_run_cannot_take_the_ids_of_its_executions_before_it() {
    let [owner, stranger, worker] = ["owner", "stranger", "worker"].map(Token::new);
    let entries = [
        owner.entry("owner", "roles = [\"submitter\"]\nnamespaces = [\"other\"]"),
        stranger.entry("stranger", "roles = [\"submitter\"]"),
        worker.entry("worker", "roles = [\"worker\"]"),
    ];
    let (world, _file) = world_with(&entries).await;
    let hello = ScriptedWorker::hello_for(ScriptedWorker::specs(&["pay"]), 8);
    let url = world.orchestrator.url();
    let mut worker = ScriptedWorker::open_showing(&url, hello, &worker.secret).await.0;
    let steps = json!([
        {"key": "ask", "type": "user_input", "config": {"question": "now?"}},
        {"key": "pay", "type": "tool_call", "depends_on": ["ask"], "config": {"tool_name": "pay"}},
    ]);
    let create = run_request("", &document(&steps));
    let made = ask::<_, v1::CreateRunResponse>(&world, &owner, "RunService", "CreateRun", create);
    let run_id = made.await.unwrap().run.unwrap().run_id;

    let foreign = SubmitPlanRequest {
        execution_id: Some(derived(&run_id, "pay")),
        ..request(plan([step(0, "pay")])).as_submission()
    };
    let mut plans = world.orchestrator.plans();
    let taken: SubmitPlanResponse = plans
        .submit_plan(stranger.shows(foreign))
        .await
        .unwrap()
        .into_inner();
    let of_stranger = worker.started().await;
    assert_eq!(of_stranger.execution_id, taken.execution.unwrap().execution_id);

    let is_asked = async || {
        let list = v1::ListInputRequestsRequest::default();
        let listed = ask::<_, v1::ListInputRequestsResponse>(
            &world,
            &owner,
            "InboxService",
            "ListInputRequests",
            list,
        );
        listed.await.unwrap().input_requests.pop()
    };
    let asked = wait_for("the question", LIMIT, is_asked).await.unwrap();
    let answer = v1::RespondToInputRequest {
        input_request_id: asked.input_request_id,
        answer: Some(v1::respond_to_input_request::Answer::Text("yes".to_owned())),
        ..Default::default()
    };
    ask::<_, v1::RespondToInputResponse>(&world, &owner, "InboxService", "RespondToInput", answer)
        .await
        .unwrap();
    let of_run = worker.started().await;
    assert_ne!(of_run.execution_id, of_stranger.execution_id);
    worker.succeed(&of_run, json!({"paid": true})).await;
    let wait = v1::WaitRunRequest {
        run_id,
        timeout_ms: Some(20_000),
    };
    let ended = ask::<_, v1::WaitRunResponse>(&world, &owner, "RunService", "WaitRun", wait).await;
    let run = ended.unwrap().run.unwrap();
    assert_eq!(run.state(), v1::run::State::Completed, "{run:?}");
}
