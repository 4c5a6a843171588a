//! Calls that are refused for their heads alone, and whose messages come after that.

use crate::den::{Den, LIMIT, submission};
use crate::frames::{ACK, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, frame, headers};
use crate::wire::Wire;
use escapement_model::{AttemptToken, bearer};
use escapement_tests::ScriptedWorker;
use escapement_tests::raw_session::framed;
use escapement_wire::v1::plan_execution_service_client::PlanExecutionServiceClient;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

/// The next frame: its kind, its flags, its stream and its payload.
async fn next_frame(wire: &mut Wire) -> std::io::Result<(u8, u8, u32, Vec<u8>)> {
    let mut head = [0; 9];
    wire.stream.read_exact(&mut head).await?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let mut payload = vec![0; usize::try_from(length).unwrap()];
    wire.stream.read_exact(&mut payload).await?;
    let stream = u32::from_be_bytes([head[5] & 0x7f, head[6], head[7], head[8]]);
    Ok((head[3], head[4], stream, payload))
}

#[tokio::test]
async fn thousands_of_calls_that_are_refused_before_their_messages_come_keep_their_connection() {
    let den = Den::start().await;
    let mut worker = ScriptedWorker::connect(&den.orchestrator, &["late"], 1).await;
    let mut plans = PlanExecutionServiceClient::new(den.channel().await);
    plans.submit_plan(submission("late")).await.unwrap();
    let assignment = worker.started().await;
    let token = AttemptToken::from_slice(&assignment.attempt_token).unwrap();
    let attempt = format!("Bearer {}", bearer::of_attempt(token));
    let mut wire = Wire::open(den.address()).await;
    let mut n_refused = 0;
    for batch in 0..LATE_BATCHES {
        let streams = (0..LATE_BATCH).map(|number| 2 * (batch * LATE_BATCH + number) + 1);
        // No attempt may ask for workers: each is refused for its head alone.
        for stream in streams.clone() {
            let head = headers(LIST_WORKERS, &[("authorization", &attempt)]);
            let head = frame(HEADERS, END_HEADERS, stream, &head);
            wire.stream.write_all(&head).await.unwrap();
        }
        let last = (batch + 1) * LATE_BATCH;
        while n_refused < last {
            let (kind, flags, stream, payload) =
                timeout(LIMIT, next_frame(&mut wire)).await.unwrap().unwrap();
            let text = String::from_utf8_lossy(&payload);
            assert_ne!(kind, GOAWAY, "after {n_refused} refusals: {text}");
            n_refused += u32::from(kind == HEADERS && flags & END_STREAM != 0 && stream != 0);
        }
        for stream in streams {
            let late = frame(DATA, END_STREAM, stream, &framed(&[]));
            wire.stream.write_all(&late).await.unwrap();
        }
    }
    // What was late has been judged once this is answered.
    wire.stream
        .write_all(&frame(PING, 0, 0, b"are here"))
        .await
        .unwrap();
    loop {
        let (kind, flags, _, payload) = timeout(LIMIT, next_frame(&mut wire)).await.unwrap().unwrap();
        let text = String::from_utf8_lossy(&payload);
        assert_ne!(kind, GOAWAY, "{text}");
        if kind == PING && flags & ACK == 0 {
            wire.stream
                .write_all(&frame(PING, ACK, 0, &payload))
                .await
                .unwrap();
        } else if kind == PING {
            break;
        }
    }
    den.finish("refused calls whose messages come late", 16).await;
}

/// Calls whose messages come after their refusals, so many at a time; in all more than HTTP/2 puts up with of errors.
const LATE_BATCH: u32 = 200;
const LATE_BATCHES: u32 = 15;
const LIST_WORKERS: &str = "/escapement.v1.FleetService/ListWorkers";
