//! What workers may say: each message as dear as it may be, in a session of its own.

use super::Kind;
use super::stage::Stage;
use crate::den::LIMIT;
use crate::messages::{DEAR, Dear, greeting};
use escapement_tests::raw_session::RawSession;
use escapement_wire::worker::v1::session_request::Message;
use escapement_wire::worker::v1::worker_service_client::WorkerServiceClient;
use escapement_wire::worker::v1::{AttemptOutcome, Goodbye, ReportOutcomesRequest};
use tokio::time::timeout;

pub(super) async fn measure(stage: &mut Stage) {
    let address = stage.den.address();
    for (number, Dear { name, worst, message }) in DEAR.iter().enumerate() {
        let kind = Kind {
            name,
            worst,
            engine_max: ENGINE_MAX,
            other_max: OTHER_MAX,
        };
        let is_hello = kind.name == DEAR[0].name;
        // Welcomed before, so that the message alone is counted.
        let number = (number as u64 + 1) << 8;
        let mut sessions = Vec::new();
        for n in 0..EACH {
            sessions.push(if is_hello {
                RawSession::open(address).await.unwrap()
            } else {
                let hello = Message::Hello(greeting(number + u64::from(n)));
                RawSession::greeted(address, hello).await.unwrap()
            });
        }
        let mut waiting = sessions.iter_mut();
        let send = async |n: u32| {
            let session = waiting.next().expect("there is one for each time");
            let said = session.send(message(number + u64::from(n)));
            timeout(LIMIT, said).await.unwrap().unwrap();
            // Whatever is said to it is read, or it would wait there.
            while let Ok(Ok(Some(_))) = timeout(READ, session.next()).await {}
        };
        stage.cost(kind, EACH, send).await;
        for session in sessions {
            leave(session).await;
        }
    }
    let opened = Kind {
        name: "WorkerService/Session",
        worst: "opened and closed in silence",
        engine_max: 5,
        other_max: 10,
    };
    let open = async |_| drop(RawSession::open(address).await.unwrap());
    stage.cost(opened, 20, open).await;
    let report = Kind {
        name: "WorkerService/ReportOutcomes",
        worst: "4,096 of invented tokens",
        engine_max: 20,
        other_max: 80,
    };
    let mut workers = WorkerServiceClient::new(stage.den.channel().await);
    let items = (0..4_096).map(|n| AttemptOutcome {
        attempt_token: crate::messages::token(n, n),
        ..AttemptOutcome::default()
    });
    let request = ReportOutcomesRequest {
        items: items.collect(),
    };
    let ask = async |_| drop(workers.report_outcomes(request.clone()).await.unwrap());
    stage.cost(report, 4, ask).await;
}

/// Ends a session in order: one that is only dropped would cost its lease's end in the middle of another measurement.
pub(super) async fn leave(mut session: RawSession) {
    let _may_be_over = session.send(Message::Goodbye(Goodbye::default())).await;
    let end = async { while let Ok(Some(_)) = session.next().await {} };
    timeout(LIMIT, end).await.expect("a goodbye ends a session");
}

const EACH: u32 = 2;
const READ: std::time::Duration = std::time::Duration::from_millis(30);
/// A message of 4 MiB is decoded, and each of its entries looked at.
const ENGINE_MAX: u32 = 80;
const OTHER_MAX: u32 = 700;
