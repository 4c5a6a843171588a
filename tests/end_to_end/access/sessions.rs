//! Workers with credentials: what they may offer, and whose they are.

use super::credentials::{Token, world_with};
use crate::plans::{RequestWords, json_of, plan, request, step, step_id};
use crate::world::World;
use bytes::Bytes;
use escapement_tests::{ScriptedWorker, wait_for};
use escapement_wire::v1::WaitExecutionRequest;
use escapement_wire::worker::v1::outcome_ack::Verdict;
use escapement_wire::worker::v1::session_error::Code;
use escapement_wire::worker::v1::session_request::Message as Said;
use escapement_wire::worker::v1::session_response::Message as Heard;
use escapement_wire::worker::v1::worker_service_client::WorkerServiceClient;
use escapement_wire::worker::v1::{
    ActionSpec, AttemptVerdict, Goodbye, Hello, SessionRequest, SessionResponse, attempt_verdict,
};
use serde_json::json;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

/// A session that has said hello.
pub(super) struct Session {
    heard: Streaming<SessionResponse>,
    say: mpsc::Sender<SessionRequest>,
}

impl Session {
    pub(super) async fn begin(
        world: &World,
        token: &Token,
        instance: u8,
        worker_id: &str,
        actions: &[&str],
    ) -> Self {
        let spec = |name: &&str| ActionSpec {
            name: (*name).to_owned(),
            ..ActionSpec::default()
        };
        let hello = Hello {
            protocol_min: 1,
            protocol_max: 1,
            worker_id: worker_id.to_owned(),
            instance_id: Bytes::from(vec![instance; 16]),
            actions: actions.iter().map(spec).collect(),
            max_in_flight: 100,
            ..Hello::default()
        };
        let (say, said) = mpsc::channel(4);
        let hello = SessionRequest {
            seq: 1,
            message: Some(Said::Hello(hello)),
        };
        say.send(hello).await.unwrap();
        let mut client = WorkerServiceClient::new(world.orchestrator.channel());
        let session = client.session(token.shows(ReceiverStream::new(said))).await;
        Self {
            heard: session.unwrap().into_inner(),
            say,
        }
    }

    pub(super) async fn next(&mut self) -> Heard {
        self.heard.message().await.unwrap().unwrap().message.unwrap()
    }

    /// Returns the actions that were refused, if the session was welcome.
    pub(super) async fn refused_actions(&mut self) -> Vec<String> {
        match self.next().await {
            Heard::Welcome(welcome) => welcome
                .refused_actions
                .into_iter()
                .map(|refusal| refusal.name)
                .collect(),
            other => panic!("{other:?} is no welcome"),
        }
    }

    /// Returns the reason for which it was refused, with this code.
    async fn refusal(&mut self, code: Code) -> String {
        match self.next().await {
            Heard::SessionError(error) if error.code() == code => {
                error.detail.split_once(':').unwrap().0.to_owned()
            }
            other => panic!("{other:?} is no refusal with {code:?}"),
        }
    }

    /// Returns the reason for which it was refused for good.
    pub(super) async fn denial(&mut self) -> String {
        self.refusal(Code::Unauthorized).await
    }

    /// Returns the reason why it is to come again.
    pub(super) async fn reconnect(&mut self) -> String {
        match self.next().await {
            Heard::Reconnect(told) => told.reason,
            other => panic!("{other:?} is no word to come again"),
        }
    }

    /// Leaves in good order.
    async fn goodbye(mut self) {
        let goodbye = SessionRequest {
            seq: 2,
            message: Some(Said::Goodbye(Goodbye::default())),
        };
        self.say.send(goodbye).await.unwrap();
        while self.heard.message().await.unwrap().is_some() {}
    }
}

#[tokio::test]
async fn a_worker_offers_what_its_credentials_permit_and_stays_theirs() {
    let (one, other) = (Token::new("one"), Token::new("other"));
    let entries = [
        one.entry(
            "one",
            "roles = [\"worker\"]\nactions = [\"billing.*\"]\nworker_ids = [\"billing-*\"]\nmax_sessions = 1",
        ),
        other.entry("other", "roles = [\"worker\"]"),
    ];
    let (world, _file) = world_with(&entries).await;
    let begin = async |token, instance, worker_id: &str, actions: &[&str]| {
        Session::begin(&world, token, instance, worker_id, actions).await
    };

    let mut first = begin(&one, 1, "billing-1", &["billing.charge", "echo"]).await;
    assert_eq!(first.refused_actions().await, ["echo"]);
    let mut misnamed = begin(&one, 2, "planner-1", &[]).await;
    assert_eq!(misnamed.denial().await, "WORKER_ID_NOT_PERMITTED");
    let mut second = begin(&one, 3, "billing-2", &[]).await;
    assert_eq!(second.refusal(Code::Unavailable).await, "TOO_MANY_SESSIONS");
    let mut thief = begin(&other, 1, "billing-1", &["billing.charge"]).await;
    assert_eq!(thief.denial().await, "INSTANCE_OF_ANOTHER");
    let mut free = begin(&other, 4, "any", &["echo"]).await;
    assert!(free.refused_actions().await.is_empty());
    // The worker itself comes back, and takes its own session over.
    let mut again = begin(&one, 1, "billing-1", &["billing.charge"]).await;
    assert!(again.refused_actions().await.is_empty());
}

#[tokio::test]
async fn nobody_takes_the_place_of_a_worker_whose_connection_broke_before_its_lease_ends() {
    let one = Token::new("one");
    let entry = one.entry("one", "roles = [\"worker\"]\nmax_sessions = 1");
    let (world, _file) = world_with(&[entry]).await;
    let begin = async |instance| Session::begin(&world, &one, instance, "any", &["work"]).await;
    let mut first = begin(1).await;
    first.refused_actions().await;
    // Without a word.
    drop(first);
    let mut other = begin(2).await;
    assert_eq!(other.refusal(Code::Unavailable).await, "TOO_MANY_SESSIONS");
    let mut first = begin(1).await;
    first.refused_actions().await;
    first.goodbye().await;
    // Who has left keeps no place.
    let comes_in = async || {
        let mut other = begin(2).await;
        matches!(other.next().await, Heard::Welcome(_)).then_some(())
    };
    wait_for("the other one to come in", Duration::from_secs(5), comes_in)
        .await
        .unwrap();
}

#[tokio::test]
async fn another_worker_cannot_take_over_a_session_nor_report_on_its_attempts() {
    let [one, thief, planner] = ["one", "thief", "planner"].map(Token::new);
    let entries = [
        one.entry("one", "roles = [\"worker\"]"),
        thief.entry("thief", "roles = [\"worker\"]"),
        planner.entry("planner", "roles = [\"submitter\"]"),
    ];
    let (world, _file) = world_with(&entries).await;
    let url = world.orchestrator.url();
    let hello = ScriptedWorker::hello_for(ScriptedWorker::specs(&["work"]), 4);
    let (mut worker, _) = ScriptedWorker::open_showing(&url, hello, &one.secret).await;
    let submission = request(plan([step(0, "work")])).as_submission();
    let execution_id = submission.execution_id.clone();
    let mut plans = world.orchestrator.plans();
    let accepted = plans.submit_plan(planner.shows(submission)).await.unwrap();
    let accepted = accepted.into_inner().execution.unwrap();
    assert!(execution_id.is_none_or(|id| id == accepted.execution_id));
    let attempt = worker.started().await;

    // With its instance, a later hello and all that it has in hand: whoever saw that knows it.
    let mut resuming = worker.next_hello();
    resuming.hello_number += 1;
    resuming.in_flight = worker.in_flight();
    assert_eq!(resuming.in_flight.len(), 1);
    let refused = ScriptedWorker::try_open_showing(&url, resuming.clone(), &thief.secret).await;
    let refused = refused.map(drop).unwrap_err().to_string();
    assert!(refused.contains("INSTANCE_OF_ANOTHER"), "{refused}");
    // As an instance of its own, that says it has the attempt, and that reports on it.
    let mut own = ScriptedWorker::hello_for(ScriptedWorker::specs(&["other work"]), 4);
    own.in_flight.clone_from(&resuming.in_flight);
    let (mut stealing, welcome) = ScriptedWorker::open_showing(&url, own, &thief.secret).await;
    let verdicts: Vec<_> = welcome.verdicts.iter().map(AttemptVerdict::verdict).collect();
    assert_eq!(verdicts, [attempt_verdict::Verdict::Stop], "{welcome:?}");
    let stolen = stealing.succeed(&attempt, json!({"stolen": true})).await;
    assert_eq!(stolen, Verdict::Unknown);

    // Whose it is has lost nothing.
    assert_eq!(
        worker.succeed(&attempt, json!({"stolen": false})).await,
        Verdict::Accepted
    );
    let wait = WaitExecutionRequest {
        execution_id: accepted.execution_id,
        timeout_ms: Some(20_000),
    };
    let waited = plans
        .wait_execution(planner.shows(wait))
        .await
        .unwrap()
        .into_inner();
    let result = waited.execution.unwrap().result.unwrap();
    let output = &json_of(result.result_payload.as_ref())[step_id(0)];
    assert_eq!(*output, json!({"stolen": false}));
}
