//! Workers with credentials: what they may offer, and whose they are.

use super::credentials::{Token, world_with};
use crate::world::World;
use bytes::Bytes;
use escapement_wire::worker::v1::session_error::Code;
use escapement_wire::worker::v1::session_request::Message as Said;
use escapement_wire::worker::v1::session_response::Message as Heard;
use escapement_wire::worker::v1::worker_service_client::WorkerServiceClient;
use escapement_wire::worker::v1::{ActionSpec, Hello, SessionRequest, SessionResponse};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

/// A session that has said hello.
struct Session {
    heard: Streaming<SessionResponse>,
    _say: mpsc::Sender<SessionRequest>,
}

impl Session {
    async fn begin(world: &World, token: &Token, instance: u8, worker_id: &str, actions: &[&str]) -> Self {
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
            _say: say,
        }
    }

    async fn next(&mut self) -> Heard {
        self.heard.message().await.unwrap().unwrap().message.unwrap()
    }

    /// The actions that were refused, if the session was welcome.
    async fn refused_actions(&mut self) -> Vec<String> {
        match self.next().await {
            Heard::Welcome(welcome) => welcome
                .refused_actions
                .into_iter()
                .map(|refusal| refusal.name)
                .collect(),
            other => panic!("{other:?} is no welcome"),
        }
    }

    /// The reason for which it was refused.
    async fn denial(&mut self) -> String {
        match self.next().await {
            Heard::SessionError(error) if error.code() == Code::Unauthorized => {
                error.detail.split_once(':').unwrap().0.to_owned()
            }
            other => panic!("{other:?} is no denial"),
        }
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
    assert_eq!(second.denial().await, "TOO_MANY_SESSIONS");
    let mut thief = begin(&other, 1, "billing-1", &["billing.charge"]).await;
    assert_eq!(thief.denial().await, "INSTANCE_OF_ANOTHER");
    let mut free = begin(&other, 4, "any", &["echo"]).await;
    assert!(free.refused_actions().await.is_empty());
    // The worker itself comes back, and takes its own session over.
    let mut again = begin(&one, 1, "billing-1", &["billing.charge"]).await;
    assert!(again.refused_actions().await.is_empty());
}
