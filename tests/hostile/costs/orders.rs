//! What operators may ask and order: a fleet that says much about itself, a worker with very much in hand.

use super::Kind;
use super::sessions::leave;
use super::stage::Stage;
use crate::den::LIMIT;
use crate::large::plan_of;
use crate::messages::{greeting, names};
use bytes::Bytes;
use escapement_model::limits;
use escapement_tests::raw_session::RawSession;
use escapement_tests::wait_for;
use escapement_wire::externalscaler::external_scaler_client::ExternalScalerClient;
use escapement_wire::externalscaler::{GetMetricsRequest, ScaledObjectRef};
use escapement_wire::v1::access_service_client::AccessServiceClient;
use escapement_wire::v1::fleet_service_client::FleetServiceClient;
use escapement_wire::v1::{
    DeclareWorkerDeadRequest, DrainWorkerRequest, ForgetActionRequest, ListActionsRequest,
    ListOperatorActionsRequest, ListWorkersRequest, ReloadRequest, WhoAmIRequest,
};
use escapement_wire::worker::v1::session_request::Message;
use escapement_wire::worker::v1::{ActionSpec, Hello};
use std::fmt::Write as _;

pub(super) async fn measure(stage: &mut Stage) {
    let address = stage.den.address();
    let mut fleet = FleetServiceClient::new(stage.den.channel().await).max_decoding_message_size(32 << 20);
    let kind = |name, worst, engine_max, other_max| Kind {
        name,
        worst,
        engine_max,
        other_max,
    };

    // A worker that takes every step of a plan and says no more.
    let number = 1 << 20;
    let hello = Hello {
        actions: escapement_tests::ScriptedWorker::specs(&["held"]),
        max_in_flight: limits::SESSION_IN_FLIGHT_MAX,
        ..greeting(number)
    };
    let instance_id = hexadecimal(&hello.instance_id);
    let mut session = RawSession::greeted(address, Message::Hello(hello)).await.unwrap();
    for _ in 0..4 {
        let request = plan_of(&["held"; limits::STEPS_MAX], false);
        stage.plans.submit_plan(request).await.unwrap();
    }
    let mut n_assigned = 0;
    while n_assigned < N_HELD {
        let next = tokio::time::timeout(LIMIT, session.next()).await.unwrap();
        let next = next.unwrap().expect("the session goes on");
        if let Some(escapement_wire::worker::v1::session_response::Message::Assignments(some)) = next.message
        {
            n_assigned += some.items.len();
        }
    }
    let dead = kind(
        "FleetService/DeclareWorkerDead",
        "a worker with 4,096 steps in hand",
        800,
        300,
    );
    let request = DeclareWorkerDeadRequest {
        instance_id,
        force: true,
    };
    let declare = async |_| drop(fleet.declare_worker_dead(request.clone()).await.unwrap());
    stage.cost(dead, 1, declare).await;

    let mut sessions = Vec::new();
    for n in 0..N_WORKERS {
        let spec = |action: ActionSpec| ActionSpec {
            description: "x".repeat(200),
            ..action
        };
        let hello = Hello {
            actions: names(n % 4).into_iter().take(N_ACTIONS).map(spec).collect(),
            labels: (0..limits::WORKER_LABELS_MAX)
                .map(|k| (format!("{k}"), "x".repeat(60)))
                .collect(),
            ..greeting(2 * number + n)
        };
        sessions.push(RawSession::greeted(address, Message::Hello(hello)).await.unwrap());
    }
    let all = async || {
        let workers = fleet.clone().list_workers(ListWorkersRequest {}).await.ok()?;
        (workers.into_inner().workers.len() as u64 >= N_WORKERS).then_some(())
    };
    wait_for("all workers", LIMIT, all).await.unwrap();
    let workers = kind(
        "FleetService/ListWorkers",
        "200 workers of 64 labels and 100 actions",
        300,
        300,
    );
    let list = async |_| drop(fleet.list_workers(ListWorkersRequest {}).await.unwrap());
    stage.cost(workers, 2, list).await;
    let actions = kind("FleetService/ListActions", "of the same workers", 300, 300);
    let list = async |_| drop(fleet.list_actions(ListActionsRequest {}).await.unwrap());
    stage.cost(actions, 2, list).await;
    scaled(stage).await;
    let asked = kind("AccessService/WhoAmI", "without a policy", 20, 20);
    let mut access = AccessServiceClient::new(stage.den.channel().await);
    let ask = async |_| drop(access.who_am_i(WhoAmIRequest {}).await.unwrap());
    stage.cost(asked, 2, ask).await;
    let listed = kind(
        "AccessService/ListOperatorActions",
        "what was done here so far",
        20,
        20,
    );
    let list = async |_| {
        let request = ListOperatorActionsRequest::default();
        drop(access.clone().list_operator_actions(request).await.unwrap());
    };
    stage.cost(listed, 2, list).await;
    let reloaded = kind("AccessService/Reload", "without files", 20, 20);
    let reload = async |_| drop(access.reload(ReloadRequest {}).await.unwrap());
    stage.cost(reloaded, 2, reload).await;
    let forgotten = kind(
        "FleetService/ForgetAction",
        "a name that nothing offers, beside 20,000 others",
        20,
        20,
    );
    let forget = async |_| {
        let name = "nothing".to_owned();
        drop(fleet.clone().forget_action(ForgetActionRequest { name }).await);
    };
    stage.cost(forgotten, 2, forget).await;
    let drained = kind("FleetService/DrainWorker", "all of them, by one label", 300, 300);
    let request = DrainWorkerRequest {
        worker_id: "scripted".to_owned(),
        ..DrainWorkerRequest::default()
    };
    let drain = async |_| drop(fleet.drain_worker(request.clone()).await.unwrap());
    stage.cost(drained, 1, drain).await;
    for session in sessions {
        leave(session).await;
    }
}

/// What an autoscaler asks while there are many actions, none of which its patterns match.
async fn scaled(stage: &mut Stage) {
    let scaler = ExternalScalerClient::new(stage.den.channel().await);
    let actions = vec!["*x*y*z*"; 64].join(",");
    let metadata = [("actions", actions.as_str()), ("slotsPerWorker", "16")];
    let metadata = metadata.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let trigger = ScaledObjectRef {
        scaler_metadata: metadata.into(),
        ..ScaledObjectRef::default()
    };
    let kind = |name, worst| Kind {
        name,
        worst,
        engine_max: 300,
        other_max: 300,
    };
    let spec = kind("ExternalScaler/GetMetricSpec", "with 64 patterns");
    let ask = async |_| drop(scaler.clone().get_metric_spec(trigger.clone()).await.unwrap());
    stage.cost(spec, 2, ask).await;
    let active = kind("ExternalScaler/IsActive", "64 patterns, the same actions");
    let ask = async |_| drop(scaler.clone().is_active(trigger.clone()).await.unwrap());
    stage.cost(active, 2, ask).await;
    let request = GetMetricsRequest {
        scaled_object_ref: Some(trigger.clone()),
        metric_name: "escapement-demand".to_owned(),
    };
    let metrics = kind("ExternalScaler/GetMetrics", "64 patterns, the same actions");
    let ask = async |_| drop(scaler.clone().get_metrics(request.clone()).await.unwrap());
    stage.cost(metrics, 2, ask).await;
    let stream = kind(
        "ExternalScaler/StreamIsActive",
        "64 patterns, the same actions, opened",
    );
    let ask = async |_| {
        let opened = scaler.clone().stream_is_active(trigger.clone()).await.unwrap();
        opened.into_inner().message().await.unwrap().unwrap();
    };
    stage.cost(stream, 2, ask).await;
}

fn hexadecimal(bytes: &Bytes) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes everything");
        text
    })
}

const N_HELD: usize = 4_096;
const N_WORKERS: u64 = 200;
const N_ACTIONS: usize = 100;
